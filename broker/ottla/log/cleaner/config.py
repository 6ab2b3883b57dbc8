"""The settings of the log cleaner of one node: ``log.cleaner.*``; those of topics are in `LogConfig`."""

from dataclasses import dataclass

UNLIMITED_BYTES_PER_SECOND = 1.7976931348623157e308


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """Settings of the cleaner; the defaults are Kafka 4.3's.

    Attributes:
        is_enabled: log.cleaner.enable.
        threads: log.cleaner.threads: how many logs are cleaned at a time; 0 for none.
        backoff_ms: log.cleaner.backoff.ms: how long the cleaner waits if no log needs it.
        dedupe_buffer_bytes: log.cleaner.dedupe.buffer.size: memory of all offset maps together.
        load_factor: log.cleaner.io.buffer.load.factor: share of an offset map that may be used.
        io_buffer_bytes: log.cleaner.io.buffer.size: memory of all reads and writes together.
        io_bytes_per_second_max: log.cleaner.io.max.bytes.per.second: limit of all reads and writes together.
    """

    is_enabled: bool = True
    threads: int = 1
    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 * 1024
    io_bytes_per_second_max: float = UNLIMITED_BYTES_PER_SECOND

    @property
    def map_buffer_bytes(self) -> int:
        """Return the share of one offset map."""
        return self.dedupe_buffer_bytes // max(self.threads, 1)

    @property
    def buffer_size_bytes(self) -> int:
        """Return the share of one thread's read buffer, and of its write buffer."""
        return max(1, self.io_buffer_bytes // max(self.threads, 1) // 2)
