"""`ottla token` against a node with delegation tokens, and a login with one of them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.exit_codes import ExitCode

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def token_node(run_node: Callable[..., Any], free_port: Callable[[], int]) -> str:
    """Return the ``host:port`` of the SASL listener of a node with delegation tokens."""
    listener, plain, quorum = (f"127.0.0.1:{free_port()}" for _ in range(3))
    run_node(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": quorum,
            "listeners": f"PLAINTEXT://{plain},SASL://{listener},CONTROLLER://{quorum}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN} required user_alice="secret" user_bob="pencil";',
            "delegation.token.secret.key": "the key",
        }
    )
    return listener


@pytest.fixture
def ottla(run: Any, token_node: str, tmp_path: Path) -> Callable[..., Any]:
    """Return ``ottla(*arguments, user=..., jaas=...)``: run a command line as a user, or with a JAAS entry."""

    def run_as(*arguments: str, user: str = "alice", jaas: str | None = None) -> Any:
        password = {"alice": "secret", "bob": "pencil"}[user]
        mechanism = "PLAIN" if jaas is None else "SCRAM-SHA-512"
        entry = jaas or f'{PLAIN} required username="{user}" password="{password}";'
        config = tmp_path / "client.properties"
        config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={entry}\n")
        return run(*arguments, "-b", token_node, "--command-config", str(config))

    return run_as


def create(ottla: Callable[..., Any], *arguments: str) -> dict[str, Any]:
    created = ottla("token", "create", *arguments, "-o", "json")
    assert created.code == 0, created
    token: dict[str, Any] = json.loads(created.out)
    return token


def test_token_is_created_listed_renewed_and_expired(ottla: Callable[..., Any]) -> None:
    token = create(ottla, "--renewer", "User:bob", "--lifetime", "2h")
    assert (token["owner"], token["renewers"]) == ("User:alice", ["User:bob"])

    listed = json.loads(ottla("token", "list", "--owner", "User:alice", "-o", "json").out)
    (own,) = [each for each in listed if each["name"] == token["name"]]
    assert own == {key: value for key, value in token.items() if key != "hmac"}
    renewed = ottla("token", "renew", token["name"], "--for", "1h", user="bob")
    assert re.fullmatch(rf"token {token['name']} expires at \S+Z\n", renewed.err)
    expired = ottla("token", "expire", token["name"], "--yes", user="bob")
    assert expired.err.splitlines()[-1] == f"token {token['name']} is gone"

    assert token["name"] not in ottla("token", "list").out
    assert ottla("token", "renew", token["name"]).code == ExitCode.NOT_FOUND


def test_token_logs_in_as_its_owner_and_may_not_create_another(ottla: Callable[..., Any]) -> None:
    token = create(ottla)
    jaas = f'{SCRAM} required username="{token["name"]}" password="{token["hmac"]}" tokenauth="true";'

    assert ottla("topic", "create", "by-token", jaas=jaas).code == 0
    assert ottla("token", "create", jaas=jaas).code != 0
    assert ottla("topic", "list", jaas=jaas.replace("tokenauth", "other")).code != 0


def test_lists_never_show_a_secret(ottla: Callable[..., Any]) -> None:
    secret = create(ottla)["hmac"]

    for output in ("table", "wide", "json", "yaml", "name"):
        assert secret not in ottla("token", "list", "-o", output).out


def test_principal_without_a_type_is_a_usage_error(ottla: Callable[..., Any]) -> None:
    result = ottla("token", "create", "--owner", "alice")

    assert result.code == ExitCode.USAGE
    assert "as in User:alice" in result.err
