"""`ottla acl`, `user` and `quota` against a node with an authorizer."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ottla.cli.exit_codes import ExitCode


@pytest.fixture(scope="module")
def guarded_node(run_node: Callable[..., Any], free_port: Callable[[], int]) -> str:
    """Return the ``host:port`` of a node with an authorizer whose super users are all users."""
    listener, quorum = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    run_node(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": quorum,
            "listeners": f"PLAINTEXT://{listener},CONTROLLER://{quorum}",
            "controller.listener.names": "CONTROLLER",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    return listener


@pytest.fixture
def guarded(run: Any, guarded_node: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs a command line against `guarded_node`."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", guarded_node)
    return run


def entries(guarded: Any, *arguments: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(guarded("acl", "list", *arguments, "-o", "json").out)
    return found


def test_entry_is_added_listed_and_removed(guarded: Any) -> None:
    added = guarded("acl", "add", "User:alice", "--allow", "read", "--topic", "orders")
    assert (added.code, added.err) == (0, "added: User:alice allow read on topic orders\n")

    assert entries(guarded, "--principal", "User:alice") == [
        {
            "principal": "User:alice",
            "permission": "allow",
            "operation": "read",
            "resource": "topic",
            "name": "orders",
            "pattern": "literal",
            "host": "*",
        }
    ]

    removed = guarded("acl", "remove", "--principal", "User:alice", "--yes")
    assert (removed.code, removed.err.splitlines()[-1]) == (0, "1 entries removed")
    assert entries(guarded, "--principal", "User:alice") == []


def test_each_operation_on_each_resource_is_an_entry_and_a_name_finds_its_prefixes(guarded: Any) -> None:
    guarded("acl", "add", "User:p", "--allow", "read", "--allow", "write", "--topic", "app.", "--prefixed")
    guarded("acl", "add", "User:p", "--deny", "all", "--group", "g1", "--group", "g2", "--host", "10.0.0.9")

    assert len(entries(guarded, "--principal", "User:p")) == 4
    assert {entry["operation"] for entry in entries(guarded, "--topic", "app.orders")} == {"read", "write"}

    guarded("acl", "remove", "--topic", "app.", "--prefixed", "--operation", "write", "--yes")
    assert {entry["operation"] for entry in entries(guarded, "--topic", "app.orders")} == {"read"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["add", "alice", "--allow", "read", "--topic", "t"], "as in User:alice", id="no-type"),
        pytest.param(["add", "User:a", "--allow", "read"], "name at least one resource", id="no-resource"),
        pytest.param(["add", "User:a", "--topic", "t"], "name at least one resource", id="no-permission"),
        pytest.param(["remove", "--yes"], "name what to remove", id="remove-everything"),
    ],
)
def test_incomplete_arguments_are_wrong_usage(guarded: Any, arguments: list[str], message: str) -> None:
    ran = guarded("acl", *arguments)

    assert ran.code == 2
    assert message in ran.err


def test_without_an_authorizer_the_error_is_reported(ottla: Any) -> None:
    ran = ottla("acl", "list")

    assert ran.code != 0
    assert "No Authorizer is configured" in ran.err


def test_user_is_added_listed_and_removed_and_the_password_is_never_shown(guarded: Any) -> None:
    added = guarded("user", "add", "carol", "--mechanism", "scram-sha-256", "--password-stdin", stdin=b"hunter2\n")
    assert (added.code, added.err) == (0, "user carol may log in with SCRAM-SHA-256\n")

    listed = json.loads(guarded("user", "list", "-o", "json").out)
    assert {"name": "carol", "mechanisms": ["SCRAM-SHA-256"], "iterations": 4096} in listed

    removed = guarded("user", "remove", "carol", "--yes")
    assert removed.code == 0
    assert "hunter2" not in added.out + added.err + removed.err + json.dumps(listed)
    assert guarded("user", "remove", "carol", "--yes").code == ExitCode.NOT_FOUND


def test_empty_password_is_rejected(guarded: Any) -> None:
    assert guarded("user", "add", "dave", "--password-stdin", stdin=b"\n").code == 2


def test_quota_is_set_listed_and_removed(guarded: Any) -> None:
    assert guarded("quota", "set", "--user", "alice", "--client-id", "", "producer_byte_rate=1024").code == 0

    listed = json.loads(guarded("quota", "list", "-o", "json").out)
    assert {
        "user": "alice",
        "clientId": "<default>",
        "ip": None,
        "key": "producer_byte_rate",
        "value": 1024.0,
    } in listed

    removed = guarded("quota", "remove", "--user", "alice", "--client-id", "")
    assert (removed.code, removed.err) == (0, "user alice, client-id <default>: removed producer_byte_rate\n")
    assert guarded("quota", "remove", "--user", "alice", "--client-id", "").code == ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--user", "a", "producer_byte_rate=fast"], "takes a number", id="no-number"),
        pytest.param(["producer_byte_rate=1"], "name a user", id="no-entity"),
        pytest.param(["--ip", "10.0.0.1", "--user", "a", "x=1"], "an address alone", id="both"),
    ],
)
def test_incomplete_quota_is_wrong_usage(guarded: Any, arguments: list[str], message: str) -> None:
    ran = guarded("quota", "set", *arguments)

    assert ran.code == 2
    assert message in ran.err


def test_limit_that_the_controller_rejects_is_explained(guarded: Any) -> None:
    ran = guarded("quota", "set", "--user", "a", "speed=1")

    assert ran.code != 0
    assert "Invalid configuration key speed" in ran.err
