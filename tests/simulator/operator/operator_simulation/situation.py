"""The real state that the planner's invariants check, and the faults that it has suffered."""

from collections.abc import Set
from dataclasses import dataclass, field

from operator_simulation.host import BROKEN_IMAGE, HostState
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.world.cluster import Cluster
from ottla.types import NodeId
from ottla.wire.acl_codes import Acl
from ottla_operator.model.manifest import Cluster as Manifest

QUIET_MS = 20_000
"""How long after a fault the operator's observation may be older, and replicas may not have caught up yet."""


@dataclass
class Situation:
    """The state that invariants check. ``min_in_sync`` and ``replicas`` are the least that each topic ever has.

    ``entries`` are the access control entries of every User at any time.
    """

    cluster: Cluster
    state_observer: StateObserver
    state: HostState
    min_in_sync: dict[str, int]
    replicas: dict[str, int]
    entries: frozenset[Acl] = frozenset()
    newcomers: frozenset[NodeId] = frozenset()
    """Brokers of the last spec that are not in the first one."""
    asked: Manifest | None = None
    """The Cluster with its latest spec."""
    unworkable: set[int] = field(default_factory=set)
    """The generations of the spec that cannot start."""
    disturbed_ms: int = -QUIET_MS
    going_on: int = 0
    """Number of faults in progress."""
    crashed: set[NodeId] = field(default_factory=set)
    """Nodes that have not caught up again since."""
    unheard_ms: int = -QUIET_MS
    """Time of the API server's last failure."""

    def ask(self, cluster: Manifest) -> None:
        """Record the latest spec."""
        self.asked = cluster
        if cluster.image == BROKEN_IMAGE:
            self.unworkable.add(cluster.metadata.generation)

    def disturb(self, *, begins: int = 0) -> None:
        """Record that a fault strikes, or starts (1), or ends (-1)."""
        self.disturbed_ms = self.cluster.clock.monotonic_ms()
        self.going_on += begins

    @property
    def is_calm(self) -> bool:
        """Tell whether present and recent observations show no trace of any fault."""
        self.crashed = {node_id for node_id in self.crashed if not self.is_whole(node_id)}
        if self.going_on or self.crashed:
            self.disturb()
        return self.cluster.clock.monotonic_ms() - self.disturbed_ms >= QUIET_MS

    @property
    def gets_responses(self) -> bool:
        """Tell whether the operator gets responses to its requests."""
        return self.is_calm and self.cluster.clock.monotonic_ms() - self.unheard_ms >= QUIET_MS

    def runs(self, node_id: NodeId) -> bool:
        place = self.cluster.nodes.get(node_id)
        return place is not None and place.process is not None

    def serves(self, node_id: NodeId) -> bool:
        return self.runs(node_id) and self.cluster.nodes[node_id].is_ready

    def is_ready(self, node_id: NodeId) -> bool:
        """Tell whether the node's readiness probe succeeds now; `serves` also holds for one that was fenced since."""
        return self.runs(node_id) and self.state.machines.readiness(node_id) == []

    def voters(self) -> tuple[NodeId, ...]:
        """Return the quorum's voters, as its leader knows them; none while it has no leader."""
        leader_id = self.cluster.leader_id()
        process = None if leader_id is None else self.cluster.nodes[leader_id].process
        return () if process is None else tuple(sorted(process.raft.voters.node_ids))

    def is_whole(self, node_id: NodeId) -> bool:
        """Tell whether the node serves, and every replica that it holds is in sync."""
        image = self.state_observer.image
        broker = image.cluster.brokers.get(node_id)
        partitions = [it for topic in image.topics.by_id.values() for it in topic.partitions.values()]
        return (
            self.serves(node_id)
            and (broker is None or not broker.is_fenced)
            and all(node_id in it.isr for it in partitions if node_id in it.replicas)
        )

    def holds(self, node_id: NodeId) -> list[str]:
        """Return the partitions that are assigned to the node."""
        return [
            f"{topic.name}-{index}"
            for topic in self.state_observer.image.topics.by_id.values()
            for index, partition in topic.partitions.items()
            if node_id in partition.replicas
        ]

    def too_few_without(self, down: Set[NodeId]) -> str | None:
        """Describe which partition would have too few replicas in sync without ``down``; None if none would."""
        for topic in self.state_observer.image.topics.by_id.values():
            for index, partition in topic.partitions.items():
                left = [each for each in partition.isr if each not in down and self.serves(each)]
                needed = self.needed(topic.name, len(partition.replicas))
                if down & set(partition.isr) and len(left) < needed:
                    return f"{topic.name}-{index} would have {left} in sync, and needs {needed}"
        return None

    def needed(self, topic: str, replicas: int) -> int:
        """Return how many replicas of a partition must stay in sync: never all, or no broker could ever stop."""
        return min(self.min_in_sync.get(topic, 1), replicas - 1)
