"""Listeners with SASL: requests before authentication, failures, sessions, and limits on unauthenticated clients."""

import logging
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from locked_node import EVERYTHING, is_served, set_credential, start
from ottla.errors import ErrorCode
from ottla.metadata.image import EMPTY_IMAGE, Provenance
from ottla.network.authentication import AUTHENTICATION_MS_MAX
from ottla.network.sasl_authenticator import SaslAuthenticator
from ottla.sasl.scram import ScramMechanism
from ottla.simulator.world.single_node import ALICE, JAAS, LOCKED, SASL_LISTENER, Client, RunningNode, World
from ottla.wire.codec import Message
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

INSIDE = {
    "listeners": f"{LOCKED['listeners']},INSIDE://localhost:9094",
    "advertised.listeners": f"{LOCKED['advertised.listeners']},INSIDE://localhost:9094",
    "listener.security.protocol.map": f"{LOCKED['listener.security.protocol.map']},INSIDE:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.inside.plain.sasl.jaas.config": JAAS.replace("user_alice", 'username="node" password="n" user_node'),
}
SOFTWARE = ApiVersionsRequest(client_software_name="test", client_software_version="1")


# --- authentication --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("requests_versions", [True, False], ids=["after-api-versions", "at-once"])
def test_valid_password_authenticates(locked: RunningNode, requests_versions: bool) -> None:
    client = locked.connect(SASL_LISTENER)
    if requests_versions:
        assert client.ask(SOFTWARE, ApiVersionsResponse, 3).error_code == ErrorCode.NONE
    response = client.log_in(*ALICE)

    assert (response.error_code, response.session_lifetime_ms) == (ErrorCode.NONE, 0)
    assert is_served(client)
    assert locked.node.connections._connections[client.peer.connection].info.principal == "User:alice"
    assert locked.node.connections.authentication.counters[SASL_LISTENER, "PLAIN"].successes == 1


@pytest.mark.parametrize("mechanism", ScramMechanism, ids=lambda mechanism: mechanism.mechanism_name)
def test_credential_is_valid_from_its_commit_to_its_removal(locked: RunningNode, mechanism: ScramMechanism) -> None:
    name = mechanism.mechanism_name
    assert (
        locked.connect(SASL_LISTENER).log_in("bob", "pencil", name).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    )
    set_credential(locked, mechanism, "bob", "pencil")
    assert locked.connect(SASL_LISTENER).log_in("bob", "pencil", name).error_code == ErrorCode.NONE
    set_credential(locked, mechanism, "bob", "pen")
    assert (
        locked.connect(SASL_LISTENER).log_in("bob", "pencil", name).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    )
    removal = ScramCredentialDeletion(name="bob", mechanism=mechanism)
    locked.connect().ask(AlterUserScramCredentialsRequest(deletions=[removal]), AlterUserScramCredentialsResponse, 0)

    assert locked.connect(SASL_LISTENER).log_in("bob", "pen", name).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_credentials_outlive_the_process(world: World) -> None:
    first = start(world)
    set_credential(first, ScramMechanism.SCRAM_SHA_512, "bob", "pencil")
    first.node.close()

    again = start(world)
    assert again.connect(SASL_LISTENER).log_in("bob", "pencil", "SCRAM-SHA-512").error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("user", "password", "mechanism", "message"),
    [
        ("alice", "wrong", "PLAIN", "Authentication failed: Invalid username or password"),
        (
            "alice",
            "wrong",
            "SCRAM-SHA-512",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512",
        ),
    ],
)
def test_wrong_password_gets_delayed_error_and_closes_the_connection(
    locked: RunningNode, user: str, password: str, mechanism: str, message: str
) -> None:
    client = locked.connect(SASL_LISTENER)
    response = client.log_in(user, password, mechanism)

    assert (response.error_code, response.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, message)
    assert client.is_closed
    assert locked.node.connections.authentication.counters[SASL_LISTENER, mechanism].failures == 1


