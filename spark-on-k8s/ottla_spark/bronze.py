"""Bronze: every record of the topic as it came, with its position. Nothing is parsed, so nothing can be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla_spark.settings import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

COLUMNS = """
    key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>,
    topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestamp_type INT
"""


def create_table(spark: SparkSession, settings: PipelineSettings) -> None:
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS delta.`{settings.table('bronze')}` ({COLUMNS}) USING DELTA"
        # Statistics of raw bytes would cost time without use; those of the position help to find a record again.
        " TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'partition,offset,timestamp')"
    )


def start(spark: SparkSession, settings: PipelineSettings) -> StreamingQuery:
    """Start and return the query that appends the topic's records to the bronze table.

    Exactly once: Delta commits a batch together with its number, and skips a number it has seen.
    """
    create_table(spark, settings)
    options = {
        "subscribe": settings.topic,
        "startingOffsets": settings.starting_offsets,
        "includeHeaders": "true",
        # A gap would silently break the counts of every later stage: stop with an error instead.
        "failOnDataLoss": "true",
    }
    if settings.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(settings.max_offsets_per_trigger)
    records = spark.readStream.format("kafka").options(**settings.client_options(), **options).load()
    return (
        records.withColumnRenamed("timestampType", "timestamp_type")
        .select("key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestamp_type")
        .writeStream.queryName("bronze")
        .format("delta")
        .outputMode("append")
        .option("checkpointLocation", settings.checkpoint("bronze"))
        .trigger(**settings.trigger_options())
        .start(settings.table("bronze"))
    )
