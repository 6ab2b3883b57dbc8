"""Makes record batches: what producers, coordinators, the controller and compaction write.

Source: DefaultRecordBatch.writeHeader, DefaultRecord.writeTo and MemoryRecordsBuilder of Kafka.
"""

from collections.abc import Iterable, Sequence

from ottla.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from ottla.wire.records.batch import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TimestampType,
)
from ottla.wire.records.compression import Compression
from ottla.wire.records.record import Header, Record


class RecordBatchBuilder:
    """Collects records, in the order of their offsets, until `build` makes a batch of them.

    ``size_bytes`` is what the batch would have without compression: what ``batch.size`` is compared with.
    """

    def __init__(
        self,
        *,
        base_offset: Offset = 0,
        leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        log_append_time_ms: int | None = None,
        producer_id: ProducerId = NO_PRODUCER_ID,
        producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        delete_horizon_ms: int | None = None,
    ) -> None:
        raise NotImplementedError

    record_count: int
    size_bytes: int

    def append(
        self,
        *,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        offset: Offset | None = None,
    ) -> Offset:
        """Add one record and return its offset: ``offset``, or the one after the last record's.

        Raises:
            ValueError: ``offset`` is not above the last record's, or too far from the base offset.
        """
        raise NotImplementedError

    def build(self, *, last_offset: Offset | None = None) -> bytes:
        """Return the batch.

        Args:
            last_offset: above the last record's when compaction dropped what followed it; None is the last
                record's.
        """
        raise NotImplementedError


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: Offset = 0,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time_ms: int | None = None,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    last_offset: Offset | None = None,
) -> bytes:
    """Return one batch that holds ``records``.

    Args:
        records: offsets absolute, ascending, from ``base_offset`` on.
        base_offset: offset that the records' deltas are relative to.
        leader_epoch: -1 where the appending broker will patch it.
        compression: codec for the records; NONE writes them plain.
        compression_level: as in `compress`; None is Kafka's default.
        timestamp_type: with LOG_APPEND_TIME, ``log_append_time_ms`` must be given and is what readers will
            see.
        log_append_time_ms: the broker's time, milliseconds since 1970.
        producer_id: with ``producer_epoch`` and ``base_sequence``, of an idempotent producer; -1 without.
        producer_epoch: see ``producer_id``.
        base_sequence: see ``producer_id``.
        is_transactional: part of a transaction.
        is_control: holds control records (see `control`), which consumers do not see.
        delete_horizon_ms: when compaction may drop tombstones (KIP-534).
        last_offset: see `RecordBatchBuilder.build`.
    """
    raise NotImplementedError
