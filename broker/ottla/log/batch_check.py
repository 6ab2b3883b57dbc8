"""Check a producer's batch before it is appended: at once if that is quick, else in steps and off the loop.

`check_at_once` takes small batches whose records are certainly valid, which most batches are. It returns None for the
others. `check_in_steps` takes any batch: records are decompressed off the loop, a piece at a time, walked on the loop
in slices (`RecordsWalk`), and, if the topic has a codec of its own, compressed again off the loop. So a batch takes a
few pieces of memory, however large its records are, and they are counted in a `MemoryBudget` of the node.

The newest timestamp in a producer's header is not trusted, because readers, rolls and retention depend on it. If it is
not that of the records, the header is corrected, as JVM Kafka does, and the limits apply to the records' timestamps.

Source: LogValidator of Kafka. Recompression there writes every record again; here the bytes of the records stay as they
are, because their deltas have been found to be right.
"""

from typing import Final

from ottla.errors import CorruptRecordError, ErrorCode, InvalidRecordError, KafkaError
from ottla.log.config import LogConfig
from ottla.log.validation import (
    RECORDS_SIZE_BYTES_MAX,
    check_client_header,
    check_client_size,
    check_record_count,
    check_size,
    check_timestamps,
    entries_max,
    must_recompress,
    require_keys,
    target_compression,
)
from ottla.ports import Buffer, Clock
from ottla.purgatory.off_loop import HeldMemory, OffLoop, in_place
from ottla.purgatory.steps import Steps, run_to_end
from ottla.types import TopicPartition
from ottla.wire.records import (
    HEADER_SIZE_BYTES,
    NO_TIMESTAMP,
    RecordBatch,
    RecordsWalk,
    TimestampType,
    TooManyHeadersError,
    compress,
    decompress,
    find_newest_timestamp_delta,
    parse_batch,
    replace_records,
    validate_plain_records,
    validate_records,
)
from ottla.wire.records.compression import BUFFER_SIZE_BYTES_MAX, CODECS, open_compressor, open_decompressor, too_large
from ottla.wire.records.decompression import BufferLimitError

SIZE_BYTES_AT_ONCE_MAX: Final = 2 * 1024 * 1024
"""The CRC of so many bytes takes 0.1 ms, and so does a copy of them."""
RECORDS_AT_ONCE_MAX: Final = 1_000
"""Walked one by one, so many records take half a millisecond."""
PLAIN_SIZE_BYTES_AT_ONCE_MAX: Final = 64 * 1024
"""Limit of decompression at once: 0.2 ms of gzip."""
RECOMPRESSED_SIZE_BYTES_AT_ONCE_MAX: Final = 16 * 1024
_HEADERS_EACH_AT_ONCE_MAX: Final = 64
_PIECE_SIZE_BYTES: Final = 256 * 1024
_RECOMPRESSED_PIECE_SIZE_BYTES_MIN: Final = 64 * 1024
_RECOMPRESSED_PIECE_NS: Final = 500_000
"""Pieces that are recompressed take a thread at most about so long, in which it may keep a node's only core: pieces of
the size above took 1.5 ms, and other clients' p99 was 3.6 times the quiet one. With 64 KB for all of them, records that
compress well took three times the CPU.
"""
_PLAIN_TIMESTAMP_MAX: Final = 2**62
"""With base timestamps up to this, positive or negative, no delta that is found at once can overflow."""
_INT64_MAX: Final = 2**63 - 1
_BUFFER_SIZE_BYTES: Final = 8 * 1024 * 1024
"""Limit of the decoders' buffers for usual batches: zstd's window up to level 19, two blocks of lz4."""
_COMPRESSOR_SIZE_BYTES: Final = 4 * 1024 * 1024
_LARGE_COMPRESSOR_SIZE_BYTES: Final = 64 * 1024 * 1024
"""Memory of zstd from level 10 on."""


class CheckedBatch:
    """A producer's batch that may be appended if the producer's state allows it.

    ``batch`` is in a writable buffer. ``newest_timestamp_ms`` goes into its header with CreateTime.
    """

    __slots__ = ("batch", "newest_timestamp_ms")

    def __init__(self, batch: RecordBatch, newest_timestamp_ms: int) -> None:
        self.batch = batch
        self.newest_timestamp_ms = newest_timestamp_ms


