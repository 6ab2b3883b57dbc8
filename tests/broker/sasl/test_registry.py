"""The registry of SASL mechanisms: a row is all that a mechanism needs, on both sides and in the configuration."""

import re
from pathlib import Path

import pytest

import ottla
from ottla.config.jaas import parse_jaas
from ottla.sasl.client_login import ClientLogin, TokenLogin
from ottla.sasl.exchange import ClientExchange
from ottla.sasl.registry import MECHANISMS, SaslMechanism, ServerCredentials
from ottla.sasl.scram import ScramCredential, ScramMechanism, credential, salted_password
from ottla.sasl.tokens import ValidToken

SALT, ITERATIONS, USER, PASSWORD = b"salt", 4_096, "alice", "secret"
SOURCES = Path(ottla.__file__).parent


def scram_credential(kind: ScramMechanism, user: str) -> ScramCredential | None:
    if user != USER:
        return None
    return credential(kind, salted_password(kind, PASSWORD, SALT, ITERATIONS), SALT, ITERATIONS)


CREDENTIALS = ServerCredentials(
    password_of={USER: PASSWORD}.get,
    validate_token=lambda token: ValidToken(subject=USER, expires_at_ms=1_000),
    scram_credential_of=scram_credential,
    scram_decoy_of=lambda kind, user: ScramCredential(b"", b"", b"", ITERATIONS),
    delegation_token_of=lambda kind, token_id: None,
    randrange=lambda stop: stop // 2,
)


def client_exchange(row: SaslMechanism) -> ClientExchange:
    login = ClientLogin(row.name, USER, PASSWORD) if row.with_password else TokenLogin(lambda: "a.b.c")
    assert login.mechanism == row.name
    return login.new_exchange(lambda stop: stop // 3)


@pytest.mark.parametrize("row", MECHANISMS.values(), ids=lambda row: row.name)
def test_both_sides_of_every_mechanism_authenticate_each_other(row: SaslMechanism) -> None:
    client, server = client_exchange(row), row.new_server(CREDENTIALS)

    token: bytes | None = client.first()
    while token is not None:
        token = client.evaluate(server.evaluate(token))

    assert (client.is_complete, server.is_complete, server.user) == (True, True, USER)


@pytest.mark.parametrize("row", MECHANISMS.values(), ids=lambda row: row.name)
def test_every_mechanism_has_one_source_of_users_and_one_type_of_secret(row: SaslMechanism) -> None:
    assert [row.has_jaas_users, row.has_scram_users, row.has_issuer].count(True) == 1
    assert (row.with_password is None) != (row.with_token is None)
    assert parse_jaas("sasl.jaas.config", f"{row.login_module} required;").is_for(row.name)


def test_only_the_registry_compares_mechanism_names() -> None:
    """A comparison with a mechanism's name elsewhere would be a second place to change for a new mechanism."""
    name = r"""(["'](PLAIN|OAUTHBEARER|SCRAM-SHA-\d+)["']|OAUTHBEARER\b)"""
    comparison = re.compile(rf"(==|!=|\bin) *{name}|{name} *(==|!=|(not )?in\b)")
    sources = [path for path in SOURCES.rglob("*.py") if path.parent.name != "sasl"]

    lines = [(path, line) for path in sources for line in path.read_text(encoding="utf-8").splitlines()]

    assert [(path.name, line) for path, line in lines if comparison.search(line)] == []
