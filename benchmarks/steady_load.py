"""A producer in a process of its own that sends at a steady rate and remembers how long each record waited.

librdkafka, idempotent, acks=all; records go to the partitions round-robin. A record waits from produce() until
librdkafka has its acknowledgement.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from benchmarks import background_process
from confluent_kafka import KafkaError, Message, Producer

FLUSH_TIMEOUT_S = 90
VALUE = b"x" * 100


@dataclass(frozen=True)
class Outcome:
    """Outcome of the records, in the order of the acknowledgements; times are of ``time.perf_counter``."""

    sent_at_s: list[float]
    waited_ms: list[float]
    partitions: list[int]
    errors: list[str]
    debug: list[tuple[float, str]]
    """What librdkafka said, and when."""

    def since(self, moment_s: float) -> list[float]:
        """How long the records waited, in ms, that were sent after ``moment_s`` (of ``time.perf_counter``)."""
        return [ms for at_s, ms in zip(self.sent_at_s, self.waited_ms, strict=True) if at_s >= moment_s]

    def longest_wait_s(self, moment_s: float) -> float:
        return max(self.since(moment_s)) / 1000


class _Listener(logging.Handler):
    """Keeps the log lines of librdkafka."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append((time.perf_counter(), record.getMessage()))


@dataclass(kw_only=True)
class Load:
    """The running producer; its outcome is known once it was stopped."""

    work: background_process.BackgroundProcess[Outcome]
    outcomes: list[Outcome] = field(default_factory=list)

    def stop(self) -> Outcome:
        """Stop sending, wait for all delivery reports, and return the outcome."""
        if not self.outcomes:
            self.outcomes.append(self.work.stop())
        return self.outcomes[0]


@contextmanager
def running(
    bootstrap_server: str, topic: str, *, partitions: int, rate_per_s: int, linger_ms: int, debug: str | None = None
) -> Iterator[Load]:
    """Send from now on; returns control when the first record of every partition was acknowledged.

    ``debug`` has the contexts that librdkafka logs.
    """
    settings = {"bootstrap.servers": bootstrap_server, "linger.ms": linger_ms, "log_level": 0}
    if debug is not None:
        settings |= {"debug": debug, "log_level": 7}
    with background_process.running(_send, settings, topic, partitions, rate_per_s) as work:
        yield Load(work=work)


def _send(settings: dict[str, object], topic: str, partitions: int, rate_per_s: int, pipe: Connection) -> None:
    listener = _Listener()
    logger = logging.Logger("librdkafka")
    logger.addHandler(listener)
    producer = Producer(settings | {"acks": "all", "enable.idempotence": True}, logger=logger)
    partition_of: list[int] = []
    sent_at_s: list[float] = []
    waited_ms: list[float] = []
    errors: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(str(error))
            return
        waited_s = message.latency()
        partition_of.append(message.partition())
        sent_at_s.append(time.perf_counter() - waited_s)
        waited_ms.append(waited_s * 1000)

    for partition in range(partitions):
        producer.produce(topic, VALUE, partition=partition, on_delivery=delivered)
    producer.flush(FLUSH_TIMEOUT_S)
    pipe.send("ready")
    started, number = time.perf_counter(), 0
    while number % 100 or not pipe.poll():
        while (ahead_s := started + number / rate_per_s - time.perf_counter()) > 0:
            producer.poll(0)
            time.sleep(min(ahead_s, 0.001))
        try:
            producer.produce(topic, VALUE, partition=number % partitions, on_delivery=delivered)
            number += 1
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)
    left = producer.flush(FLUSH_TIMEOUT_S)
    errors += [f"no delivery report in {FLUSH_TIMEOUT_S} s"] * left
    pipe.send(Outcome(sent_at_s, waited_ms, partition_of, errors, listener.heard))
