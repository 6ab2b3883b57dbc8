"""Dump the files of a log line by line, in the format of ``kafka-dump-log --print-data-log``.

`explain_file` chooses the format by the file's name and yields the lines; it reads a little at a time, so that a
segment of a gigabyte can be dumped. Kafka's tool calls a segment's first offset non-consecutive unless it is 0; here
only offsets that go back or leave gaps are reported. ``leader-epoch-checkpoint`` and the offset checkpoints are
dumped too.

Source: DumpLogSegments of Kafka 4.3.
"""

import re
from collections.abc import Callable, Iterator

from ottla.errors import CorruptRecordError, ProtocolError
from ottla.log.batch_walk import find_batch
from ottla.log.checkpoint import parse_checkpoint
from ottla.log.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from ottla.log.message_json import message_json
from ottla.log.offset_index import ENTRY as OFFSET_INDEX_ENTRY
from ottla.log.producer_state import NO_OFFSET, ProducerStateEntry, parse_snapshot_entries
from ottla.log.time_index import ENTRY as TIME_INDEX_ENTRY
from ottla.log.transaction_index import ENTRY as TRANSACTION_INDEX_ENTRY
from ottla.log.validation import RECORDS_SIZE_BYTES_MAX
from ottla.ports import Disk, File
from ottla.types import Offset
from ottla.wire.codec import Message
from ottla.wire.messages import metadata_log
from ottla.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from ottla.wire.records import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    ControlRecordType,
    LegacyMessage,
    Record,
    RecordBatch,
    parse_batch,
    parse_control_key,
    parse_end_transaction_value,
    read_message_set,
    read_records,
)

CHECKPOINT_SUFFIX = ".checkpoint"
TEXT_CHECKPOINT_SUFFIX = "-checkpoint"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"

_SNAPSHOT_NAME = re.compile(r"^(\d{20})-(\d{10})\.checkpoint$")
_LEGACY_SIZE_BYTES_MIN = 14

_CONTROL_MESSAGES: dict[ControlRecordType, tuple[str, type[Message]]] = {
    ControlRecordType.LEADER_CHANGE: ("LeaderChange: ", LeaderChangeMessage),
    ControlRecordType.SNAPSHOT_HEADER: ("SnapshotHeader ", SnapshotHeaderRecord),
    ControlRecordType.SNAPSHOT_FOOTER: ("SnapshotFooter ", SnapshotFooterRecord),
    ControlRecordType.KRAFT_VERSION: ("KRaftVersion ", KRaftVersionRecord),
    ControlRecordType.KRAFT_VOTERS: ("KRaftVoters ", VotersRecord),
}
_METADATA_RECORDS = {
    value.api_key: value
    for value in vars(metadata_log).values()
    if isinstance(value, type) and issubclass(value, Message) and value is not Message
}

RecordDecoder = Callable[[Record], tuple[str | None, str | None]]
"""Returns the text to print for a record's key and payload; None prints nothing."""


def decode_text(record: Record) -> tuple[str | None, str | None]:
    """Read key and value as UTF-8, the default of Kafka's tool."""
    key = None if record.key is None else record.key.decode("utf-8", "replace")
    value = None if record.value is None else record.value.decode("utf-8", "replace")
    return key, value


def decode_cluster_metadata(record: Record) -> tuple[str | None, str | None]:
    """Read a value of ``__cluster_metadata`` (``--cluster-metadata-decoder``): frame version, key, version, body."""
    value = record.value or b""
    if len(value) < 3 or value[0] != 1 or value[1] not in _METADATA_RECORDS:
        return None, f"Error at {record.offset}, skipping. no metadata record of Kafka 4.3 starts with {value[:3]!r}"
    kind, version = _METADATA_RECORDS[value[1]], value[2]
    try:
        message = kind.decode(value, version, 3)
    except ProtocolError as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    name = re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__).upper()
    return None, f'{{"type":"{name}","version":{version},"data":{message_json(message, version)}}}'


