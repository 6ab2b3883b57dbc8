"""kafka-transactions, the console formatters of internal topics, and kafka-dump-log on the files of transactions.

JVM Kafka passes these tests, too.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SEGMENT = f"{0:020}"
FORMATTERS = "org.apache.kafka.tools.consumer."
LIST_HEADER = ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]


@pytest.fixture
def start(transactions: Any) -> Callable[[str], Producer]:
    """Return a function that initializes a producer with a transactional id, and begins a transaction."""

    def begin(transactional_id: str) -> Producer:
        settings = {"bootstrap.servers": transactions.bootstrap, "transactional.id": transactional_id, "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(60)
        producer.begin_transaction()
        return producer

    return begin


@pytest.fixture
def topic(transactions: Any, new_topic: Callable[..., str]) -> str:
    del transactions
    return new_topic(partitions=2)


@pytest.fixture
def table(kafka: Callable[..., Any]) -> Callable[..., list[dict[str, str]]]:
    """Return a function that runs a command of kafka-transactions, and returns its table's rows by column."""

    def run(*args: str) -> list[dict[str, str]]:
        header, *rows = kafka("kafka-transactions", *args).rows
        return [dict(zip(header, row, strict=False)) for row in rows]

    return run


@pytest.fixture
def dump(kafka_tool: Callable[..., Any]) -> Callable[..., Any]:
    return lambda path, *args: kafka_tool("kafka-dump-log", "--files", str(path), *args)


def write_and_abort(producer: Producer, topic: str) -> None:
    """Write to partition 0: record 0 and marker 1 are committed, record 2 and marker 3 aborted."""
    producer.produce(topic, b"committed", partition=0)
    producer.commit_transaction(60)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    producer.flush(60)
    producer.abort_transaction(60)


def test_open_transaction_is_listed_and_described(
    table: Callable[..., Any], start: Callable[..., Any], topic: str
) -> None:
    producer = start(topic)
    producer.produce(topic, b"open", partition=0)
    producer.produce(topic, b"open", partition=1)
    producer.flush(60)

    (listed,) = table("list", "--transactional-id-pattern", topic + "|x")
    assert [*listed] == LIST_HEADER
    assert listed["TransactionState"] == "Ongoing"
    assert topic not in [each["TransactionalId"] for each in table("list", "--duration-filter", "600000")]
    (described,) = table("describe", "--transactional-id", topic)
    assert {name: described[name] for name in LIST_HEADER if name != "Coordinator"} == {
        name: listed[name] for name in LIST_HEADER if name != "Coordinator"
    }
    assert (described["CoordinatorId"], described["TransactionTimeoutMs"]) == (listed["Coordinator"], "60000")
    assert int(described["TransactionDurationMs"]) < 60_000
    assert sorted(described["TopicPartitions"].split(",")) == [f"{topic}-0", f"{topic}-1"]
    (active,) = table("describe-producers", "--topic", topic, "--partition", "1")
    assert (active["ProducerId"], active["LatestCoordinatorEpoch"]) == (listed["ProducerId"], "-1")
    assert (active["LastSequence"], active["CurrentTransactionStartOffset"]) == ("0", "0")
    producer.abort_transaction(60)


def test_ended_transaction_is_described(table: Callable[..., Any], start: Callable[..., Any], topic: str) -> None:
    write_and_abort(start(topic), topic)

    (described,) = table("describe", "--transactional-id", topic)
    assert (described["TransactionState"], described.get("TopicPartitions")) == ("CompleteAbort", None)
    (producer,) = table("describe-producers", "--topic", topic, "--partition", "0")
    assert (producer["LastSequence"], producer["CurrentTransactionStartOffset"]) == ("1", "None")
    assert int(producer["LatestCoordinatorEpoch"]) >= 0


def test_unknown_id_is_reported(kafka: Callable[..., Any], transactions: Any) -> None:
    del transactions
    failed = kafka("kafka-transactions", "describe", "--transactional-id", "nope", code=1)

    assert "transactionalId `nope` failed because the ID could not be found" in failed.stderr


def test_forced_termination_aborts_and_fences(
    kafka: Callable[..., Any], table: Callable[..., Any], start: Callable[..., Any], topic: str
) -> None:
    producer = start(topic)
    producer.produce(topic, b"open", partition=0)
    producer.flush(60)

    kafka("kafka-transactions", "forceTerminateTransaction", "--transactionalId", topic)

    (described,) = table("describe", "--transactional-id", topic)
    assert described["TransactionState"] in ("CompleteAbort", "Empty")
    with pytest.raises(KafkaException) as failure:
        producer.commit_transaction(60)
    assert failure.value.args[0].fatal()


def test_hanging_transaction_is_found_and_aborted(
    kafka: Callable[..., Any], table: Callable[..., Any], hanging_transaction: str
) -> None:
    topic = hanging_transaction
    find = ("find-hanging", "--topic", topic, "--max-transaction-timeout")

    assert table(*find, "15") == []
    (found,) = table(*find, "0")
    assert (found["Topic"], found["Partition"], found["StartOffset"]) == (topic, "0", "0")
    kafka("kafka-transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")

    assert table(*find, "0") == []
    again = kafka("kafka-transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0", code=1)
    assert "Could not find any open transactions starting at offset 0" in again.stderr


