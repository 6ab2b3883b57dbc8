"""Requests to peers: versions agreed on once, responses in order, failures distinguished."""

import struct
from typing import Any

import pytest

from ottla.peers.channel import PeerFailure
from ottla.types import Endpoint
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.registry import ApiKey
from ottla.wire.messages.vote import VoteRequest, VoteRequestPartitionData, VoteRequestTopicData, VoteResponse

PEER = Endpoint("10.0.0.2", 9093)


def test_versions_are_agreed_on_once_and_highest_common_one_is_used(peer: Any) -> None:
    first = peer.send()
    peer.establish(1, {ApiKey.VOTE: (0, 1)})
    assert isinstance(peer.next_request(1), VoteRequest)
    assert peer.header.request_api_version == 1
    peer.respond(1, VoteResponse(error_code=7))
    second = peer.send()

    assert isinstance(peer.next_request(1), VoteRequest)
    assert peer.network.connected == [1]
    assert first.value == VoteResponse(error_code=7)
    assert not second.is_complete


def test_api_versions_is_retried_in_the_peers_version(peer: Any) -> None:
    peer.send()
    peer.client.connected(1)
    peer.next_request(1)
    known = [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2)]
    peer.respond(1, ApiVersionsResponse(error_code=35, api_keys=known), version=0)

    assert isinstance(peer.next_request(1), ApiVersionsRequest)
    assert peer.header.request_api_version == 2


def test_api_that_the_peer_does_not_support_fails_without_a_request(peer: Any) -> None:
    result = peer.send()
    peer.establish(1, {ApiKey.FETCH: (4, 17)})

    assert result.value is PeerFailure.UNSUPPORTED_VERSION
    assert peer.next_request(1) is None


def test_field_unknown_to_the_peers_version_fails_without_a_request_or_log_line(
    peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    partition = VoteRequestPartitionData(pre_vote=True)
    pre_vote = VoteRequest(topics=[VoteRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])])
    first, second = peer.send(pre_vote), peer.send()
    peer.establish(1, {ApiKey.VOTE: (0, 1)})

    assert first.value is PeerFailure.UNSUPPORTED_VERSION
    assert caplog.records == []
    assert peer.next_request(1) == VoteRequest()  # no byte of the first one was sent
    peer.respond(1, VoteResponse())
    assert second.value == VoteResponse()