def explain_file(
    disk: Disk, path: str, *, print_data: bool = True, decoder: RecordDecoder = decode_text
) -> Iterator[str]:
    """Yield the lines for the file at ``path``, beginning with its kind.

    Args:
        disk: that has the file, and for an index the log next to it.
        path: of a file whose name is one of `file_names`.
        print_data: also explain the records in each batch, and show their keys and values.
        decoder: how these are shown.

    Raises:
        OSError: the file cannot be read.
        StorageError: a text checkpoint is malformed.
    """
    yield f"Dumping {path}"
    name = path.rpartition("/")[2]
    stem, _, kind = name.partition(".")
    file = disk.open(path, read_only=True)
    try:
        if name.endswith((LOG_SUFFIX, CHECKPOINT_SUFFIX)):
            yield _title(name)
            yield from explain_batches(file, print_data=print_data, decoder=decoder)
        elif name.endswith(TEXT_CHECKPOINT_SUFFIX):
            yield from explain_text_checkpoint(_read_all(file), path)
        elif f".{kind}" == SNAPSHOT_SUFFIX:
            yield from explain_snapshot(_read_all(file), path)
        elif f".{kind}" == TRANSACTION_INDEX_SUFFIX:
            yield from explain_transaction_index(_read_all(file))
        elif f".{kind}" in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            log = disk.open(path.removesuffix(f".{kind}") + LOG_SUFFIX, read_only=True)
            explain = explain_offset_index if f".{kind}" == INDEX_SUFFIX else explain_time_index
            try:
                yield from explain(_read_all(file), log, int(stem), path)
            finally:
                log.close()
        else:
            yield f"Ignoring unknown file {path}"
    finally:
        file.close()


def _title(name: str) -> str:
    if name.endswith(LOG_SUFFIX):
        return f"Log starting offset: {int(name.partition('.')[0])}"
    if name == BOOTSTRAP_CHECKPOINT:
        return "KRaft bootstrap snapshot"
    match = _SNAPSHOT_NAME.match(name)
    return f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2])}" if match else f"Snapshot {name}"


def _read_all(file: File) -> bytes:
    return file.pread(file.size_bytes(), 0)


# --- batches


def explain_batches(file: File, *, print_data: bool, decoder: RecordDecoder = decode_text) -> Iterator[str]:
    """Yield a line for each batch and each of its records; at the end, invalid bytes and non-consecutive offsets."""
    size_bytes = file.size_bytes()
    position = 0
    last_offset: Offset | None = None
    gaps: list[str] = []
    while (data := _batch_at(file, position, size_bytes)) is not None:
        explain = _explain_batch if data[MAGIC_POSITION] == MAGIC else _explain_legacy
        try:
            lines, offsets = explain(data, position, print_data, decoder)
        except CorruptRecordError as error:
            yield f"The batch at position {position} cannot be read: {error.message}"
            break
        yield from lines
        for offset in offsets:
            if last_offset is not None and offset != last_offset + 1:
                gaps.append(f"  {last_offset} is followed by {offset}")
            last_offset = offset
        position += len(data)
    if position < size_bytes:
        yield f"Found {size_bytes - position} invalid bytes at the end of {file.path.rpartition('/')[2]}"
    if gaps:
        yield f"Non-consecutive offsets in {file.path}"
        yield from gaps


def _batch_at(file: File, position: int, size_bytes: int) -> bytes | None:
    """Return the batch or message at ``position``; None when there is no whole one."""
    header = file.pread(HEADER_SIZE_BYTES, position)
    if len(header) <= MAGIC_POSITION:
        return None
    length = int.from_bytes(header[8:12], signed=True)
    magic = header[MAGIC_POSITION]
    length_min = HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES if magic == MAGIC else _LEGACY_SIZE_BYTES_MIN
    end = position + LOG_OVERHEAD_BYTES + length
    if magic > MAGIC or length < length_min or end > size_bytes:
        return None
    return file.pread(end - position, position)


