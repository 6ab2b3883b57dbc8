"""`ottla format`, `run`, `dev` and `log dump`: a node from formatting to its shutdown."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.dev import _Watch, node_properties
from ottla.cli.ports import free_port
from ottla.cli.samples import CHECK_TOPIC, THERMOMETERS, reading, self_check
from ottla.cli.storage import random_cluster_id
from ottla.config.node_config import NodeConfig
from ottla.config.properties import format_properties
from ottla.types import parse_uuid


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """The server.properties of a single node."""
    settings = node_properties("127.0.0.1", free_port("127.0.0.1"), free_port("127.0.0.1"), tmp_path / "data")
    path = tmp_path / "server.properties"
    path.write_text(format_properties(settings))
    return path


@contextmanager
def started(*arguments: str, program: str = "") -> Iterator["subprocess.Popen[str]"]:
    """Run a command, or ``program`` instead, in a process that is ended with the block."""
    command = [sys.executable, *(("-c", program) if program else ("-m", "ottla")), *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)


def read_until(process: "subprocess.Popen[str]", text: str) -> str:
    """Return the stderr of the process up to a line with ``text``."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if text in line:
            return said
    raise AssertionError(f"the process never said {text!r}: {said}")


def test_cluster_id_is_a_uuid_that_fits_on_a_command_line() -> None:
    made = random_cluster_id()

    assert len(parse_uuid(made)) == 16
    assert not made.startswith("-")


def test_formatted_node_runs_and_ends_cleanly(run: Any, properties: Path, tmp_path: Path) -> None:
    formatted = run("format", "-t", random_cluster_id(), "-c", str(properties), "--standalone")

    with started("run", "-c", str(properties), "--override", "num.io.threads=9") as process:
        said = read_until(process, "is ready")
        os.killpg(process.pid, signal.SIGTERM)
        code = process.wait(20)

    assert formatted.code == 0
    assert "Formatting dynamic metadata voter directory" in formatted.out
    assert "WARNING ottla: num.io.threads=9 has no effect in this release." in said
    assert code == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_formatted_directory_is_not_formatted_again(run: Any, properties: Path) -> None:
    arguments = ("format", "-t", random_cluster_id(), "-c", str(properties), "--standalone")
    run(*arguments)

    again = run(*arguments)

    assert (again.code, "is already formatted" in again.err) == (1, True)
    assert run(*arguments, "--ignore-formatted").code == 0


def test_level_of_a_feature_is_a_number(run: Any, properties: Path) -> None:
    ran = run("format", "-t", random_cluster_id(), "-c", str(properties), "-s", "--feature", "group.version=x")

    assert ran.code == 2


def test_unformatted_node_is_an_error(run: Any, properties: Path) -> None:
    with started("run", "-c", str(properties)) as process:
        code = process.wait(20)
        assert process.stderr is not None
        said = process.stderr.read()

    assert code == 1
    assert "error: " in said
    assert "format" in said


def test_bad_configuration_names_the_key(run: Any, properties: Path) -> None:
    properties.write_text(properties.read_text() + "log.segment.bytes=1\n")

    ran = run("format", "-t", random_cluster_id(), "-c", str(properties), "-s")

    assert ran.code == 1
    assert ran.err == ("error: Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576\n")


def test_dev_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    with started("dev", "--port", "0", "--http-port", "0") as process:
        said = read_until(process, "ottla consume")
        while_running = list(tmp_path.glob("ottla-dev-*"))
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(20)

    assert re.search(r"Ready in \d+\.\d\d s\.  Next: ottla produce hello -b localhost:\d+", said)
    assert len(while_running) == 1
    assert code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("turn", [0, 1], ids=["of-its-pages", "of-its-controller"])
