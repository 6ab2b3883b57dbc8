"""The pipeline's command line: it fails early, in one line, with the exit code of its cause."""

import json
import socket

import pytest

from ottla_spark import pipeline
from ottla_spark.java import JavaMissingError
from ottla_spark.pipeline import main, require_broker
from ottla_spark.run import PipelineError

REQUIRED = ["--table-root", "t", "--checkpoint-root", "c", "--bootstrap-servers"]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_one_broker_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        checked = require_broker(f"127.0.0.1:{closed_port()}, 127.0.0.1:{server.getsockname()[1]}")

    assert checked is None


def test_unreachable_brokers_are_reported_at_once_by_address() -> None:
    port = closed_port()

    with pytest.raises(PipelineError, match=rf"127\.0\.0\.1:{port}: .*refused.*'nowhere' is not HOST:PORT.*ottla up"):
        require_broker(f"127.0.0.1:{port},nowhere")


@pytest.mark.parametrize("extra", [[], ["-o", "json"]], ids=["text", "json"])
def test_failure_is_one_line_on_stderr(extra: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = main([*REQUIRED, f"127.0.0.1:{closed_port()}", *extra])

    out, err = capsys.readouterr()
    assert exit_code == 1
    assert out == ""
    assert err.startswith("error: no broker is reachable")
    assert err.count("\n") == 1


def test_missing_java_fails_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise JavaMissingError("Spark needs Java 17 or newer")

    monkeypatch.setattr(pipeline, "ensure_java", missing)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        exit_code = main([*REQUIRED, f"127.0.0.1:{server.getsockname()[1]}"])

    assert (exit_code, capsys.readouterr().err) == (1, "error: Spark needs Java 17 or newer\n")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--bootstrap-servers", "h:1"], id="no-tables"),
        pytest.param([*REQUIRED, "h:1", "--kafka-option", "security.protocol"], id="half-an-option"),
        pytest.param([*REQUIRED, "h:1", "-o", "xml"], id="an-unknown-format"),
    ],
)
def test_wrong_usage_is_exit_code_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage:" in capsys.readouterr().err


def test_dirt_is_read_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*REQUIRED, "h:1", "--verify", "mud"]) == 1
    assert "cannot read dirt 'mud'" in capsys.readouterr().err


def test_events_are_lines_of_json_or_text(capsys: pytest.CaptureFixture[str]) -> None:
    stage = {"stage": "bronze", "rows": 342_026, "seconds": 2.0, "rows_per_second": 171_013}
    progress = {"stage": "bronze", "seconds": 0.2, "tasks_done": 1, "tasks": 6}

    for emit in (pipeline._emit_json, pipeline._emit_text):
        emit("progress", progress)
        emit("stage", stage)

    first, second, text = capsys.readouterr().out.splitlines()
    assert json.loads(first) == {"event": "progress"} | progress
    assert json.loads(second) == {"event": "stage"} | stage
    assert text.split() == ["bronze", "342,026", "rows", "2.0", "s", "171,013", "rows/s"]
