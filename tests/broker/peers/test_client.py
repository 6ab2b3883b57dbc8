"""A peer is asked over lanes: versions agreed once, answers in order, every way of failing told apart."""

import logging
import struct
from collections.abc import Mapping, Sequence

import pytest

from ottla.peers.channel import PeerAnswer, PeerFailure
from ottla.peers.client import PeerClient, PeerClientConfig
from ottla.ports import Chunk, ConnectionId, FileSlice
from ottla.purgatory import Delayed
from ottla.sasl.client_login import ClientLogin
from ottla.sasl.exchange import AuthenticationFailedError, ServerExchange
from ottla.sasl.plain import PlainServer
from ottla.sasl.scram import ScramMechanism, ScramServer, credential, salted_password
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.registry import ApiKey, request_header_version, request_type, response_header_version
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.messages.vote import VoteRequest, VoteRequestPartitionData, VoteRequestTopicData, VoteResponse

PEER = Endpoint("10.0.0.2", 9093)
VERSIONS = {ApiKey.API_VERSIONS: (0, 4), ApiKey.VOTE: (0, 2), ApiKey.FETCH: (4, 17)}


class ScriptedNetwork:
    """Connections come up, answer and break when the test says so."""

    def __init__(self) -> None:
        self.dialled: list[ConnectionId] = []
        self.sent: dict[ConnectionId, bytearray] = {}
        self.closed: list[ConnectionId] = []
        self.has_room = True

    def connect(self, endpoint: Endpoint, listener: str) -> ConnectionId:
        self.dialled.append(len(self.dialled) + 1)
        self.sent[self.dialled[-1]] = bytearray()
        return self.dialled[-1]

    def send(self, connection: ConnectionId, chunks: Sequence[Chunk]) -> bool:
        for chunk in chunks:
            assert not isinstance(chunk, FileSlice)
            self.sent[connection] += chunk
        return self.has_room

    def close_connection(self, connection: ConnectionId) -> None:
        self.closed.append(connection)

    def pause_accepting(self, listener: str, for_ms: int) -> None:
        raise AssertionError("nobody connects here")

    def pause_reading(self, connection: ConnectionId) -> None:
        raise AssertionError("a client reads all the time")

    def resume_reading(self, connection: ConnectionId) -> None:
        raise AssertionError("a client reads all the time")


class Asker:
    """A client, its world, and the peer's part played by hand."""

    def __init__(self, logins: Mapping[str, ClientLogin] | None = None) -> None:
        self.network = ScriptedNetwork()
        self.clock = SimulatedClock()
        self.config = PeerClientConfig()
        self.client = PeerClient(
            network=self.network, clock=self.clock, random=SeededRandom(1), config=self.config, logins=logins
        )

    def ask(self, request: Message | None = None, *, timeout_ms: int = 1_000, lane: str = "") -> Delayed[PeerAnswer]:
        return self.client.send(PEER, "CONTROLLER", request or VoteRequest(), timeout_ms=timeout_ms, lane=lane)

    def come_up(self, connection: ConnectionId, versions: dict[ApiKey, tuple[int, int]] | None = None) -> None:
        """Connect, and answer the ApiVersions that comes first."""
        self.client.connected(connection)
        request = self.next_request(connection)
        assert isinstance(request, ApiVersionsRequest)
        rows = (versions or VERSIONS).items()
        self.answer(
            connection,
            ApiVersionsResponse(
                api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in rows]
            ),
        )

    def next_request(self, connection: ConnectionId) -> Message | None:
        """Return the next request that was sent; note its header for `answer`."""
        sent = self.network.sent[connection]
        if not sent:
            return None
        size = int.from_bytes(sent[:4], "big")
        frame = bytes(sent[4 : 4 + size])
        del sent[: 4 + size]
        key, version = struct.unpack(">hh", frame[:4])
        header_version = request_header_version(ApiKey(key), version)
        self.header, position = RequestHeader.decode_from(frame, header_version)
        return request_type(ApiKey(key)).decode(frame, version, position)

    def answer(self, connection: ConnectionId, response: Message, *, version: int | None = None, skew: int = 0) -> None:
        """Answer the request that `next_request` returned last."""
        key = ApiKey(self.header.request_api_key)
        version = self.header.request_api_version if version is None else version
        body = struct.pack(">i", self.header.correlation_id + skew)
        body += b"\0" * response_header_version(key, version) + response.encode(version)
        self.deliver(connection, struct.pack(">i", len(body)) + body)

    def deliver(self, connection: ConnectionId, data: bytes, *, piece_bytes: int = 1 << 30) -> None:
        while data:
            buffer = self.client.receive_buffer(connection)
            piece = data[: min(len(buffer), piece_bytes)]
            buffer[: len(piece)] = piece
            data = data[len(piece) :]
            self.client.received(connection, len(piece))

    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.client.tick(self.clock.monotonic_ms())


