"""Settings of the transaction coordinator; keys and defaults are Kafka's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Limits and times, by the keys of ``server.properties``."""

    max_timeout_ms: int = 900_000
    """``transaction.max.timeout.ms``"""
    id_expiration_ms: int = 604_800_000
    """``transactional.id.expiration.ms``"""
    expiry_check_interval_ms: int = 3_600_000
    """``transaction.remove.expired.transaction.cleanup.interval.ms``"""
    write_timeout_ms: int = 5_000
    """How long a response waits for its record to be committed."""
