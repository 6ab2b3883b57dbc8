"""Steps of a Cluster: of its nodes, and of its brokers as a whole."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.rebalance_plan import RebalancePlan
from ottla.types import TopicPartition
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.planning.steps.topic import AlterTopicConfigs, ReassignPartitions, config_changes
from ottla_operator.ports.volume_claims import ObservedClaim


@dataclass(frozen=True, slots=True)
class Publish:
    """Write the desired configuration of the cluster; on a host without a scheduler this starts no node."""

    cluster: DesiredCluster
    outdated: tuple[str, ...]

    def __str__(self) -> str:
        return f"publish {', '.join(self.outdated)}"


@dataclass(frozen=True, slots=True)
class StartNode:
    node: DesiredNode

    def __str__(self) -> str:
        return f"start node {self.node.name}"


@dataclass(frozen=True, slots=True)
class RestartNode:
    node: DesiredNode
    reason: str
    uid: str = ""
    """Of the observed run; empty: any run."""

    def __str__(self) -> str:
        return f"restart node {self.node.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class StopNode:
    """Stop a node for good; the host keeps only its data."""

    name: str
    uid: str = ""
    """Of the observed run; empty: any run."""

    def __str__(self) -> str:
        return f"stop node {self.name}"


@dataclass(frozen=True, slots=True)
class RemoveVolumes:
    """Delete volumes with everything on them; no node needs them any more."""

    claims: tuple[ObservedClaim, ...]

    def __str__(self) -> str:
        return f"remove volumes {', '.join(claim.name for claim in self.claims)}"


@dataclass(frozen=True, slots=True)
class LimitDisruptions:
    """Set how many nodes others may stop at the same time, 0 or 1."""

    cluster: DesiredCluster
    allowed: int
    reason: str
    """Why it is 0; empty if it is 1."""

    def __str__(self) -> str:
        return "let one node at a time be evicted" if self.allowed else f"let no node be evicted: {self.reason}"


@dataclass(frozen=True, slots=True)
class AlterOwnConfigs:
    """Set ``upserts`` on one broker, and remove ``deletions`` from it."""

    node_id: int
    upserts: Mapping[str, str]
    deletions: tuple[str, ...]

    def __str__(self) -> str:
        return f"set on broker {self.node_id}: {', '.join(config_changes(self.upserts, self.deletions))}"


@dataclass(frozen=True, slots=True)
class WriteRebalancePlan:
    """Store a plan where people can read it."""

    cluster: Cluster
    plan: RebalancePlan

    def __str__(self) -> str:
        return f"propose rebalance {self.plan.id}: {self.plan.summary}"


@dataclass(frozen=True, slots=True)
class ElectPreferredLeaders:
    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        return f"give {len(self.partitions)} partitions back to their preferred leaders"


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    node_id: int

    def __str__(self) -> str:
        return f"unregister broker {self.node_id}"


@dataclass(frozen=True, slots=True)
class AddVoter:
    node: DesiredNode
    directory_id: str

    def __str__(self) -> str:
        return f"add node {self.node.name} as a voter of the metadata quorum"


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    node_id: int
    directory_id: str

    def __str__(self) -> str:
        return f"remove voter {self.node_id} from the metadata quorum"


@dataclass(frozen=True, slots=True)
class AlterBrokerConfigs:
    """Change cluster-wide dynamic configs, all or nothing."""

    upserts: Mapping[str, str]
    deletions: tuple[str, ...]

    def __str__(self) -> str:
        return f"set on all brokers: {', '.join(config_changes(self.upserts, self.deletions))}"


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    """Finalize feature levels, all or none."""

    levels: Mapping[str, int]
    is_down: bool
    """Whether they are lower than the finalized levels; brokers reject a lossy downgrade."""

    def __str__(self) -> str:
        return f"finalize {', '.join(f'{name}={level}' for name, level in self.levels.items())}"


HostStep = Publish | StartNode | RestartNode | StopNode | RemoveVolumes | LimitDisruptions
BrokerStep = (
    ReassignPartitions
    | AlterOwnConfigs
    | AlterTopicConfigs
    | ElectPreferredLeaders
    | UnregisterBroker
    | AddVoter
    | RemoveVoter
    | AlterBrokerConfigs
    | UpdateFeatures
)
ClusterStep = HostStep | BrokerStep | WriteRebalancePlan
