"""MirrorMaker 2 with exactly-once support, between JVM Kafka and Ottla in both directions; it is killed in between."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

PARTITIONS = 3
RECORDS = 1200
FIRST_TIMESTAMP_MS = 1_790_000_000_000
# Without retention: the timestamps of the records are old.
CONFIG = {"retention.ms": "-1", "max.message.bytes": "2000000", "compression.type": "zstd"}
ALTERED = ("segment.bytes", "20000000")
DIRECTIONS = [("kafka", "ottla"), ("ottla", "kafka")]
GROUP_RECORDS, STEP, READ_BEFORE = 300, 50, 250
WITHIN_S = 60

in_both_directions = pytest.mark.parametrize(("source", "target"), DIRECTIONS)
pytestmark = pytest.mark.timeout(300)

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], tuple[int, int]]


def topic_of(source: str) -> str:
    return f"orders-{source}"


def mirrored_topic_of(source: str) -> str:
    """Return the name by which DefaultReplicationPolicy mirrors the topic."""
    return f"{source}.{topic_of(source)}"


def record(number: int) -> Record:
    """Return key, value, headers and timestamp; each tenth value is null."""
    value = None if number % 10 == 0 else b"value %d" % number
    headers: list[tuple[str, bytes | None]] = [("number", b"%d" % number), ("number", b"repeated"), ("null", None)]
    return b"key %d" % number, value, headers, (TIMESTAMP_CREATE_TIME, FIRST_TIMESTAMP_MS + number)


def create(bootstrap: str, topic: str) -> None:
    request = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1, config=CONFIG)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([request])[topic].result(timeout=30)


def send(bootstrap: str, topic: str, numbers: range) -> None:
    """Produce the records of ``numbers``, one after the other to each partition, and wait for the acknowledgements."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    errors: list[object] = []
    for number in numbers:
        key, value, headers, (_, timestamp) = record(number)
        producer.produce(
            topic,
            value,
            key,
            partition=number % PARTITIONS,
            timestamp=timestamp,
            headers=headers,
            on_delivery=lambda error, _: errors.append(error) if error is not None else None,
        )
        producer.poll(0)
    assert producer.flush(WITHIN_S) == 0
    assert errors == []


def read(consumer: Consumer, count: int, take: Callable[..., list[Any]]) -> dict[int, list[Record]]:
    """Return the next ``count`` records of each partition in the order of their offsets; fail if more follow."""
    partitions: dict[int, list[Record]] = {index: [] for index in range(PARTITIONS)}
    for each in take(consumer, count, WITHIN_S):
        partitions[each.partition()].append((each.key(), each.value(), each.headers(), each.timestamp()))
    extra = consumer.poll(2.0)
    assert extra is None, f"a record too many: {extra.key()!r} at offset {extra.offset()}"
    return partitions


def numbers_of(messages: list[Any]) -> list[list[int]]:
    """Return the numbers of the records of each partition, in the order in which they came."""
    partitions: list[list[int]] = [[] for _ in range(PARTITIONS)]
    for each in messages:
        partitions[each.partition()].append(int(each.key().removeprefix(b"key ")))
    return partitions


def read_rest(consumer: Consumer, missing: set[int], take: Callable[..., list[Any]]) -> list[list[int]]:
    """Return the numbers that come until all ``missing`` ones have come, and until none comes for two seconds."""
    messages = take(consumer, len(missing), WITHIN_S)
    while not missing <= set().union(*numbers_of(messages)):
        messages += take(consumer, 1, WITHIN_S)
    while (message := consumer.poll(2.0)) is not None:
        messages.append(message)
    return numbers_of(messages)


