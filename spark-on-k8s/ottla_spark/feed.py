"""Stream the flights into a Kafka topic with confluent-kafka, and count the acknowledged records.

Usage: ``python -m ottla_spark.feed --bootstrap-servers HOST:PORT [--topic flights] [--dirt none|duplicates=N,...]``
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ottla_spark import dirt as dirty
from ottla_spark.flights import Event, FlightsMissingError, events
from ottla_spark.settings import key_value

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

# rows and value bytes that the broker has acknowledged so far
Progress = Callable[[int, int], None]

_PRODUCER = {
    # Kafka's own partitioner, so that a key lands where a Java producer would put it.
    "partitioner": "murmur2_random",
    "enable.idempotence": True,
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 262_144,
    "queue.buffering.max.messages": 50_000,
    "log_level": 3,  # errors only; failures of records are delivery reports
}
_PROGRESS_EVERY_ROWS = 2_000


class FeedError(RuntimeError):
    """The broker did not acknowledge every record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """Acknowledged records: ``size_bytes`` counts keys and values before compression."""

    rows: int
    size_bytes: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class _Deliveries:
    on_progress: Progress | None
    rows: int = 0
    size_bytes: int = 0
    failure: str | None = None

    def settle(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failure = self.failure or f"partition {message.partition()}: {error}"
            return
        self.rows += 1
        self.size_bytes += len(message.value()) + len(message.key())
        if self.on_progress and self.rows % _PROGRESS_EVERY_ROWS == 0:
            self.on_progress(self.rows, self.size_bytes)


def feed(
    records: Iterable[Event],
    *,
    bootstrap_servers: str,
    topic: str,
    on_progress: Progress | None = None,
    producer_options: Mapping[str, str | int | bool] | None = None,
    flush_seconds_max: float = 60.0,
) -> Fed:
    """Produce ``records`` in order (per partition) and wait until every one is acknowledged.

    Records are consumed lazily, at most 50,000 are in flight. ``on_progress`` is called about every 2,000 acknowledged
    rows and once at the end; ``producer_options`` are librdkafka's, on top of this module's; ``flush_seconds_max``
    bounds the wait for the last acknowledgements.

    Raises:
        FeedError: a record was rejected or not acknowledged in time; has the number of acknowledged ones.
    """
    from confluent_kafka import Producer

    started = time.monotonic()
    deliveries = _Deliveries(on_progress)
    producer = Producer({"bootstrap.servers": bootstrap_servers, **_PRODUCER, **(producer_options or {})})
    sent = 0
    for key, value, timestamp_ms in records:
        _enqueue(producer, topic, Event(key, value, timestamp_ms), deliveries)
        sent += 1
        if deliveries.failure:
            break
    unsettled = producer.flush(flush_seconds_max)
    if deliveries.failure or unsettled or deliveries.rows != sent:
        producer.purge()
        reason = deliveries.failure or f"{unsettled} still waiting after {flush_seconds_max:g} s"
        raise FeedError(
            f"{bootstrap_servers} acknowledged {deliveries.rows} of {sent} records for topic {topic}: {reason}; "
            "check that the broker runs and the topic exists, then produce to a new topic or delete this one"
        )
    if on_progress:
        on_progress(deliveries.rows, deliveries.size_bytes)
    return Fed(rows=deliveries.rows, size_bytes=deliveries.size_bytes, seconds=time.monotonic() - started)


def _enqueue(producer: Producer, topic: str, event: Event, deliveries: _Deliveries) -> None:
    while deliveries.failure is None:
        try:
            producer.produce(topic, event.value, event.key, timestamp=event.timestamp_ms, on_delivery=deliveries.settle)
        except BufferError:
            producer.poll(0.1)  # the queue is full: wait for acknowledgements
        else:
            producer.poll(0)
            return


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; print one JSON object and return 0, or a message on stderr and 1."""
    parser = argparse.ArgumentParser(prog="python -m ottla_spark.feed", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT[,...]")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--dirt", default=str(dirty.DEMO), help="'none' or counts; default %(default)s")
    parser.add_argument("--producer-option", action="append", default=[], type=key_value, metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    try:
        dirt = dirty.Dirt.parse(options.dirt)
        fed = feed(
            dirty.stream(events(), dirt),
            bootstrap_servers=options.bootstrap_servers,
            topic=options.topic,
            producer_options=dict(options.producer_option),
        )
    except (FeedError, FlightsMissingError, dirty.DirtError) as failure:
        sys.stderr.write(f"error: {failure}\n")
        return 1
    sys.stdout.write(json.dumps({"topic": options.topic, "dirt": asdict(dirt), **asdict(fed)}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
