"""`RaftClient`: one replica of the metadata quorum.

It owns the metadata log and its snapshots, keeps the election state on disk, appends what the controller decides
while it leads, moves the high watermark when a majority has it on disk, and tells its listeners.

Source: KIP-595, KIP-630, KIP-853; KafkaRaftClient of Apache Kafka.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ottla.ports import Clock, Disk, Random
from ottla.raft.records import Batch, LeaderAndEpoch, RecordSerde
from ottla.raft.snapshot import SnapshotReader
from ottla.types import LeaderEpoch, NodeId, Offset, Uuid
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

RecordT = TypeVar("RecordT")


class RaftListener(Protocol[RecordT]):
    """Whoever follows the log: it sees every committed record once, in order, from a snapshot or from batches."""

    def on_committed(self, batches: Sequence[Batch[RecordT]]) -> None: ...

    def on_snapshot(self, reader: SnapshotReader[RecordT]) -> None:
        """Forget everything and load the snapshot."""

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Learn of a new leader or epoch; for the leader itself, after it has seen every record before its epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """The quorum's settings; the defaults are Kafka 4.3's.

    Attributes:
        segment_size_bytes_max: metadata.log.segment.bytes.
        segment_ms: metadata.log.segment.ms.
        retention_size_bytes: metadata.max.retention.bytes; -1 keeps every snapshot.
        retention_ms: metadata.max.retention.ms; -1 keeps every snapshot.
    """

    segment_size_bytes_max: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_size_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 60 * 60 * 1000


class RaftClient(Generic[RecordT]):
    """See the module.

    Args of the constructor:
        directory: the metadata log directory (metadata.log.dir); the log is ``<directory>/__cluster_metadata-0``.
        directory_id: directory.id of its meta.properties.
        static_voters: node ids of controller.quorum.voters, empty where the voters come from the log (KIP-853).
        on_failure: called once when the disk refuses; the node must stop.
    """

    log_end_offset: Offset
    high_watermark: Offset | None

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        directory: str,
        node_id: NodeId,
        directory_id: Uuid,
        serde: RecordSerde[RecordT],
        static_voters: Sequence[NodeId] = (),
        config: RaftConfig | None = None,
    ) -> None:
        raise NotImplementedError

    def register(self, listener: RaftListener[RecordT]) -> None:
        """Tell ``listener`` everything, from the oldest snapshot on; listeners are told in order of registration."""
        raise NotImplementedError

    def initialize(self) -> None:
        """Open and recover the log, read the election state, and stand for election where this replica is a voter.

        Raises:
            ConfigurationError: the log belongs to another quorum.
            StorageError: the disk refused.
        """
        raise NotImplementedError

    def tick(self, now_ms: int) -> None:
        """Do what is due: elections, retention of snapshots and log."""
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        raise NotImplementedError

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        raise NotImplementedError

    @property
    def is_leader(self) -> bool:
        raise NotImplementedError

    def append(self, epoch: LeaderEpoch, records: Sequence[RecordT]) -> Offset:
        """Append ``records`` as one atomic batch; return the last one's offset. It is committed later.

        Raises:
            KafkaError: NOT_CONTROLLER when this replica does not lead in ``epoch`` any more.
            StorageError: the disk refused.
        """
        raise NotImplementedError

    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        """Answer DescribeQuorum; NOT_LEADER_OR_FOLLOWER where this replica does not lead."""
        raise NotImplementedError

    def close(self) -> None:
        """Resign if leading, flush and close the log."""
        raise NotImplementedError