def writable(records: Buffer) -> Buffer:
    """Return ``records``, or a copy if they are read-only: an append patches the header."""
    if type(records) is bytes or (type(records) is memoryview and records.readonly):
        return bytearray(records)
    return records


def check_at_once(
    records: Buffer, config: LogConfig, topic_partition: TopicPartition, now_ms: int
) -> CheckedBatch | None:
    """Check a batch if that takes less than a millisecond; return None for the others, which need `check_in_steps`.

    Raises:
        KafkaError: as `check_in_steps`.
    """
    if len(records) > SIZE_BYTES_AT_ONCE_MAX:
        return None
    batch = parse_batch(writable(records))
    if batch.record_count > RECORDS_AT_ONCE_MAX:
        return None
    check_client_size(batch, config, topic_partition)
    batch.check_crc()
    check_client_header(batch, topic_partition)
    data = _plain_at_once(batch)
    if data is None:
        return None
    newest_ms = _newest_at_once(batch, data, config, topic_partition, now_ms)
    if newest_ms is None:
        return None
    if config.compression_type != "producer" and must_recompress(batch, config):
        if len(data) > RECOMPRESSED_SIZE_BYTES_AT_ONCE_MAX:
            return None
        kind, level = target_compression(config)
        batch = replace_records(batch, kind, compress(kind, data, level=level))
        check_size(batch.size_bytes, config, topic_partition)
    return CheckedBatch(batch, max(newest_ms, NO_TIMESTAMP))


def _newest_at_once(
    batch: RecordBatch, data: bytes, config: LogConfig, topic_partition: TopicPartition, now_ms: int
) -> int | None:
    """Return the newest timestamp of valid records; None if `check_in_steps` must decide.

    Raises:
        RecordValidationError: INVALID_RECORD, INVALID_TIMESTAMP.
    """
    base_ms = batch.base_timestamp_ms
    if config.validates_records:
        try:
            summary = validate_plain_records(batch, data, headers_each_max=_HEADERS_EACH_AT_ONCE_MAX)
        except InvalidRecordError:
            return None
        if config.is_compacted:
            require_keys(summary.null_key_indexes, topic_partition)
        check_timestamps(batch, summary.min_timestamp_ms, summary.max_timestamp_ms, config, now_ms)
        return summary.max_timestamp_ms
    expected = batch.max_timestamp_ms - base_ms
    delta = find_newest_timestamp_delta(
        data, batch.record_count, expected=expected, headers_each_max=_HEADERS_EACH_AT_ONCE_MAX
    )
    if delta is None or not -_PLAIN_TIMESTAMP_MAX <= base_ms <= _PLAIN_TIMESTAMP_MAX:
        return None
    newest_ms = base_ms + delta
    if config.message_timestamp_type != "CreateTime" or newest_ms - now_ms > config.message_timestamp_after_max_ms:
        check_timestamps(batch, newest_ms, newest_ms, config, now_ms)
    return newest_ms


def _plain_at_once(batch: RecordBatch) -> bytes | None:
    """Return the records; None if they are too large."""
    if not batch.is_compressed:
        return bytes(batch.payload)
    payload = batch.payload
    if len(payload) > PLAIN_SIZE_BYTES_AT_ONCE_MAX:
        return None
    try:
        return decompress(batch.compression, payload, size_bytes_max=PLAIN_SIZE_BYTES_AT_ONCE_MAX)
    except CorruptRecordError:
        return None


def check_in_steps(
    records: Buffer, config: LogConfig, topic_partition: TopicPartition, now_ms: int, off_loop: OffLoop
) -> Steps[CheckedBatch]:
    """Check any batch; ``records`` must not change until the steps have ended.

    Raises:
        CorruptRecordError: the CRC, length or magic is wrong, or the records cannot be decompressed, or are too large.
        InvalidRecordError: the header contradicts itself, or the records contradict it or themselves.
        RecordValidationError: INVALID_RECORD, a key is missing; INVALID_TIMESTAMP.
        KafkaError: MESSAGE_TOO_LARGE (also for too many records or headers: producers then split the batch),
            RECORD_LIST_TOO_LARGE.
        RuntimeError: no thread can be created.
    """
    batch = parse_batch(records)
    check_client_size(batch, config, topic_partition)
    for buffer_bytes_max in (_BUFFER_SIZE_BYTES, BUFFER_SIZE_BYTES_MAX):
        check = _Check(batch, config, topic_partition, now_ms, off_loop, buffer_bytes_max)
        try:
            return (yield from check.run())
        except BufferLimitError:
            continue
    raise too_large(batch.compression, len(batch.payload), RECORDS_SIZE_BYTES_MAX)