@pytest.fixture
def asker() -> Asker:
    return Asker()


def test_versions_are_agreed_once_and_the_highest_common_one_is_used(asker: Asker) -> None:
    first = asker.ask()
    asker.come_up(1, {ApiKey.VOTE: (0, 1)})
    assert isinstance(asker.next_request(1), VoteRequest)
    assert asker.header.request_api_version == 1
    asker.answer(1, VoteResponse(error_code=7))
    second = asker.ask()

    assert isinstance(asker.next_request(1), VoteRequest)
    assert asker.network.dialled == [1]
    assert first.value == VoteResponse(error_code=7)
    assert not second.is_complete


def test_a_peer_that_does_not_know_our_api_versions_is_asked_in_its_own(asker: Asker) -> None:
    asker.ask()
    asker.client.connected(1)
    asker.next_request(1)
    known = [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2)]
    asker.answer(1, ApiVersionsResponse(error_code=35, api_keys=known), version=0)

    assert isinstance(asker.next_request(1), ApiVersionsRequest)
    assert asker.header.request_api_version == 2


def test_what_the_peer_does_not_serve_is_told_without_asking(asker: Asker) -> None:
    answer = asker.ask()
    asker.come_up(1, {ApiKey.FETCH: (4, 17)})

    assert answer.value is PeerFailure.UNSUPPORTED_VERSION
    assert asker.next_request(1) is None


def test_what_the_peers_version_cannot_say_is_told_without_asking_or_a_fuss(
    asker: Asker, caplog: pytest.LogCaptureFixture
) -> None:
    partition = VoteRequestPartitionData(pre_vote=True)
    pre_vote = VoteRequest(topics=[VoteRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])])
    first, second = asker.ask(pre_vote), asker.ask()
    asker.come_up(1, {ApiKey.VOTE: (0, 1)})

    assert first.value is PeerFailure.UNSUPPORTED_VERSION
    assert caplog.records == []
    assert asker.next_request(1) == VoteRequest()  # nothing of the first one has gone out
    asker.answer(1, VoteResponse())
    assert second.value == VoteResponse()


def test_a_request_that_no_version_can_carry_is_logged_with_its_origin(
    asker: Asker, caplog: pytest.LogCaptureFixture
) -> None:
    answer = asker.ask(VoteRequest(voter_id=1 << 40))
    asker.come_up(1)

    assert answer.value is PeerFailure.UNSUPPORTED_VERSION
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert caplog.records[0].exc_info is not None


def test_lanes_have_connections_of_their_own_and_requests_of_one_share_it(asker: Asker) -> None:
    answers = [asker.ask(), asker.ask(), asker.ask(lane="fetch")]
    asker.come_up(1)
    for code in (1, 2):
        asker.next_request(1)
        asker.answer(1, VoteResponse(error_code=code))

    assert asker.network.dialled == [1, 2]
    assert [answer.value for answer in answers[:2]] == [VoteResponse(error_code=1), VoteResponse(error_code=2)]
    assert not answers[2].is_complete