def test_request_that_no_version_can_carry_is_logged_with_traceback(
    peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    result = peer.send(VoteRequest(voter_id=1 << 40))
    peer.establish(1)

    assert result.value is PeerFailure.UNSUPPORTED_VERSION
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert caplog.records[0].exc_info is not None


def test_requests_share_one_connection_per_purpose(peer: Any) -> None:
    results = [peer.send(), peer.send(), peer.send(purpose="fetch")]
    peer.establish(1)
    for code in (1, 2):
        peer.next_request(1)
        peer.respond(1, VoteResponse(error_code=code))

    assert peer.network.connected == [1, 2]
    assert [result.value for result in results[:2]] == [VoteResponse(error_code=1), VoteResponse(error_code=2)]
    assert not results[2].is_complete


@pytest.mark.parametrize(
    ("was_connection_refused", "failure"), [(True, PeerFailure.CONNECTION_REFUSED), (False, PeerFailure.DISCONNECTED)]
)
def test_failed_connection_attempt_fails_all_waiting_requests(
    peer: Any, was_connection_refused: bool, failure: PeerFailure
) -> None:
    results = [peer.send(), peer.send()]
    peer.client.closed(1, "reason", was_connection_refused=was_connection_refused)

    assert [result.value for result in results] == [failure, failure]


def test_lost_connection_fails_sent_requests_and_reconnects_immediately(peer: Any) -> None:
    sent = peer.send()
    peer.establish(1)
    peer.client.closed(1, "reset")
    again = peer.send()

    assert sent.value is PeerFailure.DISCONNECTED
    assert peer.network.connected == [1, 2]
    assert not again.is_complete


def test_failed_attempts_are_repeated_with_exponential_backoff(peer: Any) -> None:
    backoffs_ms = []
    for attempt in range(1, 6):
        result = peer.send(timeout_ms=60_000)
        before_ms = peer.clock.monotonic_ms()
        while len(peer.network.connected) < attempt:
            peer.pass_time(1)
        backoffs_ms.append(peer.clock.monotonic_ms() - before_ms)
        peer.client.closed(attempt, "refused", was_connection_refused=True)
        assert result.value is PeerFailure.CONNECTION_REFUSED

    assert backoffs_ms[0] == 0
    for backoff_ms, expected_ms in zip(backoffs_ms[1:], [50, 100, 200, 400], strict=True):
        assert expected_ms * 0.8 <= backoff_ms <= expected_ms * 1.2


def test_request_times_out_and_closes_the_silent_connection(peer: Any) -> None:
    late, behind = peer.send(timeout_ms=100), peer.send(timeout_ms=500)
    peer.establish(1)
    peer.pass_time(99)
    assert not late.is_complete
    peer.pass_time(1)

    assert late.value is PeerFailure.TIMED_OUT
    assert behind.value is PeerFailure.DISCONNECTED
    assert peer.network.closed == [1]


def test_connection_attempt_is_abandoned_at_a_time_out_and_other_requests_continue(peer: Any) -> None:
    impatient, patient = peer.send(timeout_ms=100), peer.send(timeout_ms=5_000)
    peer.pass_time(100)
    peer.pass_time(60)
    peer.establish(2)
    peer.next_request(2)
    peer.respond(2, VoteResponse())

    assert impatient.value is PeerFailure.TIMED_OUT
    assert patient.value == VoteResponse()


def test_connection_setup_has_its_own_time_out(peer: Any) -> None:
    result = peer.send(timeout_ms=60_000)
    peer.client.connected(1)
    peer.pass_time(peer.config.connection_setup_timeout_ms - 1)
    assert not result.is_complete
    peer.pass_time(1)

    assert result.value is PeerFailure.TIMED_OUT
    assert peer.network.closed == [1]


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\xff\xff\xff\xff", id="negative-size"),
        pytest.param(b"\x7f\xff\xff\xff", id="size-above-the-limit"),
        pytest.param(b"\0\0\0\x04\0\0\x30\x39", id="response-to-another-request"),
        pytest.param(b"\0\0\0\x05\0\0\0\x02\0", id="body-that-ends-too-early"),
    ],
)
def test_invalid_response_closes_the_connection(peer: Any, frame: bytes) -> None:
    result = peer.send()
    peer.establish(1)
    peer.deliver(1, frame)

    assert result.value is PeerFailure.DISCONNECTED
    assert peer.network.closed == [1]


@pytest.mark.parametrize(
    ("size_bytes", "piece_bytes"),
    [(10, 1), (10, 40_000), (60_000, 7), (60_000, 40_000), (300_000, 999), (300_000, 40_000)],
)
def test_records_stay_readable_after_later_frames(peer: Any, size_bytes: int, piece_bytes: int) -> None:
    results = []
    peer.send()
    peer.establish(1)
    peer.next_request(1)
    peer.respond(1, VoteResponse())
    for fill in (b"a", b"b"):
        results.append(peer.send(FetchRequest()))
        peer.next_request(1)
        partition = PartitionData(records=fill * size_bytes)
        response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
        body = struct.pack(">i", peer.header.correlation_id) + b"\0" + response.encode(17)
        peer.deliver(1, struct.pack(">i", len(body)) + body, piece_bytes=piece_bytes)

    for result, fill in zip(results, (b"a", b"b"), strict=True):
        assert isinstance(result.value, FetchResponse)
        records = result.value.responses[0].partitions[0].records
        assert records is not None
        assert bytes(records) == fill * size_bytes  # type: ignore[arg-type]


