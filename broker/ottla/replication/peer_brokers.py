"""The other nodes of the cluster, as replication sees them: connections to them, and which are alive."""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.metadata.cluster import BrokerRegistration, ClusterImage
from ottla.peers.channel import PeerChannel
from ottla.purgatory import Delayed
from ottla.types import Endpoint, NodeId
from ottla.wire.codec import Message

ANY_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerBrokers:
    """Connections of a replica manager to other nodes.

    Attributes:
        channel: to other brokers.
        endpoint_of: returns the address of a broker's inter-broker listener; None if it is not registered or fenced.
        send_to_controller: for AlterPartition and AssignReplicasToDirs; the result is the API's response class, with
            NOT_CONTROLLER in it when no active controller can be reached.
        broker_epoch: of this node's registration; -1 before it is registered.
    """

    channel: PeerChannel
    endpoint_of: Callable[[NodeId], Endpoint | None]
    send_to_controller: Callable[[Message], Delayed[Message]]
    broker_epoch: Callable[[], int]


class Brokers:
    """The registered brokers of the newest image, and whether each may be in an in-sync set.

    Source: Partition.isReplicaIsrEligible of Apache Kafka 4.3; KIP-903.
    """

    __slots__ = ("image",)

    def __init__(self) -> None:
        self.image = ClusterImage()

    def find(self, broker_id: NodeId) -> BrokerRegistration | None:
        return self.image.brokers.get(broker_id)

    def may_join_isr(self, broker_id: NodeId, fetched_epoch: int | None) -> bool:
        """Return whether the controller would accept the broker in an ISR.

        ``fetched_epoch`` is the broker epoch in its last fetch: another incarnation's progress does not count. None
        when it has not fetched yet; -1 for a request without it.
        """
        broker = self.image.brokers.get(broker_id)
        if broker is None or fetched_epoch is None or not broker.is_active:
            return False
        return fetched_epoch in (ANY_BROKER_EPOCH, broker.epoch)

    def is_stale(self, broker_id: NodeId, broker_epoch: int) -> bool:
        """Return whether a fetch comes from an incarnation of the broker that has been replaced."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and ANY_BROKER_EPOCH != broker_epoch < broker.epoch
