"""The whole medallion over a week of flights: killed in the middle and continued, gold equals the CSV in every cell."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla_spark.dirt import Dirt, stream
from ottla_spark.feed import feed
from ottla_spark.flights import csv_rows, events
from ottla_spark.jars import JarsError, resolve_jars
from ottla_spark.java import JavaMissingError, ensure_java
from ottla_spark.table import read_gold
from ottla_spark.verify import Account, expected_by_csv, verify

# Several starts of Spark, each with a compiler to warm up.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DIRT = Dirt(duplicates=60, malformed=30, late=15)
BATCH_RECORDS = 4_000


class Pipeline:
    """The pipeline's command on one topic and one set of tables, as a process of its own."""

    def __init__(self, bootstrap: str, topic: str, dead_letter_topic: str, folder: Path) -> None:
        self.folder = folder
        self.command = [
            *(sys.executable, "-m", "ottla_spark.pipeline", "--bootstrap-servers", bootstrap, "--topic", topic),
            *("--dead-letter-topic", dead_letter_topic, "--table-root", str(folder / "tables")),
            *("--checkpoint-root", str(folder / "checkpoints"), "--log-file", str(folder / "spark.log")),
            *("--gold", str(folder / "gold.csv"), "--report", str(folder / "report.json"), "-o", "json"),
            *("--driver-memory", "1g", "--max-offsets-per-trigger", str(BATCH_RECORDS)),
        ]

    def start(self, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command, *more], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def finish(self) -> None:
        process = self.start()
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, f"{err}\n{out[-2000:]}\n{self.log()}"

    def log(self) -> str:
        return (self.folder / "spark.log").read_text(errors="replace")[-4000:]


def await_event(process: subprocess.Popen[str], wanted: Callable[[dict[str, Any]], bool]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if wanted(json.loads(line)):
            return
    assert process.stderr is not None
    pytest.fail(f"the pipeline ended too early: {process.stderr.read()}")


def end_by(process: subprocess.Popen[str], how: signal.Signals) -> int:
    """Send the signal to Python and Java; return the exit code."""
    os.killpg(process.pid, how)
    process.communicate(timeout=60)
    return process.returncode


@pytest.fixture
def week() -> list[dict[str, str]]:
    return [row for row in csv_rows() if row["time_hour"] < "2013-01-08"]


@pytest.fixture
def pipeline(broker: Any, new_topic: Callable[..., str], tmp_path: Path) -> Pipeline:
    try:
        ensure_java()
        resolve_jars()
    except (JavaMissingError, JarsError) as missing:
        pytest.skip(str(missing))
    # The records' times are those of 2013: neither retention nor the segments' age may count from them.
    topic = new_topic(partitions=3, retention_ms=-1, segment_ms=94_608_000_000)
    return Pipeline(broker.bootstrap, topic, new_topic(retention_ms=-1), tmp_path)


def fill(pipeline: Pipeline, week: list[dict[str, str]]) -> None:
    arguments = dict(zip(pipeline.command[3::2], pipeline.command[4::2], strict=False))
    feed(stream(events(week), DIRT), bootstrap_servers=arguments["--bootstrap-servers"], topic=arguments["--topic"])


def check_tables(pipeline: Pipeline, week: list[dict[str, str]]) -> None:
    report = json.loads((pipeline.folder / "report.json").read_text())
    verify(
        read_gold(pipeline.folder / "gold.csv"),
        expected_by_csv(week),
        account=Account(**report["account"]),
        dirt=DIRT,
    )


def test_gold_is_exact_after_a_kill_in_the_middle(pipeline: Pipeline, week: list[dict[str, str]]) -> None:
    fill(pipeline, week)
    process = pipeline.start()
    await_event(process, lambda event: event["event"] == "stage" and event["stage"] == "bronze")
    await_event(process, lambda event: event["event"] == "progress" and event["tasks"] > 0)
    assert end_by(process, signal.SIGKILL) == -signal.SIGKILL

    pipeline.finish()

    check_tables(pipeline, week)

    pipeline.finish()  # a run with nothing new reads nothing and changes nothing

    check_tables(pipeline, week)
    report = json.loads((pipeline.folder / "report.json").read_text())
    assert [stage["rows"] for stage in report["stages"]] == [0, 0, 0]


def test_stages_run_concurrently_until_sigterm(pipeline: Pipeline, week: list[dict[str, str]]) -> None:
    fill(pipeline, week)
    process = pipeline.start("--trigger", "1 second")
    await_event(process, lambda event: event["event"] == "batch" and event["name"] == "gold")
    os.killpg(process.pid, signal.SIGTERM)  # the signal goes to Java, too
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, f"{err}\n{out[-2000:]}\n{pipeline.log()}"

    pipeline.finish()

    check_tables(pipeline, week)


def test_interrupted_it_leaves_nothing_running(pipeline: Pipeline, week: list[dict[str, str]]) -> None:
    fill(pipeline, week)
    process = pipeline.start()
    await_event(process, lambda event: event["event"] == "progress" and event["tasks"] > 0)

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)

    assert process.returncode == 130
    deadline = time.monotonic() + 30
    while session_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert session_of(process.pid) == []


def session_of(leader: int) -> list[str]:
    """Return the commands that still run in the session of ``leader``."""
    found = subprocess.run(["ps", "-o", "args=", "--sid", str(leader)], capture_output=True, text=True)
    return [line for line in found.stdout.splitlines() if "defunct" not in line]