@pytest.mark.parametrize(("was_refused", "failure"), [(True, PeerFailure.REFUSED), (False, PeerFailure.DISCONNECTED)])
def test_a_connection_that_does_not_come_up_fails_all_that_wait(
    asker: Asker, was_refused: bool, failure: PeerFailure
) -> None:
    answers = [asker.ask(), asker.ask()]
    asker.client.closed(1, "reason", was_refused=was_refused)

    assert [answer.value for answer in answers] == [failure, failure]


def test_a_break_fails_what_was_sent_and_the_next_attempt_is_immediate(asker: Asker) -> None:
    sent = asker.ask()
    asker.come_up(1)
    asker.client.closed(1, "reset")
    again = asker.ask()

    assert sent.value is PeerFailure.DISCONNECTED
    assert asker.network.dialled == [1, 2]
    assert not again.is_complete


def test_failed_attempts_are_repeated_after_a_growing_rest(asker: Asker) -> None:
    rests_ms = []
    for attempt in range(1, 6):
        answer = asker.ask(timeout_ms=60_000)
        before_ms = asker.clock.monotonic_ms()
        while len(asker.network.dialled) < attempt:
            asker.pass_time(1)
        rests_ms.append(asker.clock.monotonic_ms() - before_ms)
        asker.client.closed(attempt, "refused", was_refused=True)
        assert answer.value is PeerFailure.REFUSED

    assert rests_ms[0] == 0
    for rest_ms, expected_ms in zip(rests_ms[1:], [50, 100, 200, 400], strict=True):
        assert expected_ms * 0.8 <= rest_ms <= expected_ms * 1.2


def test_a_request_times_out_at_its_time_and_takes_the_silent_connection_with_it(asker: Asker) -> None:
    late, behind = asker.ask(timeout_ms=100), asker.ask(timeout_ms=500)
    asker.come_up(1)
    asker.pass_time(99)
    assert not late.is_complete
    asker.pass_time(1)

    assert late.value is PeerFailure.TIMED_OUT
    assert behind.value is PeerFailure.DISCONNECTED
    assert asker.network.closed == [1]


def test_a_connection_that_does_not_come_up_in_time_is_abandoned_and_others_go_on(asker: Asker) -> None:
    impatient, patient = asker.ask(timeout_ms=100), asker.ask(timeout_ms=5_000)
    asker.pass_time(100)
    asker.pass_time(60)
    asker.come_up(2)
    asker.next_request(2)
    asker.answer(2, VoteResponse())

    assert impatient.value is PeerFailure.TIMED_OUT
    assert patient.value == VoteResponse()


def test_setting_up_has_a_limit_of_its_own(asker: Asker) -> None:
    answer = asker.ask(timeout_ms=60_000)
    asker.client.connected(1)
    asker.pass_time(asker.config.connection_setup_timeout_ms - 1)
    assert not answer.is_complete
    asker.pass_time(1)

    assert answer.value is PeerFailure.TIMED_OUT
    assert asker.network.closed == [1]


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\xff\xff\xff\xff", id="negative-size"),
        pytest.param(b"\x7f\xff\xff\xff", id="size-above-the-limit"),
        pytest.param(b"\0\0\0\x04\0\0\x30\x39", id="answer-to-another-request"),
        pytest.param(b"\0\0\0\x05\0\0\0\x02\0", id="body-that-ends-too-early"),
    ],
)
def test_bytes_that_are_no_answer_end_the_connection(asker: Asker, frame: bytes) -> None:
    answer = asker.ask()
    asker.come_up(1)
    asker.deliver(1, frame)

    assert answer.value is PeerFailure.DISCONNECTED
    assert asker.network.closed == [1]


