"""SASL sessions: expiry, re-authentication (KIP-368), and listeners without SASL."""

import gc
import struct

import pytest

from locked_node import EVERYTHING, is_served, set_credential, start
from ottla.errors import ErrorCode
from ottla.handlers.api import ConnectionInfo
from ottla.network.connection import Connection
from ottla.network.sasl_authenticator import SaslAuthenticator
from ottla.sasl.scram import ScramMechanism
from ottla.simulator.world.single_node import ALICE, SASL_LISTENER, RunningNode, World
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest


@pytest.fixture
def renewable(world: World) -> RunningNode:
    """A node whose SASL sessions expire."""
    return start(world, **{"connections.max.reauth.ms": "5000"})


def test_listener_without_sasl_rejects_authentication(locked: RunningNode) -> None:
    client = locked.connect()

    assert client.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.send_token(b"\0alice\0secret").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(client)
    assert locked.node.connections._connections[client.peer.connection].guard is None


def test_session_without_expiry_leaves_no_guard(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.log_in(*ALICE)

    assert locked.node.connections._connections[client.peer.connection].guard is None
    assert client.send_token(b"x").error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_closed_connection_leaves_no_garbage_cycle(locked: RunningNode) -> None:
    def visit() -> None:
        for password in ("secret", "wrong"):
            client = locked.connect(SASL_LISTENER)
            client.log_in("alice", password, "PLAIN")
            if not client.is_closed:
                locked.node.closed(client.peer.connection, "gone")
        half = locked.connect(SASL_LISTENER)
        half.handshake("SCRAM-SHA-512")
        locked.node.closed(half.peer.connection, "gone")

    def count() -> int:
        return sum(isinstance(it, Connection | ConnectionInfo | SaslAuthenticator) for it in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = count()
        for _ in range(3):
            visit()
        assert count() == before
    finally:
        gc.enable()


def test_expired_session_ends_at_its_next_request(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    assert client.log_in(*ALICE).session_lifetime_ms == 5_000
    renewable.run(5_000)
    assert is_served(client)
    renewable.run(10)
    client.send(EVERYTHING, 9)

    assert client.is_closed
    assert renewable.node.connections.authentication.expired_sessions == 1


def test_reauthentication_starts_a_new_session(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    for _ in range(3):
        renewable.run(5_010)
        assert client.log_in(*ALICE).session_lifetime_ms == 5_000
        assert is_served(client)

    assert renewable.node.connections.authentication.counters[SASL_LISTENER, "PLAIN"].renewals == 3


def test_session_without_expiry_cannot_be_renewed(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.log_in(*ALICE)

    response = client.handshake("PLAIN")

    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert is_served(client)


def test_reauthentication_within_a_second_is_rejected(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    client.log_in(*ALICE)
    assert client.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    renewable.run(1_000)

    assert client.log_in(*ALICE).error_code == ErrorCode.NONE


def test_reauthentication_cannot_change_the_user(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    response = client.log_in("eve", "evil")

    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Cannot change principals during re-authentication from User.alice: User.eve"
    assert client.is_closed


def test_reauthentication_cannot_change_the_mechanism(renewable: RunningNode) -> None:
    set_credential(renewable, ScramMechanism.SCRAM_SHA_256, "alice", "secret")
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    response = client.log_in(*ALICE, "SCRAM-SHA-256")

    assert response.error_message == (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )
    assert client.is_closed


def test_no_other_request_is_served_during_reauthentication(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    client.handshake("PLAIN")
    client.send(EVERYTHING, 9)

    assert client.is_closed
    assert client.take_frame() is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"], ids=["its-own-mechanism", "another-mechanism"])
def test_reauthentication_cannot_start_with_handshake_version_zero(renewable: RunningNode, mechanism: str) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    assert client.handshake(mechanism, 0).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(client)

    client.send_bytes(struct.pack(">i", 13) + b"\0alice\0secret")
    assert client.is_closed, "a bare token is not a request"
    assert is_served(renewable.connect())


def test_expired_session_cannot_be_renewed_with_handshake_version_zero(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    renewable.run(5_010)
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 0)

    assert client.is_closed
    assert renewable.node.connections.authentication.expired_sessions == 1
