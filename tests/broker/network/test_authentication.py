"""Doors with SASL: what may come before a login, what ends it, and what it costs those without."""

import gc
import logging
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.api import ConnectionInfo
from ottla.metadata.image import EMPTY_IMAGE, Provenance
from ottla.network.authentication import LOGIN_MS_MAX
from ottla.network.connection import Connection
from ottla.network.connection_login import ConnectionLogin
from ottla.sasl.scram import ScramMechanism, new_salt, salted_password
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_node import ALICE, JAAS, LOCKED, SASL_LISTENER, Client, RunningNode, World
from ottla.wire.codec import Message
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
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
EVERYTHING = MetadataRequest(topics=[])


def start(world: World, **changes: str) -> RunningNode:
    return world.start_node(**(LOCKED | changes))


@pytest.fixture
def locked(world: World) -> RunningNode:
    return start(world)


@pytest.fixture
def renewable(world: World) -> RunningNode:
    """A node whose logins end."""
    return start(world, **{"connections.max.reauth.ms": "5000"})


def is_served(client: Client) -> bool:
    return client.ask(EVERYTHING, MetadataResponse, 9).cluster_id is not None


def set_credential(
    running: RunningNode, mechanism: ScramMechanism, user: str, password: str, iterations: int = 4096
) -> None:
    salt = new_salt(SeededRandom(2).randrange)
    salted = salted_password(mechanism, password, salt, iterations)
    upsertion = ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    answer = running.connect().ask(request, AlterUserScramCredentialsResponse, 0)
    assert [each.error_code for each in answer.results] == [ErrorCode.NONE]


# --- who gets in -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asks_versions", [True, False], ids=["after-api-versions", "at-once"])
def test_a_right_password_lets_in(locked: RunningNode, asks_versions: bool) -> None:
    client = locked.connect(SASL_LISTENER)
    if asks_versions:
        assert client.ask(SOFTWARE, ApiVersionsResponse, 3).error_code == ErrorCode.NONE
    answer = client.log_in(*ALICE)

    assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, 0)
    assert is_served(client)
    assert locked.node.connections._connections[client.peer.connection].info.principal == "User:alice"
    assert locked.node.connections.authentication.counters[SASL_LISTENER, "PLAIN"].successes == 1


@pytest.mark.parametrize("mechanism", ScramMechanism, ids=lambda mechanism: mechanism.mechanism_name)
def test_a_credential_counts_from_the_moment_it_is_committed_to_its_removal(
    locked: RunningNode, mechanism: ScramMechanism
) -> None:
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
def test_a_wrong_password_is_answered_late_and_ends_the_connection(
    locked: RunningNode, user: str, password: str, mechanism: str, message: str
) -> None:
    client = locked.connect(SASL_LISTENER)
    answer = client.log_in(user, password, mechanism)

    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, message)
    assert client.is_closed
    assert locked.node.connections.authentication.counters[SASL_LISTENER, mechanism].failures == 1


def test_the_answer_to_a_failed_login_waits_and_nothing_is_read_meanwhile(locked: RunningNode) -> None:
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


def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    answer = client.handshake("GSSAPI")

    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert client.is_closed


