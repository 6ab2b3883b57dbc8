"""All settings of the pipeline, with the reason for each default."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass, field

AVAILABLE_NOW = "available-now"


def key_value(text: str) -> tuple[str, str]:
    """Read a command line's ``KEY=VALUE``; for argparse."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ArgumentTypeError(f"{text!r}: write KEY=VALUE")
    return key, value


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Settings of one pipeline: where it reads, where it writes, how it runs."""

    bootstrap_servers: str
    table_root: str
    """Folder or URI of the Delta tables ``bronze``, ``silver`` and ``gold``."""
    checkpoint_root: str
    """Folder or URI of the streaming checkpoints; belongs to ``table_root``: keep or delete both together."""

    topic: str = "flights"
    dead_letter_topic: str = "flights-dead-letter"
    trigger: str = AVAILABLE_NOW
    """``available-now``: everything there is, then end. Else an interval such as ``10 seconds``: run until stopped."""
    lateness_minutes_max: int = 120
    """A record that arrived more than this after its event time goes to the dead-letter topic."""
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    """Bounds the memory of a batch when a long backlog is read; None reads all that is there in one."""
    kafka_options: Mapping[str, str] = field(default_factory=dict)
    """The Kafka client's own options without Spark's ``kafka.`` prefix, for source and sink: security and the like."""

    master: str | None = None
    """Spark's master; None uses that of spark-submit."""
    parallelism: int = 2
    """Partitions of each shuffle and of Delta's log state: the number of cores (Spark's 200 and Delta's 50 hurt)."""
    driver_memory: str = "2g"
    """Java heap when this process starts Spark itself; spark-submit has its own option."""

    def table(self, name: str) -> str:
        return f"{self.table_root.rstrip('/')}/{name}"

    def checkpoint(self, name: str) -> str:
        return f"{self.checkpoint_root.rstrip('/')}/{name}"

    def trigger_options(self) -> dict[str, str | bool]:
        """Return the arguments of ``DataStreamWriter.trigger``."""
        return {"availableNow": True} if self.trigger == AVAILABLE_NOW else {"processingTime": self.trigger}

    def client_options(self) -> dict[str, str]:
        """Return the options that every Kafka source and sink of the pipeline shares."""
        prefixed = {f"kafka.{key}": value for key, value in self.kafka_options.items()}
        return {"kafka.bootstrap.servers": self.bootstrap_servers, **prefixed}
