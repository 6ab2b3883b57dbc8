"""A client that keeps a ledger, run as a program in a pod: it sends numbers at a steady pace and reads them along.

Arguments: bootstrap servers, or the path of the settings that a User's Secret has for librdkafka; a topic; and a name
that distinguishes this ledger's records from those of others. When the file /tmp/stop appears it sends no more, reads
the topic from its beginning to its end, and prints what became of the numbers as one line of JSON:

============  =========================================================================================
acknowledged  how many numbers brokers said that they have
lost          those of them that are not in the topic
doubled       numbers that are in the topic more than once, and were not sent twice by the client (`SkippedSequences`)
sent_twice    numbers that are in the topic more than once because of the client
unread        acknowledged numbers that the group's consumer, which read along, never saw
failed        numbers with an error or without a delivery report, with the reason
errors        further errors that the client cannot recover from by itself
stall_s       the longest time between two acknowledgements
============  =========================================================================================
"""

import collections
import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

PER_SECOND = 100
STOP = Path("/tmp/stop")
READ_TIMEOUT_S = 120
# A broker that restarts closes connections; the client finds another by itself.
PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._WAIT_COORD,
}


class SkippedSequences(logging.Handler):
    """Which records librdkafka may have sent twice, by its own account.

    When a leader moves, it may send a sequence number to the new one before the old one has rejected the number before.
    It detects that, takes a new epoch, and sends the unacknowledged records again. Records that are in the log already
    are then there twice: brokers detect duplicates by epoch. Its issue 4953, open in 2.16; with JVM Kafka 4.3 it
    doubled 23 of 87,316 records while partitions moved.

    Attributes:
        in_doubt: unacknowledged numbers at such a moment.

    Args of the constructor:
        unacknowledged: returns the numbers that were sent and have no delivery report.
    """

    CONFIG: ClassVar[dict[str, Any]] = {"debug": "eos", "log_level": 7}

    def __init__(self, unacknowledged: Callable[[], set[int]]) -> None:
        super().__init__()
        self.in_doubt: set[int] = set()
        self._unacknowledged = unacknowledged
        self.logger = logging.Logger("librdkafka")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if "skipped sequence numbers" in record.getMessage():
            self.in_doubt |= self._unacknowledged()


class Ledger:
    """The numbers of one topic; ``where`` is the first argument."""

    def __init__(self, where: str, topic: str, name: str) -> None:
        self.topic = topic
        self.name = name
        self.acknowledged: set[int] = set()
        self.read_along: set[int] = set()
        self.failed: dict[int, str] = {}
        self.sent = 0
        self.skipped = SkippedSequences(lambda: set(range(self.sent)) - self.acknowledged - self.failed.keys())
        self.errors: set[str] = set()
        self.stall_s = 0.0
        self._last_s: float | None = None
        access = json.loads(Path(where).read_text()) if where.startswith("/") else {"bootstrap.servers": where}
        self._common: dict[str, Any] = {**access, "log_level": 0, "error_cb": self._on_error}
        self._done = threading.Event()

    def write(self) -> None:
        """Send numbers until the file exists, and wait for every delivery report."""
        settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 120_000}
        producer = Producer(self._common | settings | SkippedSequences.CONFIG, logger=self.skipped.logger)
        while not STOP.exists():
            producer.produce(self.topic, f"{self.name}-{self.sent}", str(self.sent), on_delivery=self._on_delivery)
            self.sent += 1
            producer.poll(1 / PER_SECOND)
        for left in range(self.sent - producer.flush(150), self.sent):
            self.failed.setdefault(left, "no answer")

    def follow(self) -> None:
        """Read as a member of a group until everything that was acknowledged was seen, or time is up."""
        settings = {"group.id": f"ledger-{self.name}", "auto.offset.reset": "earliest"}
        consumer = Consumer(self._common | settings)
        consumer.subscribe([self.topic])
        deadline_s = None
        while not self._done.is_set() or not self.acknowledged <= self.read_along:
            if self._done.is_set():
                deadline_s = deadline_s or time.monotonic() + READ_TIMEOUT_S
                if time.monotonic() > deadline_s:
                    break
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.read_along.update(self._numbers(message))
            elif message is not None:
                self._on_error(message.error())
        consumer.close()

    def read_all(self) -> collections.Counter[int]:
        """Return how often each number is in the topic."""
        consumer = Consumer(self._common | {"group.id": f"audit-{self.name}", "enable.auto.commit": False})
        found: collections.Counter[int] = collections.Counter()
        partitions = [
            TopicPartition(self.topic, index, 0)
            for index in consumer.list_topics(self.topic, timeout=60).topics[self.topic].partitions
        ]
        ends = {it.partition: consumer.get_watermark_offsets(it, timeout=60)[1] for it in partitions}
        consumer.assign(partitions)
        missing, deadline_s = {index for index, end in ends.items() if end}, time.monotonic() + READ_TIMEOUT_S
        while missing and time.monotonic() < deadline_s:
            for message in consumer.consume(1_000, timeout=1):
                if message.error() is not None:
                    self._on_error(message.error())
                    continue
                found.update(self._numbers(message))
                if message.offset() >= ends[message.partition()] - 1:
                    missing.discard(message.partition())
        consumer.close()
        self.errors |= {f"partition {index} was not read to its end" for index in missing}
        return found

    def keep(self) -> dict[str, Any]:
        """Write and follow; return what is described above."""
        follower = threading.Thread(target=self.follow, daemon=True)
        follower.start()
        self.write()
        self._done.set()
        follower.join()
        found = self.read_all()
        doubled = {number for number, count in found.items() if count > 1}
        return {
            "acknowledged": len(self.acknowledged),
            "lost": sorted(self.acknowledged - found.keys()),
            "doubled": sorted(doubled - self.skipped.in_doubt),
            "sent_twice": sorted(doubled & self.skipped.in_doubt),
            "unread": sorted(self.acknowledged - self.read_along),
            "failed": self.failed,
            "errors": sorted(self.errors),
            "stall_s": round(self.stall_s, 1),
        }

    def _numbers(self, message: Any) -> list[int]:
        """Return the number of a record of this ledger; nothing of another's."""
        name, _, number = message.value().decode().partition("-")
        return [int(number)] if name == self.name else []

    def _on_delivery(self, error: KafkaError | None, message: Any) -> None:
        (number,) = self._numbers(message)
        if error is not None:
            self.failed[number] = str(error)
            return
        now_s = time.monotonic()
        self.acknowledged.add(number)
        self.stall_s = max(self.stall_s, now_s - (self._last_s or now_s))
        self._last_s = now_s

    def _on_error(self, error: KafkaError) -> None:
        if error.code() not in PASSING:
            self.errors.add(str(error))


if __name__ == "__main__":
    print(json.dumps(Ledger(*sys.argv[1:4]).keep()))
