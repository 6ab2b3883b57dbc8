"""A producer that keeps a ledger of what a cluster of processes acknowledged, and the reader that checks it."""

import collections
import threading
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from ledger_client import SkippedSequences

ACKNOWLEDGE_TIMEOUT_S = 60
QUIET = {"log_level": 0}
"""Nodes are killed in these tests, and librdkafka would log every lost connection."""


class Ledger:
    """A producer that numbers its records, knows which were acknowledged, and how long each partition had none.

    Between `start` and `stop` a thread sends at a steady rate, independently of the test.
    """

    def __init__(self, bootstrap: str, topic: str, *, per_second: int = 200, **config: str) -> None:
        self.topic = topic
        self.acknowledged: set[int] = set()
        self.failed: dict[int, str] = {}
        self.stalls_s: dict[int, float] = {}
        """By partition: the longest time from one acknowledged record to the next."""
        self._per_second = per_second
        self._sent = 0
        self._last_acks_s: dict[int, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send_steadily, daemon=True)
        settings = {"acks": "all", "enable.idempotence": "true", "linger.ms": "1", "message.timeout.ms": "60000"}
        self._skipped = SkippedSequences(lambda: set(range(self._sent)) - self.acknowledged - self.failed.keys())
        self._producer = Producer(
            {"bootstrap.servers": bootstrap}
            | settings
            | {key.replace("_", "."): config[key] for key in config}
            | SkippedSequences.CONFIG,
            logger=self._skipped.logger,
        )

    def start(self) -> None:
        self._thread.start()

    def wait_acknowledged(self, partitions: int) -> None:
        """Wait until each partition has acknowledged a record."""
        deadline = time.monotonic() + ACKNOWLEDGE_TIMEOUT_S
        while len(self.stalls_s) < partitions:
            assert time.monotonic() < deadline, f"only partitions {sorted(self.stalls_s)} acknowledge records"
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop sending, and wait for the delivery report of every record."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        left = self._producer.flush(90)
        assert left == 0, f"{left} records have no answer"

    def check(self, found: Iterable[int]) -> None:
        """Compare the records in the topic, or read from it, with the acknowledged ones: none lost or duplicated.

        Duplicates that the client reports to have sent twice are not counted against the broker.
        """
        counts = collections.Counter(found)
        assert self.failed == {}
        assert sorted(self.acknowledged - counts.keys()) == []
        doubled = {number for number, count in counts.items() if count > 1}
        assert sorted(doubled - self._skipped.in_doubt) == []

    def send(self, count: int = 1) -> None:
        for _ in range(count):
            number = self._sent
            self._sent += 1
            self._producer.produce(
                self.topic,
                str(number).encode(),
                key=str(number).encode(),
                on_delivery=lambda error, message, number=number: self._on_delivery(number, error, message),
            )

    def _send_steadily(self) -> None:
        while not self._stopping.is_set():
            self.send()
            self._producer.poll(1 / self._per_second)

    def _on_delivery(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed[number] = str(error)
            return
        now_s, partition = time.monotonic(), message.partition()
        assert partition is not None
        self.acknowledged.add(number)
        stall_s = now_s - self._last_acks_s.get(partition, now_s)
        self.stalls_s[partition] = max(self.stalls_s.get(partition, 0.0), stall_s)
        self._last_acks_s[partition] = now_s


def position_and_number(message: Message) -> tuple[int, int, int]:
    """Return partition, offset and number of a record that a ledger has sent."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert isinstance(value, bytes)
    return partition, offset, int(value)


def read_all(
    bootstrap: str, topic: str, partitions: int, *, timeout_s: float = 60, client: dict[str, str] | None = None
) -> list[int]:
    """Return the numbers in every partition up to its end, in any order between partitions."""
    settings = {"group.id": "ledger", "enable.auto.commit": "false", **(client or {})}
    consumer = Consumer({"bootstrap.servers": bootstrap, **QUIET, **settings})
    try:
        ends = {
            index: consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30)[1]
            for index in range(partitions)
        }
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        missing = {index for index, end in ends.items() if end > 0}
        numbers = []
        deadline = time.monotonic() + timeout_s
        while missing:
            assert time.monotonic() < deadline, f"partitions {missing} were not read to their ends"
            message: Message | None = consumer.poll(1)
            if message is None or message.error() is not None:
                continue
            partition, offset, number = position_and_number(message)
            numbers.append(number)
            if offset >= ends[partition] - 1:
                missing.discard(partition)
        return numbers
    finally:
        consumer.close()
