"""Invariants of transactions: all of one or nothing, nothing of a fenced producer, and none that never ends."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto

from ottla.simulator.invariants.ledger import InvariantViolation, PartitionKey
from ottla.simulator.invariants.state_observer import NO_REPLICA, Invariant, ReplicaChange, StateObserver
from ottla.types import TRANSACTION_STATE_TOPIC, LeaderEpoch, NodeId, Offset, TopicPartition


class LastStableOffset(Invariant):
    """The last stable offset is at most the high watermark, and does not go back while a replica leads."""

    def __init__(self, state_observer: StateObserver) -> None:
        super().__init__(state_observer)
        self._highest: dict[tuple[NodeId, PartitionKey], tuple[LeaderEpoch, Offset]] = {}

    def on_replica(self, change: ReplicaChange) -> None:
        stable, now = change.partition.log.last_stable_offset, change.now
        where = f"LastStableOffset: that of {change.key} on node {change.place.node_id}"
        if stable > now.high_watermark:
            raise InvariantViolation(f"{where} is {stable}, above its high watermark {now.high_watermark}")
        replica = (change.place.node_id, change.key)
        if not now.is_leader or change.before is NO_REPLICA:
            self._highest.pop(replica, None)
        if not now.is_leader:
            return
        epoch, highest = self._highest.get(replica, (now.leader_epoch, stable))
        if epoch == now.leader_epoch and stable < highest:
            raise InvariantViolation(f"{where} went from {highest} to {stable} in leader epoch {epoch}")
        self._highest[replica] = (now.leader_epoch, stable)


class Ending(Enum):
    """How a transaction must have ended, as far as its producer knows."""

    ABORTED = auto()
    """No commit was ever requested, or the abort was acknowledged."""
    COMMITTED = auto()
    UNKNOWN = auto()
    """A commit was requested, and no response arrived that says what became of it."""


@dataclass(slots=True)
class Transaction:
    """The records of one transaction; ``values`` by partition. They are unique in the whole run."""

    name: str
    values: dict[int, bytes]
    ending: Ending = Ending.ABORTED


@dataclass(slots=True)
class TransactionInvariants:
    """Called by producers and readers; raises `InvariantViolation`."""

    state_observer: StateObserver
    topic: str
    transactions: list[Transaction] = field(default_factory=list)
    read: dict[bytes, int] = field(default_factory=dict)
    _fenced: set[bytes] = field(default_factory=set)

    def begin(self, name: str, values: dict[int, bytes]) -> Transaction:
        transaction = Transaction(name, values)
        self.transactions.append(transaction)
        return transaction

    def on_fenced_append(self, value: bytes) -> None:
        """A producer was about to append ``value`` in an epoch that a newer instance has fenced."""
        self._fenced.add(value)

    def on_appended(self, value: bytes) -> None:
        """A leader has acknowledged ``value``.

        Raises:
            InvariantViolation: its producer had been fenced before it was sent.
        """
        if value in self._fenced and not self.is_excused:
            raise InvariantViolation(f"NoAppendOfFencedProducers: {value!r} was acknowledged")

    def on_read(self, partition: int, value: bytes) -> None:
        """A reader of committed records has received ``value``.

        Raises:
            InvariantViolation: the reader received it before.
        """
        if value in self.read and not self.is_excused:
            raise InvariantViolation(f"CommittedOnce: {value!r} was read twice, in partition {partition}")
        self.read[value] = partition

    def check_all_or_nothing(self) -> None:
        """Check each transaction, once everything has been read.

        Raises:
            InvariantViolation: a part of a transaction was read, or what was aborted, or a committed one was not.
        """
        if self.is_excused:
            return
        for transaction in self.transactions:
            read = [value in self.read for value in transaction.values.values()]
            expected = {Ending.COMMITTED: {True}, Ending.ABORTED: {False}, Ending.UNKNOWN: {any(read)}}
            if set(read) - expected[transaction.ending]:
                raise InvariantViolation(
                    f"AllOrNothing: {transaction.name} is {transaction.ending.name}; its records were read: {read}"
                )

    @property
    def is_excused(self) -> bool:
        """Whether so many disks have lost unsynced data that records, or the decision about them, may be lost.

        A coordinator that has lost an epoch may never end a transaction again: leaders reject its markers, in JVM Kafka
        as well.
        """
        topics = (self.topic, TRANSACTION_STATE_TOPIC)
        ledgers = self.state_observer.ledger.partitions()
        return any(ledger.is_excused for ledger in ledgers if ledger.key.topic in topics)

    def open_partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of ``topics`` whose leader has an open transaction, or is not known."""
        found = []
        for name in topics:
            topic = self.state_observer.image.topics.by_name.get(name)
            for index, partition in {} if topic is None else topic.partitions.items():
                place = self.state_observer.cluster.nodes.get(partition.leader)
                log = None
                if place is not None and place.process is not None:
                    log = place.process.logs.get(TopicPartition(name, index))
                if log is None or log.last_stable_offset < log.high_watermark:
                    found.append(TopicPartition(name, index))
        return found
