"""The steps that reconciliation consists of; each is one call of a port and prints as what it does."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.rebalance_plan import RebalancePlan
from ottla.types import TopicPartition
from ottla_operator.model.conditions import Obstacle, Refused
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.operation import Operation
from ottla_operator.model.scaling import Scaling
from ottla_operator.ports.broker_admin import NewTopic
from ottla_operator.reconcile.certificate_steps import CertificateStep
from ottla_operator.reconcile.user_steps import UserStep
from ottla_operator.reconcile.volumes import RemoveVolumes

MOVES_MAX = 100
"""Partitions on the move at the same time: each is a copy that others' clients feel."""

_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class CreateTopic:
    topic: NewTopic

    def __str__(self) -> str:
        factor = self.topic.replication_factor
        more = "" if factor is None else f", replication factor {factor}"
        return f"create topic {self.topic.name} ({self.topic.partitions} partitions{more})"


@dataclass(frozen=True, slots=True)
class AdoptTopic:
    """Look after a topic that somebody else has made: nothing is changed by that, but what differs will be, next."""

    name: str
    partitions: int
    replication_factor: int
    differences: tuple[str, ...]

    def __str__(self) -> str:
        differs = f"; it differs: {', '.join(self.differences)}" if self.differences else ""
        return (
            f"take over topic {self.name}, which was there before ({self.partitions} partitions, replication factor "
            f"{self.replication_factor}){differs}"
        )


@dataclass(frozen=True, slots=True)
class AlterTopicConfigs:
    """Set what ``upserts`` holds and put ``deletions`` back to the brokers' defaults, all or nothing."""

    name: str
    upserts: Mapping[str, str]
    deletions: tuple[str, ...]

    def __str__(self) -> str:
        return f"set on topic {self.name}: {', '.join(_config_changes(self.upserts, self.deletions))}"


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    name: str
    total: int

    def __str__(self) -> str:
        return f"grow topic {self.name} to {self.total} partitions"


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    name: str

    def __str__(self) -> str:
        return f"delete topic {self.name} with its records"


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
class LimitDisruptions:
    """Say how many nodes others may stop at the same time, 0 or 1."""

    cluster: DesiredCluster
    allowed: int
    reason: str
    """Why it is none; empty where it is one."""

    def __str__(self) -> str:
        return "let one node at a time be evicted" if self.allowed else f"let no node be evicted: {self.reason}"


@dataclass(frozen=True, slots=True)
class ReassignPartitions:
    """Start moving partitions; ``targets`` are their new replicas, the preferred leader first."""

    targets: Mapping[TopicPartition, tuple[int, ...]]

    def __str__(self) -> str:
        shown = [f"{partition} to {','.join(map(str, nodes))}" for partition, nodes in self.targets.items()]
        more = f" and {len(shown) - _SHOWN_MAX} more" if len(shown) > _SHOWN_MAX else ""
        return f"move {'; '.join(shown[:_SHOWN_MAX])}{more}"


@dataclass(frozen=True, slots=True)
class AlterOwnConfigs:
    """Set what ``upserts`` holds on one broker, and take ``deletions`` away from it."""

    node_id: int
    upserts: Mapping[str, str]
    deletions: tuple[str, ...]

    def __str__(self) -> str:
        return f"set on broker {self.node_id}: {', '.join(_config_changes(self.upserts, self.deletions))}"


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
        return f"set on all brokers: {', '.join(_config_changes(self.upserts, self.deletions))}"


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
TopicStep = CreateTopic | AdoptTopic | AlterTopicConfigs | CreatePartitions | DeleteTopic | ReassignPartitions
ClusterStep = HostStep | BrokerStep | WriteRebalancePlan
Step = TopicStep | ClusterStep | UserStep | CertificateStep


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order and, where they do not lead all the way, what is waited for or refused.

    A refusal comes without steps: what cannot become as the spec asks is left as it is.
    """

    steps: tuple[Step, ...] = ()
    obstacle: Obstacle | None = None
    operation: Operation | None = None
    """What is under way, the steps of this plan included; None when nothing is that would be worth a record."""
    scaling: tuple[Scaling, Scaling] | None = None
    """What is to be remembered before the first step, and after the last one; None when brokers were not asked."""

    def __post_init__(self) -> None:
        assert not (self.steps and isinstance(self.obstacle, Refused)), "a refused spec changes nothing"


def _config_changes(upserts: Mapping[str, str], deletions: tuple[str, ...]) -> list[str]:
    return [*(f"{key}={value}" for key, value in upserts.items()), *(f"{key} to its default" for key in deletions)]