def are_committed(bootstrap: str, group: str, topic: str) -> bool:
    """Return whether the group has a committed offset for each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    request = ConsumerGroupTopicPartitions(group, partitions)
    offsets = admin.list_consumer_group_offsets([request])[group].result(timeout=30).topic_partitions
    return all(each.offset >= 0 for each in offsets)


@pytest.fixture(scope="module")
def mirrored(mirror_maker: Any, end_offset: Callable[[str, str], int]) -> Any:
    """Both topics, mirrored by a MirrorMaker that was killed while it mirrored them, and started again."""
    for alias, bootstrap in mirror_maker.bootstraps.items():
        create(bootstrap, topic_of(alias))
        send(bootstrap, topic_of(alias), range(RECORDS // 4))
    ends = [(mirror_maker.bootstraps[target], mirrored_topic_of(source)) for source, target in DIRECTIONS]

    mirror_maker.start()
    mirror_maker.wait_for(lambda: all(end_offset(*each) > 0 for each in ends))
    for alias, bootstrap in mirror_maker.bootstraps.items():
        send(bootstrap, topic_of(alias), range(RECORDS // 4, RECORDS // 2))
    mirror_maker.kill()
    for alias, bootstrap in mirror_maker.bootstraps.items():
        send(bootstrap, topic_of(alias), range(RECORDS // 2, RECORDS))
    mirror_maker.start()
    return mirror_maker


@pytest.fixture
def consumer() -> Iterator[Callable[..., Consumer]]:
    """Return ``consumer(bootstrap, group)``: a consumer of committed records, without automatic commits."""
    opened: list[Consumer] = []

    def create(bootstrap: str, group: str, reset: str = "error") -> Consumer:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"}
        opened.append(Consumer(settings | {"enable.auto.commit": False, "auto.offset.reset": reset}))
        return opened[-1]

    yield create
    for each in opened:
        each.close()


@in_both_directions
def test_each_record_is_mirrored_once_although_mirror_maker_was_killed(
    mirrored: Any,
    end_offset: Callable[[str, str], int],
    consumer: Callable[..., Consumer],
    take: Callable[..., Any],
    source: str,
    target: str,
) -> None:
    topic = mirrored_topic_of(source)
    reader = consumer(mirrored.bootstraps[target], "reader")
    mirrored.wait_for(lambda: end_offset(mirrored.bootstraps[target], topic) >= RECORDS)
    reader.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])

    records = read(reader, RECORDS, take)

    for index in range(PARTITIONS):
        assert records[index] == [record(number) for number in range(index, RECORDS, PARTITIONS)]


@in_both_directions
def test_topic_configuration_is_mirrored_and_kept_up_to_date(mirrored: Any, source: str, target: str) -> None:
    def configuration(alias: str, topic: str) -> dict[str, str]:
        admin = AdminClient({"bootstrap.servers": mirrored.bootstraps[alias]})
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = admin.describe_configs([resource])[resource].result(timeout=30)
        return {name: entries[name].value for name in (*CONFIG, ALTERED[0])}

    entry = ConfigEntry(*ALTERED, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic_of(source), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": mirrored.bootstraps[source]})
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)

    expected = CONFIG | dict([ALTERED])
    mirrored.wait_for(lambda: configuration(target, mirrored_topic_of(source)) == expected)
    assert configuration(source, topic_of(source)) == expected


@in_both_directions
def test_group_continues_on_the_mirrored_topic_from_its_translated_offset(
    mirrored: Any,
    end_offset: Callable[[str, str], int],
    consumer: Callable[..., Consumer],
    take: Callable[..., Any],
    source: str,
    target: str,
) -> None:
    topic, group = f"{topic_of(source)}-by-group", f"readers-of-{source}"
    create(mirrored.bootstraps[source], topic)
    mirrored_topic = f"{source}.{topic}"
    for first in range(0, GROUP_RECORDS, STEP):
        # Some syncs between offsets, from which offsets are translated: MirrorMaker sends one for each batch.
        send(mirrored.bootstraps[source], topic, range(first, first + STEP))
        mirrored.wait_for(lambda first=first: end_offset(mirrored.bootstraps[target], mirrored_topic) >= first + STEP)

    before = consumer(mirrored.bootstraps[source], group, "earliest")
    before.subscribe([topic])
    seen = numbers_of(take(before, READ_BEFORE, WITHIN_S))
    before.commit(asynchronous=False)
    before.close()
    mirrored.wait_for(lambda: are_committed(mirrored.bootstraps[target], group, mirrored_topic))
    after = consumer(mirrored.bootstraps[target], group)
    after.subscribe([mirrored_topic])
    remaining = read_rest(after, set(range(GROUP_RECORDS)).difference(*seen), take)

    for index in range(PARTITIONS):
        sent = list(range(index, GROUP_RECORDS, PARTITIONS))
        first = remaining[index][0] if remaining[index] else GROUP_RECORDS
        behind = len(sent) - len(seen[index])
        assert remaining[index] == [number for number in sent if number >= first]
        repeated = len(seen[index]) + len(remaining[index]) - len(sent)
        # The distances between the syncs that OffsetSyncStore keeps double from the end of the topic: one of 2**i
        # records is at least 2**(i-2) records before the latest.
        assert 0 <= repeated <= 4 * behind
