"""The storage configuration of one partition's log, resolved from the topic configuration and typed.

`config/` parses and documents the keys; the log reads this value. A change of a topic's configuration creates a new
`LogConfig` for `PartitionLog.update_config`.
"""

from dataclasses import dataclass, field
from typing import Literal

from ottla.errors import ConfigurationError

DAY_MS = 24 * 60 * 60 * 1000
GIBIBYTE = 1024 * 1024 * 1024
UNLIMITED = -1
LONG_MAX = (1 << 63) - 1
SEGMENT_BYTES_MAX = (1 << 31) - 1
"""Positions in an index are int32."""

INDEX_INTERVAL_BYTES_MAX = 64 * 1024
"""Of batches without an index entry a fetch walks the headers: in so many bytes it finds 900 in 0.5 ms at most."""
OFFSET_INDEX_ENTRY_SIZE_BYTES = 8
TIME_INDEX_ENTRY_SIZE_BYTES = 12

CompressionType = Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
TimestampType = Literal["CreateTime", "LogAppendTime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """One topic's storage settings; the defaults are Kafka 4.3's.

    Attributes:
        segment_bytes: a segment is rolled before it would grow above this.
        segment_ms: a segment is rolled once its records span more than this.
        segment_jitter_ms: taken from ``segment_ms`` for this partition; the owner draws it from
            ``segment.jitter.ms`` so that segments do not roll all at once.
        segment_index_bytes: capacity of one index file; a full index rolls the segment.
        index_interval_bytes: an index entry is added after more than this many bytes of records, or more than 64 KiB:
            readers walk the batches between two entries.
        retention_ms: delete segments whose newest record is older; -1 keeps for ever.
        retention_bytes: delete oldest segments while the log stays at least this large; -1 keeps everything.
        cleanup_policy: "delete" and/or "compact"; "compact" makes every record need a key. Empty keeps everything.
        max_message_bytes: limit of one record batch, as it is stored.
        message_timestamp_type: whether the producer's or the broker's clock stamps records.
        message_timestamp_before_max_ms: how old a producer's timestamp may be.
        message_timestamp_after_max_ms: how far in the future a producer's timestamp may be.
        compression_type: "producer" keeps batches as they come; any other re-encodes batches that differ.
        compression_gzip_level, compression_lz4_level, compression_zstd_level: for batches that are re-encoded.
        file_delete_delay_ms: a deleted file keeps its bytes for this long, for reads that are under way.
        flush_messages: fsync after this many records, before the last of them is confirmed.
        flush_ms: fsync records at most this long after they were appended.
        ottla_acks_fsync: confirm a record, as leader or as follower, only once it is on stable storage.
        min_insync_replicas: read by replication, not by the log; kept here because it is a topic setting.
        unclean_leader_election_enable: read by the controller; as above.
        preallocate: reserve a new segment's bytes on creation. Accepted; Ottla's appends do not need it.
        delete_retention_ms: how long compaction keeps tombstones.
        min_cleanable_dirty_ratio: how much of the log must be uncompacted before compaction runs.
        min_compaction_lag_ms: records younger than this are not compacted.
        max_compaction_lag_ms: records older than this are compacted whatever the ratio.
    """

    segment_bytes: int = GIBIBYTE
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = UNLIMITED
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_type: TimestampType = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    compression_type: CompressionType = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    ottla_acks_fsync: bool = False
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    preallocate: bool = False
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX

    # Derived once, because every append reads them.
    is_compacted: bool = field(init=False, repr=False, compare=False)
    is_deleted: bool = field(init=False, repr=False, compare=False)
    awaits_syncs: bool = field(init=False, repr=False, compare=False)
    """Whether records may have to be on stable storage before they are confirmed."""
    validates_records: bool = field(init=False, repr=False, compare=False)
    """Whether the records of a batch must be validated, not only its header."""
    roll_ms: int = field(init=False, repr=False, compare=False)
    """segment.ms less the jitter; a compacted log rolls early enough for ``max_compaction_lag_ms``."""
    index_entry_interval_bytes: int = field(init=False, repr=False, compare=False)
    """``index_interval_bytes`` as the log keeps it."""
    offset_index_entries_max: int = field(init=False, repr=False, compare=False)
    time_index_entries_max: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        unknown = self.cleanup_policy - {"delete", "compact"}
        if unknown:
            raise ConfigurationError(f"cleanup.policy has {sorted(unknown)}; it may hold 'delete' and 'compact'")
        if not 0 < self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise ConfigurationError(f"segment.bytes is {self.segment_bytes}; it may be 1 to {SEGMENT_BYTES_MAX}")

        is_compacted = "compact" in self.cleanup_policy
        limits_age = self.message_timestamp_before_max_ms != LONG_MAX and self.message_timestamp_type == "CreateTime"
        for name, value in (
            ("is_compacted", is_compacted),
            ("is_deleted", "delete" in self.cleanup_policy),
            ("awaits_syncs", self.ottla_acks_fsync or self.flush_messages != LONG_MAX),
            ("validates_records", is_compacted or limits_age),
            ("roll_ms", self._roll_ms(is_compacted=is_compacted)),
            ("index_entry_interval_bytes", min(self.index_interval_bytes, INDEX_INTERVAL_BYTES_MAX)),
            ("offset_index_entries_max", self.segment_index_bytes // OFFSET_INDEX_ENTRY_SIZE_BYTES),
            ("time_index_entries_max", self.segment_index_bytes // TIME_INDEX_ENTRY_SIZE_BYTES),
        ):
            object.__setattr__(self, name, value)

    def _roll_ms(self, *, is_compacted: bool) -> int:
        """Only segments that are not active are compacted (KIP-354)."""
        roll_ms = self.segment_ms
        if is_compacted and self.max_compaction_lag_ms > 0:
            roll_ms = min(roll_ms, self.max_compaction_lag_ms)
        return roll_ms - min(self.segment_jitter_ms, roll_ms)
