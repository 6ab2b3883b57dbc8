"""The demo: its steps, its failures, and that no process is left running. `make demo` runs the real one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli import demo
from ottla_operator import local
from ottla_operator.local import ClusterStatus, ExitCode, NodeStatus, Outcome
from ottla_spark import feed as feeding
from ottla_spark import flights, jars, java, plot, verify
from ottla_spark.feed import Fed, FeedError
from ottla_spark.java import JavaMissingError
from ottla_spark.table import GoldRow
from ottla_spark.verify import Account, VerificationError

GOLD = GoldRow(
    origin="JFK",
    hour="2013-01-01T05:00:00Z",
    flights=1,
    departed=1,
    cancelled=0,
    arrived=1,
    dep_delay_minutes_sum=2,
    dep_delay_minutes_max=2,
    arr_delay_minutes_sum=3,
    delayed_over_15=0,
    dep_delay_minutes_mean=2.0,
    delayed_share=0.0,
)
ACCOUNT = Account(records=4, flights=1, duplicates=1, malformed=1, late=1)


def outcome(**changes: Any) -> Outcome:
    settings: dict[str, Any] = {"kind": "Cluster", "name": "ottla", "action": "created", "reason": "x", "message": "m"}
    return Outcome(**{**settings, **changes})


def status() -> ClusterStatus:
    node = NodeStatus(
        node_id=0,
        name="n",
        roles=("broker",),
        state="ready",
        pid=1,
        message="",
        leads=None,
        client_address="h:1",
        http_address="http://h:3",
        log=Path("/l"),
    )
    return ClusterStatus(name="ottla", cluster_id="c", bootstrap_servers="h:1", nodes=(node,))


class Parts:
    """Stand-ins for everything that the demo calls; ``calls`` is the order of the calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self._monkeypatch = monkeypatch
        self.replace(java, "ensure_java", None)
        self.replace(jars, "resolve_jars", [])
        self.replace(local, "up", outcome())
        self.replace(local, "status", status())
        self.replace(local, "apply", [outcome(kind="Topic", name="flights")])
        self.replace(local, "down", ["n"])
        self.replace(flights, "events", [flights.Event(b"k", b"v", 0)])
        self.replace(feeding, "feed", Fed(rows=4, size_bytes=8, seconds=2.0))
        self.replace(verify, "expected_by_pandas", [GOLD])
        self.replace(verify, "verify", None)
        self.replace(plot, "plot", None)
        monkeypatch.setattr("shutil.which", lambda _: "/bin/ottla")
        monkeypatch.setattr(demo, "_run_pipeline", lambda *_: self.calls.append("pipeline") or (ACCOUNT, [GOLD]))

    def replace(self, module: Any, name: str, result: Any) -> None:
        """Let ``name`` return ``result``, or raise it if it is an exception; a running cluster has a directory."""

        def function(*_: Any, **options: Any) -> Any:
            self.calls.append(name)
            if name == "up":
                options["state_dir"].mkdir(parents=True, exist_ok=True)
            if isinstance(result, BaseException):
                raise result
            return result

        self._monkeypatch.setattr(module, name, function)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parts]:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield Parts(monkeypatch)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_steps_run_in_order_and_the_cluster_is_stopped(parts: Parts, run: Any, tmp_path: Path) -> None:
    ran = run("demo", "--dir", str(tmp_path / "d"))

    assert ran.code == 0
    assert parts.calls == [
        "ensure_java",
        "resolve_jars",
        "up",
        "status",
        "apply",
        "events",
        "feed",
        "pipeline",
        "expected_by_pandas",
        "verify",
        "plot",
        "down",
    ]
    assert "Gold equals pandas in every cell of 1 rows." in ran.err
    assert "Three commands to try next:\n  ottla up --detach --dir " in ran.err
    assert f"Picture: {tmp_path / 'd' / 'flights.png'}" in ran.out
    assert ["feed", "4", "2.00", "2"] in [line.split() for line in ran.out.splitlines()]


