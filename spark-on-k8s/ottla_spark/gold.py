"""Gold: delay statistics per origin and hour, in event-time windows.

For every batch of new flights the windows that they touch are computed again from silver and merged into the table. So
a row of gold is always a function of silver alone: batches may be cut anywhere and repeated after a crash, and a
flight may arrive hours after the others of its window. Delta's file statistics keep the cost at the touched hours.

Sums are integers, so gold can be compared with any other computation exactly; each ratio is one IEEE division.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla_spark.settings import PipelineSettings
from ottla_spark.table import DELAYED_OVER_MINUTES, GoldRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

WINDOW = "1 hour"

_STATISTICS = f"""
    count(*) AS flights,
    count(dep_time) AS departed,
    count(*) - count(dep_time) AS cancelled,
    count(arr_delay) AS arrived,
    coalesce(sum(dep_delay), 0) AS dep_delay_minutes_sum,
    max(dep_delay) AS dep_delay_minutes_max,
    coalesce(sum(arr_delay), 0) AS arr_delay_minutes_sum,
    count_if(dep_delay > {DELAYED_OVER_MINUTES}) AS delayed_over_15,
    try_divide(double(coalesce(sum(dep_delay), 0)), double(count(dep_time))) AS dep_delay_minutes_mean,
    try_divide(double(count_if(dep_delay > {DELAYED_OVER_MINUTES})), double(count(dep_time))) AS delayed_share
"""
_COLUMNS = """
    origin STRING, hour TIMESTAMP, flights BIGINT, departed BIGINT, cancelled BIGINT, arrived BIGINT,
    dep_delay_minutes_sum BIGINT, dep_delay_minutes_max INT, arr_delay_minutes_sum BIGINT, delayed_over_15 BIGINT,
    dep_delay_minutes_mean DOUBLE, delayed_share DOUBLE
"""


def create_table(spark: SparkSession, settings: PipelineSettings) -> None:
    spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{settings.table('gold')}` ({_COLUMNS}) USING DELTA")


def start(spark: SparkSession, settings: PipelineSettings) -> StreamingQuery:
    """Start and return the query from the silver table to the gold table."""
    create_table(spark, settings)

    def merge(batch: DataFrame, batch_id: int) -> None:
        del batch_id  # the merge sets values, it adds none: repeating a batch changes nothing
        _merge_windows(batch, settings)

    return (
        spark.readStream.format("delta")
        .load(settings.table("silver"))
        .writeStream.queryName("gold")
        .foreachBatch(merge)
        .option("checkpointLocation", settings.checkpoint("gold"))
        .trigger(**settings.trigger_options())
        .start()
    )


def statistics(flights: DataFrame) -> DataFrame:
    """Return gold's rows for silver's ``flights``: one per origin and window that has any."""
    from pyspark.sql import functions as F

    names = ["origin", "window.start AS hour", *GoldRow._fields[2:]]
    aggregates = [F.expr(line.strip()) for line in _STATISTICS.strip().split(",\n")]
    return flights.groupBy("origin", F.window("event_time", WINDOW)).agg(*aggregates).selectExpr(*names)


def rows(spark: SparkSession, settings: PipelineSettings) -> list[GoldRow]:
    """Return the gold table in order of hour and origin."""
    table = spark.read.format("delta").load(settings.table("gold"))
    text = table.selectExpr("origin", "date_format(hour, \"yyyy-MM-dd'T'HH:mm:ss'Z'\") AS hour", *GoldRow._fields[2:])
    return sorted((GoldRow(*row) for row in text.collect()), key=lambda row: (row.hour, row.origin))


def _merge_windows(batch: DataFrame, settings: PipelineSettings) -> None:
    from pyspark.sql import functions as F

    touched = batch.select("origin", F.window("event_time", WINDOW).alias("window")).distinct().persist()
    try:
        first_us, end_us = touched.agg(F.unix_micros(F.min("window.start")), F.unix_micros(F.max("window.end"))).first()
        if first_us is None:
            return
        spark = batch.sparkSession
        flights = (
            spark.read.format("delta")
            .load(settings.table("silver"))
            .where(f"event_time >= timestamp_micros({first_us}) AND event_time < timestamp_micros({end_us})")
        )
        keys = touched.selectExpr("origin", "window.start AS hour")
        statistics(flights).join(F.broadcast(keys), ["origin", "hour"], "left_semi").createOrReplaceTempView("fresh")
        spark.sql(
            f"""
            MERGE INTO delta.`{settings.table("gold")}` AS gold USING fresh
            ON gold.origin = fresh.origin AND gold.hour = fresh.hour
               AND gold.hour >= timestamp_micros({first_us}) AND gold.hour < timestamp_micros({end_us})
            WHEN MATCHED THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT *
            """
        )
    finally:
        touched.unpersist()
