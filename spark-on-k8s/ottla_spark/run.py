"""Run the three stages, bronze, silver and gold, and count the rows of each.

With the trigger ``available-now`` the stages run one after the other over everything the topic has, then the run ends;
with an interval they run concurrently until they are stopped. Either can be killed at any time and started again: the
tables end up the same.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ottla_spark import bronze, gold, silver
from ottla_spark.settings import PipelineSettings
from ottla_spark.table import GoldRow
from ottla_spark.verify import Account

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

STAGES: dict[str, ModuleType] = {"bronze": bronze, "silver": silver, "gold": gold}
_POLL_SECONDS = 0.2


class PipelineError(RuntimeError):
    """A stage failed; the message names the stage and Spark's own reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a stage: tasks of the Spark jobs that run right now; zero of zero between jobs."""

    stage: str
    seconds: float
    tasks_done: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """Rows and time of a stage in this run."""

    stage: str
    rows: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(slots=True, kw_only=True)
class RunReport:
    """One run with the trigger ``available-now``: its stages, the totals, and the gold table."""

    stages: list[StageReport] = field(default_factory=list)
    account: Account | None = None
    gold: list[GoldRow] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return everything but the gold rows, with their number instead."""
        stages = [asdict(stage) | {"rows_per_second": round(stage.rows_per_second)} for stage in self.stages]
        return {
            "stages": stages,
            "account": asdict(self.account) if self.account else None,
            "gold_rows": len(self.gold),
        }


OnProgress = Callable[[Progress], None]
OnStage = Callable[[StageReport], None]


def run_available(
    spark: SparkSession,
    settings: PipelineSettings,
    *,
    on_progress: OnProgress | None = None,
    on_stage: OnStage | None = None,
) -> RunReport:
    """Run each stage over everything there is, in order, and return the report with the gold table.

    ``on_progress`` is called five times a second while a stage runs, ``on_stage`` once after each stage.

    Raises:
        PipelineError: a stage failed. Its finished batches are kept; the next run continues there.
    """
    report = RunReport()
    for name, stage in STAGES.items():
        started = time.monotonic()
        query = stage.start(spark, settings)
        _wait(spark, query, name, started, on_progress)
        rows = sum(progress["numInputRows"] for progress in query.recentProgress)
        done = StageReport(stage=name, rows=rows, seconds=time.monotonic() - started)
        report.stages.append(done)
        if on_stage:
            on_stage(done)
    report.gold = gold.rows(spark, settings)
    report.account = account(spark, settings)
    return report


def run_continuously(
    spark: SparkSession, settings: PipelineSettings, *, on_batch: Callable[[dict[str, Any]], None]
) -> None:
    """Run all stages concurrently until one fails or the process is stopped (SIGTERM, SIGINT).

    ``on_batch`` is called with Spark's progress object of each batch that had rows.

    Raises:
        PipelineError: a stage failed.
    """
    from py4j.protocol import Py4JError

    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: stopping.append(received))
    queries = {name: stage.start(spark, settings) for name, stage in STAGES.items()}
    try:
        _watch(queries, on_batch, until=stopping)
    except (Py4JError, ConnectionError, PipelineError):
        if not stopping:
            raise
    for query in queries.values():
        # A signal to the whole process group ends Java too, perhaps before it can be stopped. The checkpoints
        # make either end safe.
        with contextlib.suppress(Py4JError, ConnectionError):
            query.stop()


def _watch(queries: dict[str, StreamingQuery], on_batch: Callable[[dict[str, Any]], None], until: list[int]) -> None:
    """Report batches until a signal has arrived."""
    seen = dict.fromkeys(queries, -1)
    while not until:
        for name, query in queries.items():
            _raise_failure(query, name)
            progress = query.lastProgress
            # An idle query reports, without rows, the batch that it would run next.
            if progress and progress["numInputRows"] and progress["batchId"] != seen[name]:
                seen[name] = progress["batchId"]
                on_batch(json.loads(progress.json))
        time.sleep(_POLL_SECONDS)


def account(spark: SparkSession, settings: PipelineSettings) -> Account:
    """Count the tables and the dead-letter topic.

    The dead-letter topic may hold a record more than once (a batch repeated after a crash), so positions are counted.
    """
    from pyspark.sql import functions as F

    records = spark.read.format("delta").load(settings.table("bronze")).count()
    flights = spark.read.format("delta").load(settings.table("silver")).count()
    letters = (
        spark.read.format("kafka")
        .options(**settings.client_options(), subscribe=settings.dead_letter_topic, includeHeaders="true")
        .load()
        .select(F.expr("transform(headers, h -> struct(h.key, string(h.value)))").alias("headers"))
        .select(F.map_from_entries("headers").alias("header"))
        .select(
            F.col("header")["error.class"].alias("error_class"),
            *[F.col("header")[f"source.{name}"].alias(name) for name in silver.POSITION],
        )
        .distinct()
    )
    by_class = {row["error_class"]: row["count"] for row in letters.groupBy("error_class").count().collect()}
    malformed, late = by_class.get(silver.MALFORMED, 0), by_class.get(silver.LATE, 0)
    return Account(
        records=records,
        flights=flights,
        duplicates=records - flights - malformed - late,
        malformed=malformed,
        late=late,
    )


def _wait(
    spark: SparkSession, query: StreamingQuery, name: str, started: float, on_progress: OnProgress | None
) -> None:
    try:
        while query.isActive:
            if on_progress:
                on_progress(_progress(spark, name, time.monotonic() - started))
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        query.stop()
        raise
    _raise_failure(query, name)


def _raise_failure(query: StreamingQuery, name: str) -> None:
    failure = query.exception()
    if failure is not None:
        raise PipelineError(f"stage {name} failed: {_reason(str(failure))}")


def _reason(text: str) -> str:
    """Return Spark's reason on one line, without the description of the query that it appends."""
    reason = text.partition("=== Streaming Query ===")[0]
    return " ".join(line.strip() for line in reason.splitlines()[:6] if line.strip())


def _progress(spark: SparkSession, name: str, seconds: float) -> Progress:
    tracker = spark.sparkContext.statusTracker()
    running = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in running if stage is not None]
    return Progress(
        stage=name,
        seconds=seconds,
        tasks_done=sum(stage.numCompletedTasks for stage in known),
        tasks=sum(stage.numTasks for stage in known),
    )
