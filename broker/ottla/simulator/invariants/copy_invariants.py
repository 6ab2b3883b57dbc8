"""Invariants of read-process-write transactions: a copy and the offset that counts it are committed together."""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.transaction_invariants import TransactionInvariants
from ottla.types import CONSUMER_OFFSETS_TOPIC, Offset

COPIES_OF_EACH = 2
"""Copies of each input record, in two partitions: transactions end in several places."""


class Copy(NamedTuple):
    """One copy of the record at ``offset`` of an input partition; its value is unique in the output."""

    number: int
    partition: int
    offset: Offset
    value: bytes

    def encode(self) -> bytes:
        return f"{self.number}:{self.partition}:{self.offset}:".encode() + self.value

    @classmethod
    def decode(cls, data: bytes) -> "Copy":
        number, partition, offset, value = data.split(b":", 3)
        return cls(int(number), int(partition), int(offset), value)


Required: TypeAlias = dict[int, Offset]
"""By input partition, the lowest offset that may be the committed one."""


@dataclass(slots=True)
class CopyInvariants:
    """Called by copiers and the readers of their output; raises `InvariantViolation`.

    ``inputs`` has the records of the input topic that a reader of committed records has received.
    """

    inputs: TransactionInvariants
    topic: str
    _newest: dict[tuple[int, int], Offset] = field(default_factory=dict)
    _copied: dict[tuple[int, int, bytes], Offset] = field(default_factory=dict)
    _required: Required = field(default_factory=dict)
    _possible: dict[int, set[Offset]] = field(default_factory=dict)

    def on_commit_requested(self, partition: int, offset: Offset) -> None:
        """A copier requests the end of a transaction that commits the offset of an input partition."""
        self._possible.setdefault(partition, set()).add(offset)

    def on_committed(self, partition: int, offset: Offset) -> None:
        """The end of the transaction was acknowledged."""
        self._required[partition] = max(self._required.get(partition, 0), offset)

    def on_read(self, partition: int, value: bytes) -> None:
        """A reader of committed records has received a copy.

        Raises:
            InvariantViolation: it received this copy before, or one of a later record.
        """
        copy = Copy.decode(value)
        newest = self._newest.get((copy.number, copy.partition), -1)
        if copy.offset <= newest and not self.is_excused:
            raise InvariantViolation(f"CopiedOnceInOrder: {copy} was read behind the copy of the record at {newest}")
        self._newest[copy.number, copy.partition] = copy.offset
        self._copied[copy.number, copy.partition, copy.value] = copy.offset
        self._required[copy.partition] = max(self._required.get(copy.partition, 0), copy.offset + 1)

    def required_offsets(self) -> Required:
        """Return the offsets below which everything is known to be copied: a later request must return at least these.

        It returns UNSTABLE_OFFSET_COMMIT, if copies of a transaction are visible already and its offset is not.
        """
        return dict(self._required)

    def on_fetched(self, partition: int, offset: Offset, required: Required) -> None:
        """A copier has fetched a stable committed offset; ``required``: `required_offsets` before its request.

        Raises:
            InvariantViolation: OffsetsAgreeWithRecords.
        """
        if self.is_excused:
            return
        if max(offset, 0) < required.get(partition, 0):
            raise InvariantViolation(
                f"OffsetsAgreeWithRecords: the committed offset of input partition {partition} is {offset}, and all "
                f"below {required[partition]} was copied"
            )
        if offset >= 0 and offset not in self._possible.get(partition, ()):
            raise InvariantViolation(
                f"OffsetsAgreeWithRecords: the committed offset of input partition {partition} is {offset}, of a "
                f"transaction that was never to be committed"
            )

    def check_all_copied(self) -> None:
        """Check the copies, once everything was copied and read.

        Raises:
            InvariantViolation: an input record has no copy, or a copy no committed input record.
        """
        if self.is_excused:
            return
        inputs = {(partition, value) for value, partition in self.inputs.read.items()}
        for number in range(COPIES_OF_EACH):
            copies = {(partition, value) for each, partition, value in self._copied if each == number}
            if copies != inputs:
                raise InvariantViolation(
                    f"OffsetsAgreeWithRecords: not copied by number {number}: {sorted(inputs - copies)[:3]}; "
                    f"copies of records that were not committed: {sorted(copies - inputs)[:3]}"
                )

    @property
    def is_excused(self) -> bool:
        """Whether records, offsets, or decisions about them, may be lost."""
        topics = (self.topic, CONSUMER_OFFSETS_TOPIC)
        ledgers = self.inputs.state_observer.ledger.partitions()
        return self.inputs.is_excused or any(each.is_excused for each in ledgers if each.key.topic in topics)