def test_dev_tries_another_port_if_another_process_has_bound_it(tmp_path: Path, turn: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        program = f"""
import sys, ottla.cli.dev as module
real, chosen = module.free_port, [0] * {turn} + [{taken.getsockname()[1]}]
module.free_port = lambda host: (chosen.pop(0) if chosen else 0) or real(host)
from ottla.cli.entry import main
sys.argv = ["ottla", "dev", "--port", "0", "--http-port", "0", "--data-dir", {str(tmp_path)!r}]
sys.exit(main())
"""
        with started(program=program) as process:
            said = read_until(process, "ottla consume")
            os.killpg(process.pid, signal.SIGINT)

            assert process.wait(20) == 0
            assert "Ready in" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
@pytest.mark.parametrize(
    "moment",
    ["ottla.cli.dev.node_properties", "ottla.cli.storage.format_node", "ottla.cli.samples.self_check"],
    ids=["before-the-configuration", "before-the-format", "before-the-self-check"],
)
def test_dev_interrupted_early_prints_that_and_leaves_no_files(
    tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    module, _, name = moment.rpartition(".")
    program = f"""
import asyncio, os, sys, {module} as module
real = module.{name}
def interrupted(*arguments, **options):
    os.kill(os.getpid(), {int(number)})
    # A check that would wait for a node that is gone.
    return asyncio.sleep(3600) if {name!r} == "self_check" else real(*arguments, **options)
module.{name} = interrupted
from ottla.cli.entry import main
sys.argv = ["ottla", "dev", "--port", "0", "--http-port", "0"]
sys.exit(main())
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)

    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "interrupted")
    assert list(tmp_path.iterdir()) == []


def test_command_that_is_interrupted_while_it_is_imported_shows_no_traceback() -> None:
    program = """
import builtins, os, signal, sys
real = builtins.__import__
def interrupted(name, *rest, **named):
    if name == "ottla.cli.main":
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest, **named)
builtins.__import__ = interrupted
import runpy
sys.argv = ["ottla", "--version"]
runpy.run_module("ottla.__main__", run_name="__main__")
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_dev_keeps_its_data_and_feeds_its_sample(tmp_path: Path, run: Any) -> None:
    for _ in range(2):
        with started("dev", "--port", "0", "--http-port", "0", "--sample", "--data-dir", str(tmp_path)) as process:
            said = read_until(process, "ottla consume sample")
            found = re.search(r"Kafka\s+(\S+)", said)
            assert found
            assert run("topic", "describe", "sample", "-b", found[1]).code == 0
            ran = run("consume", "sample", "-n", "1", "-b", found[1])

    assert json.loads(ran.out)["thermometer"] in THERMOMETERS
    assert str(tmp_path) in said


@pytest.mark.parametrize(
    ("elsewhere", "bootstrap", "said"),
    [
        pytest.param(None, "localhost:9092", "Next: ottla produce hello\n", id="where-commands-look"),
        pytest.param(None, "localhost:9093", "Next: ottla produce hello -b localhost:9093\n", id="another-port"),
        pytest.param(
            "localhost:7", "localhost:9092", "ottla produce hello -b localhost:9092\n", id="another-default-address"
        ),
    ],
)
def test_next_command_finds_the_node(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    elsewhere: str | None,
    bootstrap: str,
    said: str,
) -> None:
    if elsewhere:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", elsewhere)

    _Watch("127.0.0.1", 8080, None, sample=False, started_s=0.0)._greet(bootstrap)

    assert said in capsys.readouterr().err


def test_dev_names_the_port_that_is_taken(run: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        ran = run("dev", "--port", str(port))

    assert ran.code == 1
    assert ran.err.startswith(f"error: 127.0.0.1:{port} is in use")
    assert "--port 0 for any" in ran.err


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_dev_advertises_the_address_that_clients_connect_to(host: str, tmp_path: Path) -> None:
    config = NodeConfig.from_properties(node_properties(host, 9092, 8080, tmp_path))

    assert config.ottla_advertise_dialled_address
    assert config.warnings == ()


def test_reading_is_one_event_of_a_thermometer() -> None:
    key, value = reading(7, 1_700_000_000.5)

    event = json.loads(value)
    assert key.decode() == event["thermometer"] == THERMOMETERS[2]
    assert event["at_ms"] == 1_700_000_000_500


def test_self_check_removes_its_topic_and_that_of_an_interrupted_check(ottla: Any, node: str) -> None:
    ottla("topic", "create", CHECK_TOPIC)

    asyncio.run(self_check(node))

    assert "self_check" not in ottla("topic", "list", "--internal", "-o", "name").out


def test_log_is_dumped(run: Any, properties: Path, tmp_path: Path) -> None:
    run("format", "-t", random_cluster_id(), "-c", str(properties), "--standalone")
    snapshot = tmp_path / "data" / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"

    one = run("log", "dump", "--cluster-metadata", str(snapshot))
    folder = run("log", "dump", "--no-data", str(snapshot.parent))

    assert one.code == folder.code == 0
    assert one.out.startswith(f"Dumping {snapshot}\nSnapshot end offset: 0, epoch: 0\n")
    assert "KRaftVoters" in one.out
    assert "KRaftVoters" not in folder.out
    assert f"Dumping {snapshot}" in folder.out


@pytest.mark.parametrize(
    ("name", "content", "nature"),
    [
        pytest.param("partition.metadata", b"version: 0\n", "text with the topic id", id="partition-metadata"),
        pytest.param("notes.txt", "caf\u00e9".encode(), "but text;", id="text"),
        pytest.param("cut.txt", b"x" * 511 + "\u00e9".encode(), "but text;", id="text-longer-than-what-is-read"),
        pytest.param("picture.png", b"\x89PNG\0", "but binary data of another kind;", id="binary"),
        pytest.param("zeros", b"\0\0", "but binary data of another kind;", id="zeros"),
        pytest.param("empty", b"", "but an empty file;", id="empty"),
        pytest.param("server.log", b"", "a .log whose name is not its base offset", id="log-of-something-else"),
    ],
)
def test_file_of_another_kind_is_an_error_and_the_others_are_dumped(
    run: Any, tmp_path: Path, name: str, content: bytes, nature: str
) -> None:
    stranger, segment = tmp_path / name, tmp_path / "00000000000000000000.log"
    stranger.write_bytes(content)
    segment.write_bytes(b"")

    ran = run("log", "dump", str(stranger), str(segment))

    assert ran.code == 1
    assert f"error: {stranger} is no file of a log but " in ran.err
    assert nature in ran.err
    assert ran.out == f"Dumping {segment}\nLog starting offset: 0\n"


def test_corrupt_checkpoint_does_not_prevent_the_dump_of_the_others(run: Any, tmp_path: Path) -> None:
    corrupt, segment = tmp_path / "leader-epoch-checkpoint", tmp_path / "00000000000000000007.log"
    corrupt.write_text("nonsense\n")
    segment.write_bytes(b"")

    ran = run("log", "dump", str(corrupt), str(segment))

    assert (ran.code, "a checkpoint starts with a version" in ran.err) == (1, True)
    assert "Log starting offset: 7" in ran.out


def test_missing_file_is_wrong_usage(run: Any) -> None:
    assert run("log", "dump", "/nowhere").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed(run: Any, shell: str) -> None:
    ran = run("completion", shell)

    assert (ran.code, "_OTTLA_COMPLETE" in ran.out) == (0, True)


def test_added_disk_is_formatted_with_the_ids_of_the_first(run: Any, properties: Path, tmp_path: Path) -> None:
    identity, more = random_cluster_id(), tmp_path / "more"
    arguments = ("format", "-t", identity, "-c", str(properties), "--ignore-formatted")
    run(*arguments, "--standalone")
    directories = f"{tmp_path / 'data'},{more}"

    added = run(*arguments, "--no-initial-controllers", "--override", f"log.dirs={directories}")
    again = run(*arguments, "--no-initial-controllers", "--override", f"log.dirs={directories}")

    assert (added.code, again.code) == (0, 0)
    assert str(more) in added.out
    assert identity in (more / "meta.properties").read_text()
    assert "Formatting" not in again.out


def test_controller_whose_first_disk_was_lost_is_another_voter(run: Any, properties: Path, tmp_path: Path) -> None:
    """The metadata log is on the first disk: a controller that lost it has lost its votes."""
    first, second = tmp_path / "data", tmp_path / "more"
    arguments = ("format", "-t", random_cluster_id(), "-c", str(properties), "--ignore-formatted")
    arguments += ("--override", f"log.dirs={first},{second}")
    run(*arguments, "--standalone")
    before = {it: (it / "meta.properties").read_text() for it in (first, second)}
    shutil.rmtree(first)

    formatted = run(*arguments, "--no-initial-controllers")

    assert formatted.code == 0
    after = {it: (it / "meta.properties").read_text() for it in (first, second)}
    assert (after[first] == before[first], after[second] == before[second]) == (False, True)


def test_wait_for_returns_when_the_file_is_not_empty(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, to_come = tmp_path / "rack", ["", "\n", "zone-1\n"]
    monkeypatch.setattr(time, "sleep", lambda _: file.write_text(to_come.pop(0)))

    ran = run("wait-for", str(file))

    assert (ran.code, ran.out, to_come) == (0, "zone-1\n", [])
    assert f"waiting for {file}" in ran.err
