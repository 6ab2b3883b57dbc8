"""Voters come, go and move: what is refused, when it is answered, and what stays true while it happens (KIP-853)."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.peers.channel import PeerAnswer
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
    """Return a quorum at work in which everybody has everything, and its leader."""
    quorum = SimulatedQuorum(
        3, voters=voters, standby=standby, is_dynamic=is_dynamic, config=RaftConfig(auto_join=auto_join)
    )
    return quorum, quorum.begin()


def add_request(replica: SimulatedReplica, **fields: Any) -> AddRaftVoterRequest:
    host, port = endpoint_of(replica.node_id)
    made = {
        "cluster_id": CLUSTER_ID,
        "timeout_ms": 1_000,
        "voter_id": replica.node_id,
        "voter_directory_id": replica.directory_id,
        "listeners": [Listener(name=LISTENER, host=host, port=port)],
    }
    return AddRaftVoterRequest(**{**made, **fields})


def remove_request(key: ReplicaKey, **fields: Any) -> RemoveRaftVoterRequest:
    made = {"cluster_id": CLUSTER_ID, "voter_id": key.node_id, "voter_directory_id": key.directory_id}
    return RemoveRaftVoterRequest(**{**made, **fields})


def error_of(quorum: SimulatedQuorum, answer: Delayed[Any], *, within_ms: int = 5_000) -> ErrorCode:
    quorum.run_until(lambda: answer.is_complete, within_ms=within_ms)
    return ErrorCode(answer.value.error_code)


# --- adding


def test_a_replica_that_has_caught_up_becomes_a_voter() -> None:
    quorum, leader = new_quorum()
    new = quorum.replicas[4]

    answer = leader.client.handle_add_voter(add_request(new))

    assert error_of(quorum, answer) is ErrorCode.NONE
    assert leader.client.voters.node_ids == [1, 2, 3, 4]
    quorum.run(1_000)
    assert {tuple(each.client.voters.node_ids) for each in quorum.running()} == {(1, 2, 3, 4)}
    for node_id in (1, 2):
        quorum.kill(node_id)
    quorum.run(5_000)
    assert quorum.leader() is None  # two of four are no majority


def test_an_acknowledgement_may_come_before_the_commit() -> None:
    quorum, leader = new_quorum()
    new = quorum.replicas[4]

    answer = leader.client.handle_add_voter(add_request(new, ack_when_committed=False))
    quorum.run_until(lambda: answer.is_complete, within_ms=100)

    assert answer.value.error_code == ErrorCode.NONE
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
def test_a_voter_that_cannot_be_added(fields: dict[str, Any], error: ErrorCode) -> None:
    quorum, leader = new_quorum()

    answer = leader.client.handle_add_voter(add_request(quorum.replicas[4], **fields))

    assert error_of(quorum, answer) is error
    assert leader.client.voters.node_ids == [1, 2, 3]


class NewVoter(NoPeers):
    """The only peer: it speaks every kraft.version, and nothing else."""

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, lane: str = ""
    ) -> Delayed[PeerAnswer]:
        if not isinstance(request, ApiVersionsRequest):
            return super().send(endpoint, listener, request, timeout_ms=timeout_ms, lane=lane)
        feature = SupportedFeatureKey(name=KRAFT_VERSION_FEATURE, min_version=0, max_version=1)
        return Delayed.of(ApiVersionsResponse(supported_features=[feature]))


@pytest.mark.parametrize(
    ("silent_ms", "error"),
    [
        pytest.param(CAUGHT_UP_WITHIN_MS - 1, None, id="silent-for-less-than-an-hour"),
        pytest.param(CAUGHT_UP_WITHIN_MS, ErrorCode.REQUEST_TIMED_OUT, id="silent-for-an-hour"),
    ],
)
def test_a_replica_that_was_silent_for_an_hour_is_not_known_to_be_caught_up(
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
    answer = leader.client.handle_add_voter(added)

    if error is None:
        assert leader.client.voters.node_ids == [1, 2]
        assert not answer.is_complete  # it takes the new voter's fetch to commit that
    else:
        assert answer.value.error_code == error
        assert "lagging behind" in answer.value.error_message
        assert leader.client.voters.node_ids == [1]


def test_a_replica_that_is_down_is_not_added() -> None:
    quorum, leader = new_quorum()
    quorum.kill(4)

    answer = leader.client.handle_add_voter(add_request(quorum.replicas[4]))

    assert error_of(quorum, answer) is ErrorCode.REQUEST_TIMED_OUT


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

    answer = leader.client.handle_add_voter(add_request(quorum.replicas[4]))
    assert error_of(quorum, answer) is ErrorCode.UNSUPPORTED_VERSION
    answer = leader.client.handle_remove_voter(remove_request(quorum.replicas[2].key))
    assert error_of(quorum, answer) is ErrorCode.UNSUPPORTED_VERSION


def test_a_change_that_no_majority_has_is_taken_back_with_the_leader() -> None:
    quorum, old = new_quorum()
    others = [each.node_id for each in quorum.running() if each is not old]
    answer = old.client.handle_add_voter(add_request(quorum.replicas[4]))
    quorum.run_until(lambda: old.client.voters.node_ids == [1, 2, 3, 4], within_ms=100)
    quorum.cut([old.node_id], others)

    quorum.run_until(lambda: quorum.leader() not in (None, old), within_ms=10_000)
    quorum.heal()

    assert error_of(quorum, answer) in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    quorum.run(5_000)
    assert len({tuple(each.client.voters.node_ids) for each in quorum.running()}) == 1


# --- removing


def test_a_follower_that_is_removed_only_observes_from_then_on() -> None:
    quorum, leader = new_quorum()
    removed = next(each for each in quorum.running() if each is not leader)

    answer = leader.client.handle_remove_voter(remove_request(removed.key))

    assert error_of(quorum, answer) is ErrorCode.NONE
    quorum.run(500)
    assert not removed.client.voters.is_voter(removed.key)
    quorum.append()
    quorum.run(500)
    assert removed.next_offset == leader.next_offset


def test_a_leader_that_is_removed_commits_that_and_resigns() -> None:
    quorum, old = new_quorum()

    answer = old.client.handle_remove_voter(remove_request(old.key))

    assert error_of(quorum, answer) is ErrorCode.NONE
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
def test_a_voter_that_cannot_be_removed(fields: dict[str, Any], error: ErrorCode) -> None:
    quorum, leader = new_quorum()

    answer = leader.client.handle_remove_voter(remove_request(quorum.replicas[2].key, **fields))

    assert error_of(quorum, answer) is error


def test_the_last_voter_stays() -> None:
    quorum, leader = new_quorum(voters=1)

    answer = leader.client.handle_remove_voter(remove_request(leader.key))

    assert error_of(quorum, answer) is ErrorCode.VOTER_NOT_FOUND


# --- updating


def update_request(replica: SimulatedReplica, epoch: int, **fields: Any) -> UpdateRaftVoterRequest:
    made = {
        "cluster_id": CLUSTER_ID,
        "current_leader_epoch": epoch,
        "voter_id": replica.node_id,
        "voter_directory_id": replica.directory_id,
        "listeners": [UpdatedListener(name=LISTENER, host="moved", port=7)],
        "kraft_version_feature": KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    }
    return UpdateRaftVoterRequest(**{**made, **fields})


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
def test_what_a_voter_says_of_itself(fields: dict[str, Any], epoch_more: int, error: ErrorCode) -> None:
    quorum, leader = new_quorum()
    follower = next(each for each in quorum.running() if each is not leader and each.node_id < 4)
    epoch = leader.client.leader_and_epoch.epoch

    answer = leader.client.handle_update_voter(update_request(follower, epoch + epoch_more, **fields))

    assert error_of(quorum, answer) is error
    assert answer.value.current_leader.leader_id == leader.node_id
    moved = leader.client.voters.voters[follower.node_id].listeners[LISTENER] == Endpoint("moved", 7)
    assert moved == (error is ErrorCode.NONE)


def test_voters_that_moved_tell_so_by_themselves() -> None:
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


def test_a_leader_that_moved_says_so_when_its_epoch_begins() -> None:
    quorum, leader = new_quorum(voters=1)
    quorum.kill(leader.node_id)
    leader.more_listeners = {"CONTROLLER_SSL": Endpoint("new", 1)}

    leader.start()

    assert "CONTROLLER_SSL" in leader.client.voters.voters[1].listeners


# --- joining by oneself


def test_a_controller_joins_by_itself_where_that_is_enabled() -> None:
    quorum, leader = new_quorum(auto_join=True)

    quorum.run_until(lambda: leader.client.voters.node_ids == [1, 2, 3, 4], within_ms=20_000)


def test_a_controller_waits_to_be_asked_where_it_is_not() -> None:
    quorum, leader = new_quorum()

    quorum.run(20_000)

    assert leader.client.voters.node_ids == [1, 2, 3]


def test_a_controller_with_a_new_disk_takes_the_place_of_its_former_self() -> None:
    quorum, leader = new_quorum(auto_join=True, standby=0)
    follower = next(each for each in quorum.running() if each is not leader)
    quorum.kill(follower.node_id)
    follower.wipe()

    follower.start()

    quorum.run_until(lambda: quorum.is_voter(follower), within_ms=30_000)


# --- from static voters to voters in the log


def test_static_voters_move_into_the_log() -> None:
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
def test_other_versions_there_are_none(version: int) -> None:
    quorum, leader = new_quorum(is_dynamic=False)

    with pytest.raises(KafkaError) as caught:
        leader.client.upgrade_kraft_version(leader.client.leader_and_epoch.epoch, version, validate_only=True)

    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert quorum.leader() is leader
