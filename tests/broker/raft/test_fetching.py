"""A follower, message by message: how it handles the leader's responses, and the loss of the leader."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerFailure
from ottla.raft.config import RaftConfig
from ottla.raft.follower import FollowerState
from ottla.raft.prospective import ProspectiveState
from ottla.raft.records import LeaderAndEpoch, ReplicaKey
from ottla.raft.requests import (
    Learned,
    begin_quorum_epoch_request,
    end_quorum_epoch_request,
    fetch_response,
    fetch_snapshot_response,
    vote_response,
)
from ottla.types import ZERO_UUID
from ottla.wire.messages.fetch import FetchRequest, PartitionData, SnapshotId
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponsePartitionSnapshot
from ottla.wire.messages.vote import VoteRequest
from ottla.wire.records import Record, build_batch
from scripted_follower import ENDPOINTS, LEADER, LOCAL, Follower


@pytest.fixture
def follower(bytes_serde: Any) -> Follower:
    return Follower(bytes_serde)


def batch(offset: int, epoch: int, *values: bytes) -> bytes:
    records = [Record(offset + index, 0, None, value) for index, value in enumerate(values)]
    return build_batch(records, base_offset=offset, leader_epoch=epoch)


# --- log


def test_voter_syncs_fetched_records_before_the_next_fetch(follower: Follower) -> None:
    follower.respond(records=batch(0, 1, b"a", b"b"))
    assert follower.channel.sent == []

    follower.disk.complete_syncs()

    assert follower.fetch_position() == (2, 1)


def test_listeners_are_notified_when_the_high_watermark_passes_records(follower: Follower) -> None:
    follower.respond(records=batch(0, 1, b"a") + batch(1, 1, b"b"), high_watermark=1)
    follower.disk.complete_syncs()
    assert follower.committed == [b"a"]

    follower.respond(high_watermark=2)

    assert follower.committed == [b"a", b"b"]


def test_diverged_log_is_truncated_and_commits_no_diverged_record(follower: Follower) -> None:
    follower.respond(records=batch(0, 1, b"a") + batch(1, 1, b"b"))
    follower.disk.complete_syncs()

    partition = PartitionData(partition_index=0, high_watermark=2, records=b"")
    partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset = 1, 1
    follower.fetch().response.complete(fetch_response(partition, Learned(LEADER, 1, ENDPOINTS[LEADER])))
    follower.disk.complete_syncs()

    assert follower.client.log_end_offset == 1
    assert follower.committed == []
    assert follower.fetch_position() == (1, 1)


def test_log_to_be_replaced_by_a_snapshot_is_not_committed(follower: Follower) -> None:
    follower.respond(records=batch(0, 1, b"a") + batch(1, 1, b"b"))
    follower.disk.complete_syncs()

    partition = PartitionData(partition_index=0, high_watermark=9, records=b"")
    partition.snapshot_id.epoch, partition.snapshot_id.end_offset = 1, 9
    follower.fetch().response.complete(fetch_response(partition, Learned(LEADER, 1, ENDPOINTS[LEADER])))

    assert follower.committed == []
    assert follower.client.high_watermark is None


def test_snapshot_without_a_next_piece_is_abandoned(follower: Follower) -> None:
    partition = PartitionData(partition_index=0, records=b"")
    partition.snapshot_id.epoch, partition.snapshot_id.end_offset = 1, 9
    follower.fetch().response.complete(fetch_response(partition, Learned(LEADER, 1, ENDPOINTS[LEADER])))
    (requested,) = follower.channel.take(FetchSnapshotRequest)

    nothing = FetchSnapshotResponsePartitionSnapshot(index=0, size=100, position=0, unaligned_records=b"")
    nothing.snapshot_id.epoch, nothing.snapshot_id.end_offset = 1, 9
    requested.response.complete(fetch_snapshot_response(nothing, Learned(LEADER, 1, ENDPOINTS[LEADER])))

    assert follower.channel.sent == []
    follower.advance(500)
    assert follower.fetch_position() == (0, 0)


def test_truncation_below_the_high_watermark_stops_the_replica(follower: Follower) -> None:
    follower.respond(records=batch(0, 1, b"a") + batch(1, 1, b"b"), high_watermark=2)
    follower.disk.complete_syncs()

    partition = PartitionData(partition_index=0, records=b"")
    partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset = 1, 1
    follower.fetch().response.complete(fetch_response(partition, Learned(LEADER, 1, ENDPOINTS[LEADER])))

    assert follower.client.log_end_offset == 2
    assert "has lost records" in str(follower.failures[0])


@pytest.mark.parametrize(
    "corrupt",
    [
        pytest.param(lambda data: data[:-1] + b"!", id="bits-flipped"),
        pytest.param(lambda data: batch(5, 1, b"x"), id="a-gap"),
        pytest.param(lambda data: batch(0, 2, b"x"), id="from-a-later-epoch"),
    ],
)
def test_invalid_records_are_not_appended(follower: Follower, corrupt: Callable[[bytes], bytes]) -> None:
    follower.respond(records=corrupt(batch(0, 1, b"a")))
    follower.disk.complete_syncs()
    follower.advance(100)

    assert follower.client.log_end_offset == 0
    assert follower.fetch_position() == (0, 0)
    assert not follower.failures


def test_rejected_fetch_is_logged_also_when_the_response_names_no_leader(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    rejection = PartitionData(partition_index=0, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)

    follower.fetch().response.complete(fetch_response(rejection, Learned(None, 1, None)))

    lines = [record.message for record in caplog.records if "UNKNOWN_LEADER_EPOCH" in record.message]
    assert lines == [f"node {ENDPOINTS[LEADER]} of the metadata quorum rejects a fetch: UNKNOWN_LEADER_EPOCH"]


def test_unknown_error_code_is_logged_as_a_rejection(follower: Follower, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    rejection = PartitionData(partition_index=0, error_code=max(ErrorCode) + 1)

    follower.fetch().response.complete(fetch_response(rejection, Learned(LEADER, 1, ENDPOINTS[LEADER])))

    assert any("UNKNOWN_SERVER_ERROR" in record.message for record in caplog.records)
    follower.advance(100)
    assert follower.fetch().endpoint in ENDPOINTS.values()
    assert not follower.failures


def test_leader_with_unsupported_versions_is_logged_once(follower: Follower, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for _ in range(3):
        follower.fetch().response.complete(PeerFailure.UNSUPPORTED_VERSION)
        follower.advance(300)

    lines = [record.message for record in caplog.records if "UNSUPPORTED_VERSION" in record.message]
    assert len(lines) == len(set(lines))
    assert any("FetchRequest" in line for line in lines)


# --- loss of the leader


def test_broken_connection_is_reconnected_at_once(follower: Follower) -> None:
    follower.fetch().response.complete(PeerFailure.DISCONNECTED)

    assert follower.fetch().endpoint == ENDPOINTS[LEADER]
    assert isinstance(follower.client.state, FollowerState)


def test_connection_refused_starts_a_pre_vote_within_50_ms_and_grants_pre_votes(follower: Follower) -> None:
    follower.respond()
    assert not follower.pre_vote_of_node_3()
    follower.fetch().response.complete(PeerFailure.DISCONNECTED)
    assert not follower.pre_vote_of_node_3()

    follower.fetch().response.complete(PeerFailure.CONNECTION_REFUSED)

    assert follower.pre_vote_of_node_3()
    follower.advance(50)
    requested = follower.channel.take(VoteRequest)
    assert [sent.endpoint for sent in requested] == [ENDPOINTS[2], ENDPOINTS[3]]
    assert follower.client.leader_and_epoch == (LEADER, 1)


def test_connection_refused_by_a_live_leader_costs_no_epoch_and_backs_off(follower: Follower) -> None:
    requested_at_ms = []
    for _ in range(6):
        follower.advance(2_000 if not follower.channel.sent else 0)
        follower.fetch().response.complete(PeerFailure.CONNECTION_REFUSED)
        before_ms = follower.clock.monotonic_ms()
        while not isinstance(follower.client.state, ProspectiveState):
            for sent in follower.channel.take(FetchRequest):
                sent.response.complete(PeerFailure.TIMED_OUT)
            follower.advance(1)
        requested_at_ms.append(follower.clock.monotonic_ms() - before_ms)
        for sent in follower.channel.take(VoteRequest):
            leader = Learned(LEADER, 1, ENDPOINTS[LEADER])
            sent.response.complete(vote_response(0, leader, is_granted=False))

    assert follower.client.leader_and_epoch == (LEADER, 1)
    assert isinstance(follower.client.state, FollowerState)
    assert max(requested_at_ms[3:]) > 50
    assert all(pause_ms <= 1_000 for pause_ms in requested_at_ms)


def test_leader_that_responds_again_is_followed_as_before(follower: Follower) -> None:
    follower.respond()
    follower.fetch().response.complete(PeerFailure.CONNECTION_REFUSED)
    follower.advance(30)

    for sent in follower.channel.take(VoteRequest):
        sent.response.complete(vote_response(0, Learned(LEADER, 1, ENDPOINTS[LEADER]), is_granted=False))
    follower.respond()

    assert not follower.pre_vote_of_node_3()
    assert isinstance(follower.client.state, FollowerState)


def test_not_leader_error_from_the_leader_starts_an_election(follower: Follower) -> None:
    follower.respond()
    partition = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, records=b"")
    follower.fetch().response.complete(fetch_response(partition, Learned(None, 1, None)))

    assert follower.pre_vote_of_node_3()
    follower.advance(50)
    assert isinstance(follower.client.state, ProspectiveState)


@pytest.mark.parametrize(
    ("failure", "stands_after_ms"),
    [
        pytest.param(PeerFailure.TIMED_OUT, 2_000, id="silent"),
        pytest.param(PeerFailure.CONNECTION_REFUSED, 50, id="refused"),
    ],
)
def test_silent_leader_is_given_up_after_the_fetch_timeout(
    follower: Follower, failure: PeerFailure, stands_after_ms: int
) -> None:
    follower.fetch().response.complete(failure)

    follower.advance(49)
    if stands_after_ms > 50:
        assert isinstance(follower.client.state, FollowerState)
    follower.advance(stands_after_ms - 49)

    assert isinstance(follower.client.state, ProspectiveState)


@pytest.mark.parametrize(("successors", "stands_after_ms"), [([1, 3], 0), ([3, 1], 500)])
def test_successors_stand_in_order_after_a_resignation(
    follower: Follower, successors: list[int], stands_after_ms: int
) -> None:
    follower.client.handle_end_quorum_epoch(
        end_quorum_epoch_request(
            cluster_id="c",
            leader_id=LEADER,
            epoch=1,
            preferred_successors=[ReplicaKey(each, ZERO_UUID) for each in successors],
            listeners={},
        )
    )

    if stands_after_ms:
        follower.advance(stands_after_ms - 1)
        assert isinstance(follower.client.state, FollowerState)
    follower.advance(1 if stands_after_ms else 0)
    assert isinstance(follower.client.state, ProspectiveState)


# --- votes


def test_voter_without_pre_votes_is_sent_a_vote_request(follower: Follower) -> None:
    follower.advance(2_000)
    for sent in follower.channel.take(VoteRequest):
        sent.response.complete(PeerFailure.UNSUPPORTED_VERSION)

    requested = [sent.request.topics[0].partitions[0] for sent in follower.channel.take(VoteRequest)]
    assert {(each.pre_vote, each.replica_epoch) for each in requested} == {(False, 2)}


def test_vote_rejected_in_an_older_epoch_is_not_requested_again_at_once(follower: Follower) -> None:
    follower.advance(2_000)
    first, _ = follower.channel.take(VoteRequest)

    response = vote_response(ErrorCode.INVALID_REQUEST, Learned(None, 0, None), is_granted=False)
    first.response.complete(response)

    assert follower.channel.take(VoteRequest) == []


# --- truncation


def test_log_is_never_truncated_below_the_high_watermark_by_epoch_lookup(follower: Follower) -> None:
    follower.fetch()
    follower.client.handle_begin_quorum_epoch(
        begin_quorum_epoch_request(
            cluster_id="c", voter=LOCAL, leader=LeaderAndEpoch(LEADER, 2), listeners={"CONTROLLER": ENDPOINTS[2]}
        )
    )
    leader = Learned(LEADER, 2, ENDPOINTS[LEADER])
    partition = PartitionData(partition_index=0, high_watermark=2, records=batch(0, 2, b"a", b"b"))
    follower.fetch().response.complete(fetch_response(partition, leader))
    follower.disk.complete_syncs()

    # The leader's epoch 1 ends at 2; but no record of epoch 1 is here, so everything would be truncated.
    partition = PartitionData(partition_index=0, records=b"")
    partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset = 1, 2
    follower.fetch().response.complete(fetch_response(partition, leader))

    assert follower.client.log_end_offset == 2
    assert "has lost records" in str(follower.failures[0])


def test_fetch_requests_the_configured_size(bytes_serde: Any) -> None:
    follower = Follower(bytes_serde, RaftConfig(fetch_size_bytes_max=4_000, fetch_snapshot_size_bytes_max=300))

    requested = follower.channel.sent[-1].request
    assert isinstance(requested, FetchRequest)
    assert (requested.max_bytes, requested.topics[0].partitions[0].partition_max_bytes) == (4_000, 4_000)

    follower.respond(snapshot_id=SnapshotId(end_offset=9, epoch=1))
    follower.advance(1_000)

    (sent,) = follower.channel.take(FetchSnapshotRequest)
    assert isinstance(sent.request, FetchSnapshotRequest)
    assert sent.request.max_bytes == 300