def _explain_batch(
    data: bytes, position: int, print_data: bool, decoder: RecordDecoder
) -> tuple[list[str], list[Offset]]:
    batch = parse_batch(data)
    horizon_ms = batch.delete_horizon_ms
    lines = [
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.record_count} "
        f"baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence} producerId: {batch.producer_id} "
        f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.leader_epoch} "
        f"isTransactional: {_boolean(batch.is_transactional)} isControl: {_boolean(batch.is_control)} "
        f"deleteHorizonMs: {_optional(horizon_ms)} position: {position} "
        f"{batch.timestamp_type.label}: {batch.max_timestamp_ms} size: {batch.size_bytes} magic: {batch.magic} "
        f"compresscodec: {batch.compression.label} crc: {batch.crc} "
        f"isvalid: {_boolean(batch.compute_crc() == batch.crc)}"
    ]
    if not print_data:
        return lines, []
    records = read_records(batch, size_bytes_max=RECORDS_SIZE_BYTES_MAX)
    lines += [_explain_record(batch, record, decoder) for record in records]
    return lines, [record.offset for record in records]


def _explain_record(batch: RecordBatch, record: Record, decoder: RecordDecoder) -> str:
    sequence = -1
    if batch.base_sequence >= 0:
        sequence = (batch.base_sequence + record.offset - batch.base_offset) & 0x7FFFFFFF
    line = (
        f"| offset: {record.offset} {batch.timestamp_type.label}: {record.timestamp_ms} {_sizes(record)} "
        f"sequence: {sequence} headerKeys: [{','.join(key for key, _ in record.headers)}]"
    )
    return line + (_explain_control(record) if batch.is_control else _contents(record, decoder))


def _explain_control(record: Record) -> str:
    kind = parse_control_key(record.key)
    if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return f" endTxnMarker: {kind.name} coordinatorEpoch: {parse_end_transaction_value(record.value)}"
    if kind not in _CONTROL_MESSAGES:
        number = int.from_bytes((record.key or bytes(4))[2:4], signed=True)
        return f" controlType: UNKNOWN({number})"
    label, message_type = _CONTROL_MESSAGES[kind]
    value = record.value or b""
    try:
        # Each value starts with the version of its schema.
        version = int.from_bytes(value[:2], signed=True)
        return f" {label}{message_json(message_type.decode_from(value, version)[0], version)}"
    except ProtocolError as error:
        return f" {label}cannot be read: {error}"


def _explain_legacy(
    data: bytes, position: int, print_data: bool, decoder: RecordDecoder
) -> tuple[list[str], list[Offset]]:
    messages = list(read_message_set(data, size_bytes_max=RECORDS_SIZE_BYTES_MAX))
    last = messages[-1]
    label = _legacy_label(last)
    timestamp_ms = max(message.record.timestamp_ms for message in messages)
    lines = [
        f"offset: {last.record.offset} position: {position} {label}: {timestamp_ms} size: {last.size_bytes} "
        f"magic: {last.magic} compresscodec: {last.compression.label} crc: {last.crc} "
        f"isvalid: {_boolean(last.is_crc_valid)}"
    ]
    if print_data:
        lines += [
            f"| offset: {message.record.offset} {label}: {message.record.timestamp_ms} {_sizes(message.record)}"
            f"{_contents(message.record, decoder)}"
            for message in messages
        ]
    return lines, [message.record.offset for message in messages]


def _legacy_label(message: LegacyMessage) -> str:
    return "NoTimestampType" if message.timestamp_type is None else message.timestamp_type.label


def _sizes(record: Record) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    return f"keySize: {key_size} valueSize: {value_size}"


def _contents(record: Record, decoder: RecordDecoder) -> str:
    key, payload = decoder(record)
    return (f" key: {key}" if key is not None else "") + (f" payload: {payload}" if payload is not None else "")


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


# --- indexes