# --- what may come before the login ----------------------------------------------------------------------------------


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
def test_nothing_else_is_served_before_the_login(
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


def test_a_second_handshake_is_an_error(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.handshake("PLAIN")

    assert client.handshake("SCRAM-SHA-512").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_closed


def test_an_unknown_version_of_api_versions_may_be_followed_by_a_known_one(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.send_bytes(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    refused = client.take_frame()

    assert refused is not None
    assert ApiVersionsResponse.decode(refused, 0, 4).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.ask(SOFTWARE, ApiVersionsResponse, 3).error_code == ErrorCode.NONE
    assert client.log_in(*ALICE).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("count", "is_refused"), [(3, False), (4, True)], ids=["three-times", "four-times"])
def test_api_versions_is_not_asked_without_end(locked: RunningNode, count: int, is_refused: bool) -> None:
    client = locked.connect(SASL_LISTENER)
    client.send_bytes(struct.pack(">ihhih", 10, 18, 99, 7, -1) * count)

    assert client.is_closed is is_refused
    assert [client.take_frame() is not None for _ in range(count)] == [True] * 3 + [False] * (count - 3)


def test_old_clients_send_bare_tokens_after_a_handshake_of_version_zero(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.handshake("PLAIN", 0)
    token = b"\0alice\0secret"
    client.send_bytes(struct.pack(">i", len(token)) + token)

    assert client.take_frame() == b""
    assert is_served(client)


def test_after_an_answer_to_a_bare_token_that_is_not_taken_nothing_is_served(locked: RunningNode) -> None:
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


def test_a_wrong_bare_token_is_not_answered(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.handshake("PLAIN", 0)
    client.send_bytes(struct.pack(">i", 12) + b"\0alice\0wrong")
    locked.run(90)
    assert not client.is_closed
    locked.run(20)

    assert client.is_closed
    assert client.take_frame() is None


@pytest.mark.parametrize(("size", "is_refused"), [(524_288, False), (524_289, True)], ids=["at-the-limit", "above-it"])
def test_a_frame_before_the_login_has_a_limit_of_its_own(locked: RunningNode, size: int, is_refused: bool) -> None:
    client = locked.connect(SASL_LISTENER)
    client.send_bytes(struct.pack(">ihhih", size, 17, 1, 1, -1))

    assert client.is_closed is is_refused


def test_after_the_login_a_frame_may_be_as_large_as_anybody_s(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    client.send_bytes(struct.pack(">ihhih", 524_289, 0, 3, 1, -1))

    assert not client.is_closed


def test_who_is_not_logged_in_after_half_a_minute_is_closed(locked: RunningNode) -> None:
    silent, slow, in_time = (locked.connect(SASL_LISTENER) for _ in range(3))
    slow.handshake("PLAIN")
    in_time.log_in(*ALICE)
    locked.run(LOGIN_MS_MAX - 50)
    assert not silent.is_closed
    assert len(locked.node.connections.authentication) == 2
    locked.run(60)

    assert silent.is_closed
    assert slow.is_closed
    assert not in_time.is_closed
    assert locked.node.connections.authentication.timed_out == 2


def test_a_crowd_whose_time_for_a_login_is_over_is_closed_some_at_a_time(locked: RunningNode) -> None:
    crowd = [locked.connect(SASL_LISTENER) for _ in range(100)]
    locked.clock.advance(LOGIN_MS_MAX)
    closed = []
    while not closed or closed[-1] < len(crowd):
        locked.node.tick()
        closed.append(sum(client.is_closed for client in crowd))
        assert locked.node.next_deadline_ms() == locked.clock.monotonic_ms() + 1 or closed[-1] == len(crowd)
        locked.clock.advance(1)

    assert closed == [32, 64, 96, 100]


def test_connections_without_a_login_share_a_bounded_memory(locked: RunningNode) -> None:
    """Frames that never arrive wholly hold it; who logs in with whole frames needs none of it."""
    connections = locked.node.connections
    crowd = [locked.connect(SASL_LISTENER) for _ in range(200)]
    for client in crowd:
        client.send_bytes(struct.pack(">ihhih", 500_000, 17, 1, 1, -1))

    first_bytes = 200 * 14
    assert connections.memories.login.held_bytes <= connections.memories.login.limit_bytes + first_bytes
    assert connections.memories.login.waiter_count > 0
    assert connections.memories.clients.held_bytes == 0
    assert locked.connect(SASL_LISTENER).log_in(*ALICE).error_code == ErrorCode.NONE
    locked.run(LOGIN_MS_MAX + 1_000)
    assert all(client.is_closed for client in crowd)
    assert connections.memories.login.held_bytes == 0


def handshake_in_two_parts(client: Client) -> tuple[bytes, bytes]:
    frame = client.frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    return frame[:-1], frame[-1:]


def test_a_crowd_of_frames_before_the_login_leaves_those_of_nodes_alone(world: World) -> None:
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


def test_frames_before_the_login_that_bring_too_little_go_while_others_wait(locked: RunningNode) -> None:
    crowd = [locked.connect(SASL_LISTENER) for _ in range(100)]
    for each in crowd:
        each.send_bytes(struct.pack(">ihhih", 500_000, 17, 1, 1, -1))
    client = locked.connect(SASL_LISTENER)
    first, last = handshake_in_two_parts(client)
    client.send_bytes(first)
    locked.run(12_000)

    assert sum(each.is_closed for each in crowd) == locked.node.connections.memories.closed_as_slow > 0
    assert client.peer.is_read_from
    client.send_bytes(last)
    assert client.take_frame() is not None


# --- listeners without SASL, and logins that are over ----------------------------------------------------------------


def test_a_listener_without_sasl_has_nothing_to_log_in_at(locked: RunningNode) -> None:
    client = locked.connect()

    assert client.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.send_token(b"\0alice\0secret").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(client)
    assert locked.node.connections._connections[client.peer.connection].guard is None


def test_a_login_without_an_end_leaves_no_guard_behind(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.log_in(*ALICE)

    assert locked.node.connections._connections[client.peer.connection].guard is None
    assert client.send_token(b"x").error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_connection_that_ended_leaves_nothing_for_the_collector(locked: RunningNode) -> None:
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
        return sum(isinstance(it, Connection | ConnectionInfo | ConnectionLogin) for it in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = count()
        for _ in range(3):
            visit()
        assert count() == before
    finally:
        gc.enable()


def test_a_session_ends_at_the_request_after_its_time(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    assert client.log_in(*ALICE).session_lifetime_ms == 5_000
    renewable.run(5_000)
    assert is_served(client)
    renewable.run(10)
    client.send(EVERYTHING, 9)

    assert client.is_closed
    assert renewable.node.connections.authentication.expired_sessions == 1


def test_a_renewal_begins_a_session_anew(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    for _ in range(3):
        renewable.run(5_010)
        assert client.log_in(*ALICE).session_lifetime_ms == 5_000
        assert is_served(client)

    assert renewable.node.connections.authentication.counters[SASL_LISTENER, "PLAIN"].renewals == 3


def test_a_login_that_does_not_end_is_not_renewed(locked: RunningNode) -> None:
    client = locked.connect(SASL_LISTENER)
    client.log_in(*ALICE)

    answer = client.handshake("PLAIN")

    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert is_served(client)


def test_a_renewal_may_not_begin_within_a_second_of_the_last(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    client.log_in(*ALICE)
    assert client.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    renewable.run(1_000)

    assert client.log_in(*ALICE).error_code == ErrorCode.NONE


def test_a_renewal_keeps_the_user(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    answer = client.log_in("eve", "evil")

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.eve"
    assert client.is_closed


def test_a_renewal_keeps_the_mechanism(renewable: RunningNode) -> None:
    set_credential(renewable, ScramMechanism.SCRAM_SHA_256, "alice", "secret")
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    answer = client.log_in(*ALICE, "SCRAM-SHA-256")

    assert answer.error_message == (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )
    assert client.is_closed


def test_during_a_renewal_nothing_else_is_served(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    client.handshake("PLAIN")
    client.send(EVERYTHING, 9)

    assert client.is_closed
    assert client.take_frame() is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"], ids=["its-own-mechanism", "another-mechanism"])
def test_a_renewal_does_not_begin_with_a_handshake_of_version_zero(renewable: RunningNode, mechanism: str) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    assert client.handshake(mechanism, 0).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(client)

    client.send_bytes(struct.pack(">i", 13) + b"\0alice\0secret")
    assert client.is_closed, "a bare token is no request"
    assert is_served(renewable.connect())


def test_a_session_that_is_over_is_not_renewed_with_a_handshake_of_version_zero(renewable: RunningNode) -> None:
    client = renewable.connect(SASL_LISTENER)
    client.log_in(*ALICE)
    renewable.run(5_010)
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 0)

    assert client.is_closed
    assert renewable.node.connections.authentication.expired_sessions == 1


def test_a_defect_in_a_login_ends_its_connection_only(
    locked: RunningNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client, other = locked.connect(SASL_LISTENER), locked.connect()
    client.handshake("PLAIN")
    monkeypatch.setattr(ConnectionLogin, "_reject", lambda *_: 1 // 0)
    client.send(EVERYTHING, 9)

    assert client.is_closed
    assert client.take_frame() is None
    assert "the login of 10.0.0.7:5000 on LOCKED failed" in caplog.text
    assert is_served(other)


def test_a_user_that_is_not_there_looks_the_same_after_a_start_and_as_the_others_do(world: World) -> None:
    def shown(running: RunningNode, user: str) -> list[str]:
        client = running.connect(SASL_LISTENER)
        client.handshake("SCRAM-SHA-512")
        answer = client.send_token(f"n,,n={user},r=nonce".encode())
        return bytes(answer.auth_bytes).decode().split(",")[1:]

    first = start(world)
    set_credential(first, ScramMechanism.SCRAM_SHA_512, "bob", "pencil", 8192)
    before = {user: shown(first, user) for user in ("bob", "eve", "mallory")}
    first.node.close()
    again = start(world)

    assert {user: shown(again, user) for user in before} == before
    assert {iterations for _, iterations in before.values()} == {"i=8192"}
    assert len({salt for salt, _ in before.values()}) == 3


# --- what is seen of it ----------------------------------------------------------------------------------------------


def test_failed_logins_are_counted_and_logged_once_a_second_without_a_secret(
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


def test_credentials_of_the_format_hold_until_the_metadata_begins() -> None:
    """The log may begin with records of the quorum alone: until the cluster's own are there, nobody is unknown."""
    node = start(World(scram=["SCRAM-SHA-512=[name=node,password=node-secret]"])).node
    kept = node.metadata.image

    node.metadata.image = replace(EMPTY_IMAGE, provenance=Provenance(0, 1, 0))
    assert node._scram().credential(ScramMechanism.SCRAM_SHA_512, "node") is not None

    node.metadata.image = replace(kept, scram=EMPTY_IMAGE.scram)
    assert node._scram().credential(ScramMechanism.SCRAM_SHA_512, "node") is None
