"""Records and batches of the quorum's log, and their serialization.

The quorum does not know what its records mean: it is generic over their type, as Kafka's RaftClient is.
"""

from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from ottla.ports import Buffer
from ottla.types import LeaderEpoch, NodeId, Offset, Uuid, format_uuid

RecordT = TypeVar("RecordT")
InvariantT = TypeVar("InvariantT")


class RecordSerde(Protocol[InvariantT]):
    """Turns one record into the value of a log record and back."""

    def encode(self, record: InvariantT) -> bytes: ...

    def decode(self, value: Buffer) -> InvariantT:
        """Read what `encode` writes.

        Raises:
            ProtocolError: the bytes are not such a record.
        """


@dataclass(frozen=True, slots=True)
class Batch(Generic[RecordT]):
    """One atomic batch of the log: all of its records become visible together.

    Attributes:
        base_offset: the first record's offset; record ``i`` has ``base_offset + i``.
        epoch: the leader epoch it was written in.
        append_timestamp_ms: wall-clock time of the append.
        size_bytes: on disk.
        records: in order; empty for a batch of control records, which only the quorum itself reads.
        last_offset: of the last record, control or not.
    """

    base_offset: Offset
    epoch: LeaderEpoch
    append_timestamp_ms: int
    size_bytes: int
    records: tuple[RecordT, ...]
    last_offset: Offset


class LeaderAndEpoch(NamedTuple):
    """The leader of the quorum; ``leader_id`` is None while an election is under way."""

    leader_id: NodeId | None
    epoch: LeaderEpoch


class ReplicaKey(NamedTuple):
    """One replica of the quorum: a node id alone may stand for two disks (KIP-853)."""

    node_id: NodeId
    directory_id: Uuid

    def __str__(self) -> str:
        return f"({self.node_id}, {format_uuid(self.directory_id)})"
