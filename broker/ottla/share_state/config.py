"""Settings of the share coordinator; keys and defaults are Kafka's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateConfig:
    """Limits and times, by the keys of ``server.properties``."""

    update_records_per_snapshot: int = 500
    """``share.coordinator.snapshot.update.records.per.snapshot``"""
    cold_snapshot_interval_ms: int = 300_000
    """``share.coordinator.cold.partition.snapshot.interval.ms``"""
    prune_interval_ms: int = 300_000
    """``share.coordinator.state.topic.prune.interval.ms``"""
    write_timeout_ms: int = 5_000
    """``share.coordinator.write.timeout.ms``: how long a response waits for its record to be committed."""
