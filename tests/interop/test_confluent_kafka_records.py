"""confluent-kafka (librdkafka): produced records are consumed unchanged, with every codec, size and setting."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_every_field_of_a_record_survives(
    new_topic: Callable[..., str], produce: Callable[..., Any], consume: Callable[..., Any], codec: str
) -> None:
    topic = new_topic(retention_ms=-1)
    headers = [("h", b"1"), ("h", b"2"), ("empty", b""), ("null", None)]
    values = [b"", b"x" * 10_000, bytes(range(256))]

    produce(
        topic, values, config={"compression.type": codec}, key=b"\x00key", headers=headers, timestamp=1_700_000_000_123
    )

    records = consume(topic, 3)
    assert [record.value() for record in records] == values
    assert [record.offset() for record in records] == [0, 1, 2]
    assert {record.key() for record in records} == {b"\x00key"}
    assert {record.timestamp() for record in records} == {(TIMESTAMP_CREATE_TIME, 1_700_000_000_123)}
    assert all(record.headers() == headers for record in records)
    assert {record.leader_epoch() for record in records} == {0}


@pytest.mark.parametrize("codec", CODECS)
def test_topic_recompresses_batches_with_its_own_codec(
    new_topic: Callable[..., str], produce: Callable[..., Any], consume: Callable[..., Any], codec: str
) -> None:
    topic = new_topic(compression_type="gzip" if codec == "zstd" else "zstd")

    produce(topic, [b"v" * 500] * 20, config={"compression.type": codec}, key=b"k")

    records = consume(topic, 20)
    assert [(record.offset(), record.key(), record.value()) for record in records] == [
        (offset, b"k", b"v" * 500) for offset in range(20)
    ]


def test_null_key_and_null_value_stay_null(
    new_topic: Callable[..., str], produce: Callable[..., Any], consume: Callable[..., Any]
) -> None:
    topic = new_topic()

    produce(topic, [None])

    (record,) = consume(topic, 1)
    assert (record.key(), record.value(), record.headers()) == (None, None, None)


def test_log_append_time_is_the_brokers_clock(
    new_topic: Callable[..., str], produce: Callable[..., Any], consume: Callable[..., Any]
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")

    (report,) = produce(topic, [b"v"], timestamp=1)

    (record,) = consume(topic, 1)
    kind, timestamp_ms = record.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert timestamp_ms > 1_700_000_000_000
    assert report.offset() == 0


@pytest.mark.parametrize(
    ("acks", "idempotent"),
    [
        pytest.param("0", False, id="acks-0"),
        pytest.param("1", False, id="acks-1"),
        pytest.param("all", False, id="acks-all"),
        pytest.param("all", True, id="idempotent"),
    ],
)
def test_order_is_kept_within_a_partition(
    new_topic: Callable[..., str],
    produce: Callable[..., Any],
    consume: Callable[..., Any],
    acks: str,
    idempotent: bool,
) -> None:
    topic = new_topic()
    values = [b"%d" % number for number in range(5000)]

    produce(topic, values, config={"acks": acks, "enable.idempotence": idempotent, "batch.num.messages": 50})

    assert [record.value() for record in consume(topic, 5000)] == values


def test_equal_keys_share_a_partition(
    new_topic: Callable[..., str], produce: Callable[..., Any], consume: Callable[..., Any]
) -> None:
    topic = new_topic(partitions=4)

    for key in (b"a", b"b", b"c", b"d", b"e"):
        produce(topic, [b"1", b"2"], key=key)

    places: dict[bytes, set[int]] = {}
    for record in consume(topic, 10):
        places.setdefault(record.key(), set()).add(record.partition())
    assert {len(partitions) for partitions in places.values()} == {1}
    assert len(set.union(*places.values())) > 1


class TestLargeRecords:
    def test_record_just_under_the_limit_is_accepted(
        self, new_topic: Callable[..., str], produce: Callable[..., Any], consume: Callable[..., Any]
    ) -> None:
        topic = new_topic(max_message_bytes=5_000_000)
        value = bytes(range(256)) * 16_384  # 4 MiB

        produce(topic, [value], config={"message.max.bytes": 6_000_000})

        (record,) = consume(topic, 1)
        assert record.value() == value

    def test_record_larger_than_a_fetch_is_still_returned(
        self, new_topic: Callable[..., str], produce: Callable[..., Any], consume: Callable[..., Any]
    ) -> None:
        topic = new_topic()
        produce(topic, [b"x" * 500_000, b"y"])

        limits = {"fetch.max.bytes": 1000, "max.partition.fetch.bytes": 1000, "message.max.bytes": 1000}
        assert [len(record.value()) for record in consume(topic, 2, config=limits)] == [500_000, 1]

    @pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
    def test_batch_over_max_message_bytes_is_rejected(
        self,
        broker: Any,
        new_topic: Callable[..., str],
        produce: Callable[..., Any],
        consume: Callable[..., Any],
        idempotent: bool,
    ) -> None:
        topic = new_topic(max_message_bytes=10_000)
        config = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": idempotent}
        producer = Producer(config)
        errors: list[KafkaError] = []

        producer.produce(topic, b"x" * 20_000, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0

        assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
        produce(topic, [b"small"])
        assert [record.value() for record in consume(topic, 1)] == [b"small"]


class TestPositions:
    @pytest.fixture
    def reader(
        self, broker: Any, new_topic: Callable[..., str], produce: Callable[..., Any], unique: Callable[[str], str]
    ) -> Any:
        """An unassigned consumer, and a topic of ten records a second apart from 1,700,000,000,000 ms on."""
        topic = new_topic(retention_ms=-1)
        for number in range(10):
            produce(topic, [b"%d" % number], timestamp=1_700_000_000_000 + number * 1000)
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": unique("reader"), "auto.offset.reset": "error"}
        )
        yield consumer, topic
        consumer.close()

    def test_seek_jumps_back_and_forth(self, reader: Any, take: Callable[..., Any]) -> None:
        consumer, topic = reader
        consumer.assign([TopicPartition(topic, 0, 2)])
        assert [record.value() for record in take(consumer, 2)] == [b"2", b"3"]

        consumer.seek(TopicPartition(topic, 0, 8))
        assert [record.value() for record in take(consumer, 1)] == [b"8"]
        consumer.seek(TopicPartition(topic, 0, 0))
        assert [record.value() for record in take(consumer, 1)] == [b"0"]

    def test_paused_partition_returns_no_records_until_it_is_resumed(
        self, reader: Any, take: Callable[..., Any]
    ) -> None:
        consumer, topic = reader
        partition = TopicPartition(topic, 0, 0)
        consumer.assign([partition])
        assert take(consumer, 1)[0].value() == b"0"

        consumer.pause([partition])
        assert consumer.poll(1) is None
        consumer.resume([partition])

        assert take(consumer, 1)[0].value() == b"1"

    @pytest.mark.parametrize(
        ("timestamp_ms", "offset"),
        [
            pytest.param(0, 0, id="before-the-first"),
            pytest.param(1_700_000_003_000, 3, id="exactly"),
            pytest.param(1_700_000_003_001, 4, id="just-after"),
            pytest.param(1_700_000_009_001, -1, id="after-the-last"),
        ],
    )
    def test_offsets_for_times(self, reader: Any, timestamp_ms: int, offset: int) -> None:
        consumer, topic = reader

        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=30)

        assert found.offset == offset

    def test_watermarks_are_start_and_end(self, reader: Any) -> None:
        consumer, topic = reader

        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30) == (0, 10)

    def test_offset_out_of_range_is_an_error_when_reset_is_off(self, reader: Any) -> None:
        consumer, topic = reader
        consumer.assign([TopicPartition(topic, 0, 1000)])

        message = consumer.poll(30)

        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET

    def test_partition_eof_is_reported_at_the_end(self, broker: Any, reader: Any, unique: Callable[[str], str]) -> None:
        _, topic = reader
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": unique("eof"), "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition(topic, 0, 10)])

        message = consumer.poll(30)
        consumer.close()

        assert (message.error().code(), message.offset()) == (KafkaError._PARTITION_EOF, 10)


def test_fetch_waits_for_the_next_record(
    broker: Any, new_topic: Callable[..., str], produce: Callable[..., Any], unique: Callable[[str], str]
) -> None:
    topic = new_topic()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": unique("tail"), "fetch.wait.max.ms": 5000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(0.5) is None

    produce(topic, [b"late"])

    assert consumer.poll(30).value() == b"late"
    consumer.close()


class TestAutoCreation:
    def test_producer_creates_the_topic(
        self, produce: Callable[..., Any], consume: Callable[..., Any], unique: Callable[[str], str]
    ) -> None:
        topic = unique("made-by-producer")

        produce(topic, [b"first"])

        assert [record.value() for record in consume(topic, 1)] == [b"first"]

    def test_consumer_creates_no_topic_unless_it_is_allowed(
        self, broker: Any, admin: AdminClient, unique: Callable[[str], str]
    ) -> None:
        topic = unique("not-made-by-consumer")
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": unique("g"), "allow.auto.create.topics": False}
        )
        consumer.subscribe([topic])

        message = consumer.poll(30)
        consumer.close()

        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert topic not in admin.list_topics(timeout=30).topics

    def test_invalid_name_is_rejected(self, broker: Any) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        errors: list[KafkaError] = []

        producer.produce("not a name", b"v", on_delivery=lambda error, _: errors.append(error))
        producer.flush(30)

        assert [error.code() for error in errors] == [KafkaError.TOPIC_EXCEPTION]


def test_many_producers_write_at_once_and_nothing_is_lost(
    broker: Any, new_topic: Callable[..., str], consume: Callable[..., Any]
) -> None:
    topic = new_topic(partitions=3)
    producers = [Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True}) for _ in range(8)]

    for number in range(500):
        for index, producer in enumerate(producers):
            producer.produce(topic, b"%d-%d" % (index, number))
    assert all(producer.flush(30) == 0 for producer in producers)

    expected = {b"%d-%d" % (index, number) for index in range(8) for number in range(500)}
    records = consume(topic, 4000)
    assert {record.value() for record in records} == expected