def explain_offset_index(data: bytes, log: File, base_offset: Offset, path: str) -> Iterator[str]:
    """Yield a line for each entry; at the end, those that do not point to the batch with their last offset."""
    if len(data) < OFFSET_INDEX_ENTRY.size:
        yield f"{path} is empty."
        return
    mismatches = []
    for relative_offset, position in OFFSET_INDEX_ENTRY.iter_unpack(_whole(data, OFFSET_INDEX_ENTRY.size)):
        offset = base_offset + relative_offset
        try:
            place = find_batch(log, -1, position=position, end_position=log.size_bytes())
        except CorruptRecordError:
            place = None
        found = -1 if place is None else place.last_offset
        if found != offset:
            mismatches.append(f"  Index offset: {offset}, log offset: {found}")
        yield f"offset: {offset} position: {position}"
    if mismatches:
        yield f"Mismatches in :{path}"
        yield from mismatches


def explain_time_index(data: bytes, log: File, base_offset: Offset, path: str) -> Iterator[str]:
    """Yield a line for each entry; at the end, those that contradict the log or are out of order."""
    mismatches, disorder, missing = [], [], []
    previous_ms, position, end_position = -1, 0, log.size_bytes()
    for timestamp_ms, relative_offset in TIME_INDEX_ENTRY.iter_unpack(_whole(data, TIME_INDEX_ENTRY.size)):
        offset = base_offset + relative_offset
        place = find_batch(log, offset, position=position, end_position=end_position)
        if place is None or place.last_offset != offset:
            missing.append(f"Indexed offset: {offset}, found log offset: {-1 if place is None else place.last_offset}")
        else:
            position = place.position
            found_ms = RecordBatch(log.pread(HEADER_SIZE_BYTES, position), 0).max_timestamp_ms
            if found_ms != timestamp_ms:
                mismatches.append(f"  Index timestamp: {timestamp_ms}, log timestamp: {found_ms}")
        if previous_ms >= timestamp_ms:
            disorder.append(f"  Index timestamp: {timestamp_ms}, Previously indexed timestamp: {previous_ms}")
        previous_ms = timestamp_ms
        yield f"timestamp: {timestamp_ms} offset: {offset}"
    for title, lines in (
        (f"Found timestamp mismatch in :{path}", mismatches),
        (f"Found out of order timestamp in :{path}", disorder),
        ("The following indexed offsets are not found in the log.", missing),
    ):
        if lines:
            yield title
            yield from lines


def explain_transaction_index(data: bytes) -> Iterator[str]:
    """Yield a line for each aborted transaction."""
    for version, producer_id, first_offset, last_offset, stable_offset in TRANSACTION_INDEX_ENTRY.iter_unpack(
        _whole(data, TRANSACTION_INDEX_ENTRY.size)
    ):
        yield (
            f"version: {version} producerId: {producer_id} firstOffset: {first_offset} lastOffset: {last_offset} "
            f"lastStableOffset: {stable_offset}"
        )


def _whole(data: bytes, entry_size_bytes: int) -> bytes:
    return data[: len(data) - len(data) % entry_size_bytes]


# --- snapshots and checkpoints


def explain_snapshot(data: bytes, path: str) -> Iterator[str]:
    """Yield a line for each entry, possibly several for one producer, or one line with the reason why it is corrupt."""
    try:
        entries = parse_snapshot_entries(data, path)
    except CorruptRecordError as error:
        yield error.message or str(error)
        return
    for entry in entries:
        yield _explain_producer(entry)


def _explain_producer(entry: ProducerStateEntry) -> str:
    first_offset = entry.current_transaction_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {_optional(None if first_offset == NO_OFFSET else first_offset)} "
        f"lastTimestamp: {entry.last_timestamp_ms}"
    )
    for batch in entry.batches:
        line += (
            f" firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
            f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp_ms}"
        )
    return line


def explain_text_checkpoint(data: bytes, path: str) -> Iterator[str]:
    """Yield a line for each entry of an offset or epoch checkpoint.

    Raises:
        StorageError: the file is malformed.
    """
    for fields in parse_checkpoint(data.decode("utf-8", "replace"), path):
        names = ("topic", "partition", "offset") if len(fields) == 3 else ("epoch", "startOffset")
        yield " ".join(f"{name}: {field}" for name, field in zip(names, fields, strict=False))
