"""`up`, `down`, `status`, `apply`, `get`, `delete`: results of the operator become output and exit codes."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla_operator import local
from ottla_operator.local import ClusterStatus, ExitCode, NodeStatus, Outcome


def outcome(**changes: Any) -> Outcome:
    settings: dict[str, Any] = {
        "kind": "Topic",
        "name": "flights",
        "action": "created",
        "reason": "AsSpecified",
        "message": "6 partitions",
        **changes,
    }
    return Outcome(**settings)


def cluster(state: str) -> ClusterStatus:
    node = NodeStatus(
        node_id=0,
        name="ottla-main-0",
        roles=("broker", "active controller"),
        state=state,
        pid=7,
        leads=12,
        message="",
        client_address="localhost:9092",
        http_address="http://localhost:9094",
        log=Path("/l"),
    )
    return ClusterStatus(name="ottla", cluster_id="c", bootstrap_servers="localhost:9092", nodes=(node,))


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "topic.yaml"
    path.write_text("apiVersion: ottla.dev/v1\nkind: Topic\nmetadata: {name: flights}\nspec: {partitions: 6}\n")
    return str(path)


def replace_local(monkeypatch: pytest.MonkeyPatch, name: str, result: Any) -> list[dict[str, Any]]:
    """Make one function of `ottla_operator.local` return ``result``; return the list of its calls."""
    calls: list[dict[str, Any]] = []

    def function(*arguments: Any, **options: Any) -> Any:
        calls.append({"arguments": arguments, **options})
        return result

    monkeypatch.setattr(local, name, function)
    return calls


def test_detached_cluster_is_greeted_with_the_next_command(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = replace_local(monkeypatch, "up", outcome(kind="Cluster", name="ottla"))
    replace_local(monkeypatch, "status", cluster("ready"))

    ran = run("up", "--detach", "--brokers", "3", "--controllers", "1", "--port", "19092")

    assert (ran.code, ran.out) == (0, "")
    assert "Kafka    localhost:9092" in ran.err
    assert "Next: echo hello | ottla produce greetings" in ran.err
    assert (calls[0]["brokers"], calls[0]["controllers"], calls[0]["port"]) == (3, 1, 19092)


def test_banner_of_a_secured_cluster_elsewhere_has_its_command_config(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replace_local(monkeypatch, "up", outcome(kind="Cluster", name="ottla"))
    replace_local(monkeypatch, "status", replace(cluster("ready"), command_config=Path("/s/client.properties")))

    said = run("up", "--detach", "--dir", str(tmp_path / "elsewhere")).err.splitlines()

    assert "Next: export OTTLA_COMMAND_CONFIG=/s/client.properties" in said
    assert "      echo hello | ottla produce greetings" in said


def test_command_config_is_used_for_brokers_elsewhere(
    run: Any, monkeypatch: pytest.MonkeyPatch, manifest: str, tmp_path: Path
) -> None:
    calls = replace_local(monkeypatch, "apply", [outcome()])
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")

    ran = run("apply", "-f", manifest, "-b", "kafka.example:9094", "--command-config", str(config))

    assert ran.code == 0
    assert (calls[0]["bootstrap"], calls[0]["properties"]) == ("kafka.example:9094", {"security.protocol": "SSL"})


def test_command_config_that_cannot_be_used_is_an_error(run: Any, manifest: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=TLS\n")

    ran = run("apply", "-f", manifest, "-b", "kafka.example:9094", "--command-config", str(config))

    assert ran.code != 0
    assert "security.protocol=TLS is not known" in ran.err


def test_cluster_that_does_not_start_is_an_error(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_local(monkeypatch, "up", outcome(exit_code=ExitCode.TIMEOUT, message="not ready after 30 s"))

    ran = run("up", "--detach")

    assert (ran.code, ran.err) == (5, "error: not ready after 30 s\n")


@pytest.mark.parametrize(("state", "code"), [("ready", 0), ("starting", 10)])
def test_status_is_healthy_or_not(run: Any, monkeypatch: pytest.MonkeyPatch, state: str, code: int) -> None:
    replace_local(monkeypatch, "status", cluster(state))

    ran = run("status", "-o", "json")

    assert ran.code == code
    assert json.loads(ran.out)["nodes"][0]["state"] == state


def test_status_for_people_is_a_table(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_local(monkeypatch, "status", cluster("ready"))

    titles, row = run("status").out.splitlines()[-2:]

    assert titles.split() == ["ID", "NODE", "ROLES", "STATE", "LEADS", "ADDRESS", "HTTP", "MESSAGE"]
    assert row.split() == [
        *("0", "ottla-main-0", "broker,active", "controller", "ready", "12"),
        *("localhost:9092", "http://localhost:9094", "-"),
    ]


def test_no_cluster_is_not_found(run: Any) -> None:
    ran = run("status")

    assert (ran.code, "ottla up creates one" in ran.err) == (3, True)


@pytest.mark.parametrize(
    ("stopped", "said"), [(["a", "b"], "stopped a, b;"), ([], "nothing was running")], ids=["some", "none"]
)
def test_down_prints_the_stopped_nodes(
    run: Any, monkeypatch: pytest.MonkeyPatch, stopped: list[str], said: str
) -> None:
    replace_local(monkeypatch, "down", stopped)

    assert said in run("down").err


def test_applied_objects_go_to_stdout_and_their_steps_to_stderr(
    run: Any, monkeypatch: pytest.MonkeyPatch, manifest: str
) -> None:
    calls = replace_local(monkeypatch, "apply", [outcome(steps=("create topic flights",))])

    ran = run("apply", "-f", manifest, "--dry-run")

    assert (ran.code, ran.out, ran.err) == (0, "topic/flights created\n", "  create topic flights\n")
    assert calls[0]["dry_run"] is True
    assert calls[0]["arguments"][0][0]["metadata"]["name"] == "flights"


def test_rejected_object_decides_the_exit_code(run: Any, monkeypatch: pytest.MonkeyPatch, manifest: str) -> None:
    rejected = outcome(action="refused", reason="Denied", message="no", exit_code=ExitCode.DENIED)
    replace_local(monkeypatch, "apply", [outcome(), rejected])

    ran = run("apply", "-f", manifest)

    assert ran.code == 4
    assert "error: topic/flights: Denied: no" in ran.err


def test_manifest_is_read_from_stdin(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = replace_local(monkeypatch, "apply", [])

    run("apply", "-f", "-", stdin=b"kind: Topic\n")

    assert calls[0]["arguments"][0] == [{"kind": "Topic"}]


def test_missing_manifest_is_not_found(run: Any) -> None:
    ran = run("apply", "-f", "/nowhere.yaml")

    assert (ran.code, "cannot read /nowhere.yaml" in ran.err) == (3, True)


def stored(name: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "AsSpecified", "message": "fine"}
    return {"kind": "Topic", "metadata": {"name": name, "generation": 2}, "status": {"conditions": [ready]}}


def test_stored_objects_are_listed_with_their_state(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_local(monkeypatch, "get", [stored("flights")])

    out = run("get", "topics").out

    assert out.splitlines()[1].split() == ["flights", "True", "AsSpecified", "fine"]
    assert run("get", "topics", "-o", "name").out == "topic/flights\n"
    assert json.loads(run("get", "topic", "flights", "-o", "json").out)["metadata"]["generation"] == 2


def test_several_kinds_are_listed_one_after_the_other(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_local(monkeypatch, "get", [stored("flights")])

    tables = run("get", "clusters,topics").out.split("\n\n")

    assert [table.splitlines()[1].split()[0] for table in tables] == ["flights", "flights"]
    assert run("get", "clusters,topics", "-o", "name").out == "cluster/flights\ntopic/flights\n"
    assert len(json.loads(run("get", "clusters,topics", "-o", "json").out)) == 2
    assert run("get", "clusters,topics", "flights").code == 2


def test_missing_object_is_not_found(run: Any) -> None:
    assert run("get", "topic", "nope").code == 3


@pytest.mark.parametrize(
    "arguments", [("get", "nonsense"), ("delete", "nonsense", "x", "--yes")], ids=["get", "delete"]
)
def test_unknown_kind_is_wrong_usage_and_the_known_ones_are_named(run: Any, arguments: tuple[str, ...]) -> None:
    ran = run(*arguments)

    assert ran.code == 2
    assert "there is no kind 'nonsense'; kinds: cluster, topic" in ran.err


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (None, 3, "cannot read"),
        (b"", 3, "no manifest in"),
        (b"apiVersion: ottla.dev/v1\n", 1, "it must be Cluster or Topic"),
        (b"{apiVersion: ottla.dev/v1, kind: Topic}\n", 1, "metadata"),
        (b"{apiVersion: ottla.dev/v1, kind: Topic, metadata: {name: 7}}\n", 1, "metadata.name"),
        (b"a: [\n", 1, "not YAML"),
        (b"\xff\xfe", 1, "not UTF-8"),
    ],
    ids=["missing", "empty", "no-kind", "no-name", "strange-name", "no-yaml", "no-text"],
)
@pytest.mark.parametrize("command", [("apply",), ("delete", "--yes")], ids=["apply", "delete"])
def test_invalid_manifest_is_explained(
    run: Any, tmp_path: Path, command: tuple[str, ...], content: bytes | None, code: int, words: str
) -> None:
    path = tmp_path / "m.yaml"
    if content is not None:
        path.write_bytes(content)

    ran = run(*command, "-f", str(path), "--dir", str(tmp_path / "state"))

    assert (ran.code, words in ran.err) == (code, True), ran.err


def test_deletion_needs_yes_without_a_terminal(run: Any) -> None:
    assert run("delete", "topic", "flights").code == 2


def test_objects_of_a_manifest_are_deleted(run: Any, monkeypatch: pytest.MonkeyPatch, manifest: str) -> None:
    calls = replace_local(monkeypatch, "delete", outcome(action="deleted"))

    ran = run("delete", "-f", manifest, "--yes")

    assert (ran.code, ran.out) == (0, "topic/flights deleted\n")
    assert calls[0]["arguments"] == ("Topic", "flights")


@pytest.mark.parametrize("arguments", [[], ["topic"], ["topic", "x", "-f", "y"]], ids=str)
def test_deletion_of_nothing_or_two_things_is_wrong_usage(run: Any, arguments: list[str]) -> None:
    assert run("delete", *arguments, "--yes").code == 2


@pytest.mark.parametrize(
    ("where", "code"),
    [("ottla_operator.local.up", 130), ("ottla.cli.local._greet", 130), ("ottla.cli.local._watch", 0)],
    ids=["while-starting", "while-greeting", "while-running"],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_interrupted_cluster_is_not_left_running(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, code: int, number: signal.Signals
) -> None:
    stopped: list[Path] = []
    looks = iter([None, cluster("ready")])

    def interrupted(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), number)

    def down(*, state_dir: Path) -> None:
        # A second signal during the cleanup of the first changes nothing.
        os.kill(os.getpid(), number)
        stopped.append(state_dir)

    replace_local(monkeypatch, "up", outcome(kind="Cluster", name="ottla"))
    monkeypatch.setattr(local, "status", lambda **_: next(looks))
    monkeypatch.setattr(local, "down", down)
    monkeypatch.setattr(where, interrupted)

    assert run("up", "--dir", str(tmp_path)).code == code
    assert stopped == [tmp_path]
