"""The pipeline's command line: one Spark session, the stages, the report, and on request the proof.

Usage: ``python -m ottla_spark.pipeline --bootstrap-servers HOST:PORT --table-root DIR --checkpoint-root DIR``

Started by python it starts its own Spark (``--master``, the jars of `ottla_spark.jars`); started by spark-submit it
uses that one's settings. Results go to stdout, errors to stderr; exit 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla_spark.dirt import Dirt, DirtError
from ottla_spark.flights import FlightsMissingError
from ottla_spark.jars import JarsError, resolve_jars
from ottla_spark.java import JavaMissingError, ensure_java
from ottla_spark.run import PipelineError, run_available, run_continuously
from ottla_spark.session import SparkStartError, start_session
from ottla_spark.settings import AVAILABLE_NOW, PipelineSettings, key_value
from ottla_spark.table import gold_digest, summary_lines, write_gold
from ottla_spark.verify import VerificationError, expected_by_csv, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Emit = Callable[[str, dict[str, Any]], None]

_CONNECT_SECONDS_MAX = 5.0

EXPECTED_FAILURES = (
    DirtError,
    FlightsMissingError,
    JarsError,
    JavaMissingError,
    PipelineError,
    SparkStartError,
    VerificationError,
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(arguments)
    emit = _emit_json if options.output == "json" else _emit_text
    try:
        dirt = Dirt.parse(options.verify) if options.verify else None
        _run(options, dirt, emit)
    except EXPECTED_FAILURES as failure:
        sys.stderr.write(f"error: {failure}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _run(options: argparse.Namespace, dirt: Dirt | None, emit: Emit) -> None:
    # spark-submit has chosen Java, jars and master already, and passes the gateway's port to its Python process.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = PipelineSettings(
        bootstrap_servers=options.bootstrap_servers,
        topic=options.topic,
        dead_letter_topic=options.dead_letter_topic or f"{options.topic}-dead-letter",
        table_root=options.table_root,
        checkpoint_root=options.checkpoint_root,
        trigger=options.trigger,
        lateness_minutes_max=options.lateness_minutes_max,
        max_offsets_per_trigger=options.max_offsets_per_trigger,
        kafka_options=dict(options.kafka_option),
        master=None if submitted else options.master,
        parallelism=options.parallelism,
        driver_memory=options.driver_memory,
    )
    require_broker(settings.bootstrap_servers)
    jars = None
    if not submitted:
        ensure_java()
        jars = resolve_jars(options.jars, on_progress=lambda jar: emit("fetching", {"jar": jar}))
    emit("starting", {"topic": settings.topic, "trigger": settings.trigger})
    started = time.monotonic()
    spark = start_session(settings, jars=jars, log_file=options.log_file)
    emit("started", {"seconds": time.monotonic() - started})
    with _stopping(spark, options.log_file):
        if settings.trigger == AVAILABLE_NOW:
            _run_available(spark, settings, options, dirt, emit)
        else:
            run_continuously(spark, settings, on_batch=lambda batch: emit("batch", batch))


def require_broker(bootstrap_servers: str) -> None:
    """Check that one of the addresses accepts connections, because Spark would retry in silence for minutes.

    Raises:
        PipelineError: no address accepts connections; the message has the reason for each.
    """
    failures = []
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdecimal():
            failures.append(f"{server!r} is not HOST:PORT")
            continue
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS_MAX):
                return
        except OSError as failure:
            failures.append(f"{server.strip()}: {failure}")
    raise PipelineError(f"no broker is reachable ({'; '.join(failures)}). Start one with: ottla up")


@contextlib.contextmanager
def _stopping(spark: SparkSession, log_file: Path | None) -> Iterator[None]:
    """Stop Spark in the end, and report in one line that its Java process has died, if it has."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    gone = (Py4JNetworkError, ConnectionError)
    try:
        yield
    except gone as failure:
        raise PipelineError(
            f"Spark's Java process has ended; its last words are in {log_file or 'its output above'}. "
            "Nothing is lost: the same command continues where it stopped"
        ) from failure
    finally:
        with contextlib.suppress(Py4JError, ConnectionError):
            spark.stop()