@pytest.mark.parametrize(
    ("size_bytes", "piece_bytes"),
    [(10, 1), (10, 40_000), (60_000, 7), (60_000, 40_000), (300_000, 999), (300_000, 40_000)],
)
def test_records_stay_readable_after_later_frames(asker: Asker, size_bytes: int, piece_bytes: int) -> None:
    answers = []
    asker.ask()
    asker.come_up(1)
    asker.next_request(1)
    asker.answer(1, VoteResponse())
    for fill in (b"a", b"b"):
        answers.append(asker.ask(FetchRequest()))
        asker.next_request(1)
        partition = PartitionData(records=fill * size_bytes)
        response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
        body = struct.pack(">i", asker.header.correlation_id) + b"\0" + response.encode(17)
        asker.deliver(1, struct.pack(">i", len(body)) + body, piece_bytes=piece_bytes)

    for answer, fill in zip(answers, (b"a", b"b"), strict=True):
        assert isinstance(answer.value, FetchResponse)
        records = answer.value.responses[0].partitions[0].records
        assert records is not None
        assert bytes(records) == fill * size_bytes  # type: ignore[arg-type]


def test_a_full_socket_holds_requests_back_until_it_has_drained(asker: Asker) -> None:
    asker.ask()
    asker.network.has_room = False
    asker.come_up(1)
    asker.ask()
    asker.next_request(1)
    asker.network.has_room = True
    held_back = [asker.ask() for _ in range(2)]
    assert asker.next_request(1) is None
    asker.client.drained(1)

    assert asker.next_request(1) is not None
    assert not any(answer.is_complete for answer in held_back)


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        pytest.param("connected", None, id="somebody-listens"),
        pytest.param("refused", PeerFailure.REFUSED, id="nobody-listens"),
        pytest.param("unreachable", PeerFailure.DISCONNECTED, id="cannot-be-reached"),
        pytest.param("silence", PeerFailure.TIMED_OUT, id="says-nothing"),
    ],
)
def test_a_probe_tells_whether_somebody_listens(asker: Asker, outcome: str, found: PeerFailure | None) -> None:
    probe = asker.client.probe(PEER, "PLAINTEXT", timeout_ms=200)
    match outcome:
        case "connected":
            asker.client.connected(1)
            asker.pass_time(199)
            assert not probe.is_complete
            asker.pass_time(1)
        case "refused":
            asker.client.closed(1, "no", was_refused=True)
        case "unreachable":
            asker.client.closed(1, "no route to host")
            asker.client.closed(2, "no route to host")
        case _:
            asker.pass_time(200)

    assert probe.value is found
    assert asker.network.closed == ([1] if outcome in ("connected", "silence") else [])
    assert not asker.client.lane_of


@pytest.mark.parametrize(
    ("second", "found"),
    [
        pytest.param("refused", PeerFailure.REFUSED, id="it-was-ending"),
        pytest.param("connected", None, id="it-is-there"),
        pytest.param("closed", PeerFailure.DISCONNECTED, id="it-drops-everybody"),
        pytest.param("silence", PeerFailure.TIMED_OUT, id="its-host-went-silent"),
    ],
)
def test_a_probe_whose_connection_does_not_last_is_made_once_more(
    asker: Asker, second: str, found: PeerFailure | None
) -> None:
    probe = asker.client.probe(PEER, "PLAINTEXT", timeout_ms=200)
    asker.client.connected(1)
    asker.client.closed(1, "connection reset by peer")
    assert asker.network.dialled == [1, 2]
    match second:
        case "refused":
            asker.client.closed(2, "no", was_refused=True)
        case "connected":
            asker.client.connected(2)
        case "closed":
            asker.client.connected(2)
            asker.client.closed(2, "connection reset by peer")
    if second in ("connected", "silence"):
        asker.pass_time(200)

    assert probe.value is found
    assert asker.network.dialled == [1, 2]
    assert not asker.client.lane_of


