"""A simulated cluster behind the reconciler's ports: nodes take time to start, and replicas to catch up.

It plays the host and the brokers, advances by `tick`, and asserts at every step of the reconciler that the step loses
nothing and makes nothing unavailable. `kill_at` ends the reconciler before or after one of its steps, like a kill.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from kills import KilledError
from places import AddressesOfPlaces, place_of
from simulated_nodes import SimulatedNode, SimulatedPartition

from ottla.client.rebalance_plan import RebalancePlan, moves_json
from ottla.types import Endpoint, TopicPartition
from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, DesiredNode, desired_cluster
from ottla_operator.ports.cluster_view import ClusterView, FeatureView, PartitionView, QuorumMember
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster

START_TICKS = 2


@dataclass
class SimulatedCluster(AddressesOfPlaces):
    """The cluster: both ports, and time."""

    min_isr: int = 2
    configs: dict[str, str] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=lambda: {"metadata.version": 1})
    nodes: dict[str, SimulatedNode] = field(default_factory=dict)
    partitions: dict[TopicPartition, SimulatedPartition] = field(default_factory=dict)
    registered: dict[int, bool] = field(default_factory=dict)
    voters: dict[int, str] = field(default_factory=dict)
    former: list[QuorumMember] = field(default_factory=list)
    """Nodes whose disk is lost: the quorum's leader still lists them as observers."""
    leader_id: int = -1
    steps: list[str] = field(default_factory=list)
    disruptions_allowed: int = -1
    """The disruption budget, of more than one node."""
    own_configs: dict[int, dict[str, str]] = field(default_factory=dict)
    """Set on single brokers; they outlive the brokers."""
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    plan: str | None = None
    """The rebalance plan, as stored."""
    kill_at: tuple[int, bool] | None = None
    """The number of the step, and whether the kill comes after it."""
    bad_images: set[str] = field(default_factory=set)
    """Images whose nodes never become ready."""
    has_crashed: bool = True
    """Whether those crash; else pulling them fails."""
    default_image: str = "ottla/broker:1"
    racks: dict[int, str] = field(default_factory=dict)
    seconds: int = 0
    """The time; each tick adds one."""
    _image: str = ""
    _images: dict[str, str] = field(default_factory=dict)
    _published: dict[str, str] = field(default_factory=dict)
    _directories: int = 0
    _cluster_id: str = ""
    _first_voters: dict[int, str] = field(default_factory=dict)

    # --- actions of tests

    def create_topic(self, name: str, assignments: Sequence[Sequence[int]]) -> None:
        for number, replicas in enumerate(assignments):
            nodes = list(replicas)
            self.partitions[TopicPartition(name, number)] = SimulatedPartition(nodes, list(nodes), nodes[0])

    def crash(self, name: str) -> None:
        """End a process, not by a step of the reconciler."""
        self._go_down(self.nodes[name])

    def evict(self, name: str) -> bool:
        """Stop a node as draining its Kubernetes node does, if the budget allows it; it restarts at once."""
        away = [it for it in self.nodes.values() if not it.is_ready]
        if len(away) >= self.disruptions_allowed or not self.nodes[name].is_ready:
            return False
        self._assert_may_stop(name, by="an eviction")
        self.crash(name)
        return True

    def lose_volume(self, name: str) -> None:
        """Crash a node and lose the contents of its disk."""
        self.crash(name)
        del self._published[name]
        node = self.nodes[name]
        self.former.append(QuorumMember(node_id=node.node_id, directory_id=node.directory_id, is_caught_up=False))
        node.directory_id = ""

    def tick(self) -> None:
        """Advance everything that takes time by one step."""
        self.seconds += 1
        for name, node in self.nodes.items():
            if node.state is NodeState.STARTING:
                node.ticks_left -= 1
                if node.ticks_left <= 0:
                    is_bad = self._images.get(name) in self.bad_images
                    node.state = NodeState.FAILED if is_bad else NodeState.READY
            elif node.is_ready:
                node.is_synced = True
        self._elect_quorum_leader()
        for node in self.nodes.values():
            if node.is_broker and node.is_ready and self.leader_id >= 0:
                self.registered[node.node_id] = False
        for partition in self.partitions.values():
            self._catch_up(partition)

    @property
    def plans(self) -> "_Plans":
        return _Plans(self)

    def holders(self) -> set[int]:
        return {node for partition in self.partitions.values() for node in partition.replicas}

    # --- the port to the host

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        self._image = cluster.image or self.default_image
        return desired_cluster(cluster, place_of, image=self._image, leaving=leaving)

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        return ObservedCluster(
            outdated=tuple(node.name for node in desired.nodes if self._published.get(node.name) != node.properties),
            nodes={name: self._observed(name, node) for name, node in self.nodes.items() if name in self._published},
            disruptions_allowed=self.disruptions_allowed if len(desired.nodes) > 1 else None,
        )

    def _observed(self, name: str, node: SimulatedNode) -> ObservedNode:
        is_failed = node.state is NodeState.FAILED
        return ObservedNode(
            name=name,
            state=node.state,
            revision=node.revision,
            parts=node.parts,
            has_crashed=is_failed and self.has_crashed,
            reason="CrashLoopBackOff" if is_failed else "",
            message="its last words" if is_failed else "",
        )

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        with_step = self._step(f"publish {', '.join(outdated)}")
        self._cluster_id = desired.cluster.cluster_id
        for node in desired.nodes:
            self._published[node.name] = node.properties
            known = self.nodes.get(node.name)
            if known is None or not known.directory_id:
                self.nodes[node.name] = SimulatedNode(
                    node.node_id, node.is_broker, node.is_controller, self._format(node)
                )
        with_step()

    async def start_node(self, node: DesiredNode) -> None:
        with_step = self._step(f"start {node.name}")
        self._come_up(node)
        with_step()

    async def restart_node(self, node: DesiredNode, uid: str) -> None:
        with_step = self._step(f"restart {node.name}")
        self._assert_may_stop(node.name)
        self._go_down(self.nodes[node.name])
        self._come_up(node)
        with_step()

    async def limit_disruptions(self, desired: DesiredCluster, allowed: int) -> None:
        with_step = self._step(f"allow {allowed} disruptions")
        self.disruptions_allowed = allowed
        with_step()

    async def remove_node(self, name: str, uid: str) -> None:
        with_step = self._step(f"stop {name}")
        node = self.nodes[name]
        assert node.node_id not in self.holders(), f"{name} is stopped and holds replicas"
        assert node.node_id not in self.voters, f"{name} is stopped and votes"
        self._go_down(node)
        del self._published[name]
        with_step()

    # --- the port to the brokers

    @asynccontextmanager
    async def connect(self, _: str, __: Mapping[str, str]) -> AsyncIterator[Any]:
        yield _Brokers(self)

    async def describe_own_configs(self, node_ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        return {number: dict(self.own_configs.get(number, {})) for number in node_ids}

    async def describe_topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return {name: dict(self.topic_configs.get(name, {})) for name in names}

    async def describe_sizes(self) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(self.partitions, 1000)

    async def alter_own_configs(self, node_id: int, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        with_step = self._step(f"configure {node_id}")
        assert not self.registered[node_id], f"broker {node_id} is configured and does not run"
        _alter(self.own_configs.setdefault(node_id, {}), upserts, deletions)
        with_step()

    async def alter_topic_configs(self, name: str, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        with_step = self._step(f"configure {name}")
        _alter(self.topic_configs.setdefault(name, {}), upserts, deletions)
        with_step()

    async def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        with_step = self._step(f"move {len(targets)}")
        for partition, target in targets.items():
            assert len(set(target)) == len(target), f"{partition} would be on one broker twice: {target}"
            assert all(node in self.registered for node in target), f"{partition} would be nowhere: {target}"
            self.partitions[partition].target = list(target)
        with_step()

    async def elect_preferred_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        with_step = self._step(f"elect {len(partitions)}")
        for partition in partitions:
            there = self.partitions[partition]
            assert there.replicas[0] in there.isr, f"{partition} would be led by a broker that lags"
            there.leader = there.replicas[0]
        with_step()

    async def unregister_broker(self, node_id: int) -> None:
        with_step = self._step(f"unregister {node_id}")
        assert node_id not in self.holders(), f"broker {node_id} is unregistered and holds replicas"
        assert self.registered.get(node_id), f"broker {node_id} is unregistered and runs"
        del self.registered[node_id]
        with_step()

    async def add_voter(self, node_id: int, directory_id: str, endpoint: Endpoint) -> None:
        with_step = self._step(f"add voter {node_id}")
        assert endpoint.host == f"host-{node_id}"
        assert self._is_caught_up(node_id, directory_id), f"controller {node_id} is not there"
        self.voters[node_id] = directory_id
        self._assert_majority("a voter was added")
        with_step()

    async def remove_voter(self, node_id: int, directory_id: str) -> None:
        with_step = self._step(f"remove voter {node_id}")
        assert self.voters.pop(node_id) == directory_id
        self._assert_majority("a voter was removed")
        self._elect_quorum_leader()
        with_step()

    async def alter_broker_configs(self, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        with_step = self._step(f"configs {sorted([*upserts, *deletions])}")
        self.configs = {key: it for key, it in self.configs.items() if key not in deletions} | dict(upserts)
        with_step()

    async def update_features(self, levels: Mapping[str, int], *, is_down: bool) -> None:
        with_step = self._step(f"features {dict(levels)}")
        assert len({node.revision for node in self.nodes.values()}) == 1, "a node of another release runs"
        self.levels |= levels
        with_step()

    # --- internals

    def _step(self, what: str) -> "_Step":
        number = len(self.steps)
        if self.kill_at is not None and number > self.kill_at[0]:
            # Steps that started concurrently with the one at which the process ended are not executed.
            raise KilledError
        self.steps.append(what)
        if self.kill_at == (number, False):
            raise KilledError
        return _Step(self, number)

    def view(self) -> ClusterView:
        if self.leader_id < 0 or all(self.registered.values()):
            raise BrokerUnreachableError("no broker responds")
        members = {node.node_id: self._member(node) for node in self.nodes.values() if node.is_ready}
        return ClusterView(
            cluster_id=self._cluster_id,
            brokers=dict(self.registered),
            controller_id=self.leader_id,
            voters=tuple(
                QuorumMember(node_id=number, directory_id=it, is_caught_up=self._is_caught_up(number, it))
                for number, it in self.voters.items()
            ),
            observers=tuple(
                it for it in (*members.values(), *self.former) if self.voters.get(it.node_id) != it.directory_id
            ),
            partitions=tuple(self._partition_view(it) for it in sorted(self.partitions)),
            min_isr={partition.topic: self.min_isr for partition in self.partitions},
            configs=dict(self.configs),
            features={name: FeatureView(level=level, last_supported=2) for name, level in self.levels.items()},
            racks=self.racks,
        )

    def _partition_view(self, partition: TopicPartition) -> PartitionView:
        there = self.partitions[partition]
        target = there.target if there.target is not None else there.replicas
        return PartitionView(
            partition=partition,
            leader=there.leader,
            replicas=(*target, *(node for node in there.replicas if node not in target)),
            isr=tuple(there.isr),
            adding=tuple(node for node in target if node not in there.replicas),
            removing=tuple(node for node in there.replicas if node not in target),
        )

    def _member(self, node: SimulatedNode) -> QuorumMember:
        return QuorumMember(node_id=node.node_id, directory_id=node.directory_id, is_caught_up=node.is_synced)

    def _format(self, node: DesiredNode) -> str:
        option, *text = node.format_arguments
        if option == "--initial-controllers":
            entries = (entry.partition("@") for entry in text[0].split(","))
            self._first_voters = {int(number): rest.rpartition(":")[2] for number, _, rest in entries}
            return self._first_voters[node.node_id]
        self._directories += 1
        return f"directory-{self._directories}"

    def _come_up(self, node: DesiredNode) -> None:
        running = [it.node_id for it in self.nodes.values() if it.state is not NodeState.STOPPED]
        assert node.node_id not in running, f"two nodes have the id {node.node_id}"
        assert self._published[node.name] == node.properties, f"{node.name} runs with what was not published"
        there = self.nodes[node.name]
        there.state, there.revision, there.ticks_left = NodeState.STARTING, node.revision, START_TICKS
        there.parts, self._images[node.name] = node.parts, self._image

    def _go_down(self, node: SimulatedNode) -> None:
        node.state, node.revision, node.is_synced = NodeState.STOPPED, None, False
        if node.node_id in self.registered:
            self.registered[node.node_id] = True
        for partition in self.partitions.values():
            if node.node_id in partition.isr and len(partition.isr) > 1:
                partition.isr.remove(node.node_id)
            self._elect(partition)
        self._elect_quorum_leader()

    def _assert_may_stop(self, name: str, by: str = "a step") -> None:
        """Assert that a running node is stopped only if nothing that works needs it."""
        node = self.nodes[name]
        if not node.is_ready:
            return
        is_closed = len(self._published) == 1 or self.disruptions_allowed == 0
        assert is_closed or by != "a step", f"{name} is stopped while others may be evicted"
        down = [
            it
            for it, other in self.nodes.items()
            if other.state in (NodeState.STARTING, NodeState.FAILED) and it != name and not self._is_beside(other, node)
        ]
        assert not down, f"{name} is stopped by {by} while {down} come up"
        for partition, there in self.partitions.items():
            if node.node_id in there.isr:
                left = [other for other in there.isr if other != node.node_id and not self.registered[other]]
                needed = min(self.min_isr, len(there.replicas) - 1)
                assert len(left) >= needed, f"{name} is stopped, and {partition} has {len(left)} replicas left"
        if node.node_id in self.voters and len(self.voters) > 1:
            left = [it for it in self._voters_up() if it != node.node_id]
            needed = min(len(self.voters) // 2 + 1, len(self.voters) - 1)
            assert len(left) >= needed, f"{name} is stopped, and voters {left} of {list(self.voters)} are left"

    def _is_beside(self, other: SimulatedNode, node: SimulatedNode) -> bool:
        """Tell whether two brokers may be restarted together, and are."""
        rack = self.racks.get(node.node_id)
        is_at_once = other.state is NodeState.STARTING and other.ticks_left == START_TICKS
        return rack is not None and self.racks.get(other.node_id) == rack and is_at_once and not node.is_controller

    def _assert_majority(self, when: str) -> None:
        assert len(self._voters_up()) > len(self.voters) // 2, f"{when}, and there is no majority"

    def _voters_up(self) -> list[int]:
        return [number for number, directory in self.voters.items() if self._is_caught_up(number, directory)]

    def _is_caught_up(self, node_id: int, directory_id: str) -> bool:
        return any(
            it.node_id == node_id and it.directory_id == directory_id and it.is_ready and it.is_synced
            for it in self.nodes.values()
        )

    def _elect_quorum_leader(self) -> None:
        ready = {it.node_id: it.directory_id for it in self.nodes.values() if it.is_ready and it.is_controller}
        if not self.voters and len(self._first_voters.items() & ready.items()) > len(self._first_voters) // 2:
            self.voters = dict(self._first_voters)
        up = [number for number, directory in self.voters.items() if ready.get(number) == directory]
        if len(up) <= len(self.voters) // 2:
            self.leader_id = -1
        elif self.leader_id not in up:
            self.leader_id = up[0]

    def _catch_up(self, partition: SimulatedPartition) -> None:
        live = [number for number, is_fenced in self.registered.items() if not is_fenced]
        wanted = [*partition.replicas, *(partition.target or [])]
        if any(node in live for node in partition.isr):
            partition.isr += [node for node in dict.fromkeys(wanted) if node in live and node not in partition.isr]
        if partition.target is not None and all(node in partition.isr for node in partition.target):
            partition.replicas, partition.target = partition.target, None
            partition.isr = [node for node in partition.isr if node in partition.replicas]
        self._elect(partition)

    def _elect(self, partition: SimulatedPartition) -> None:
        candidates = [
            node for node in partition.replicas if node in partition.isr and not self.registered.get(node, True)
        ]
        if partition.leader not in candidates:
            partition.leader = candidates[0] if candidates else -1


def _alter(configs: dict[str, str], upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
    configs.update(upserts)
    for key in deletions:
        configs.pop(key, None)


class _Plans:
    """The cluster as the `PlanStore` port."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    async def read(self, _: str) -> str | None:
        return self._cluster.plan

    async def write(self, _: Cluster, plan: RebalancePlan) -> None:
        with_step = self._cluster._step(f"propose {plan.id}")
        self._cluster.plan = moves_json(plan.moves)
        with_step()


class _Brokers:
    """The cluster as the `BrokerAdmin` port: its view, and otherwise the cluster's own methods."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    async def observe(
        self, *, topics: Sequence[str] | None = None, with_min_isr: bool = False, with_settings: bool = False
    ) -> ClusterView:
        view = self._cluster.view()
        return view if with_min_isr else replace(view, min_isr={})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


class _Step:
    """Called when a step is executed."""

    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        self._cluster = cluster
        self._number = number

    def __call__(self) -> None:
        if self._cluster.kill_at == (self._number, True):
            raise KilledError
