"""Invariants of transactions: all of one or nothing, and nothing of a producer that was fenced."""

from dataclasses import dataclass, field
from enum import Enum, auto

from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.types import TRANSACTION_STATE_TOPIC


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