def test_full_socket_delays_requests_until_it_has_drained(peer: Any) -> None:
    peer.send()
    peer.network.has_capacity = False
    peer.establish(1)
    peer.send()
    peer.next_request(1)
    peer.network.has_capacity = True
    queued = [peer.send() for _ in range(2)]
    assert peer.next_request(1) is None
    peer.client.drained(1)

    assert peer.next_request(1) is not None
    assert not any(result.is_complete for result in queued)


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        pytest.param("connected", None, id="listening"),
        pytest.param("refused", PeerFailure.CONNECTION_REFUSED, id="not-listening"),
        pytest.param("unreachable", PeerFailure.DISCONNECTED, id="cannot-be-reached"),
        pytest.param("silence", PeerFailure.TIMED_OUT, id="silent"),
    ],
)
def test_probe_reports_whether_a_process_listens(peer: Any, outcome: str, found: PeerFailure | None) -> None:
    probe = peer.client.probe(PEER, "PLAINTEXT", timeout_ms=200)
    match outcome:
        case "connected":
            peer.client.connected(1)
            peer.pass_time(199)
            assert not probe.is_complete
            peer.pass_time(1)
        case "refused":
            peer.client.closed(1, "no", was_connection_refused=True)
        case "unreachable":
            peer.client.closed(1, "no route to host")
            peer.client.closed(2, "no route to host")
        case _:
            peer.pass_time(200)

    assert probe.value is found
    assert peer.network.closed == ([1] if outcome in ("connected", "silence") else [])
    assert not peer.client.connections


@pytest.mark.parametrize(
    ("second", "found"),
    [
        pytest.param("refused", PeerFailure.CONNECTION_REFUSED, id="was-exiting"),
        pytest.param("connected", None, id="is-running"),
        pytest.param("closed", PeerFailure.DISCONNECTED, id="closes-every-connection"),
        pytest.param("silence", PeerFailure.TIMED_OUT, id="host-went-silent"),
    ],
)
def test_probe_whose_connection_is_lost_is_repeated_once(peer: Any, second: str, found: PeerFailure | None) -> None:
    probe = peer.client.probe(PEER, "PLAINTEXT", timeout_ms=200)
    peer.client.connected(1)
    peer.client.closed(1, "connection reset by peer")
    assert peer.network.connected == [1, 2]
    match second:
        case "refused":
            peer.client.closed(2, "no", was_connection_refused=True)
        case "connected":
            peer.client.connected(2)
        case "closed":
            peer.client.connected(2)
            peer.client.closed(2, "connection reset by peer")
    if second in ("connected", "silence"):
        peer.pass_time(200)

    assert probe.value is found
    assert peer.network.connected == [1, 2]
    assert not peer.client.connections


def test_idle_connections_are_closed_and_reopened_for_the_next_request(peer: Any) -> None:
    peer.send()
    peer.establish(1)
    peer.next_request(1)
    peer.respond(1, VoteResponse())
    peer.pass_time(peer.config.idle_ms_max)
    assert peer.network.closed == []
    peer.pass_time(10_000)
    assert peer.network.closed == [1]
    peer.send()

    assert peer.network.connected == [1, 2]


def test_deadlines_include_every_due_time(peer: Any) -> None:
    assert peer.client.next_deadline_ms() is None
    peer.send(timeout_ms=100)
    peer.client.tick(0)

    assert peer.client.next_deadline_ms() == 100
    peer.pass_time(100)
    assert peer.client.next_deadline_ms() == 10_000


def test_close_ends_every_connection_and_completes_no_result(peer: Any) -> None:
    waiting = [peer.send(), peer.client.probe(PEER, "PLAINTEXT", timeout_ms=200)]
    peer.establish(1)
    peer.client.close()
    waiting += [peer.send(), peer.client.probe(PEER, "PLAINTEXT", timeout_ms=200)]
    peer.pass_time(60_000)

    assert sorted(peer.network.closed) == peer.network.connected == [1, 2]
    assert not any(result.is_complete for result in waiting)