def read_formatted(kafka: Callable[..., Any], topic: str, formatter: str) -> list[Any]:
    read = kafka(
        *("kafka-console-consumer", "--topic", topic, "--from-beginning", "--timeout-ms", "5000"),
        *("--formatter", f"{FORMATTERS}{formatter}"),
    )
    # The formatters put no separator between two records.
    return [json.loads(text) for text in re.sub(r"\}\{\"key\"", '}\n{"key"', read.stdout).splitlines() if text]


def test_formatter_of_transaction_state_shows_each_transition(
    kafka: Callable[..., Any], start: Callable[..., Any], topic: str
) -> None:
    write_and_abort(start(topic), topic)

    records = read_formatted(kafka, "__transaction_state", "TransactionLogMessageFormatter")

    mine = [each["value"] for each in records if each["key"]["data"]["transactionalId"] == topic]
    empty, ongoing, prepare_commit, complete_commit, prepare_abort, complete_abort = 0, 1, 2, 4, 3, 5
    assert [each["data"]["transactionStatus"] for each in mine] == [
        *(empty, ongoing, prepare_commit, complete_commit),
        *(ongoing, prepare_abort, complete_abort),
    ]
    assert mine[1]["data"]["transactionPartitions"] == [{"topic": topic, "partitionIds": [0]}]
    assert mine[0]["data"]["transactionPartitions"] is None
    assert mine[3]["data"]["transactionPartitions"] == []


def test_formatters_of_consumer_offsets_show_a_transactions_offset_and_the_group(
    kafka: Callable[..., Any],
    start: Callable[..., Any],
    topic: str,
    transactions: Any,
    take: Callable[..., Any],
    dump: Callable[..., Any],
) -> None:
    producer = start(topic)
    producer.produce(topic, b"x", partition=0)
    settings = {"bootstrap.servers": transactions.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "isolation.level": "read_uncommitted"})
    consumer.subscribe([topic])
    producer.flush(60)
    take(consumer, 1)
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata())
    producer.commit_transaction(60)
    consumer.close()

    offsets = read_formatted(kafka, "__consumer_offsets", "OffsetsMessageFormatter")
    groups = read_formatted(kafka, "__consumer_offsets", "GroupMetadataMessageFormatter")

    mine = [each["value"]["data"] for each in offsets if each["key"]["data"]["group"] == topic]
    assert [(each["offset"], each["leaderEpoch"], each["metadata"]) for each in mine] == [(1, -1, "")]
    changes = [each["value"]["data"] for each in groups if each["key"]["data"]["group"] == topic]
    assert [(each["protocolType"], len(each["members"])) for each in changes] == [
        ("", 0),
        ("consumer", 1),
        ("consumer", 0),
    ]
    logs = [path for path in transactions.data_dir.glob(f"__consumer_offsets-*/{SEGMENT}.log") if path.stat().st_size]
    text = "\n".join(dump(path, "--offsets-decoder").stdout for path in logs)
    key = f'{{"type":"1","data":{{"group":"{topic}","topic":"{topic}","partition":0}}}}'
    assert re.search(re.escape(f"key: {key} payload: ") + r'\{"version":"4","data":\{"offset":1,', text)
    assert re.search(r"isTransactional: true isControl: true .*\n.* endTxnMarker: COMMIT coordinatorEpoch: \d+", text)


def test_dump_log_decodes_transaction_state(
    dump: Callable[..., Any],
    start: Callable[..., Any],
    topic: str,
    transactions: Any,
    kafka_tool: Callable[..., Any],
    eventually: Callable[..., Any],
) -> None:
    write_and_abort(start(topic), topic)

    # The client's response comes before the markers are written, and the last record after them.
    describe = ["--bootstrap-server", transactions.bootstrap, "describe", "--transactional-id", topic]
    eventually(lambda: "CompleteAbort" in kafka_tool("kafka-transactions", *describe).stdout)
    logs = [path for path in transactions.data_dir.glob(f"__transaction_state-*/{SEGMENT}.log") if path.stat().st_size]
    text = "\n".join(dump(path, "--transaction-log-decoder").stdout for path in logs)

    key = f'{{"type":"0","data":{{"transactionalId":"{topic}"}}}}'
    states = re.findall(re.escape(f"key: {key} payload: ") + r'.*?"transactionStatus":(\d)', text)
    assert states == ["0", "1", "2", "4", "1", "3", "5"]
    assert "isvalid: false" not in text


def test_dump_log_shows_markers_aborted_transactions_and_producers(
    dump: Callable[..., Any], new_node: Callable[[], Any]
) -> None:
    node = new_node()
    settings = {"bootstrap.servers": node.bootstrap, "transactional.id": "dumped", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    write_and_abort(producer, "dumped")
    producer.begin_transaction()
    producer.produce("dumped", b"open", partition=0)
    producer.flush(60)

    node.stop()

    folder: Path = node.data_dir / "dumped-0"
    log = dump(folder / f"{SEGMENT}.log", "--print-data-log").stdout
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: \d+", log) == ["COMMIT", "ABORT"]
    index = dump(folder / f"{SEGMENT}.txnindex").lines
    assert len(index) == 2
    assert re.fullmatch(r"version: 0 producerId: \d+ firstOffset: 2 lastOffset: 3 lastStableOffset: 4", index[1])
    snapshot = dump(folder / f"{5:020}.snapshot").stdout
    assert re.search(
        r"producerId: \d+ producerEpoch: \d coordinatorEpoch: \d+ currentTxnFirstOffset: OptionalLong\[4\] "
        r"lastTimestamp: \d+ firstSequence: \d lastSequence: \d lastOffset: 4 offsetDelta: 0 timestamp: \d+",
        snapshot,
    ), snapshot
