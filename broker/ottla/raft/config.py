"""The quorum's settings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """The defaults are Kafka 4.3's.

    Attributes:
        segment_size_bytes_max: metadata.log.segment.bytes.
        segment_ms: metadata.log.segment.ms.
        retention_size_bytes: metadata.max.retention.bytes, log and snapshots together; -1 keeps everything.
        retention_ms: metadata.max.retention.ms; -1 keeps everything.
    """

    segment_size_bytes_max: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_size_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