def check_coordinator_batch(records: Buffer, config: LogConfig, topic_partition: TopicPartition) -> CheckedBatch:
    """Check a batch that this node's own coordinator has built.

    Raises:
        InvalidRecordError: it is more than one batch.
        RecordValidationError: INVALID_RECORD, a key is missing.
        KafkaError: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE.
    """
    batch = parse_batch(writable(records))
    if batch.end_position != len(records):
        raise InvalidRecordError("a coordinator appends one batch at a time")
    check_size(batch.size_bytes, config, topic_partition)
    if config.is_compacted and not batch.is_control:
        summary = validate_records(batch, size_bytes_max=RECORDS_SIZE_BYTES_MAX)
        require_keys(summary.null_key_indexes, topic_partition)
    if must_recompress(batch, config):
        data = decompress(batch.compression, batch.payload, size_bytes_max=RECORDS_SIZE_BYTES_MAX)
        kind, level = target_compression(config)
        batch = replace_records(batch, kind, compress(kind, data, level=level))
    return CheckedBatch(batch, batch.max_timestamp_ms)


def check_in_one_go(
    records: Buffer, config: LogConfig, topic_partition: TopicPartition, now_ms: int, clock: Clock
) -> CheckedBatch:
    """Run `check_in_steps` to its end at once, for callers that may block.

    Raises:
        KafkaError: as there.
    """
    return run_to_end(check_in_steps(records, config, topic_partition, now_ms, in_place(clock)))


