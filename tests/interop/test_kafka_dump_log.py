"""kafka-dump-log reads the node's own files: records, indexes, producer snapshots, and the cluster's metadata."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

SEGMENT = f"{0:020}"
BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* compresscodec: (\w+) crc: \d+ isvalid: (\w+)")


@pytest.fixture
def dump(kafka_tool: Callable[..., Any]) -> Callable[..., Any]:
    return lambda path, *args: kafka_tool("kafka-dump-log", "--files", str(path), *args)


@pytest.fixture
def partition(broker: Any, new_topic: Callable[..., str], produce: Callable[..., Any]) -> Path:
    """The folder of a partition with 1,200 records of 1 KB from an idempotent producer, in batches of at most ten.

    Its first segment is full: the index files of an active segment end in preallocated zeros, which no check accepts.
    """
    topic = new_topic(segment_bytes=2**20)
    batches = {"enable.idempotence": True, "batch.num.messages": 10, "compression.type": "none"}
    produce(
        topic,
        [b"%04d" % number + b"x" * 996 for number in range(1200)],
        config=batches,
        key=b"key",
        headers={"h": b"1"},
    )
    return Path(broker.data_dir / f"{topic}-0")


def batches_of(lines: list[str]) -> list[tuple[str, ...]]:
    return [found.groups() for line in lines if (found := BATCH.match(line))]


def test_every_batch_is_valid_and_every_record_is_shown(dump: Callable[..., Any], partition: Path) -> None:
    dumped = dump(partition / f"{SEGMENT}.log", "--print-data-log")

    assert dumped.lines[1] == "Log starting offset: 0"
    batches = batches_of(dumped.lines)
    assert all(batch[4] == "true" for batch in batches)
    count = sum(int(batch[2]) for batch in batches)
    assert 900 < count < 1200
    assert int(batches[-1][1]) == count - 1
    records = [line for line in dumped.lines if line.startswith("| offset: ")]
    assert len(records) == count
    assert (partition / f"{count:020}.log").exists()
    assert re.fullmatch(
        r"\| offset: 7 CreateTime: \d+ keySize: 3 valueSize: 1000 sequence: 7 headerKeys: \[h\] "
        r"key: key payload: 0007x+",
        records[7],
    )


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_stored_unchanged(
    dump: Callable[..., Any], broker: Any, new_topic: Callable[..., str], produce: Callable[..., Any], codec: str
) -> None:
    topic = new_topic()
    produce(topic, [b"repeat " * 50] * 100, config={"compression.type": codec, "linger.ms": 50})

    dumped = dump(broker.data_dir / f"{topic}-0" / f"{SEGMENT}.log", "--deep-iteration")

    batches = batches_of(dumped.lines)
    assert {batch[3:] for batch in batches} == {(codec, "true")}
    assert sum(int(batch[2]) for batch in batches) == 100


@pytest.mark.parametrize(
    "check", [pytest.param("--index-sanity-check", id="sanity"), pytest.param("--verify-index-only", id="verify")]
)
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_indexes_agree_with_the_log(dump: Callable[..., Any], partition: Path, suffix: str, check: str) -> None:
    dumped = dump(partition / f"{SEGMENT}.{suffix}", check)

    assert "passed sanity check" in dumped.stdout or dumped.lines == [f"Dumping {partition}/{SEGMENT}.{suffix}"]
    assert "Mismatches" not in dumped.stdout
    assert "Found " not in dumped.stdout


def test_offset_index_is_sparse_and_points_at_batches(dump: Callable[..., Any], partition: Path) -> None:
    log = dump(partition / f"{SEGMENT}.log")
    index = dump(partition / f"{SEGMENT}.index")

    ends = {
        found[1]: found[2]
        for line in log.lines
        if (found := re.match(r"baseOffset: \d+ lastOffset: (\d+) .* position: (\d+) ", line))
    }
    entries = [found.groups() for line in index.lines if (found := re.match(r"offset: (\d+) position: (\d+)", line))]
    assert 0 < len(entries) <= len(ends)
    assert all(ends[offset] == position for offset, position in entries)


@pytest.fixture
def cluster_metadata(broker: Any) -> Path:
    return Path(broker.data_dir / "__cluster_metadata-0")


def test_metadata_log_is_in_kafkas_record_format(
    dump: Callable[..., Any], cluster_metadata: Path, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2, retention_ms=5000)

    logs = sorted(cluster_metadata.glob("*.log"))
    text = "\n".join(dump(path, "--cluster-metadata-decoder").stdout for path in logs)

    assert re.search(r'"type":"TOPIC_RECORD","version":0,"data":\{"name":"' + topic, text)
    assert text.count('"type":"PARTITION_RECORD"') >= 2
    assert f'{{"type":"CONFIG_RECORD","version":0,"data":{{"resourceType":2,"resourceName":"{topic}",' in text
    assert '"type":"REGISTER_BROKER_RECORD"' in text
    assert "isvalid: false" not in text


def test_metadata_log_starts_with_the_leader_and_the_features(dump: Callable[..., Any], cluster_metadata: Path) -> None:
    text = dump(cluster_metadata / f"{SEGMENT}.log", "--cluster-metadata-decoder").stdout

    assert 'LeaderChange: {"version":' in text
    assert '"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":30}' in text


def test_committed_offsets_are_in_kafkas_record_format(
    dump: Callable[..., Any],
    broker: Any,
    new_topic: Callable[..., str],
    unique: Callable[[str], str],
    commit: Callable[..., None],
) -> None:
    topic, group = new_topic(), unique("dumped")
    commit(group, [TopicPartition(topic, 0, 42)])

    logs = [path for path in broker.data_dir.glob(f"__consumer_offsets-*/{SEGMENT}.log") if path.stat().st_size]
    text = "\n".join(dump(path, "--offsets-decoder").stdout for path in logs)

    key = f'{{"type":"1","data":{{"group":"{group}","topic":"{topic}","partition":0}}}}'
    assert re.search(re.escape(f"key: {key} payload: ") + r'\{"version":"\d+","data":\{"offset":42,', text)


def test_clean_shutdown_leaves_a_producer_snapshot(dump: Callable[..., Any], new_node: Callable[[], Any]) -> None:
    node = new_node()
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "log_level": 0})
    for _ in range(5):
        producer.produce("snapshots", b"v", partition=0)
    assert producer.flush(30) == 0
    producer.produce("snapshots", b"v", partition=0)
    assert producer.flush(30) == 0

    node.stop()

    snapshot = node.data_dir / "snapshots-0" / f"{6:020}.snapshot"
    dumped = dump(snapshot)
    assert re.search(
        r"producerId: \d+ producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        r"lastTimestamp: \d+ firstSequence: 5 lastSequence: 5 lastOffset: 5 offsetDelta: 0 timestamp: \d+",
        dumped.stdout,
    ), dumped.stdout
    assert "lastSequence: 4 lastOffset: 4 offsetDelta: 4" in dumped.stdout