def test_report_for_programs(parts: Parts, run: Any, tmp_path: Path) -> None:
    report = json.loads(run("demo", "--dir", str(tmp_path), "-o", "json").out)

    assert (report["goldRows"], report["goldEqualsPandas"]) == (1, True)
    assert {"step": "feed", "rows": 4, "seconds": 2.0, "rowsPerSecond": 2} in report["steps"]


def test_keep_running_leaves_the_cluster_running(parts: Parts, run: Any, tmp_path: Path) -> None:
    ran = run("demo", "--dir", str(tmp_path), "--keep-running")

    assert "down" not in parts.calls
    assert "  ottla down --dir " in ran.err


def test_suggested_commands_have_a_path_if_ottla_is_not_in_path(
    parts: Parts, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.executable", str(tmp_path / ".venv" / "bin" / "python"))

    assert "\n  .venv/bin/ottla topic describe flights" in run("demo", "--dir", str(tmp_path)).err


def test_earlier_demo_is_replaced_and_other_files_stay(parts: Parts, run: Any, tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "tables").mkdir()
    (tmp_path / "mine.txt").touch()

    run("demo", "--dir", str(tmp_path))

    assert parts.calls.index("down") < parts.calls.index("up")
    assert not (tmp_path / "tables").exists()
    assert (tmp_path / "mine.txt").exists()


@pytest.mark.parametrize(
    ("failing", "said", "code"),
    [
        pytest.param((java, "ensure_java", JavaMissingError("install it")), "error: install it", 1, id="no-java"),
        pytest.param(
            (local, "up", outcome(exit_code=ExitCode.TIMEOUT, message="no answer")),
            "error: the cluster did not start: no answer",
            1,
            id="no-cluster",
        ),
        pytest.param(
            (local, "apply", [outcome(kind="Topic", name="flights", exit_code=ExitCode.ERROR, message="refused")]),
            "error: Topic flights was not created: refused",
            1,
            id="no-topic",
        ),
        pytest.param((feeding, "feed", FeedError("3 of 4 records")), "error: 3 of 4 records", 1, id="not-all-fed"),
        pytest.param(
            (verify, "verify", VerificationError("JFK differs")),
            "error: gold is NOT what pandas computes from the CSV:\nJFK differs",
            1,
            id="not-proved",
        ),
        pytest.param((feeding, "feed", KeyboardInterrupt()), "interrupted", 130, id="ctrl-c"),
    ],
)
def test_failure_is_reported_and_leaves_no_process_running(
    parts: Parts, run: Any, tmp_path: Path, failing: tuple[Any, str, Any], said: str, code: int
) -> None:
    parts.replace(*failing)

    ran = run("demo", "--dir", str(tmp_path), "--keep-running")

    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert "up" not in parts.calls or parts.calls[-1] == "down"


def test_manifest_has_both_topics() -> None:
    names = [document["metadata"]["name"] for document in local.read_manifests([demo.MANIFEST])]

    assert names == [demo.TOPIC, f"{demo.TOPIC}-dead-letter"]


def test_pipeline_is_ended_with_its_child_processes() -> None:
    child = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    pipeline = subprocess.Popen(
        [sys.executable, "-c", child], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert pipeline.stdout is not None
    grandchild = int(pipeline.stdout.readline())

    demo._end(pipeline)

    assert pipeline.returncode is not None
    for _ in range(1000):
        if not _runs(grandchild):
            break
        time.sleep(0.01)
    assert not _runs(grandchild)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie waits for its parent to reap it; it does not run.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_events_of_the_pipeline_become_steps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events = [
        {"event": "progress", "stage": "bronze", "seconds": 1.0, "tasks_done": 1, "tasks": 2},
        {"event": "progress", "stage": "bronze", "seconds": 2.0, "tasks_done": 2, "tasks": 2},
        {"event": "stage", "stage": "bronze", "rows": 10, "seconds": 2.0},
    ]
    script = f"print({json.dumps(chr(10).join(map(json.dumps, events)))})"
    pipeline = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    ran = demo._Demo(tmp_path)

    with demo.ProgressBar("spark") as bar:
        demo._follow(ran, pipeline, bar)
    demo._end(pipeline)

    assert [(step.name, step.rows) for step in ran.steps] == [("spark", None), ("bronze", 10)]
    assert "10 rows" in capsys.readouterr().err