class _Check:
    """The state of `check_in_steps` for one batch."""

    def __init__(
        self,
        batch: RecordBatch,
        config: LogConfig,
        topic_partition: TopicPartition,
        now_ms: int,
        off_loop: OffLoop,
        buffer_bytes_max: int,
    ) -> None:
        self._batch = batch
        self._config = config
        self._topic_partition = topic_partition
        self._now_ms = now_ms
        self._off_loop = off_loop
        self._buffer_bytes_max = buffer_bytes_max
        self._is_recompressed = must_recompress(batch, config) if batch.attributes & 0x07 in CODECS else False
        self._walk = RecordsWalk(
            batch.record_count,
            expected_delta=batch.max_timestamp_ms - batch.base_timestamp_ms,
            headers_max=entries_max(config),
            is_thorough=config.validates_records or abs(batch.base_timestamp_ms) > _PLAIN_TIMESTAMP_MAX,
        )
        self._output: list[bytes] = []

    def run(self) -> Steps[CheckedBatch]:
        memory = self._off_loop.hold(self._size_bytes())
        try:
            yield from memory.acquire()
            return (yield from self._check(memory))
        finally:
            memory.release()

    def _size_bytes(self) -> int:
        """Return the peak memory of the check, without the batch itself."""
        size_bytes = 3 * _PIECE_SIZE_BYTES
        if self._batch.is_compressed:
            size_bytes += self._buffer_bytes_max
        if self._is_recompressed:
            kind, level = target_compression(self._config)
            is_large = CODECS[kind].is_large_at(level)
            size_bytes += _LARGE_COMPRESSOR_SIZE_BYTES if is_large else _COMPRESSOR_SIZE_BYTES
            # The pieces of the output, and the batch that they are joined to.
            size_bytes += 2 * min(self._config.max_message_bytes, RECORDS_SIZE_BYTES_MAX)
        return size_bytes

    def _check(self, memory: HeldMemory) -> Steps[CheckedBatch]:
        batch, config = self._batch, self._config
        if batch.size_bytes > SIZE_BYTES_AT_ONCE_MAX:
            yield from memory.work(batch.check_crc)
        else:
            batch.check_crc()
        check_client_header(batch, self._topic_partition)
        check_record_count(batch, config, self._topic_partition)
        yield from self._read_records(memory)
        walk, base_ms = self._walk, batch.base_timestamp_ms
        oldest_ms, newest_ms = base_ms + min(walk.oldest_delta, walk.newest_delta), base_ms + walk.newest_delta
        if newest_ms > _INT64_MAX or oldest_ms < ~_INT64_MAX:
            raise self._error("its timestamp is more than 64 bits")
        if config.is_compacted:
            require_keys(walk.null_key_indexes, self._topic_partition)
        check_timestamps(batch, oldest_ms, newest_ms, config, self._now_ms)
        newest_ms = max(newest_ms, NO_TIMESTAMP)
        if self._is_recompressed or batch.size_bytes > SIZE_BYTES_AT_ONCE_MAX:
            batch = yield from memory.work(lambda: self._finish(newest_ms))
            check_size(batch.size_bytes, config, self._topic_partition)
        else:
            batch = parse_batch(writable(batch.buffer), batch.position)
        return CheckedBatch(batch, newest_ms)

    def _finish(self, newest_ms: int) -> RecordBatch:
        """Return the batch as it will be stored; the copies and the CRC take long for a large one."""
        batch = self._batch
        if self._is_recompressed:
            kind, _ = target_compression(self._config)
            batch = replace_records(batch, kind, b"".join(self._output))
        else:
            batch = parse_batch(writable(batch.buffer), batch.position)
        if self._config.message_timestamp_type == "CreateTime":
            batch.set_max_timestamp(TimestampType.CREATE_TIME, newest_ms)
        return batch

    def _read_records(self, memory: HeldMemory) -> Steps[None]:
        """Read all pieces, walk them, and recompress them if the topic's codec differs."""
        batch = self._batch
        try:
            reader = open_decompressor(batch.compression, batch.payload, buffer_bytes_max=self._buffer_bytes_max)
            writer = open_compressor(*target_compression(self._config)) if self._is_recompressed else None
            is_off_loop = batch.is_compressed or writer is not None

            def read() -> tuple[bytes, bytes, bool]:
                piece = b"" if reader.is_at_end else reader.read(piece_bytes)
                if writer is None:
                    return piece, b"", reader.is_at_end
                output = writer.compress(piece)
                return piece, output + writer.flush() if reader.is_at_end else output, reader.is_at_end

            piece_bytes = _PIECE_SIZE_BYTES if writer is None else _RECOMPRESSED_PIECE_SIZE_BYTES_MIN
            size_bytes, is_at_end = 0, False
            while not is_at_end:
                piece, output, is_at_end = (yield from memory.work(read)) if is_off_loop else read()
                if writer is not None:
                    piece_bytes = _next_piece_bytes(piece_bytes, memory.worked_ns)
                size_bytes += len(piece)
                if size_bytes > RECORDS_SIZE_BYTES_MAX:
                    raise too_large(batch.compression, len(batch.payload), RECORDS_SIZE_BYTES_MAX)
                self._keep_output(output)
                yield from self._walk.feed(piece)
                yield None
            self._walk.finish()
        except TooManyHeadersError:
            most = entries_max(self._config)
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The record batch in the append to {self._topic_partition} has more than {most} headers, as many as "
                f"it may have with max.message.bytes={self._config.max_message_bytes}",
            ) from None
        except InvalidRecordError as error:
            raise self._error(error.message) from None

    def _keep_output(self, output: bytes) -> None:
        """Collect recompressed bytes, unless they exceed the limit of the topic already."""
        if output:
            self._output.append(output)
            size_bytes = HEADER_SIZE_BYTES + sum(map(len, self._output))
            if size_bytes > self._config.max_message_bytes:
                check_size(size_bytes, self._config, self._topic_partition)

    def _error(self, reason: str | None) -> InvalidRecordError:
        batch = self._batch
        return InvalidRecordError(
            f"record {self._walk.index} of {batch.record_count} in the batch at offset {batch.base_offset}: {reason}"
        )


def _next_piece_bytes(piece_bytes: int, worked_ns: int) -> int:
    """Return the size of the piece to recompress after one that took ``worked_ns``."""
    if worked_ns < _RECOMPRESSED_PIECE_NS // 2:
        return min(2 * piece_bytes, _PIECE_SIZE_BYTES)
    if worked_ns > _RECOMPRESSED_PIECE_NS:
        return max(piece_bytes // 2, _RECOMPRESSED_PIECE_SIZE_BYTES_MIN)
    return piece_bytes
