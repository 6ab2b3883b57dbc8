"""The state of a partition's idempotent and transactional producers.

For each producer id: its epoch, its last five batches (to recognise a duplicate), and the first offset of its open
transaction. From these follow the errors of a leader append, the last stable offset, and the transaction index. The
state is a pure function of the log; a snapshot of it (``.snapshot``, named by the offset up to which it counts) saves
reading the log again:

====== ===== ====== ================================================================================
offset bytes type   field (big-endian)
====== ===== ====== ================================================================================
0      2     int16  version: 1
2      4     uint32 CRC-32C of everything from byte 6
6      4     int32  number of entries; each is:
+0     8     int64  producer id
+8     2     int16  producer epoch
+10    4     int32  last sequence number; -1 without a batch
+14    8     int64  last offset; -1 without a batch
+22    4     int32  last offset minus first offset of the last batch
+26    8     int64  timestamp (ms) of the last batch or marker
+34    4     int32  epoch of the coordinator that wrote the last marker; -1 before the first
+38    8     int64  first offset of the open transaction; -1 without one
====== ===== ====== ================================================================================

Kafka writes one entry for each producer id, and so loses at a restart all but the last batch. Here there is one for
each known batch, the oldest first, and one more if a marker is newer than the last batch. A reader that does as Kafka
does lets a later entry of a producer id replace an earlier one, and finds as much as in a file of Kafka's.

Source: ProducerStateManager, ProducerAppendInfo and ProducerStateEntry of Kafka; KIP-98, KIP-360, KIP-890.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from ottla.errors import CorruptRecordError, ErrorCode, KafkaError
from ottla.log.verifications import Verifications
from ottla.types import Offset, ProducerEpoch, ProducerId, TopicPartition
from ottla.wire.records import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    PRODUCER_EPOCH_MAX,
    ControlRecordType,
    RecordBatch,
    crc32c,
    parse_control_key,
    parse_end_transaction_value,
    read_records,
)

BATCHES_KEPT = 5
"""As many batches as an idempotent producer may have in flight."""
SNAPSHOT_VERSION = 1
SEQUENCE_MAX = 2**31 - 1
NO_OFFSET = -1
MARKER_SIZE_BYTES_MAX = 1 << 16

_HEADER = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_CRC_START = 6


class BatchMetadata(NamedTuple):
    """One batch that a producer appended."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> Offset:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction whose marker has just been appended at ``last_offset``."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class Marker(NamedTuple):
    """The contents of an end-of-transaction control record."""

    record_type: ControlRecordType
    coordinator_epoch: int
    timestamp_ms: int


