"""kafka-python: a client written apart from librdkafka and Java, with its own ideas of versions and of defaults."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import InvalidPartitionsError, MessageSizeTooLargeError, TopicAlreadyExistsError

logging.getLogger("kafka").setLevel(logging.ERROR)


@pytest.fixture
def producer(broker: Any) -> Iterator[Callable[..., KafkaProducer]]:
    made: list[KafkaProducer] = []

    def make(**settings: Any) -> KafkaProducer:
        made.append(KafkaProducer(bootstrap_servers=broker.bootstrap, **settings))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def consumer(broker: Any, new_topic: Callable[..., str]) -> Iterator[Callable[..., KafkaConsumer]]:
    """Return a function that creates a consumer; it is closed before its topic is deleted, since closing commits."""
    made: list[KafkaConsumer] = []

    def make(*topics: str, **settings: Any) -> KafkaConsumer:
        defaults = {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest"}
        made.append(KafkaConsumer(*topics, **(defaults | settings)))
        for topic in topics:
            # When a group forms while its leader does not know the topic yet, kafka-python 3.0 assigns none of it, and
            # does not detect that: also with JVM Kafka without a delay of the first rebalance.
            assert made[-1].partitions_for_topic(topic)
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def python_admin(broker: Any) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def read(client: KafkaConsumer, count: int, timeout_s: float = 60) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came in {timeout_s} s"
        for batch in client.poll(timeout_ms=200).values():
            records += batch
    return records


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"], ids=str)
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_every_field_of_a_record_survives(
    producer: Callable[..., Any],
    consumer: Callable[..., Any],
    new_topic: Callable[..., str],
    codec: str | None,
    idempotent: bool,
) -> None:
    topic = new_topic(retention_ms=-1)
    sender = producer(compression_type=codec, enable_idempotence=idempotent, linger_ms=20)
    headers = [("h", b"1"), ("h", b"2")]

    for number in range(20):
        sender.send(topic, b"v%d" % number * 100, key=b"k", headers=headers, timestamp_ms=1_700_000_000_000 + number)
    sender.flush(30)

    records = read(consumer(topic), 20)
    assert [record.value for record in records] == [b"v%d" % number * 100 for number in range(20)]
    assert [record.timestamp - 1_700_000_000_000 for record in records] == list(range(20))
    assert [record.offset for record in records] == list(range(20))
    assert {(record.key, tuple(record.headers)) for record in records} == {(b"k", tuple(headers))}


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_is_served(
    producer: Callable[..., Any], consumer: Callable[..., Any], new_topic: Callable[..., str], acks: int | str
) -> None:
    topic = new_topic()
    sender = producer(acks=acks, enable_idempotence=False)

    sender.send(topic, b"v")
    sender.flush(30)

    assert [record.value for record in read(consumer(topic), 1)] == [b"v"]


def test_batch_over_max_message_bytes_is_rejected(producer: Callable[..., Any], new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes=10_000)

    future = producer().send(topic, b"x" * 20_000)

    with pytest.raises(MessageSizeTooLargeError):
        future.get(30)


def test_positions_seek_pause_and_offsets_for_times(
    producer: Callable[..., Any], consumer: Callable[..., Any], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(retention_ms=-1)
    place = TopicPartition(topic, 0)
    sender = producer()
    for number in range(10):
        sender.send(topic, b"%d" % number, timestamp_ms=1_700_000_000_000 + number)
    sender.flush(30)
    reader = consumer()
    reader.assign([place])

    reader.seek(place, 7)
    assert [record.value for record in read(reader, 3)] == [b"7", b"8", b"9"]
    assert reader.position(place) == 10
    reader.seek_to_beginning(place)
    reader.pause(place)
    assert reader.poll(timeout_ms=300) == {}
    reader.resume(place)
    assert read(reader, 1)[0].value == b"0"
    assert reader.beginning_offsets([place]) == {place: 0}
    assert reader.end_offsets([place]) == {place: 10}
    assert reader.offsets_for_times({place: 1_700_000_000_004})[place].offset == 4
    assert reader.offsets_for_times({place: 1_800_000_000_000})[place] is None


def poll_until(done: threading.Event, member: KafkaConsumer) -> None:
    """Poll without pauses, each member in a thread of its own.

    kafka-python 3.0 discards a join that completes between two calls of poll, and joins again. With members that one
    thread polls in turn, a leader whose commit took longer than its poll then discards each of its joins: the group
    rebalances for ever, also with JVM Kafka.
    """
    while not done.is_set():
        member.poll(timeout_ms=100)


class TestGroups:
    @pytest.fixture
    def group(self, unique: Callable[[str], str]) -> dict[str, Any]:
        """Return settings of a group whose members detect changes fast."""
        return {"group_id": unique("group"), "session_timeout_ms": 10_000, "heartbeat_interval_ms": 500}

    @pytest.mark.parametrize(
        "assignor", [RangePartitionAssignor, CooperativeStickyAssignor], ids=["eager", "cooperative"]
    )
    def test_two_members_share_and_the_last_one_has_all(
        self, consumer: Callable[..., Any], new_topic: Callable[..., str], group: dict[str, Any], assignor: type
    ) -> None:
        topic = new_topic(partitions=4)
        group["partition_assignment_strategy"] = [assignor]

        def settle(members: list[Any], shares: list[int]) -> None:
            deadline = time.monotonic() + 60
            with ThreadPoolExecutor(len(members)) as threads:
                settled = threading.Event()
                polls = [threads.submit(poll_until, settled, member) for member in members]
                try:
                    while [len(member.assignment()) for member in members] != shares:
                        assert time.monotonic() < deadline, [member.assignment() for member in members]
                        time.sleep(0.02)
                finally:
                    settled.set()
            for each in polls:
                each.result()

        first = consumer(topic, **group)
        settle([first], [4])
        second = consumer(topic, **group)
        settle([first, second], [2, 2])
        assert not first.assignment() & second.assignment()
        second.close()
        settle([first], [4])

    def test_restarted_member_resumes_from_its_committed_offset(
        self,
        producer: Callable[..., Any],
        consumer: Callable[..., Any],
        new_topic: Callable[..., str],
        group: dict[str, Any],
    ) -> None:
        topic = new_topic()
        sender = producer()
        for number in range(5):
            sender.send(topic, b"%d" % number)
        sender.flush(30)
        first = consumer(topic, enable_auto_commit=False, **group)
        read(first, 5)
        first.commit({TopicPartition(topic, 0): OffsetAndMetadata(3, "note", -1)})
        assert first.committed(TopicPartition(topic, 0), metadata=True).metadata == "note"
        first.close()

        assert [record.value for record in read(consumer(topic, **group), 2)] == [b"3", b"4"]

    def test_static_membership(
        self, consumer: Callable[..., Any], new_topic: Callable[..., str], group: dict[str, Any], python_admin: Any
    ) -> None:
        topic = new_topic()
        member = consumer(topic, group_instance_id="static", **group)
        deadline = time.monotonic() + 60
        while not member.assignment():
            member.poll(timeout_ms=100)
            assert time.monotonic() < deadline

        described = python_admin.describe_groups([group["group_id"]])[group["group_id"]]

        assert described["group_state"] == "Stable"
        assert [row["group_instance_id"] for row in described["members"]] == ["static"]


class TestAdmin:
    def test_topics_are_created_grown_and_deleted(
        self, python_admin: Any, unique: Callable[[str], str], eventually: Callable[..., Any]
    ) -> None:
        topic = unique("kafka-python")

        python_admin.create_topics(
            {topic: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "1000"}}}
        )
        eventually(lambda: topic in python_admin.list_topics())
        with pytest.raises(TopicAlreadyExistsError):
            python_admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
        python_admin.create_partitions({topic: 3})
        with pytest.raises(InvalidPartitionsError):
            python_admin.create_partitions({topic: 2})
        (described,) = python_admin.describe_topics([topic])
        assert [row["partition_index"] for row in described["partitions"]] == [0, 1, 2]
        python_admin.delete_topics([topic])

        eventually(lambda: topic not in python_admin.list_topics())

    def test_configs_are_described_and_altered(self, python_admin: Any, new_topic: Callable[..., str]) -> None:
        topic = new_topic(retention_ms=1000)

        def described() -> dict[str, Any]:
            configs: dict[str, Any] = python_admin.describe_configs([ConfigResource("topic", topic)])["topic"][topic]
            return configs

        assert described()["retention.ms"]["value"] == "1000"
        python_admin.alter_configs([ConfigResource("topic", topic, {"retention.ms": "2000"})])
        assert described()["retention.ms"]["value"] == "2000"

    def test_records_and_groups_are_deleted(
        self,
        python_admin: Any,
        produce: Callable[..., Any],
        new_topic: Callable[..., str],
        consumer: Callable[..., Any],
        unique: Callable[[str], str],
    ) -> None:
        topic, group = new_topic(), unique("group")
        place = TopicPartition(topic, 0)
        produce(topic, [b"v"] * 5)
        member = consumer(group_id=group)
        member.assign([place])
        member.commit({place: OffsetAndMetadata(4, "", -1)})
        member.close()

        assert python_admin.list_group_offsets([group])[group][place].offset == 4
        python_admin.delete_records({place: 2})
        python_admin.delete_groups([group])

        assert group not in {row["group_id"] for row in python_admin.list_groups()}
        assert python_admin.list_partition_offsets({place: OffsetSpec.EARLIEST})[place].offset == 2

    def test_cluster_is_described(self, python_admin: Any, broker: Any) -> None:
        cluster = python_admin.describe_cluster()

        assert [(node["host"], node["port"]) for node in cluster["brokers"]] == [broker.address]

    def test_quorum_is_described(self, python_admin: Any) -> None:
        assert "leader_id" in str(python_admin.describe_metadata_quorum())