def test_response_to_failed_authentication_is_delayed_and_nothing_is_read(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.handshake("PLAIN")
    request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
    client.send(request, 2)
    locked.run(90)

    assert client.response_to(request, 2) is None
    assert not client.peer.is_read_from
    locked.run(20)
    assert client.response_to(request, 2) is not None
    assert client.is_closed


def test_unsupported_mechanism_is_rejected_with_the_list_of_supported_ones(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    response = client.handshake("GSSAPI")

    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert client.is_closed


# --- before authentication -------------------------------------------------------------------------------------------


def raw(token: bytes) -> Callable[[Client], bytes]:
    return lambda _: struct.pack(">i", len(token)) + token


def ask(request: Message, version: int) -> Callable[[Client], bytes]:
    return lambda client: client.frame(request, version)


PLAIN_HANDSHAKE = ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([ask(EVERYTHING, 9)], id="metadata-at-once"),
        pytest.param([ask(SOFTWARE, 3), ask(EVERYTHING, 9)], id="metadata-after-api-versions"),
        pytest.param([PLAIN_HANDSHAKE, ask(EVERYTHING, 9)], id="metadata-after-the-handshake"),
        pytest.param([ask(SOFTWARE, 3), ask(SOFTWARE, 3)], id="api-versions-twice"),
        pytest.param([PLAIN_HANDSHAKE, ask(SOFTWARE, 3)], id="api-versions-after-the-handshake"),
        pytest.param([ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)], id="a-token-at-once"),
        pytest.param([raw(b"\0alice\0secret")], id="a-bare-token-at-once"),
        pytest.param([raw(struct.pack(">hhi", 999, 0, 1))], id="an-unknown-api"),
        pytest.param([raw(bytes(4))], id="four-bytes"),
    ],
)
def test_no_other_request_is_served_before_authentication(
    locked: RunningNode, caplog: pytest.LogCaptureFixture, frames: list[Callable[[Client], bytes]]
) -> None:
    client = locked.connect(SASL_LISTENER)
    with caplog.at_level(logging.WARNING):
        for frame in frames[:-1]:
            client.send_bytes(frame(client))
            assert client.take_frame() is not None
        client.send_bytes(frames[-1](client))

    assert client.is_closed
    assert client.take_frame() is None
    assert len(caplog.records) == 1
    assert "10.0.0.7:5000" in caplog.text


