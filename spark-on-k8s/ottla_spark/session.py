"""The one Spark session of all stages: Kafka's connector and Delta on the class path, sized for small hosts."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ottla_spark.settings import AVAILABLE_NOW, PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkStartError(RuntimeError):
    """Spark's Java process did not start; the message ends with its last lines."""


def start_session(
    settings: PipelineSettings, *, jars: list[Path] | None = None, log_file: Path | None = None
) -> SparkSession:
    """Return a SparkSession in UTC, started with this process's own Java when no spark-submit has started one.

    Args:
        settings: of these only those about Spark itself.
        jars: put on the class path (see `ottla_spark.jars`); None when ``$SPARK_HOME/jars`` has them already.
        log_file: receives everything Java writes to stderr, so that a terminal shows only the pipeline's own lines.

    Raises:
        SparkStartError: Java ended before it was ready.
    """
    from pyspark.sql import SparkSession as Session

    builder = Session.builder.appName("ottla-flights")
    if settings.master:
        builder = builder.master(settings.master)
    for key, value in _options(settings, jars).items():
        builder = builder.config(key, value)
    # The pipeline runs no Python in executors, but pyspark insists that all Pythons are one version.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if settings.master:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with _java_stderr_to(log_file), warnings.catch_warnings():
        # pyspark warns of the pandas that happens to be installed; the pipeline gives it none to handle.
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        try:
            return builder.getOrCreate()
        except Exception as failure:
            raise SparkStartError(f"Spark did not start: {failure}{_last_lines(log_file)}") from failure


def _options(settings: PipelineSettings, jars: list[Path] | None) -> dict[str, str]:
    log4j2 = files("ottla_spark").joinpath("log4j2.properties")
    parallelism = str(settings.parallelism)
    options = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": parallelism,
        "spark.databricks.delta.snapshotPartitions": parallelism,
        # Stages and their queries are reported by the pipeline itself.
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.stopTimeout": "30s",
    }
    if settings.trigger == AVAILABLE_NOW:
        # Rows are summed from the reports of all batches of a run, so all of them must be kept.
        options["spark.sql.streaming.numRecentProgressUpdates"] = "100000"
    else:
        # A table that gets a few small files every few seconds would slow down by their number.
        options["spark.databricks.delta.autoCompact.enabled"] = "true"
    if settings.master:
        java_options = f"-Dlog4j2.configurationFile={log4j2} -XX:+UseParallelGC"
        if settings.trigger == AVAILABLE_NOW:
            # A run of a minute is over before the optimizing compiler pays: without it, a third less CPU time.
            java_options += " -XX:TieredStopAtLevel=1"
        options |= {
            "spark.driver.memory": settings.driver_memory,
            "spark.driver.extraJavaOptions": java_options,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
    if jars:
        options["spark.driver.extraClassPath"] = os.pathsep.join(str(jar.resolve()) for jar in jars)
    return options


@contextlib.contextmanager
def _java_stderr_to(log_file: Path | None) -> Iterator[None]:
    """Lend Java a file as stderr: it inherits the descriptor when it starts and keeps it."""
    if log_file is None:
        yield
        return
    log_file.parent.mkdir(parents=True, exist_ok=True)
    terminal = os.dup(2)
    try:
        with log_file.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _last_lines(log_file: Path | None) -> str:
    if log_file is None or not log_file.exists():
        return ""
    lines = log_file.read_text(errors="replace").splitlines()[-10:]
    return f"\nlast lines of {log_file}:\n" + "\n".join(lines)
