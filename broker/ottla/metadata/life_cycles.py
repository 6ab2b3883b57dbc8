"""`PartitionState`, `ReplicaState`: the states of a partition and of each of its replicas.

The names are those of the state machines of Kafka's former controller, which kept these states and changed them by
messages to brokers. Under KRaft no node keeps them: they follow from the metadata, and states that it does not
have any more are known only to the broker that has the log (see broker/README.md, "A replica's life").

Source: PartitionStateMachine and ReplicaStateMachine of Apache Kafka 3.
"""

from enum import Enum

from ottla.metadata.cluster import ClusterImage
from ottla.metadata.topics import PartitionRegistration
from ottla.types import NodeId


class PartitionState(Enum):
    """``NEW`` cannot be observed: a partition's first record names its leader."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"


class ReplicaState(Enum):
    """The deletion states exist only in the broker: the metadata does not have a replica that is being deleted."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"
    DELETION_STARTED = "DeletionStarted"
    DELETION_SUCCESSFUL = "DeletionSuccessful"
    DELETION_INELIGIBLE = "DeletionIneligible"


def partition_state(partition: PartitionRegistration | None) -> PartitionState:
    """Return the state of a partition; None stands for one that is not in the metadata."""
    if partition is None:
        return PartitionState.NON_EXISTENT
    return PartitionState.ONLINE if partition.has_leader else PartitionState.OFFLINE


def replica_state(partition: PartitionRegistration | None, broker_id: NodeId, cluster: ClusterImage) -> ReplicaState:
    """Return the state of one broker's replica: new while a reassignment adds it and it has not caught up yet."""
    if partition is None or broker_id not in partition.replicas:
        return ReplicaState.NON_EXISTENT
    broker = cluster.brokers.get(broker_id)
    if broker is None or broker.is_fenced or not broker.has_online_directory(partition.directory_of(broker_id)):
        return ReplicaState.OFFLINE
    is_new = broker_id in partition.adding_replicas and broker_id not in partition.isr
    return ReplicaState.NEW if is_new else ReplicaState.ONLINE
