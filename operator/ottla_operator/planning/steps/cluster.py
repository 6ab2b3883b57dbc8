"""The steps by which nodes, and the brokers as a whole, become as a Cluster asks."""

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
    """Make the host's configuration of the cluster the desired one; starts nothing on a host that has no scheduler."""

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
    """Of the run that was seen; any where it is empty."""

    def __str__(self) -> str:
        return f"restart node {self.node.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class StopNode:
    """Stop a node for good; the host keeps nothing of it but its data."""

    name: str
    uid: str = ""
    """Of the run that was seen; any where it is empty."""

    def __str__(self) -> str:
        return f"stop node {self.name}"


@dataclass(frozen=True, slots=True)
class RemoveVolumes:
    """Remove volumes with everything on them; nobody has any use for that."""

    claims: tuple[ObservedClaim, ...]

    def __str__(self) -> str:
        return f"remove volumes {', '.join(claim.name for claim in self.claims)}"


@dataclass(frozen=True, slots=True)
class LimitDisruptions:
    """Say how many nodes others may stop at the same time, 0 or 1."""

    cluster: DesiredCluster
    allowed: int
    reason: str
    """Why it is none; empty where it is one."""

    def __str__(self) -> str:
        return "let one node at a time be evicted" if self.allowed else f"let no node be evicted: {self.reason}"


@dataclass(frozen=True, slots=True)
class AlterOwnConfigs:
    """Set what ``upserts`` holds on one broker, and take ``deletions`` away from it."""

    node_id: int
    upserts: Mapping[str, str]
    deletions: tuple[str, ...]

    def __str__(self) -> str:
        return f"set on broker {self.node_id}: {', '.join(config_changes(self.upserts, self.deletions))}"


@dataclass(frozen=True, slots=True)
class WriteRebalancePlan:
    """Keep a plan where people can read it."""

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
        return f"make node {self.node.name} a voter of the metadata quorum"


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    node_id: int
    directory_id: str

    def __str__(self) -> str:
        return f"take voter {self.node_id} out of the metadata quorum"


@dataclass(frozen=True, slots=True)
class AlterBrokerConfigs:
    """Change the defaults of all brokers while they run, all or nothing."""

    upserts: Mapping[str, str]
    deletions: tuple[str, ...]

    def __str__(self) -> str:
        return f"set on all brokers: {', '.join(config_changes(self.upserts, self.deletions))}"


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    """Finalize other feature levels, all or none."""

    levels: Mapping[str, int]
    is_down: bool
    """Whether they are lower than those that are finalized; only what loses nothing is done."""

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