def test_second_handshake_is_an_error(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.handshake("PLAIN")

    assert client.handshake("SCRAM-SHA-512").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_closed


def test_unknown_version_of_api_versions_may_be_followed_by_a_known_one(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.send_bytes(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    response = client.take_frame()

    assert response is not None
    assert ApiVersionsResponse.decode(response, 0, 4).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.ask(SOFTWARE, ApiVersionsResponse, 3).error_code == ErrorCode.NONE
    assert client.log_in(*ALICE).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("count", "is_rejected"), [(3, False), (4, True)], ids=["three-times", "four-times"])
def test_api_versions_requests_before_authentication_are_bounded(
    locked: RunningNode, count: int, is_rejected: bool
) -> None:
    client = locked.connect(SASL_LISTENER)
    client.send_bytes(struct.pack(">ihhih", 10, 18, 99, 7, -1) * count)

    assert client.is_closed is is_rejected
    assert [client.take_frame() is not None for _ in range(count)] == [True] * 3 + [False] * (count - 3)


def test_bare_tokens_follow_a_handshake_of_version_zero(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.handshake("PLAIN", 0)
    token = b"\0alice\0secret"
    client.send_bytes(struct.pack(">i", len(token)) + token)

    assert client.take_frame() == b""
    assert is_served(client)


def test_unread_response_to_a_bare_token_blocks_the_connection(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.handshake("PLAIN", 0)
    client.peer.takes_bytes = False
    locked.network.queued_size_bytes_max = 3
    client.send_bytes(struct.pack(">i", 13) + b"\0alice\0secret")

    assert not client.peer.is_read_from
    client.peer.takes_bytes = True
    locked.network.take(client.peer)
    locked.node.drained(client.peer.connection)
    assert client.take_frame() == b""
    assert is_served(client)


def test_wrong_bare_token_closes_without_a_response(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.handshake("PLAIN", 0)
    client.send_bytes(struct.pack(">i", 12) + b"\0alice\0wrong")
    locked.run(90)
    assert not client.is_closed
    locked.run(20)

    assert client.is_closed
    assert client.take_frame() is None


@pytest.mark.parametrize(("size", "is_rejected"), [(524_288, False), (524_289, True)], ids=["at-the-limit", "above-it"])
def test_frame_before_authentication_has_its_own_size_limit(locked: RunningNode, size: int, is_rejected: bool) -> None:
    client = locked.connect(SASL_LISTENER)
    client.send_bytes(struct.pack(">ihhih", size, 17, 1, 1, -1))

    assert client.is_closed is is_rejected


def test_frame_after_authentication_has_the_normal_size_limit(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    client.send_bytes(struct.pack(">ihhih", 524_289, 0, 3, 1, -1))

    assert not client.is_closed


def test_connection_not_authenticated_after_30_seconds_is_closed(locked: RunningNode) -> None:
    silent, slow, in_time = (locked.connect(SASL_LISTENER) for _ in range(3))
    slow.handshake("PLAIN")
    in_time.log_in(*ALICE)
    locked.run(AUTHENTICATION_MS_MAX - 50)
    assert not silent.is_closed
    assert len(locked.node.connections.authentication) == 2
    locked.run(60)

    assert silent.is_closed
    assert slow.is_closed
    assert not in_time.is_closed
    assert locked.node.connections.authentication.timed_out == 2


def test_many_timed_out_authentications_are_closed_some_at_a_time(locked: RunningNode) -> None:
    clients = [locked.connect(SASL_LISTENER) for _ in range(100)]
    locked.clock.advance(AUTHENTICATION_MS_MAX)
    closed = []
    while not closed or closed[-1] < len(clients):
        locked.node.tick()
        closed.append(sum(client.is_closed for client in clients))
        assert locked.node.next_deadline_ms() == locked.clock.monotonic_ms() + 1 or closed[-1] == len(clients)
        locked.clock.advance(1)

    assert closed == [32, 64, 96, 100]


def test_unauthenticated_connections_share_a_bounded_memory(locked: RunningNode) -> None:
    """Partial frames hold it; a client that authenticates with complete frames needs none of it."""
    connections = locked.node.connections
    clients = [locked.connect(SASL_LISTENER) for _ in range(200)]
    for client in clients:
        client.send_bytes(struct.pack(">ihhih", 500_000, 17, 1, 1, -1))

    first_bytes = 200 * 14
    assert (
        connections.memories.unauthenticated.held_bytes
        <= connections.memories.unauthenticated.limit_bytes + first_bytes
    )
    assert connections.memories.unauthenticated.waiter_count > 0
    assert connections.memories.clients.held_bytes == 0
    assert locked.connect(SASL_LISTENER).log_in(*ALICE).error_code == ErrorCode.NONE
    locked.run(AUTHENTICATION_MS_MAX + 1_000)
    assert all(client.is_closed for client in clients)
    assert connections.memories.unauthenticated.held_bytes == 0


def handshake_in_two_parts(client: Client) -> tuple[bytes, bytes]:
    frame = client.frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    return frame[:-1], frame[-1:]


def test_unauthenticated_clients_do_not_use_the_memory_of_nodes(world: World) -> None:
    locked = start(world, **INSIDE)
    for _ in range(100):
        locked.connect(SASL_LISTENER).send_bytes(struct.pack(">ihhih", 500_000, 17, 1, 1, -1))
    client, node = locked.connect(SASL_LISTENER), locked.connect("INSIDE")
    for each in (client, node):
        first, _ = handshake_in_two_parts(each)
        each.send_bytes(first)

    assert (client.peer.is_read_from, node.peer.is_read_from) == (False, True)
    node.send_bytes(handshake_in_two_parts(node)[1])
    assert node.take_frame() is not None


def test_slow_frames_before_authentication_are_closed_while_others_wait(locked: RunningNode) -> None:
    clients = [locked.connect(SASL_LISTENER) for _ in range(100)]
    for each in clients:
        each.send_bytes(struct.pack(">ihhih", 500_000, 17, 1, 1, -1))
    client = locked.connect(SASL_LISTENER)
    first, last = handshake_in_two_parts(client)
    client.send_bytes(first)
    locked.run(12_000)

    assert sum(each.is_closed for each in clients) == locked.node.connections.memories.closed_as_slow > 0
    assert client.peer.is_read_from
    client.send_bytes(last)
    assert client.take_frame() is not None


def test_defect_in_authentication_closes_only_its_connection(
    locked: RunningNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client, other = locked.connect(SASL_LISTENER), locked.connect()
    client.handshake("PLAIN")
    monkeypatch.setattr(SaslAuthenticator, "_reject", lambda *_: 1 // 0)
    client.send(EVERYTHING, 9)

    assert client.is_closed
    assert client.take_frame() is None
    assert "authentication of 10.0.0.7:5000 on LOCKED failed" in caplog.text
    assert is_served(other)


def test_unknown_user_has_a_stable_decoy_like_known_users(world: World) -> None:
    def shown(running: RunningNode, user: str) -> list[str]:
        client = running.connect(SASL_LISTENER)
        client.handshake("SCRAM-SHA-512")
        response = client.send_token(f"n,,n={user},r=nonce".encode())
        return bytes(response.auth_bytes).decode().split(",")[1:]

    first = start(world)
    set_credential(first, ScramMechanism.SCRAM_SHA_512, "bob", "pencil", 8192)
    before = {user: shown(first, user) for user in ("bob", "eve", "mallory")}
    first.node.close()
    again = start(world)

    assert {user: shown(again, user) for user in before} == before
    assert {iterations for _, iterations in before.values()} == {"i=8192"}
    assert len({salt for salt, _ in before.values()}) == 3


# --- logs and counters -----------------------------------------------------------------------------------------------


def test_failed_authentications_are_counted_and_logged_once_a_second_without_secrets(
    locked: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    user = "mallory" * 40
    with caplog.at_level(logging.DEBUG):
        for _ in range(5):
            client = locked.connect(SASL_LISTENER)
            client.handshake("PLAIN")
            client.send(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0hunter2".encode()), 2)
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        locked.run(1_100)
        locked.connect(SASL_LISTENER).log_in(user, "hunter2")

    assert len(lines) == 1
    assert "10.0.0.7:5000 on LOCKED" in lines[0]
    assert "PLAIN" in lines[0]
    assert user[:64] in lines[0]
    assert user not in lines[0]
    assert "6 failed so far" in caplog.text
    assert "hunter2" not in caplog.text
    assert locked.node.connections.authentication.counters[SASL_LISTENER, "PLAIN"].failures == 6


def test_credentials_of_the_format_are_used_until_the_metadata_starts() -> None:
    """The log may start with records of the quorum alone: until the cluster's own follow, the format's users count."""
    node = start(World(scram=["SCRAM-SHA-512=[name=node,password=node-secret]"])).node
    kept = node.metadata.image

    node.metadata.image = replace(EMPTY_IMAGE, provenance=Provenance(0, 1, 0))
    assert node.connections.authentication._scram().credential(ScramMechanism.SCRAM_SHA_512, "node") is not None

    node.metadata.image = replace(kept, scram=EMPTY_IMAGE.scram)
    assert node.connections.authentication._scram().credential(ScramMechanism.SCRAM_SHA_512, "node") is None