def _run_available(
    spark: SparkSession, settings: PipelineSettings, options: argparse.Namespace, dirt: Dirt | None, emit: Emit
) -> None:
    report = run_available(
        spark,
        settings,
        on_progress=lambda progress: emit("progress", asdict(progress)),
        on_stage=lambda stage: emit("stage", asdict(stage) | {"rows_per_second": round(stage.rows_per_second)}),
    )
    summary = report.as_json() | {"gold_sha256": gold_digest(report.gold)}
    if options.gold:
        write_gold(options.gold, report.gold)
    if options.report:
        options.report.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    emit("done", summary)
    if options.output == "text":
        sys.stdout.writelines(f"{line}\n" for line in summary_lines(report.gold))
    if dirt is not None:
        verify(report.gold, expected_by_csv(), account=report.account, dirt=dirt)
        emit("verified", {"gold_rows": len(report.gold), "gold_sha256": summary["gold_sha256"]})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ottla_spark.pipeline", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--bootstrap-servers", required=True, metavar="HOST:PORT[,...]")
    add("--table-root", required=True, metavar="DIR", help="Delta tables bronze, silver, gold")
    add("--checkpoint-root", required=True, metavar="DIR", help="keep or delete it together with the tables")
    add("--topic", default="flights")
    add("--dead-letter-topic", metavar="TOPIC", help="default: the topic's name and -dead-letter")
    add("--trigger", default=AVAILABLE_NOW, help="%(default)s (default), or an interval such as '10 seconds'")
    add("--lateness-minutes-max", type=int, default=120, metavar="N", help="default %(default)s")
    add("--max-offsets-per-trigger", type=int, metavar="N", help="records per batch; default all there are")
    add("--kafka-option", action="append", default=[], type=key_value, metavar="KEY=VALUE", help="of the Kafka client")
    add("--master", default="local[2]", help="default %(default)s; ignored under spark-submit")
    add("--parallelism", type=int, default=2, metavar="N", help="partitions of each shuffle; default %(default)s")
    add(
        "--driver-memory",
        default="2g",
        metavar="SIZE",
        help="Java heap; default %(default)s; ignored under spark-submit",
    )
    add("--jars", type=Path, metavar="DIR", help="where the jars are kept; default the user's cache folder")
    add("--gold", type=Path, metavar="FILE", help="write the gold table as CSV")
    add("--report", type=Path, metavar="FILE", help="write rows and seconds per stage and the account as JSON")
    add("--log-file", type=Path, metavar="FILE", help="Spark's own log; default stderr")
    add("--output", "-o", choices=("text", "json"), default="text", help="json: one event per line")
    add(
        "--verify", metavar="DIRT", help="prove gold against the flights' CSV; what the topic was fed: 'none' or counts"
    )
    return parser


def _emit_json(event: str, data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"event": event, **data}) + "\n")
    sys.stdout.flush()


def _emit_text(event: str, data: dict[str, Any]) -> None:
    line = _TEXT[event](data) if event in _TEXT else None
    if line is not None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


_TEXT: dict[str, Callable[[dict[str, Any]], str]] = {
    "fetching": lambda data: f"fetching {data['jar']}",
    "starting": lambda data: f"starting Spark for topic {data['topic']} ({data['trigger']})",
    "started": lambda data: f"start   {data['seconds']:>23.1f} s",
    "stage": lambda data: (
        f"{data['stage']:<6}  {data['rows']:>9,} rows  {data['seconds']:>6.1f} s  {data['rows_per_second']:>9,} rows/s"
    ),
    "batch": lambda data: (
        f"{data['name']:<6}  batch {data['batchId']:>5}  {data['numInputRows']:>9,} rows"
        f"  {data['durationMs'].get('triggerExecution', 0) / 1000:>6.1f} s"
    ),
    "done": lambda data: (
        "{records:,} records: {flights:,} flights, {duplicates:,} duplicates, {malformed:,} malformed, {late:,} late"
    ).format(**data["account"]),
    "verified": lambda data: f"gold equals the CSV: {data['gold_rows']:,} rows, SHA-256 {data['gold_sha256']}",
}

if __name__ == "__main__":
    raise SystemExit(main())
