"""Silver: typed flights, each once; malformed and late records go to the dead-letter topic with reason and origin.

Late is decided per record, from the record alone: it arrived (Kafka's record timestamp) more than the allowed lateness
after its event time. Spark's own watermark is not used for that. It moves from batch to batch with the newest event of
*all* partitions, so lateness would depend on where batches end, and late rows would vanish with only a counter.
Decided per record, the same log gives the same tables whatever the batches, restarts or the speed of reading.

De-duplication is a MERGE that inserts a flight_id only where the table has none, so a batch that is repeated after a
crash changes nothing. The dead-letter topic may get that batch's rows twice: count them by their source position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla_spark.settings import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

# Column names, types and JSON names of a flight are one and the same; without the REQUIRED it has no meaning.
SCHEMA = """
    flight_id STRING, event_time TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
    sched_dep_time INT, dep_time INT, dep_delay INT, sched_arr_time INT, arr_time INT, arr_delay INT,
    air_time INT, distance INT
"""
REQUIRED = ("flight_id", "event_time", "carrier", "flight", "origin", "dest")
POSITION = ("topic", "partition", "offset")
MALFORMED = "malformed"
LATE = "late"
_CORRUPT = "_corrupt"


def columns() -> str:
    """Return the table's columns as SQL: the flight, and where its record came from."""
    return f"{SCHEMA}, topic STRING, partition INT, offset BIGINT, arrived_at TIMESTAMP"


def create_table(spark: SparkSession, settings: PipelineSettings) -> None:
    spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{settings.table('silver')}` ({columns()}) USING DELTA")


def start(spark: SparkSession, settings: PipelineSettings) -> StreamingQuery:
    """Start and return the query from the bronze table to the silver table and the dead-letter topic."""
    create_table(spark, settings)

    def settle(batch: DataFrame, batch_id: int) -> None:
        del batch_id  # both effects may be repeated; neither needs to know which batch it is
        judged = judge(batch, lateness_minutes_max=settings.lateness_minutes_max).persist()
        try:
            _send_dead_letters(judged, settings)
            _insert_new(judged, settings)
        finally:
            judged.unpersist()

    return (
        spark.readStream.format("delta")
        .load(settings.table("bronze"))
        .writeStream.queryName("silver")
        .foreachBatch(settle)
        .option("checkpointLocation", settings.checkpoint("silver"))
        .trigger(**settings.trigger_options())
        .start()
    )


def judge(records: DataFrame, *, lateness_minutes_max: int) -> DataFrame:
    """Return bronze ``records`` with ``event`` (of `SCHEMA`), ``error_class`` and ``error``, null for a good record.

    ``error_class`` is ``malformed`` (not JSON of the schema, or a required field is missing) or ``late``.
    """
    from pyspark.sql import functions as F

    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    schema = f"{SCHEMA}, {_CORRUPT} STRING"
    parsed = records.withColumn("event", F.from_json(F.col("value").cast("string"), schema, options))
    missing = F.concat_ws(", ", *[F.when(F.col(f"event.{name}").isNull(), F.lit(name)) for name in REQUIRED])
    late_seconds = F.unix_seconds("timestamp") - F.unix_seconds("event.event_time")
    not_json = F.col("event").isNull() | F.col(f"event.{_CORRUPT}").isNotNull()
    is_late = late_seconds > lateness_minutes_max * 60
    error_class = F.when(not_json | (missing != ""), MALFORMED).when(is_late, LATE)
    error = (
        F.when(not_json, "the value is not JSON of the flight's schema")
        .when(missing != "", F.concat(F.lit("required fields are missing: "), missing))
        .when(
            is_late,
            F.format_string(
                f"arrived %d minutes after its event time; {lateness_minutes_max} are allowed",
                F.floor(late_seconds / 60),
            ),
        )
    )
    return parsed.withColumns({"error_class": error_class, "error": error})


def _send_dead_letters(judged: DataFrame, settings: PipelineSettings) -> None:
    """Write rejected records with their original key, value and headers; reason and position are further headers."""
    from pyspark.sql import functions as F

    def header(name: str, value: Column) -> Column:
        return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))

    reasons = F.array(
        header("error.class", F.col("error_class")),
        header("error.message", F.col("error")),
        *[header(f"source.{name}", F.col(name)) for name in POSITION],
        header("source.timestamp_ms", F.unix_millis("timestamp")),
    )
    original = F.coalesce("headers", F.array().cast("array<struct<key:string,value:binary>>"))
    (
        judged.where(F.col("error_class").isNotNull())
        .select("key", "value", F.concat(original, reasons).alias("headers"))
        .write.format("kafka")
        .options(**settings.client_options(), topic=settings.dead_letter_topic, includeHeaders="true")
        .save()
    )


def _insert_new(judged: DataFrame, settings: PipelineSettings) -> None:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    good = judged.where(F.col("error_class").isNull())
    earliest_us = good.agg(F.unix_micros(F.min("event.event_time"))).first()[0]
    if earliest_us is None:
        return
    # Of several records of one flight the first in the log stays, in one batch as between batches: by offset, not time.
    in_log_order = Window.partitionBy("event.flight_id").orderBy(*POSITION)
    first = (
        good.withColumn("nth", F.row_number().over(in_log_order))
        .where("nth = 1")
        .select("event.*", *POSITION, F.col("timestamp").alias("arrived_at"))
        .drop(_CORRUPT)
    )
    first.createOrReplaceTempView("new_flights")
    # The time bound lets Delta skip the files of older flights; it is exact, for a repeat has the same event time.
    first.sparkSession.sql(
        f"""
        MERGE INTO delta.`{settings.table("silver")}` AS known USING new_flights AS new
        ON known.flight_id = new.flight_id AND known.event_time >= timestamp_micros({earliest_us})
        WHEN NOT MATCHED THEN INSERT *
        """
    )
