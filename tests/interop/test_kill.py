"""kill -9 at random moments under load: after the restart every acknowledged record is there, and the files are sound.

An idempotent producer's records are there exactly once, though it never learns which of its last requests arrived.
"""

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ROUNDS = 5
PARTITIONS = 3
SEED = 9
SILENT = {"log_level": 0}
"""librdkafka writes a line to stderr for each attempt to reach a node that is down."""


class Writer:
    """Produces numbered records from a thread of its own until it is stopped, and keeps the acknowledged ones."""

    def __init__(self, bootstrap: str, topic: str, name: str, *, idempotent: bool) -> None:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 2, "batch.num.messages": 100}
        settings |= {"reconnect.backoff.max.ms": 500, **SILENT}
        settings |= {"enable.idempotence": True, "acks": "all"} if idempotent else {"acks": 1}
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        self.failed: list[str] = []
        self._producer = Producer(settings)
        self._topic = topic
        self._name = name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            value = b"%s-%08d-%s" % (self._name.encode(), number, b"x" * 200)
            try:
                self._producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=self._on_delivery)
                number += 1
            except BufferError:
                self._producer.poll(0.01)
            if number % 50 == 0:
                self._producer.poll(0.002)

    def _on_delivery(self, error: Any, message: Message) -> None:
        if error is None:
            self.acknowledged[message.value()] = (message.partition(), message.offset())
        else:
            self.failed.append(str(error))

    def stop(self) -> None:
        """Send all queued records, and wait for the delivery report of each."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(120) == 0


@pytest.fixture
def node(new_node: Callable[[], Any]) -> Iterator[Any]:
    node = new_node()
    admin = AdminClient({"bootstrap.servers": node.bootstrap, **SILENT})
    for name in ("plain", "idempotent"):
        topic = NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, config={"segment.bytes": str(2**20)})
        admin.create_topics([topic])[name].result(timeout=30)
    yield node
    node.kill()


def read_all(bootstrap: str, topic: str) -> list[Message]:
    """Every record of the topic, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "checker", "enable.auto.commit": False, **SILENT})
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    missing = sum(end_offset(consumer, place) for place in places)
    consumer.assign(places)
    records: list[Message] = []
    deadline = time.monotonic() + 120
    while len(records) < missing:
        assert time.monotonic() < deadline, f"{len(records)} of {missing} records came"
        for message in consumer.consume(1000, timeout=0.5):
            assert message.error() is None, message.error()
            records.append(message)
    consumer.close()
    return records


def end_offset(consumer: Consumer, place: TopicPartition) -> int:
    for _ in range(100):
        try:
            return int(consumer.get_watermark_offsets(place, timeout=30)[1])
        except KafkaException:
            time.sleep(0.1)
    return int(consumer.get_watermark_offsets(place, timeout=30)[1])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_acknowledged_record_outlives_a_kill(node: Any, record_property: Callable[..., None]) -> None:
    random_source = random.Random(SEED)
    writers = {
        "plain": Writer(node.bootstrap, "plain", "plain", idempotent=False),
        "idempotent": Writer(node.bootstrap, "idempotent", "idem", idempotent=True),
    }
    try:
        for _ in range(ROUNDS):
            time.sleep(random_source.uniform(0.3, 2.0))
            node.kill()
            node.start()
    finally:
        for writer in writers.values():
            writer.stop()

    for topic, writer in writers.items():
        places = {(record.partition(), record.offset()): record.value() for record in read_all(node.bootstrap, topic)}
        lost = [value[:14] for value, place in writer.acknowledged.items() if places.get(place) != value]
        record_property(f"{topic}_acknowledged", len(writer.acknowledged))
        assert lost == [], f"{len(lost)} acknowledged records of {topic} are not where they were acknowledged"
        assert len(writer.acknowledged) > 1000
        if topic == "idempotent":
            assert writer.failed == []
            assert Counter(places.values()).most_common(1)[0][1] == 1, "a record is there twice"
            in_order = [value for (partition, _), value in sorted(places.items()) if partition == 0]
            assert in_order == sorted(in_order), "records changed places"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_files_are_valid_after_a_kill(node: Any, kafka_tool: Callable[..., Any]) -> None:
    random_source = random.Random(SEED + 1)
    for _ in range(ROUNDS):
        writer = Writer(node.bootstrap, "plain", "files", idempotent=False)
        time.sleep(random_source.uniform(0.5, 1.5))
        node.kill()
        node.start()
        writer.stop()
        node.stop()

        for folder in sorted(node.data_dir.glob("plain-*")):
            check_files(folder, kafka_tool)
        node.start()


def check_files(folder: Path, kafka_tool: Callable[..., Any]) -> None:
    """Check with kafka-dump-log that every batch is valid, offsets have no gap, and every index matches."""
    files = sorted(str(path) for suffix in ("log", "index", "timeindex") for path in folder.glob(f"*.{suffix}"))
    dumped = kafka_tool("kafka-dump-log", "--files", ",".join(files), "--index-sanity-check")
    spans = [
        (int(found[1]), int(found[2]))
        for line in dumped.lines
        if (found := re.match(r"baseOffset: (\d+) lastOffset: (\d+) ", line))
    ]
    spans.sort()
    assert "isvalid: false" not in dumped.stdout
    assert "passed sanity check" in dumped.stdout
    assert spans, folder
    assert all(last + 1 == base for (_, last), (base, _) in pairwise(spans)), folder
    mismatches = kafka_tool("kafka-dump-log", "--files", ",".join(files))
    assert "Mismatches" not in mismatches.stdout
    assert "Found timestamp mismatch" not in mismatches.stdout
    assert "out of order timestamp" not in mismatches.stdout
