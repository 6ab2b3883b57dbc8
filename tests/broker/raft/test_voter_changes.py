"""Voters are added, removed and updated: rejections, when requests complete, and invariants meanwhile (KIP-853)."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.peers.channel import PeerResult
from ottla.purgatory import Delayed
from ottla.raft.config import RaftConfig
from ottla.raft.records import ReplicaKey
from ottla.raft.requests import fetch_request
from ottla.raft.resigned import ResignedState
from ottla.raft.voter_changes import CAUGHT_UP_WITHIN_MS
from ottla.raft.voter_set import KRAFT_VERSION_FEATURE
from ottla.simulator.runs.quorum.replica import CLUSTER_ID, LISTENER, SimulatedReplica, endpoint_of
from ottla.simulator.runs.quorum.simulation import SimulatedQuorum
from ottla.simulator.world.single_voter_quorum import NoPeers
from ottla.types import ZERO_UUID, Endpoint, OffsetAndEpoch, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from ottla.wire.messages.update_raft_voter import Listener as UpdatedListener

STRANGER = Uuid(b"s" * 16)


def new_quorum(*, voters: int = 3, standby: int = 1, is_dynamic: bool = True, auto_join: bool = False) -> Any:
    """Return a quorum in which all replicas have the whole log, and its leader."""
    quorum = SimulatedQuorum(
        3, voters=voters, standby=standby, is_dynamic=is_dynamic, config=RaftConfig(auto_join=auto_join)
    )
    return quorum, quorum.begin()


def add_request(replica: SimulatedReplica, **fields: Any) -> AddRaftVoterRequest:
    host, port = endpoint_of(replica.node_id)
    fields_of_request = {
        "cluster_id": CLUSTER_ID,
        "timeout_ms": 1_000,
        "voter_id": replica.node_id,
        "voter_directory_id": replica.directory_id,
        "listeners": [Listener(name=LISTENER, host=host, port=port)],
    }
    return AddRaftVoterRequest(**{**fields_of_request, **fields})


def remove_request(key: ReplicaKey, **fields: Any) -> RemoveRaftVoterRequest:
    fields_of_request = {"cluster_id": CLUSTER_ID, "voter_id": key.node_id, "voter_directory_id": key.directory_id}
    return RemoveRaftVoterRequest(**{**fields_of_request, **fields})


def error_of(quorum: SimulatedQuorum, response: Delayed[Any], *, within_ms: int = 5_000) -> ErrorCode:
    quorum.run_until(lambda: response.is_complete, within_ms=within_ms)
    return ErrorCode(response.value.error_code)


# --- adding


def test_caught_up_replica_becomes_a_voter() -> None:
    quorum, leader = new_quorum()
    new = quorum.replicas[4]

    response = leader.client.handle_add_voter(add_request(new))

    assert error_of(quorum, response) is ErrorCode.NONE
    assert leader.client.voters.node_ids == [1, 2, 3, 4]
    quorum.run(1_000)
    assert {tuple(each.client.voters.node_ids) for each in quorum.running()} == {(1, 2, 3, 4)}
    for node_id in (1, 2):
        quorum.kill(node_id)
    quorum.run(5_000)
    assert quorum.leader() is None  # two of four are no majority


def test_add_voter_may_be_acknowledged_before_the_commit() -> None:
    quorum, leader = new_quorum()
    new = quorum.replicas[4]

    response = leader.client.handle_add_voter(add_request(new, ack_when_committed=False))
    quorum.run_until(lambda: response.is_complete, within_ms=100)

    assert response.value.error_code == ErrorCode.NONE
    assert leader.client.log_end_offset > leader.client.high_watermark


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        pytest.param({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID, id="another-cluster"),
        pytest.param({"voter_id": -1}, ErrorCode.INVALID_REQUEST, id="no-id"),
        pytest.param({"voter_directory_id": ZERO_UUID}, ErrorCode.INVALID_REQUEST, id="no-directory"),
        pytest.param({"listeners": []}, ErrorCode.INVALID_REQUEST, id="no-listener"),
        pytest.param(
            {"listeners": [Listener(name="OTHER", host="h", port=1)]}, ErrorCode.INVALID_REQUEST, id="other-listener"
        ),
        pytest.param({"voter_id": 2}, ErrorCode.DUPLICATE_VOTER, id="voter-already"),
        pytest.param({"voter_directory_id": STRANGER}, ErrorCode.REQUEST_TIMED_OUT, id="has-never-fetched"),
    ],
)
def test_invalid_add_voter_is_rejected(fields: dict[str, Any], error: ErrorCode) -> None:
    quorum, leader = new_quorum()

    response = leader.client.handle_add_voter(add_request(quorum.replicas[4], **fields))

    assert error_of(quorum, response) is error
    assert leader.client.voters.node_ids == [1, 2, 3]


class NewVoter(NoPeers):
    """The only peer: it supports every kraft.version, and serves no other request."""

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, purpose: str = ""
    ) -> Delayed[PeerResult]:
        if not isinstance(request, ApiVersionsRequest):
            return super().send(endpoint, listener, request, timeout_ms=timeout_ms, purpose=purpose)
        feature = SupportedFeatureKey(name=KRAFT_VERSION_FEATURE, min_version=0, max_version=1)
        return Delayed.of(ApiVersionsResponse(supported_features=[feature]))


@pytest.mark.parametrize(
    ("silent_ms", "error"),
    [
        pytest.param(CAUGHT_UP_WITHIN_MS - 1, None, id="silent-for-less-than-an-hour"),
        pytest.param(CAUGHT_UP_WITHIN_MS, ErrorCode.REQUEST_TIMED_OUT, id="silent-for-an-hour"),
    ],
)
def test_replica_without_fetches_for_an_hour_is_not_caught_up(
    new_replica: Callable[..., Any], silent_ms: int, error: ErrorCode | None
) -> None:
    leader = new_replica(channel=NewVoter())
    new = ReplicaKey(2, STRANGER)
    request = fetch_request(
        cluster_id="c",
        replica=new,
        epoch=leader.client.leader_and_epoch.epoch,
        log_end=OffsetAndEpoch(leader.client.log_end_offset, leader.client.log_epoch),
        log_start_offset=0,
        high_watermark=None,
    )
    assert leader.client.handle_fetch(request).responses[0].partitions[0].error_code == ErrorCode.NONE

    leader.clock.advance(silent_ms)
    added = AddRaftVoterRequest(
        cluster_id="c",
        voter_id=new.node_id,
        voter_directory_id=new.directory_id,
        listeners=[Listener(name=LISTENER, host="node-2", port=9093)],
    )
    response = leader.client.handle_add_voter(added)

    if error is None:
        assert leader.client.voters.node_ids == [1, 2]
        assert not response.is_complete  # it takes the new voter's fetch to commit that
    else:
        assert response.value.error_code == error
        assert "lagging behind" in response.value.error_message
        assert leader.client.voters.node_ids == [1]


def test_unavailable_replica_is_not_added_as_a_voter() -> None:
    quorum, leader = new_quorum()
    quorum.kill(4)

    response = leader.client.handle_add_voter(add_request(quorum.replicas[4]))

    assert error_of(quorum, response) is ErrorCode.REQUEST_TIMED_OUT


def test_one_change_at_a_time() -> None:
    quorum, leader = new_quorum(standby=2)

    first = leader.client.handle_add_voter(add_request(quorum.replicas[4]))
    second = leader.client.handle_add_voter(add_request(quorum.replicas[5]))

    assert error_of(quorum, second) is ErrorCode.REQUEST_TIMED_OUT
    assert error_of(quorum, first) is ErrorCode.NONE
    assert error_of(quorum, leader.client.handle_add_voter(add_request(quorum.replicas[5]))) is ErrorCode.NONE


def test_only_the_leader_changes_the_voters() -> None:
    quorum, leader = new_quorum()
    follower = next(each for each in quorum.running() if each is not leader)

    assert error_of(quorum, follower.client.handle_add_voter(add_request(quorum.replicas[4]))) is (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def test_static_voters_are_not_changed() -> None:
    quorum, leader = new_quorum(is_dynamic=False)

    response = leader.client.handle_add_voter(add_request(quorum.replicas[4]))
    assert error_of(quorum, response) is ErrorCode.UNSUPPORTED_VERSION
    response = leader.client.handle_remove_voter(remove_request(quorum.replicas[2].key))
    assert error_of(quorum, response) is ErrorCode.UNSUPPORTED_VERSION


def test_change_without_a_majority_is_reverted_with_its_leader() -> None:
    quorum, old = new_quorum()
    others = [each.node_id for each in quorum.running() if each is not old]
    response = old.client.handle_add_voter(add_request(quorum.replicas[4]))
    quorum.run_until(lambda: old.client.voters.node_ids == [1, 2, 3, 4], within_ms=100)
    quorum.cut([old.node_id], others)

    quorum.run_until(lambda: quorum.leader() not in (None, old), within_ms=10_000)
    quorum.heal()

    assert error_of(quorum, response) in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    quorum.run(5_000)
    assert len({tuple(each.client.voters.node_ids) for each in quorum.running()}) == 1


# --- removing


def test_removed_follower_becomes_an_observer() -> None:
    quorum, leader = new_quorum()
    removed = next(each for each in quorum.running() if each is not leader)

    response = leader.client.handle_remove_voter(remove_request(removed.key))

    assert error_of(quorum, response) is ErrorCode.NONE
    quorum.run(500)
    assert not removed.client.voters.is_voter(removed.key)
    quorum.append()
    quorum.run(500)
    assert removed.next_offset == leader.next_offset


def test_removed_leader_commits_its_removal_and_resigns() -> None:
    quorum, old = new_quorum()

    response = old.client.handle_remove_voter(remove_request(old.key))

    assert error_of(quorum, response) is ErrorCode.NONE
    assert isinstance(old.client.state, ResignedState)
    quorum.run_until(lambda: quorum.leader() not in (None, old), within_ms=1_000)
    quorum.run(5_000)
    assert not old.client.is_leader
    assert quorum.leader().client.voters.node_ids == [each for each in (1, 2, 3) if each != old.node_id]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        pytest.param({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID, id="another-cluster"),
        pytest.param({"voter_id": -1}, ErrorCode.INVALID_REQUEST, id="no-id"),
        pytest.param({"voter_directory_id": ZERO_UUID}, ErrorCode.INVALID_REQUEST, id="no-directory"),
        pytest.param({"voter_directory_id": STRANGER}, ErrorCode.VOTER_NOT_FOUND, id="another-disk"),
        pytest.param({"voter_id": 4}, ErrorCode.VOTER_NOT_FOUND, id="no-voter"),
    ],
)
def test_invalid_remove_voter_is_rejected(fields: dict[str, Any], error: ErrorCode) -> None:
    quorum, leader = new_quorum()

    response = leader.client.handle_remove_voter(remove_request(quorum.replicas[2].key, **fields))

    assert error_of(quorum, response) is error


def test_last_voter_cannot_be_removed() -> None:
    quorum, leader = new_quorum(voters=1)

    response = leader.client.handle_remove_voter(remove_request(leader.key))

    assert error_of(quorum, response) is ErrorCode.VOTER_NOT_FOUND


# --- updating


def update_request(replica: SimulatedReplica, epoch: int, **fields: Any) -> UpdateRaftVoterRequest:
    fields_of_request = {
        "cluster_id": CLUSTER_ID,
        "current_leader_epoch": epoch,
        "voter_id": replica.node_id,
        "voter_directory_id": replica.directory_id,
        "listeners": [UpdatedListener(name=LISTENER, host="moved", port=7)],
        "kraft_version_feature": KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    }
    return UpdateRaftVoterRequest(**{**fields_of_request, **fields})


@pytest.mark.parametrize(
    ("fields", "epoch_more", "error"),
    [
        pytest.param({}, 0, ErrorCode.NONE, id="moved"),
        pytest.param({"cluster_id": "another"}, 0, ErrorCode.INCONSISTENT_CLUSTER_ID, id="another-cluster"),
        pytest.param({}, -1, ErrorCode.FENCED_LEADER_EPOCH, id="stale"),
        pytest.param({}, 1, ErrorCode.UNKNOWN_LEADER_EPOCH, id="future"),
        pytest.param({"voter_directory_id": STRANGER}, 0, ErrorCode.VOTER_NOT_FOUND, id="another-disk"),
        pytest.param({"listeners": []}, 0, ErrorCode.INVALID_REQUEST, id="no-listener"),
        pytest.param(
            {"kraft_version_feature": KRaftVersionFeature(min_supported_version=0, max_supported_version=0)},
            0,
            ErrorCode.INVALID_REQUEST,
            id="too-old",
        ),
    ],
)
def test_update_voter_changes_its_endpoints_or_is_rejected(
    fields: dict[str, Any], epoch_more: int, error: ErrorCode
) -> None:
    quorum, leader = new_quorum()
    follower = next(each for each in quorum.running() if each is not leader and each.node_id < 4)
    epoch = leader.client.leader_and_epoch.epoch

    response = leader.client.handle_update_voter(update_request(follower, epoch + epoch_more, **fields))

    assert error_of(quorum, response) is error
    assert response.value.current_leader.leader_id == leader.node_id
    moved = leader.client.voters.voters[follower.node_id].listeners[LISTENER] == Endpoint("moved", 7)
    assert moved == (error is ErrorCode.NONE)


def test_voters_with_new_endpoints_send_update_voter() -> None:
    quorum, leader = new_quorum()
    followers = [each for each in quorum.running() if each is not leader and each.node_id < 4]
    for follower in followers:
        quorum.kill(follower.node_id)
        follower.more_listeners = {"CONTROLLER_SSL": Endpoint("new", 1)}
        follower.start()

    quorum.run_until(
        lambda: all("CONTROLLER_SSL" in leader.client.voters.voters[each.node_id].listeners for each in followers),
        within_ms=20_000,
    )


def test_leader_with_new_endpoints_updates_itself_at_the_start_of_its_epoch() -> None:
    quorum, leader = new_quorum(voters=1)
    quorum.kill(leader.node_id)
    leader.more_listeners = {"CONTROLLER_SSL": Endpoint("new", 1)}

    leader.start()

    assert "CONTROLLER_SSL" in leader.client.voters.voters[1].listeners


# --- automatic join


def test_controller_joins_automatically_if_auto_join_is_enabled() -> None:
    quorum, leader = new_quorum(auto_join=True)

    quorum.run_until(lambda: leader.client.voters.node_ids == [1, 2, 3, 4], within_ms=20_000)


def test_controller_does_not_join_without_auto_join() -> None:
    quorum, leader = new_quorum()

    quorum.run(20_000)

    assert leader.client.voters.node_ids == [1, 2, 3]


def test_controller_with_a_new_disk_replaces_its_former_voter() -> None:
    quorum, leader = new_quorum(auto_join=True, standby=0)
    follower = next(each for each in quorum.running() if each is not leader)
    quorum.kill(follower.node_id)
    follower.wipe()

    follower.start()

    quorum.run_until(lambda: quorum.is_voter(follower), within_ms=30_000)


# --- upgrade from static voters to voters in the log


def test_upgrade_writes_static_voters_into_the_log() -> None:
    quorum, leader = new_quorum(is_dynamic=False)
    epoch = leader.client.leader_and_epoch.epoch
    with pytest.raises(KafkaError) as caught:
        leader.client.upgrade_kraft_version(epoch, 1, validate_only=False)
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION

    quorum.run(5_000)
    leader.client.upgrade_kraft_version(epoch, 1, validate_only=True)
    assert leader.client.kraft_version == 0
    leader.client.upgrade_kraft_version(epoch, 1, validate_only=False)
    quorum.run(1_000)

    assert {each.client.kraft_version for each in quorum.running()} == {1}
    assert leader.client.voters.is_voter(quorum.replicas[2].key)
    observers = [key.node_id for key, _ in leader.client.state.observers(quorum.clock.monotonic_ms())]
    assert observers == [4]
    assert error_of(quorum, leader.client.handle_add_voter(add_request(quorum.replicas[4]))) is ErrorCode.NONE
    for node_id in (1, 2, 3, 4):
        quorum.kill(node_id)
    quorum.start_all()
    quorum.run_until(quorum.has_working_leader)
    assert quorum.leader().client.voters.node_ids == [1, 2, 3, 4]


@pytest.mark.parametrize("version", [-1, 2])
def test_upgrade_to_an_unknown_version_is_rejected(version: int) -> None:
    quorum, leader = new_quorum(is_dynamic=False)

    with pytest.raises(KafkaError) as caught:
        leader.client.upgrade_kraft_version(leader.client.leader_and_epoch.epoch, version, validate_only=True)

    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert quorum.leader() is leader
