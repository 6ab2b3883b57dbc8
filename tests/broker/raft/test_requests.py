"""Requests that a replica rejects, with their error codes and log lines, and when a fetch waits."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.raft.records import LeaderAndEpoch, ReplicaKey
from ottla.raft.requests import (
    begin_quorum_epoch_request,
    fetch_request,
    fetch_snapshot_request,
    vote_request,
)
from ottla.raft.snapshot import snapshot_file_name
from ottla.simulator.runs.quorum.replica import CLUSTER_ID, SimulatedReplica
from ottla.simulator.runs.quorum.simulation import SimulatedQuorum
from ottla.types import ZERO_UUID, OffsetAndEpoch, Uuid
from ottla.wire.messages.fetch import FetchResponse, PartitionData

STRANGER = Uuid(b"s" * 16)


def epoch_of(replica: SimulatedReplica) -> int:
    return replica.client.leader_and_epoch.epoch


# --- Vote


def vote(replica: SimulatedReplica, stands: SimulatedReplica, **more: Any) -> Any:
    arguments: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "voter": replica.key,
        "candidate": stands.key,
        "epoch": epoch_of(replica) + 1,
        "log_end": OffsetAndEpoch(1_000, epoch_of(replica)),
        "is_pre_vote": False,
    }
    return replica.client.handle_vote(vote_request(**{**arguments, **more}))


def test_vote_is_granted_once_per_epoch(follower: SimulatedReplica, leader: SimulatedReplica) -> None:
    other = next(each for each in leader.quorum.running() if each not in (leader, follower))
    epoch = epoch_of(follower) + 1

    log_end = OffsetAndEpoch(1_000, epoch - 1)

    assert vote(follower, leader, epoch=epoch, log_end=log_end).topics[0].partitions[0].vote_granted
    assert vote(follower, leader, epoch=epoch, log_end=log_end).topics[0].partitions[0].vote_granted
    assert not vote(follower, other, epoch=epoch, log_end=log_end).topics[0].partitions[0].vote_granted


def test_vote_is_rejected_for_a_log_that_is_behind(follower: SimulatedReplica, leader: SimulatedReplica) -> None:
    behind = OffsetAndEpoch(follower.client.log_end_offset - 1, epoch_of(follower))

    response = vote(follower, leader, log_end=behind).topics[0].partitions[0]

    assert not response.vote_granted
    assert response.error_code == ErrorCode.NONE
    assert response.leader_epoch == epoch_of(follower)


def test_pre_vote_is_rejected_while_the_leader_is_alive_and_changes_no_state(
    follower: SimulatedReplica, leader: SimulatedReplica
) -> None:
    state = follower.client.state

    response = vote(follower, leader, epoch=epoch_of(follower), is_pre_vote=True).topics[0].partitions[0]

    assert not response.vote_granted
    assert response.leader_id == leader.node_id
    assert follower.client.state is state


@pytest.mark.parametrize(
    ("more", "error"),
    [
        pytest.param({"epoch": 0, "log_end": OffsetAndEpoch(0, 0)}, ErrorCode.INVALID_REQUEST, id="epoch-of-its-log"),
        pytest.param(
            {"epoch": 0, "log_end": OffsetAndEpoch(0, 0), "is_pre_vote": True},
            ErrorCode.FENCED_LEADER_EPOCH,
            id="stale-epoch",
        ),
        pytest.param({"log_end": OffsetAndEpoch(5, -1)}, ErrorCode.INVALID_REQUEST, id="no-epoch"),
        pytest.param({"log_end": OffsetAndEpoch(-1, 0)}, ErrorCode.INVALID_REQUEST, id="no-offset"),
        pytest.param({"candidate": ReplicaKey(-1, ZERO_UUID)}, ErrorCode.INVALID_REQUEST, id="no-candidate"),
        pytest.param({"voter": ReplicaKey(9, ZERO_UUID)}, ErrorCode.INVALID_VOTER_KEY, id="another-node"),
        pytest.param({"voter": ReplicaKey(1, STRANGER)}, ErrorCode.INVALID_VOTER_KEY, id="another-disk"),
    ],
)
def test_invalid_vote_request_is_rejected(
    follower: SimulatedReplica, leader: SimulatedReplica, more: dict[str, Any], error: ErrorCode
) -> None:
    response = vote(follower, leader, **more).topics[0].partitions[0]

    assert response.error_code == error
    assert not response.vote_granted


# --- BeginQuorumEpoch


@pytest.mark.parametrize(
    ("epoch_more", "directory_id", "error"),
    [
        pytest.param(-1, ZERO_UUID, ErrorCode.FENCED_LEADER_EPOCH, id="stale"),
        pytest.param(0, ZERO_UUID, ErrorCode.NONE, id="known"),
        pytest.param(1, STRANGER, ErrorCode.INVALID_VOTER_KEY, id="another-disk"),
    ],
)
def test_begin_quorum_epoch(
    follower: SimulatedReplica, leader: SimulatedReplica, epoch_more: int, directory_id: Uuid, error: ErrorCode
) -> None:
    request = begin_quorum_epoch_request(
        cluster_id=CLUSTER_ID,
        voter=ReplicaKey(follower.node_id, directory_id),
        leader=LeaderAndEpoch(leader.node_id, epoch_of(leader) + epoch_more),
        listeners=dict(leader.voter.listeners),
    )

    response = follower.client.handle_begin_quorum_epoch(request).topics[0].partitions[0]

    assert response.error_code == error
    assert response.leader_id == leader.node_id


# --- Fetch


def fetch(replica: SimulatedReplica, *, by: ReplicaKey, at: OffsetAndEpoch, wait_ms: int = 500, **more: Any) -> Any:
    request = fetch_request(
        cluster_id=CLUSTER_ID,
        replica=by,
        epoch=more.get("epoch", epoch_of(replica)),
        log_end=at,
        log_start_offset=0,
        high_watermark=more.get("high_watermark", replica.client.high_watermark),
    )
    request.max_wait_ms = wait_ms
    return replica.client.handle_fetch(request)


def partition_of(response: FetchResponse) -> PartitionData:
    return response.responses[0].partitions[0]


def end_of(replica: SimulatedReplica) -> OffsetAndEpoch:
    return OffsetAndEpoch(replica.client.log_end_offset, epoch_of(replica))


OBSERVER = ReplicaKey(9, STRANGER)


@pytest.mark.parametrize(
    ("epoch_more", "error"),
    [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_fetch_in_another_epoch_is_rejected_and_names_the_leader(
    leader: SimulatedReplica, epoch_more: int, error: ErrorCode
) -> None:
    # No replica has read records of a later epoch than its own.
    response = fetch(leader, by=OBSERVER, at=OffsetAndEpoch(0, 0), epoch=epoch_of(leader) + epoch_more)

    assert partition_of(response).error_code == error
    assert partition_of(response).current_leader.leader_id == leader.node_id
    assert response.node_endpoints[0].node_id == leader.node_id


def test_follower_rejects_a_fetch_and_names_the_leader(follower: SimulatedReplica, leader: SimulatedReplica) -> None:
    response = fetch(follower, by=OBSERVER, at=end_of(leader))

    assert partition_of(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert response.node_endpoints[0].node_id == leader.node_id


@pytest.mark.parametrize("at", [OffsetAndEpoch(-1, 0), OffsetAndEpoch(0, -1)])
def test_fetch_with_negative_offset_or_epoch_is_rejected(leader: SimulatedReplica, at: OffsetAndEpoch) -> None:
    assert partition_of(fetch(leader, by=OBSERVER, at=at)).error_code == ErrorCode.INVALID_REQUEST


def test_fetch_below_the_log_end_returns_records_at_once(leader: SimulatedReplica) -> None:
    response = fetch(leader, by=OBSERVER, at=OffsetAndEpoch(0, 0))

    assert partition_of(response).records


def test_fetch_of_a_diverged_log_returns_the_divergence_point(leader: SimulatedReplica) -> None:
    response = partition_of(fetch(leader, by=OBSERVER, at=OffsetAndEpoch(1_000, epoch_of(leader))))

    assert (response.diverging_epoch.epoch, response.diverging_epoch.end_offset) == end_of(leader)[::-1]
    assert not response.records


@pytest.mark.parametrize("what", ["record", "high-watermark", "deadline", "resignation"])
def test_fetch_at_the_log_end_waits_for_new_data(quorum: SimulatedQuorum, leader: SimulatedReplica, what: str) -> None:
    response = fetch(leader, by=OBSERVER, at=end_of(leader))
    assert isinstance(response, Delayed)
    assert not response.is_complete

    if what == "record":
        quorum.append()
        assert partition_of(response.value).records
    elif what == "high-watermark":
        quorum.append()
        response = fetch(leader, by=OBSERVER, at=end_of(leader))
        before = leader.client.high_watermark
        quorum.run_until(lambda: response.is_complete, within_ms=100)
        assert partition_of(response.value).high_watermark > before
    elif what == "deadline":
        quorum.run(499)
        assert not response.is_complete
        quorum.run(2)
        assert partition_of(response.value).error_code == ErrorCode.NONE
    else:
        leader.client.resign(epoch_of(leader))
        assert partition_of(response.value).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fetch_without_max_wait_returns_at_once(leader: SimulatedReplica) -> None:
    assert not isinstance(fetch(leader, by=OBSERVER, at=end_of(leader), wait_ms=0), Delayed)


# --- FetchSnapshot


@pytest.mark.parametrize(
    ("snapshot_id", "epoch_more", "error"),
    [
        pytest.param(OffsetAndEpoch(0, 0), 0, ErrorCode.SNAPSHOT_NOT_FOUND, id="the-one-format-wrote"),
        pytest.param(OffsetAndEpoch(7, 1), 0, ErrorCode.SNAPSHOT_NOT_FOUND, id="unknown"),
        pytest.param(OffsetAndEpoch(7, 1), -1, ErrorCode.FENCED_LEADER_EPOCH, id="stale"),
        pytest.param(OffsetAndEpoch(7, 1), 1, ErrorCode.UNKNOWN_LEADER_EPOCH, id="future"),
    ],
)
def test_invalid_fetch_snapshot_is_rejected(
    leader: SimulatedReplica, snapshot_id: OffsetAndEpoch, epoch_more: int, error: ErrorCode
) -> None:
    request = fetch_snapshot_request(
        cluster_id=CLUSTER_ID,
        replica=OBSERVER,
        epoch=epoch_of(leader) + epoch_more,
        snapshot_id=snapshot_id,
        position=0,
    )

    assert leader.client.handle_fetch_snapshot(request).topics[0].partitions[0].error_code == error


def test_snapshot_is_fetched_in_pieces_up_to_its_size(quorum: SimulatedQuorum, leader: SimulatedReplica) -> None:
    quorum.run_until(lambda: quorum.append() and leader.client.latest_snapshot != (0, 0), within_ms=1_000)
    snapshot_id = leader.client.latest_snapshot
    assert snapshot_id is not None
    content = leader.disk.contents(f"{leader.log_directory}/{snapshot_file_name(snapshot_id)}")

    def piece(position: int) -> Any:
        request = fetch_snapshot_request(
            cluster_id=CLUSTER_ID,
            replica=OBSERVER,
            epoch=epoch_of(leader),
            snapshot_id=snapshot_id,
            position=position,
        )
        request.max_bytes = 10
        return leader.client.handle_fetch_snapshot(request).topics[0].partitions[0]

    assert bytes(piece(0).unaligned_records) == content[:10]
    assert bytes(piece(len(content) - 3).unaligned_records) == content[-3:]
    assert piece(0).size == len(content)
    assert piece(len(content)).error_code == ErrorCode.POSITION_OUT_OF_RANGE
    assert piece(-1).error_code == ErrorCode.POSITION_OUT_OF_RANGE


def test_fetch_is_bounded_by_the_request_and_not_by_the_partition_limit(
    quorum: SimulatedQuorum, leader: SimulatedReplica
) -> None:
    def size_bytes(max_bytes: int) -> int:
        request = fetch_request(
            cluster_id=CLUSTER_ID,
            replica=OBSERVER,
            epoch=epoch_of(leader),
            log_end=OffsetAndEpoch(0, 0),
            log_start_offset=0,
            high_watermark=None,
            size_bytes_max=max_bytes,
        )
        request.topics[0].partitions[0].partition_max_bytes = 0  # as Kafka's replicas send it
        response = leader.client.handle_fetch(request)
        assert isinstance(response, FetchResponse)
        return len(response.responses[0].partitions[0].records or b"")

    first_batch = size_bytes(1)
    assert first_batch > 1
    assert size_bytes(1 << 20) > first_batch
