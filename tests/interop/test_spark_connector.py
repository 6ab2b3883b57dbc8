"""Spark's own Kafka connector: batch and stream read, batch write, with keys, headers and offsets.

Needs Java, and the connector's jars as `ottla_spark.jars` fetches them.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pyspark_sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: pip install 'ottla[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 or later")
    from ottla_spark.jars import JarsError, resolve_jars

    try:
        jars = resolve_jars()
    except JarsError as error:
        pytest.skip(f"the connector's jars are not here: {error}")
    paths = [str(path) for path in jars]
    session = (
        pyspark_sql.SparkSession.builder.master("local[1]")
        .appName("interop")
        .config("spark.jars", ",".join(paths))
        .config("spark.driver.extraClassPath", ":".join(paths))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def kafka_rows(spark: Any, broker: Any, topic: str, **options: str) -> list[Any]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic)
    rows: list[Any] = reader.options(**options).load().collect()
    return rows


def test_batch_reads_every_record_with_its_place(
    spark: Any, broker: Any, new_topic: Callable[..., str], produce: Callable[..., Any]
) -> None:
    topic = new_topic(partitions=2)
    for partition in (0, 1):
        produce(topic, [b"%d" % number for number in range(100)], partition=partition, key=b"k", headers=[("h", b"1")])

    rows = kafka_rows(spark, broker, topic, includeHeaders="true")

    places = {(row["partition"], row["offset"]): bytes(row["value"]) for row in rows}
    assert places == {(partition, number): b"%d" % number for partition in (0, 1) for number in range(100)}
    assert {(bytes(row["key"]), row["topic"], row["timestampType"]) for row in rows} == {(b"k", topic, 0)}
    assert {(header["key"], bytes(header["value"])) for row in rows for header in row["headers"]} == {("h", b"1")}


def test_batch_reads_between_offsets(
    spark: Any, broker: Any, new_topic: Callable[..., str], produce: Callable[..., Any]
) -> None:
    topic = new_topic()
    produce(topic, [b"%d" % number for number in range(10)])

    rows = kafka_rows(
        spark,
        broker,
        topic,
        startingOffsets=f'{{"{topic}":{{"0":3}}}}',
        endingOffsets=f'{{"{topic}":{{"0":6}}}}',
    )

    assert [bytes(row["value"]) for row in rows] == [b"3", b"4", b"5"]


def test_stream_resumes_from_its_checkpoint(
    spark: Any, broker: Any, new_topic: Callable[..., str], produce: Callable[..., Any], tmp_path: Path
) -> None:
    topic = new_topic(partitions=2)

    def run() -> set[bytes]:
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
        stream = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
        query = (
            stream.select("value")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = [bytes(row["value"]) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
        assert len(rows) == len(set(rows))
        return set(rows)

    produce(topic, [b"a", b"b", b"c"])
    assert run() == {b"a", b"b", b"c"}
    produce(topic, [b"d", b"e"])
    assert run() == {b"a", b"b", b"c", b"d", b"e"}


def test_batch_is_written(spark: Any, broker: Any, new_topic: Callable[..., str], consume: Callable[..., Any]) -> None:
    topic = new_topic(partitions=2)
    rows = spark.range(500).selectExpr("CAST(id AS STRING) AS key", "CONCAT('v', id) AS value")

    rows.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", topic).save()

    assert {(record.key(), record.value()) for record in consume(topic, 500)} == {
        (b"%d" % number, b"v%d" % number) for number in range(500)
    }