def test_idle_lanes_are_closed_and_the_next_request_opens_them_again(asker: Asker) -> None:
    asker.ask()
    asker.come_up(1)
    asker.next_request(1)
    asker.answer(1, VoteResponse())
    asker.pass_time(asker.config.idle_ms_max)
    assert asker.network.closed == []
    asker.pass_time(10_000)
    assert asker.network.closed == [1]
    asker.ask()

    assert asker.network.dialled == [1, 2]


def test_deadlines_name_every_moment_at_which_something_is_due(asker: Asker) -> None:
    assert asker.client.next_deadline_ms() is None
    asker.ask(timeout_ms=100)
    asker.client.tick(0)

    assert asker.client.next_deadline_ms() == 100
    asker.pass_time(100)
    assert asker.client.next_deadline_ms() == 10_000


def test_closing_ends_every_connection_and_tells_nobody(asker: Asker) -> None:
    waiting = [asker.ask(), asker.client.probe(PEER, "PLAINTEXT", timeout_ms=200)]
    asker.come_up(1)
    asker.client.close()
    waiting += [asker.ask(), asker.client.probe(PEER, "PLAINTEXT", timeout_ms=200)]
    asker.pass_time(60_000)

    assert sorted(asker.network.closed) == asker.network.dialled == [1, 2]
    assert not any(answer.is_complete for answer in waiting)


# --- listeners with SASL

SASL_VERSIONS = {**VERSIONS, ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2)}
SCRAM = ScramMechanism.SCRAM_SHA_256
NODE = credential(SCRAM, salted_password(SCRAM, "secret", b"salt", 4096), b"salt", 4096)


def guarded(mechanism: str = "PLAIN", password: str = "secret") -> Asker:
    return Asker({"CONTROLLER": ClientLogin(mechanism, "node", password)})


def server_exchange(mechanism: str) -> ServerExchange:
    if mechanism == "PLAIN":
        return PlainServer({"node": "secret"}.get)
    return ScramServer(SCRAM, credential_of={"node": NODE}.get, nonce="server", decoy_of=lambda _: NODE)


def let_in(asker: Asker, connection: ConnectionId, *, lifetime_ms: int = 0, offered: str = "PLAIN") -> int:
    """Play the server's part of a login; return how many tokens came."""
    request = asker.next_request(connection)
    assert isinstance(request, SaslHandshakeRequest)
    if request.mechanism != offered:
        asker.answer(connection, SaslHandshakeResponse(error_code=33, mechanisms=[offered]))
        return 0
    asker.answer(connection, SaslHandshakeResponse(mechanisms=[offered]))
    exchange = server_exchange(offered)
    for count in range(1, 4):
        request = asker.next_request(connection)
        assert isinstance(request, SaslAuthenticateRequest)
        try:
            token = exchange.evaluate(bytes(request.auth_bytes))
        except AuthenticationFailedError:
            asker.answer(connection, SaslAuthenticateResponse(error_code=58, error_message="Authentication failed"))
            return count
        lifetime = lifetime_ms if exchange.is_complete else 0
        asker.answer(connection, SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime))
        if exchange.is_complete:
            return count
    raise AssertionError("the login does not end")


@pytest.mark.parametrize(("mechanism", "tokens"), [("PLAIN", 1), ("SCRAM-SHA-256", 2)])
def test_a_node_logs_in_before_it_asks(mechanism: str, tokens: int) -> None:
    asker = guarded(mechanism)
    asked = asker.ask()
    asker.come_up(1, SASL_VERSIONS)

    assert let_in(asker, 1, offered=mechanism) == tokens
    assert isinstance(asker.next_request(1), VoteRequest)
    asker.answer(1, VoteResponse())
    assert asked.value == VoteResponse()
    assert asker.client._lanes[PEER, "CONTROLLER", ""].login is not None


def test_another_listener_is_spoken_to_without_a_login() -> None:
    asker = guarded()
    asker.client.send(PEER, "PLAINTEXT", VoteRequest(), timeout_ms=1_000)
    asker.come_up(1, SASL_VERSIONS)

    assert isinstance(asker.next_request(1), VoteRequest)


