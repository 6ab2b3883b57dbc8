"""Requests to listeners with SASL: authentication first, renewal before a session expires (KIP-368)."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.peers.channel import PeerFailure
from ottla.ports import ConnectionId
from ottla.sasl.exchange import AuthenticationFailedError, ServerExchange
from ottla.sasl.plain import PlainServer
from ottla.sasl.scram import ScramMechanism, ScramServer, credential, salted_password
from ottla.types import Endpoint
from ottla.wire.messages.registry import ApiKey
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.messages.vote import VoteRequest, VoteResponse

PEER = Endpoint("10.0.0.2", 9093)
SASL_VERSIONS = {
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.VOTE: (0, 2),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
}
SCRAM = ScramMechanism.SCRAM_SHA_256
NODE = credential(SCRAM, salted_password(SCRAM, "secret", b"salt", 4096), b"salt", 4096)


def server_exchange(mechanism: str) -> ServerExchange:
    if mechanism == "PLAIN":
        return PlainServer({"node": "secret"}.get)
    return ScramServer(SCRAM, credential_of={"node": NODE}.get, nonce="server", decoy_of=lambda _: NODE)


def authenticate(peer: Any, connection: ConnectionId, *, lifetime_ms: int = 0, offered: str = "PLAIN") -> int:
    """Authenticate as the server; return the number of received tokens."""
    request = peer.next_request(connection)
    assert isinstance(request, SaslHandshakeRequest)
    if request.mechanism != offered:
        peer.respond(connection, SaslHandshakeResponse(error_code=33, mechanisms=[offered]))
        return 0
    peer.respond(connection, SaslHandshakeResponse(mechanisms=[offered]))
    exchange = server_exchange(offered)
    for count in range(1, 4):
        request = peer.next_request(connection)
        assert isinstance(request, SaslAuthenticateRequest)
        try:
            token = exchange.evaluate(bytes(request.auth_bytes))
        except AuthenticationFailedError:
            peer.respond(connection, SaslAuthenticateResponse(error_code=58, error_message="Authentication failed"))
            return count
        lifetime = lifetime_ms if exchange.is_complete else 0
        peer.respond(connection, SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime))
        if exchange.is_complete:
            return count
    raise AssertionError("the exchange does not end")


@pytest.mark.parametrize(("mechanism", "tokens"), [("PLAIN", 1), ("SCRAM-SHA-256", 2)])
def test_node_authenticates_before_its_first_request(
    new_sasl_peer: Callable[..., Any], mechanism: str, tokens: int
) -> None:
    peer = new_sasl_peer(mechanism)
    result = peer.send()
    peer.establish(1, SASL_VERSIONS)

    assert authenticate(peer, 1, offered=mechanism) == tokens
    assert isinstance(peer.next_request(1), VoteRequest)
    peer.respond(1, VoteResponse())
    assert result.value == VoteResponse()
    assert peer.client._peers[PEER, "CONTROLLER", ""].sasl is not None


def test_listener_without_sasl_is_used_without_authentication(new_sasl_peer: Callable[..., Any]) -> None:
    peer = new_sasl_peer()
    peer.client.send(PEER, "PLAINTEXT", VoteRequest(), timeout_ms=1_000)
    peer.establish(1, SASL_VERSIONS)

    assert isinstance(peer.next_request(1), VoteRequest)


@pytest.mark.parametrize(
    ("password", "offered", "words"),
    [
        pytest.param("wrong", "PLAIN", "Authentication failed", id="wrong-password"),
        pytest.param("secret", "SCRAM-SHA-256", "does not offer PLAIN; it offers SCRAM-SHA-256", id="not-offered"),
    ],
)
def test_failed_authentication_fails_waiting_requests_is_logged_and_backs_off(
    new_sasl_peer: Callable[..., Any], caplog: pytest.LogCaptureFixture, password: str, offered: str, words: str
) -> None:
    peer = new_sasl_peer(password=password)
    result = peer.send()
    peer.establish(1, SASL_VERSIONS)
    with caplog.at_level(logging.WARNING):
        authenticate(peer, 1, offered=offered)

    assert result.value is PeerFailure.DISCONNECTED
    assert peer.network.closed == [1]
    assert "10.0.0.2:9093 on CONTROLLER as 'node'" in caplog.text
    assert words in caplog.text
    assert password not in caplog.text
    peer.send()
    peer.pass_time(peer.config.reconnect_backoff_max_ms // 2)
    assert peer.network.connected == [1], "the next attempt comes after the longest backoff"
    peer.pass_time(peer.config.reconnect_backoff_max_ms)
    assert peer.network.connected == [1, 2]


def test_server_that_skips_its_scram_proof_is_rejected(
    new_sasl_peer: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    peer = new_sasl_peer("SCRAM-SHA-256")
    result = peer.send()
    peer.establish(1, SASL_VERSIONS)
    peer.next_request(1)
    peer.respond(1, SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]))
    peer.next_request(1)
    peer.respond(1, SaslAuthenticateResponse(auth_bytes=b""))

    assert result.value is PeerFailure.DISCONNECTED
    assert "authentication at 10.0.0.2:9093" in caplog.text


def test_session_is_renewed_before_its_expiry_behind_in_flight_requests(new_sasl_peer: Callable[..., Any]) -> None:
    peer = new_sasl_peer()
    peer.send()
    peer.establish(1, SASL_VERSIONS)
    authenticate(peer, 1, lifetime_ms=10_000)
    peer.next_request(1)
    first = peer.header
    peer.respond(1, VoteResponse())
    peer.pass_time(8_400)
    waiting = peer.send(timeout_ms=60_000)
    vote = peer.next_request(1)
    vote_header = peer.header
    peer.pass_time(1_200)
    renewal = peer.next_request(1)
    behind = peer.send(timeout_ms=60_000)

    assert isinstance(vote, VoteRequest)
    assert isinstance(renewal, SaslHandshakeRequest)
    renewal_header, peer.header = peer.header, vote_header
    peer.respond(1, VoteResponse())
    assert waiting.is_complete
    peer.header = renewal_header
    peer.respond(1, SaslHandshakeResponse(mechanisms=["PLAIN"]))
    assert isinstance(peer.next_request(1), SaslAuthenticateRequest)
    assert not behind.is_complete
    peer.respond(1, SaslAuthenticateResponse(session_lifetime_ms=10_000))
    assert isinstance(peer.next_request(1), VoteRequest), "the request that waited for the renewal is sent"
    assert peer.network.connected == [1]
    assert first.correlation_id < renewal_header.correlation_id


def test_session_without_expiry_is_never_renewed(new_sasl_peer: Callable[..., Any]) -> None:
    peer = new_sasl_peer()
    peer.send()
    peer.establish(1, SASL_VERSIONS)
    authenticate(peer, 1)
    peer.next_request(1)
    peer.respond(1, VoteResponse())
    peer.pass_time(500_000)

    assert peer.next_request(1) is None


def test_unfinished_authentication_times_out(new_sasl_peer: Callable[..., Any]) -> None:
    peer = new_sasl_peer()
    result = peer.send(timeout_ms=60_000)
    peer.establish(1, SASL_VERSIONS)
    peer.pass_time(peer.config.connection_setup_timeout_ms)

    assert peer.network.closed == [1]
    assert result.value is PeerFailure.TIMED_OUT
