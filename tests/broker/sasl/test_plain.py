"""PLAIN: users, passwords and Kafka's error messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.sasl.client_login import ClientLogin
from ottla.sasl.exchange import TOKEN_BYTES_MAX, AuthenticationFailedError
from ottla.sasl.plain import PlainClient, PlainServer
from ottla.simulator.world.random_source import SeededRandom

USERS = {"alice": "secret", "": "", "nopassword": ""}


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_right_password_authenticates(authorization_id: str) -> None:
    server = PlainServer(USERS.get)

    assert server.evaluate(f"{authorization_id}\0alice\0secret".encode()) == b""
    assert (server.is_complete, server.user) == (True, "alice")


@pytest.mark.parametrize(
    ("token", "client_message"),
    [
        ("\0alice\0wrong", "Authentication failed: Invalid username or password"),
        ("\0nobody\0secret", "Authentication failed: Invalid username or password"),
        ("\0alice\0", "Authentication failed: password not specified"),
        ("\0nopassword\0", "Authentication failed: password not specified"),
        ("\0\0secret", "Authentication failed: username not specified"),
        (
            "eve\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        ("alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        ("\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_other_tokens_are_rejected_with_kafkas_message(token: str, client_message: str | None) -> None:
    server = PlainServer(USERS.get)
    with pytest.raises(AuthenticationFailedError) as failed:
        server.evaluate(token.encode())

    assert failed.value.client_message == client_message
    assert not server.is_complete


@given(token=st.binary(max_size=100))
def test_garbage_is_rejected(token: bytes) -> None:
    server = PlainServer({}.get)

    with pytest.raises(AuthenticationFailedError):
        server.evaluate(token)


def test_huge_token_is_rejected_without_parsing() -> None:
    with pytest.raises(AuthenticationFailedError, match="bytes"):
        PlainServer(USERS.get).evaluate(bytes(TOKEN_BYTES_MAX + 1))


def test_failure_never_shows_the_password() -> None:
    with pytest.raises(AuthenticationFailedError) as failed:
        PlainServer(USERS.get).evaluate(b"\0alice\0hunter2")

    assert "hunter2" not in f"{failed.value!r}{failed.value.reason}{failed.value.client_message}"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_client_login_starts_an_exchange_of_its_mechanism(mechanism: str) -> None:
    login = ClientLogin(mechanism, "alice", "secret")
    first = login.new_exchange(SeededRandom(1).randrange).first()

    assert first == b"\0alice\0secret" if mechanism == "PLAIN" else first.startswith(b"n,,n=alice,r=")
    assert "secret" not in repr(login)


def test_client_rejects_a_challenge_in_response_to_plain() -> None:
    client = PlainClient("alice", "secret")
    with pytest.raises(AuthenticationFailedError):
        client.evaluate(b"more")

    assert client.evaluate(b"") is None
    assert client.is_complete