@pytest.mark.parametrize(
    ("password", "offered", "words"),
    [
        pytest.param("wrong", "PLAIN", "Authentication failed", id="wrong-password"),
        pytest.param("secret", "SCRAM-SHA-256", "does not offer PLAIN; it offers SCRAM-SHA-256", id="not-offered"),
    ],
)
def test_a_refused_login_fails_who_waits_is_logged_and_rests(
    caplog: pytest.LogCaptureFixture, password: str, offered: str, words: str
) -> None:
    asker = guarded(password=password)
    asked = asker.ask()
    asker.come_up(1, SASL_VERSIONS)
    with caplog.at_level(logging.WARNING):
        let_in(asker, 1, offered=offered)

    assert asked.value is PeerFailure.DISCONNECTED
    assert asker.network.closed == [1]
    assert "10.0.0.2:9093 on CONTROLLER as 'node'" in caplog.text
    assert words in caplog.text
    assert password not in caplog.text
    asker.ask()
    asker.pass_time(asker.config.reconnect_backoff_max_ms // 2)
    assert asker.network.dialled == [1], "the next attempt comes after the longest rest"
    asker.pass_time(asker.config.reconnect_backoff_max_ms)
    assert asker.network.dialled == [1, 2]


def test_a_server_that_only_says_yes_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    asker = guarded("SCRAM-SHA-256")
    asked = asker.ask()
    asker.come_up(1, SASL_VERSIONS)
    asker.next_request(1)
    asker.answer(1, SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]))
    asker.next_request(1)
    asker.answer(1, SaslAuthenticateResponse(auth_bytes=b""))

    assert asked.value is PeerFailure.DISCONNECTED
    assert "cannot log in" in caplog.text


def test_a_session_is_renewed_before_its_end_behind_what_is_under_way() -> None:
    asker = guarded()
    asker.ask()
    asker.come_up(1, SASL_VERSIONS)
    let_in(asker, 1, lifetime_ms=10_000)
    asker.next_request(1)
    first = asker.header
    asker.answer(1, VoteResponse())
    asker.pass_time(8_400)
    waiting = asker.ask(timeout_ms=60_000)
    vote = asker.next_request(1)
    vote_header = asker.header
    asker.pass_time(1_200)
    renewal = asker.next_request(1)
    behind = asker.ask(timeout_ms=60_000)

    assert isinstance(vote, VoteRequest)
    assert isinstance(renewal, SaslHandshakeRequest)
    renewal_header, asker.header = asker.header, vote_header
    asker.answer(1, VoteResponse())
    assert waiting.is_complete
    asker.header = renewal_header
    asker.answer(1, SaslHandshakeResponse(mechanisms=["PLAIN"]))
    assert isinstance(asker.next_request(1), SaslAuthenticateRequest)
    assert not behind.is_complete
    asker.answer(1, SaslAuthenticateResponse(session_lifetime_ms=10_000))
    assert isinstance(asker.next_request(1), VoteRequest), "what waited for the renewal goes out"
    assert asker.network.dialled == [1]
    assert first.correlation_id < renewal_header.correlation_id


def test_a_session_without_an_end_is_never_renewed() -> None:
    asker = guarded()
    asker.ask()
    asker.come_up(1, SASL_VERSIONS)
    let_in(asker, 1)
    asker.next_request(1)
    asker.answer(1, VoteResponse())
    asker.pass_time(500_000)

    assert asker.next_request(1) is None


def test_a_login_that_does_not_end_is_given_up_in_time() -> None:
    asker = guarded()
    asked = asker.ask(timeout_ms=60_000)
    asker.come_up(1, SASL_VERSIONS)
    asker.pass_time(asker.config.connection_setup_timeout_ms)

    assert asker.network.closed == [1]
    assert asked.value is PeerFailure.TIMED_OUT
