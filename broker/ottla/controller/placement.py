"""Assignment of a new partition's replicas to brokers: striped over racks and over the brokers of each rack.

The first replica, which will lead, rotates over the racks, and within a rack over its brokers; the others follow on the
next racks. After as many partitions as there are unfenced brokers, racks and brokers are shuffled, so that the same
replica sets do not repeat. Fenced brokers are never first, and are used only when there are too few unfenced ones.

Source: StripedReplicaPlacer of Apache Kafka; KIP-36 (racks).
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.ports import Random
from ottla.types import NodeId

ItemT = TypeVar("ItemT")


class UsableBroker(NamedTuple):
    """A broker that may be assigned replicas."""

    broker_id: NodeId
    rack: str | None
    is_fenced: bool


class _BrokerList:
    """Brokers of one rack, used round-robin; each partition (``epoch``) starts one further."""

    def __init__(self, brokers: Iterable[NodeId], random: Random) -> None:
        self._brokers = sorted(brokers)
        self._epoch = 0
        self._index = 0
        self._offset = random.randrange(len(self._brokers)) if self._brokers else 0

    def next(self, epoch: int) -> NodeId | None:
        """Return the next broker for partition ``epoch``; None after all of them."""
        if not self._brokers:
            return None
        if self._epoch != epoch:
            self._epoch, self._index = epoch, 0
            self._offset = (self._offset + 1) % len(self._brokers)
        if self._index >= len(self._brokers):
            return None
        broker = self._brokers[(self._index + self._offset) % len(self._brokers)]
        self._index += 1
        return broker

    def shuffle(self, random: Random) -> None:
        _shuffle(self._brokers, random)
        self._epoch = self._index = self._offset = 0


class _Rack:
    def __init__(self, brokers: list[UsableBroker], random: Random) -> None:
        self.fenced = _BrokerList((each.broker_id for each in brokers if each.is_fenced), random)
        self.unfenced = _BrokerList((each.broker_id for each in brokers if not each.is_fenced), random)

    def next(self, epoch: int) -> NodeId | None:
        broker = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if broker is None else broker

    def shuffle(self, random: Random) -> None:
        self.fenced.shuffle(random)
        self.unfenced.shuffle(random)


def place(
    *, brokers: Iterable[UsableBroker], partition_count: int, replication_factor: int, random: Random
) -> list[list[NodeId]]:
    """Return the replicas of ``partition_count`` new partitions, leader first.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR, with Kafka's messages.
    """
    usable = sorted(brokers)
    if replication_factor > len(usable):
        raise _placement_error(
            f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    unfenced_count = sum(not broker.is_fenced for broker in usable)
    if unfenced_count == 0:
        raise _placement_error("All brokers are currently fenced or have all their log directories cordoned.")
    by_rack: dict[str, list[UsableBroker]] = {}
    for broker in usable:
        by_rack.setdefault(broker.rack or "", []).append(broker)
    racks = [_Rack(members, random) for _, members in sorted(by_rack.items())]
    offset = random.randrange(len(racks))
    epoch = 0
    placements = []
    for _ in range(partition_count):
        if epoch == unfenced_count:
            _shuffle(racks, random)
            for rack in racks:
                rack.shuffle(random)
            epoch = 0
        placements.append(_place_one(racks, offset % len(racks), epoch, replication_factor))
        epoch += 1
        offset += 1
    return placements


def _place_one(racks: list[_Rack], first_rack: int, epoch: int, replication_factor: int) -> list[NodeId]:
    leader = None
    leader_rack = first_rack
    while leader is None:
        leader = racks[leader_rack % len(racks)].unfenced.next(epoch)
        leader_rack += 1
    replicas = [leader]
    rack = leader_rack
    while len(replicas) < replication_factor:
        replica = racks[rack % len(racks)].next(epoch)
        if replica is not None:
            replicas.append(replica)
        rack += 1
    return replicas


def _shuffle(items: list[ItemT], random: Random) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random.randrange(last + 1)
        items[last], items[other] = items[other], items[last]


def _placement_error(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
