"""Record batches, the contents of a log: parsed in place, walked, read, built and compressed.

`batch` is the broker's hot path (a view on a header); `record` reads the records inside; `builder` and `control`
write; `record_keys` is for compaction, `aborted_transactions` for readers of committed records; `compression` and
`crc32c` serve them; `legacy` reads the formats before it.
Errors are `ottla.errors.CorruptRecordError` and, for records that contradict their batch, `InvalidRecordError`.
"""

from ottla.wire.records.aborted_transactions import AbortedTransactions
from ottla.wire.records.batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    PRODUCER_EPOCH_MAX,
    RecordBatch,
    TimestampType,
    increment_sequence,
    iterate_batches,
    parse_batch,
)
from ottla.wire.records.builder import RecordBatchBuilder, build_batch, build_empty_batch, replace_records
from ottla.wire.records.compression import Compression, compress, decompress
from ottla.wire.records.contiguous_records import are_contiguous, find_newest_timestamp_delta
from ottla.wire.records.control import (
    ControlRecordType,
    build_end_transaction_marker,
    control_key,
    end_transaction_value,
    parse_control_key,
    parse_end_transaction_value,
)
from ottla.wire.records.crc32c import crc32c
from ottla.wire.records.legacy import LegacyMessage, read_message_set
from ottla.wire.records.record import (
    Header,
    Record,
    RecordsSummary,
    TooManyHeadersError,
    read_records,
    validate_plain_records,
    validate_records,
)
from ottla.wire.records.record_keys import RecordKey, build_retained_batch, read_record_keys
from ottla.wire.records.records_walk import RecordsWalk

__all__ = [
    "HEADER_SIZE_BYTES",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "MAGIC_POSITION",
    "NO_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "PRODUCER_EPOCH_MAX",
    "AbortedTransactions",
    "Compression",
    "ControlRecordType",
    "Header",
    "LegacyMessage",
    "Record",
    "RecordBatch",
    "RecordBatchBuilder",
    "RecordKey",
    "RecordsSummary",
    "RecordsWalk",
    "TimestampType",
    "TooManyHeadersError",
    "are_contiguous",
    "build_batch",
    "build_empty_batch",
    "build_end_transaction_marker",
    "build_retained_batch",
    "compress",
    "control_key",
    "crc32c",
    "decompress",
    "end_transaction_value",
    "find_newest_timestamp_delta",
    "increment_sequence",
    "iterate_batches",
    "parse_batch",
    "parse_control_key",
    "parse_end_transaction_value",
    "read_message_set",
    "read_record_keys",
    "read_records",
    "replace_records",
    "validate_plain_records",
    "validate_records",
]
