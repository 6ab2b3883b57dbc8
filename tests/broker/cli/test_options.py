"""The default address of brokers, the time limit to find them, and key=value arguments."""

from pathlib import Path
from typing import Any

import click
import pytest

from ottla.cli.exit_codes import ExitCode
from ottla.cli.options import (
    COMMAND_CONFIG,
    DEFAULT_BOOTSTRAP,
    FIRST_RESPONSE_S,
    command_security,
    default_bootstrap,
    default_state_directory,
    key_values,
)
from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerUnreachableError

RECORD = "{metadata: {name: ottla}, status: {bootstrapServers: 'localhost:7'}}"


def test_default_brokers_are_on_this_host() -> None:
    assert default_bootstrap() == DEFAULT_BOOTSTRAP


def record_cluster(text: str, *, is_running: bool = True) -> None:
    path = default_state_directory() / "objects" / "cluster" / "ottla.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    node = default_state_directory() / "nodes" / "ottla-main-0"
    node.mkdir(parents=True)
    if is_running:
        (node / "process.json").write_text("{}")


def test_stopped_cluster_is_ignored() -> None:
    record_cluster(RECORD, is_running=False)

    assert default_bootstrap() == DEFAULT_BOOTSTRAP


def test_recorded_cluster_is_used() -> None:
    record_cluster(RECORD)

    assert default_bootstrap() == "localhost:7"


def lock(*lines: str) -> Path:
    path = default_state_directory() / "secrets" / "ottla-operator" / "client.properties"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines))
    return path


def test_secured_local_cluster_is_used_as_its_administrator() -> None:
    record_cluster(RECORD)
    lock("bootstrap.servers=localhost:10", "security.protocol=SSL")

    with click.Context(click.Command("x")):
        assert default_bootstrap() == "localhost:10"
        security = command_security()
    assert security is not None
    assert security.protocol == "SSL"


def test_command_config_overrides_the_administrator(tmp_path: Path) -> None:
    record_cluster(RECORD)
    lock("bootstrap.servers=localhost:10", "security.protocol=SSL")
    (tmp_path / "alice").write_text("security.protocol=PLAINTEXT")

    with click.Context(click.Command("x")) as context:
        context.meta[COMMAND_CONFIG] = tmp_path / "alice"
        assert default_bootstrap() == "localhost:7"


@pytest.mark.parametrize(
    "text", ["status: {}", "{", "{metadata: {name: a}, status: {bootstrapServers: 7}}", ""], ids=str
)
def test_corrupt_record_is_ignored(text: str) -> None:
    record_cluster(text)

    assert default_bootstrap() == DEFAULT_BOOTSTRAP


def test_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    record_cluster(RECORD)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "h:1")

    assert default_bootstrap() == "h:1"


def test_cluster_is_kept_below_the_data_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", "/d")

    assert default_state_directory() == Path("/d/ottla")


def test_values_may_hold_equals_signs() -> None:
    assert key_values(("a=1", "b=x=y", "c="), "--set") == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize("pair", ["a", "=a"])
def test_argument_without_a_key_or_value_is_rejected(pair: str) -> None:
    with pytest.raises(click.UsageError, match="--set takes KEY=VALUE"):
        key_values((pair,), "--set")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("topic", "list"), id="admin"),
        pytest.param(("produce", "hello"), id="producer"),
        pytest.param(("consume", "hello", "-g", "readers"), id="member-of-a-group"),
    ],
)
def test_commands_do_not_wait_long_for_absent_brokers(
    run: Any, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    async def never_responds(_: Cluster, *, timeout_s: float) -> None:
        limits.append(timeout_s)
        raise BrokerUnreachableError("no broker is there")

    monkeypatch.setattr(Cluster, "reach", never_responds)

    assert run(*command, "-b", "127.0.0.1:1", stdin=b"line\n").err == "error: no broker is there\n"
    assert limits == [FIRST_RESPONSE_S]


def test_command_config_has_bootstrap_servers_and_security(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=DIGEST\n")
    wrong = run("topic", "list", "--command-config", str(path))
    assert wrong.code == ExitCode.ERROR
    assert f"{path}: sasl.mechanism=DIGEST is not supported by this client" in wrong.err
    path.write_text("bootstrap.servers=127.0.0.1:1\nsecurity.protocol=PLAINTEXT\n")
    unreachable = run("topic", "list", "--command-config", str(path), "--timeout", "1")
    assert unreachable.code == ExitCode.TIMEOUT
    assert "nothing listens at 127.0.0.1:1" in unreachable.err


def test_environment_names_the_command_config(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=ANY\n")
    monkeypatch.setenv("OTTLA_COMMAND_CONFIG", str(path))
    assert "security.protocol=ANY is not known" in run("group", "list").err