class ProducerStateEntry:
    """One producer; ``batches`` are its newest, oldest first, at most five and all of ``producer_epoch``."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_transaction_first_offset",
        "last_timestamp_ms",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp_ms: int = NO_TIMESTAMP,
        current_transaction_first_offset: Offset = NO_OFFSET,
        batches: Iterable[BatchMetadata] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp_ms = last_timestamp_ms
        self.current_transaction_first_offset = current_transaction_first_offset
        self.batches: list[BatchMetadata] = list(batches)

    def __repr__(self) -> str:
        return (
            f"ProducerStateEntry(producer {self.producer_id}/{self.producer_epoch}, last sequence "
            f"{self.last_sequence}, coordinator epoch {self.coordinator_epoch}, transaction from "
            f"{self.current_transaction_first_offset}, batches {self.batches})"
        )

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> Offset:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def add_batch(self, producer_epoch: ProducerEpoch, batch: BatchMetadata) -> None:
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches = [batch]
        else:
            self.batches.append(batch)
            if len(self.batches) > BATCHES_KEPT:
                del self.batches[0]
        self.last_timestamp_ms = batch.timestamp_ms

    def end_transaction(self, producer_epoch: ProducerEpoch, marker: Marker) -> None:
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches = []
        self.coordinator_epoch = marker.coordinator_epoch
        self.last_timestamp_ms = marker.timestamp_ms
        self.current_transaction_first_offset = NO_OFFSET


def read_marker(batch: RecordBatch) -> Marker | None:
    """Return the transaction marker in a control batch; None for other control records and for emptied batches."""
    if batch.record_count == 0:
        return None
    record = read_records(batch, size_bytes_max=MARKER_SIZE_BYTES_MAX)[0]
    record_type = parse_control_key(record.key)
    if record_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    return Marker(record_type, parse_end_transaction_value(record.value), record.timestamp_ms)


class ProducerState:
    """See the module.

    Attributes:
        producers: by producer id, in the order of their first append since they last expired.
        end_offset: the state counts everything below.
        first_unstable_offset: of the oldest transaction that is open, or ended above the high watermark; None when
            there is none. The last stable offset is this or the high watermark.
    """

    def __init__(self, topic_partition: TopicPartition, expiration_ms: int) -> None:
        self.topic_partition = topic_partition
        self.expiration_ms = expiration_ms
        self.producers: dict[ProducerId, ProducerStateEntry] = {}
        self.end_offset: Offset = 0
        self.first_unstable_offset: Offset | None = None
        self.verifications = Verifications(topic_partition)
        self._ongoing: dict[Offset, ProducerId] = {}  # open transactions by first offset
        self._unreplicated: dict[Offset, Offset] = {}  # ended ones: first offset to marker's offset

    # --- checks of a leader before an append

    def require_epoch(self, producer_id: ProducerId, producer_epoch: ProducerEpoch, *, offset: Offset) -> None:
        """Reject a fenced producer.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH.
        """
        entry = self.producers.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            raise self._epoch_error(entry, producer_epoch, offset, "<")

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        """Return the one of the producer's last five batches that ``batch`` duplicates."""
        entry = self.producers.get(batch.producer_id)
        if entry is None or entry.producer_epoch != batch.producer_epoch:
            return None
        base_sequence, last_sequence = batch.base_sequence, batch.last_sequence
        for known in entry.batches:
            if known.last_sequence == last_sequence and known.first_sequence == base_sequence:
                return known
        return None

    def check_data(self, batch: RecordBatch, *, offset: Offset, check_sequence: bool) -> None:
        """Reject a data batch that its producer may not append at ``offset``.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE.
        """
        self.require_epoch(batch.producer_id, batch.producer_epoch, offset=offset)
        entry = self.producers.get(batch.producer_id)
        if check_sequence and self.verifications:
            self.verifications.check_sequence(batch, has_batches=entry is not None and bool(entry.batches))
        if entry is None:
            return
        if check_sequence:
            self._check_sequence(entry, batch, offset)
        if entry.current_transaction_first_offset != NO_OFFSET and not batch.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {batch.producer_id} has a transaction open in {self.topic_partition} from offset "
                f"{entry.current_transaction_first_offset}; its batch at offset {offset} is not transactional",
            )

    def _check_sequence(self, entry: ProducerStateEntry, batch: RecordBatch, offset: Offset) -> None:
        first_sequence = batch.base_sequence
        if batch.producer_epoch != entry.producer_epoch:
            if first_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {batch.producer_id} at offset {offset} in "
                    f"partition {self.topic_partition}: {batch.producer_epoch} (request epoch), {first_sequence} "
                    f"(seq. number), {entry.producer_epoch} (current producer epoch)",
                )
            return
        last_sequence = entry.last_sequence
        if first_sequence != last_sequence + 1 and not (first_sequence == 0 and last_sequence == SEQUENCE_MAX):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id} at offset {offset} in partition "
                f"{self.topic_partition}: {first_sequence} (incoming seq. number), {last_sequence} "
                "(current end sequence number)",
            )

    def check_marker(self, batch: RecordBatch, marker: Marker, *, offset: Offset, transaction_version: int) -> None:
        """Reject a marker from a fenced coordinator, or for an old producer epoch.

        Args:
            batch: the control batch; its producer id and epoch are the transaction's.
            marker: its contents.
            offset: at which it would be appended.
            transaction_version: the feature ``transaction.version`` under which it was written. From 2 on, every
                transaction has an epoch of its own, so that a marker's epoch must be new; the same epoch again is
                accepted only as a repetition after the transaction has ended, or as the last epoch of all.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self.producers.get(batch.producer_id)
        if entry is None:
            return
        epoch, current = batch.producer_epoch, entry.producer_epoch
        is_repetition = entry.current_transaction_first_offset == NO_OFFSET or epoch == PRODUCER_EPOCH_MAX
        if epoch < current or (transaction_version >= 2 and epoch == current and not is_repetition):
            raise self._epoch_error(entry, epoch, offset, "<=" if transaction_version >= 2 else "<")
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {batch.producer_id} at offset {offset} in partition "
                f"{self.topic_partition}: {marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)",
            )

    def _epoch_error(
        self, entry: ProducerStateEntry, epoch: ProducerEpoch, offset: Offset, comparison: str
    ) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {entry.producer_id} at offset {offset} in {self.topic_partition} is {epoch}, "
            f"which is {comparison} the last seen epoch {entry.producer_epoch}",
        )

    # --- appended batches

    def on_data(self, batch: RecordBatch) -> None:
        """Apply a data batch that has been appended, with its offsets."""
        entry = self.producers.get(batch.producer_id)
        if entry is None:
            entry = self.producers[batch.producer_id] = ProducerStateEntry(batch.producer_id)
        base_offset, offset_delta = batch.base_offset, batch.last_offset_delta
        entry.add_batch(
            batch.producer_epoch,
            BatchMetadata(batch.last_sequence, base_offset + offset_delta, offset_delta, batch.max_timestamp_ms),
        )
        if batch.is_transactional and entry.current_transaction_first_offset == NO_OFFSET:
            entry.current_transaction_first_offset = base_offset
            self._ongoing[base_offset] = batch.producer_id
            self._update_first_unstable()

    def on_marker(self, batch: RecordBatch, marker: Marker) -> CompletedTransaction | None:
        """Apply a marker that has been appended; return the transaction that it ends, if it had records here."""
        entry = self.producers.get(batch.producer_id)
        if entry is None:
            entry = self.producers[batch.producer_id] = ProducerStateEntry(batch.producer_id)
        first_offset = entry.current_transaction_first_offset
        entry.end_transaction(batch.producer_epoch, marker)
        if first_offset == NO_OFFSET:
            return None
        is_aborted = marker.record_type is ControlRecordType.ABORT
        return CompletedTransaction(batch.producer_id, first_offset, batch.base_offset, is_aborted)

    def last_stable_offset_after(self, transaction: CompletedTransaction) -> Offset:
        """Return the last stable offset as of the end of ``transaction`` once that is replicated."""
        others = (first for first, producer in self._ongoing.items() if producer != transaction.producer_id)
        return min(others, default=transaction.last_offset + 1)

    def complete(self, transaction: CompletedTransaction) -> None:
        """Remove a transaction from the open ones; it stays unstable until the high watermark has passed its marker."""
        del self._ongoing[transaction.first_offset]
        self._unreplicated[transaction.first_offset] = transaction.last_offset
        self._update_first_unstable()

    def on_high_watermark(self, high_watermark: Offset) -> None:
        """Remove the ended transactions whose marker every in-sync replica has."""
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}
            self._update_first_unstable()

    def expire(self, now_ms: int, expiration_ms: int | None = None) -> None:
        """Remove the producers that have not appended for `expiration_ms` and have no transaction open.

        ``expiration_ms`` replaces the setting from now on; None keeps it.
        """
        if expiration_ms is not None:
            self.expiration_ms = expiration_ms
        expired = [entry.producer_id for entry in self.producers.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        self.verifications.expire(now_ms, self.expiration_ms)

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        is_idle = now_ms - entry.last_timestamp_ms >= self.expiration_ms
        return is_idle and entry.current_transaction_first_offset == NO_OFFSET

    def _update_first_unstable(self) -> None:
        firsts = (*self._ongoing, *self._unreplicated)
        self.first_unstable_offset = min(firsts) if firsts else None

    # --- snapshots

    def clear(self, end_offset: Offset) -> None:
        """Reset to the empty state as of ``end_offset``."""
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.first_unstable_offset = None
        self.end_offset = end_offset

    def load(self, entries: Iterable[ProducerStateEntry], *, end_offset: Offset, now_ms: int) -> None:
        """Load the snapshot of ``end_offset``, except for the producers that have expired since."""
        self.clear(end_offset)
        for entry in entries:
            if self._is_expired(entry, now_ms):
                continue
            self.producers[entry.producer_id] = entry
            if entry.current_transaction_first_offset != NO_OFFSET:
                self._ongoing[entry.current_transaction_first_offset] = entry.producer_id
        self._update_first_unstable()


def format_snapshot(producers: Iterable[ProducerStateEntry]) -> bytes:
    """Return the bytes of a ``.snapshot`` file."""
    entries = [line for entry in producers for line in _format_entries(entry)]
    body = b"".join([len(entries).to_bytes(4), *entries])
    return SNAPSHOT_VERSION.to_bytes(2) + crc32c(body).to_bytes(4) + body


def _format_entries(entry: ProducerStateEntry) -> Iterator[bytes]:
    lines = entry.batches
    newest = lines[-1] if lines else BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)
    if not lines or newest.timestamp_ms != entry.last_timestamp_ms:
        lines = [*lines, newest._replace(timestamp_ms=entry.last_timestamp_ms)]
    for batch in lines:
        yield _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.offset_delta,
            batch.timestamp_ms,
            entry.coordinator_epoch,
            entry.current_transaction_first_offset,
        )


def parse_snapshot(data: bytes, path: str) -> list[ProducerStateEntry]:
    """Read a ``.snapshot`` file, ours or Kafka's; return one entry for each producer id.

    Raises:
        CorruptRecordError: as `parse_snapshot_entries`.
    """
    producers: dict[ProducerId, ProducerStateEntry] = {}
    for entry in parse_snapshot_entries(data, path):
        earlier = producers.get(entry.producer_id)
        if earlier is not None and earlier.producer_epoch == entry.producer_epoch:
            entry.batches = _join_batches(earlier.batches, entry.batches)
        producers[entry.producer_id] = entry
    return list(producers.values())


def parse_snapshot_entries(data: bytes, path: str) -> list[ProducerStateEntry]:
    """Read the entries of a ``.snapshot`` file unmerged; each has at most one batch.

    Raises:
        CorruptRecordError: another version, a wrong CRC, or fewer bytes than the count says.
    """
    try:
        version, crc, count = _HEADER.unpack_from(data)
    except StructError:
        raise CorruptRecordError(f"{path}: {len(data)} bytes; a snapshot has at least {_HEADER.size}") from None
    if version != SNAPSHOT_VERSION:
        raise CorruptRecordError(f"{path}: snapshot version {version}; only {SNAPSHOT_VERSION} is known")
    if crc != crc32c(memoryview(data)[_CRC_START:]):
        raise CorruptRecordError(f"{path}: the CRC-32C in the header is not that of the bytes")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptRecordError(f"{path}: {len(data)} bytes for {count} entries of {_ENTRY.size} bytes")
    return [_parse_entry(fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]


def _parse_entry(fields: tuple[int, ...]) -> ProducerStateEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, first_offset = fields
    batches = [BatchMetadata(last_sequence, last_offset, offset_delta, timestamp_ms)] if last_offset >= 0 else []
    return ProducerStateEntry(producer_id, epoch, coordinator_epoch, timestamp_ms, first_offset, batches)


def _join_batches(earlier: list[BatchMetadata], later: list[BatchMetadata]) -> list[BatchMetadata]:
    """Return the newest of both; for a batch in both, the later entry has the timestamp of the marker after it."""
    if earlier and later and earlier[-1].last_offset == later[0].last_offset:
        later = later[1:]
    return [*earlier, *later][-BATCHES_KEPT:]
