"""Known scenarios of voter changes, with KRaft (KIP-853): they depose no leader and lose no record."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.purgatory import Delayed
from ottla.raft.follower import FollowerState
from ottla.raft.leader import LeaderState
from ottla.simulator.runs.quorum.replica import CLUSTER_ID, LISTENER, SimulatedReplica, endpoint_of
from ottla.simulator.runs.quorum.simulation import SimulatedQuorum
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

SEEDS = range(3)


def at_work(seed: int, voters: int, *, standby: int = 0, is_dynamic: bool = True) -> Any:
    """Return a quorum in which all replicas have the same log, and its leader."""
    quorum = SimulatedQuorum(seed, voters=voters, standby=standby, is_dynamic=is_dynamic)
    return quorum, quorum.begin()


def add(leader: SimulatedReplica, new: SimulatedReplica) -> Delayed[Any]:
    host, port = endpoint_of(new.node_id)
    return leader.client.handle_add_voter(
        AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=1_000,
            voter_id=new.node_id,
            voter_directory_id=new.directory_id,
            listeners=[Listener(name=LISTENER, host=host, port=port)],
        )
    )


def remove(leader: SimulatedReplica, old: SimulatedReplica) -> Delayed[Any]:
    return leader.client.handle_remove_voter(
        RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=old.node_id, voter_directory_id=old.directory_id)
    )


def error_of(quorum: SimulatedQuorum, response: Delayed[Any]) -> ErrorCode:
    quorum.run_until(lambda: response.is_complete, within_ms=5_000)
    return ErrorCode(response.value.error_code)


def others_than(*replicas: SimulatedReplica) -> list[SimulatedReplica]:
    return [each for each in replicas[0].quorum.running() if each not in replicas]


# --- adding


def test_single_voter_keeps_leading_as_voters_are_added_one_by_one() -> None:
    quorum, leader = at_work(1, 1, standby=2)
    epoch = leader.client.leader_and_epoch.epoch
    quorum.run(60_000)

    for node_id in (2, 3):
        assert error_of(quorum, add(leader, quorum.replicas[node_id])) is ErrorCode.NONE
        quorum.run(10_000)

    assert leader.client.is_leader
    assert leader.client.leader_and_epoch.epoch == epoch
    assert leader.client.voters.node_ids == [1, 2, 3]


def test_single_voter_resigns_if_the_added_voter_never_fetches() -> None:
    quorum, leader = at_work(1, 1, standby=1)
    quorum.run(60_000)
    response = add(leader, quorum.replicas[2])
    quorum.run_until(lambda: leader.client.voters.node_ids == [1, 2], within_ms=100)

    quorum.kill(2)

    assert error_of(quorum, response) is ErrorCode.REQUEST_TIMED_OUT
    assert leader.client.is_leader
    quorum.run(2_000)
    assert not leader.client.is_leader


@pytest.mark.parametrize("seed", SEEDS)
def test_voter_changes_wait_for_a_commit_in_the_leader_s_epoch(seed: int) -> None:
    quorum, old = at_work(seed, 3, standby=1)
    quorum.kill(old.node_id)
    quorum.run_until(lambda: quorum.leader() is not None)
    leader = quorum.leader()
    (follower,) = [each for each in others_than(leader) if each.node_id < 4]
    quorum.cut([follower.node_id], [leader.node_id])
    assert leader.client.high_watermark is None

    for change in (add(leader, quorum.replicas[4]), remove(leader, old)):
        assert error_of(quorum, change) is ErrorCode.REQUEST_TIMED_OUT

    assert leader.client.voters.node_ids == [1, 2, 3]
    quorum.heal()
    quorum.run_until(lambda: leader.client.high_watermark is not None, within_ms=2_000)
    assert error_of(quorum, remove(leader, old)) is ErrorCode.NONE
    quorum.run(1_000)
    assert error_of(quorum, add(leader, quorum.replicas[4])) is ErrorCode.NONE


@pytest.mark.parametrize("seed", SEEDS)
def test_second_change_is_rejected_until_the_first_is_committed(seed: int) -> None:
    quorum, leader = at_work(seed, 3, standby=1)
    one, other = [each for each in others_than(leader) if each.node_id < 4]
    quorum.cut([leader.node_id], [one.node_id, other.node_id])

    assert error_of(quorum, remove(leader, one)) is ErrorCode.REQUEST_TIMED_OUT
    assert error_of(quorum, add(leader, quorum.replicas[4])) is ErrorCode.REQUEST_TIMED_OUT

    quorum.heal()
    quorum.run_until(lambda: len({tuple(each.client.voters.node_ids) for each in quorum.running()}) == 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_synced_records_of_a_new_voter_count(seed: int) -> None:
    quorum, leader = at_work(seed, 2, standby=1)
    (follower,) = [each for each in others_than(leader) if each.node_id < 3]
    new = quorum.replicas[3]
    response = add(leader, new)
    quorum.run_until(lambda: new.client.voters.is_voter(new.key), within_ms=500)
    quorum.cut([follower.node_id], quorum.replicas)

    quorum.kill(3, power_cut=True)
    new.start()

    assert error_of(quorum, response) in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
    quorum.append()
    committed = leader.client.high_watermark
    assert committed is not None
    quorum.run_until(lambda: new.client.log_end_offset >= leader.client.log_end_offset, within_ms=5_000)
    quorum.heal()
    quorum.run_until(lambda: follower.next_offset > committed, within_ms=10_000)


# --- removing


@pytest.mark.parametrize("seed", SEEDS)
def test_voter_removed_during_a_partition_deposes_no_leader_and_observes(seed: int) -> None:
    quorum, leader = at_work(seed, 4)
    epoch = leader.client.leader_and_epoch.epoch
    removed = others_than(leader)[0]
    quorum.cut([removed.node_id], quorum.replicas)
    assert error_of(quorum, remove(leader, removed)) is ErrorCode.NONE
    # Long enough for it to stand for election again and again; it believes that it is a voter.
    quorum.run(30_000)

    # It reaches all replicas now except for the leader.
    quorum.heal()
    quorum.cut([removed.node_id], [leader.node_id])
    quorum.run(30_000)
    assert leader.client.leader_and_epoch.epoch == epoch
    quorum.heal()
    quorum.append()

    quorum.run_until(lambda: removed.next_offset == leader.next_offset, within_ms=10_000)
    assert isinstance(removed.client.state, FollowerState)
    assert not removed.client.voters.is_voter(removed.key)
    assert quorum.leader() is leader
    assert leader.client.leader_and_epoch.epoch == epoch


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [2, 3, 4])
def test_leader_that_removes_itself_hands_over_and_follows(seed: int, voters: int) -> None:
    quorum, old = at_work(seed, voters)
    epoch = old.client.leader_and_epoch.epoch

    assert error_of(quorum, remove(old, old)) is ErrorCode.NONE

    took_ms = quorum.run_until(lambda: quorum.leader() not in (None, old) and quorum.has_working_leader())
    assert took_ms < 500
    new = quorum.leader()
    assert new.client.leader_and_epoch.epoch == epoch + 1
    quorum.append()
    quorum.run_until(lambda: old.next_offset == new.next_offset == new.client.log_end_offset, within_ms=5_000)
    quorum.run(10_000)
    assert quorum.leader() is new
    assert isinstance(old.client.state, FollowerState)


def test_leader_that_removes_itself_leads_until_the_removal_is_committed() -> None:
    quorum, old = at_work(1, 3)
    others = [each.node_id for each in others_than(old)]
    quorum.cut([old.node_id], others)

    response = remove(old, old)
    quorum.run(1_000)

    assert not response.is_complete
    assert isinstance(old.client.state, LeaderState)
    # The removal is not lost with that leader alone: the others continue without ever having received it.
    quorum.run_until(lambda: quorum.leader() not in (None, old), within_ms=10_000)
    quorum.heal()
    quorum.run_until(lambda: old.client.voters.node_ids == [1, 2, 3], within_ms=5_000)
    assert isinstance(old.client.state, FollowerState)


# --- kraft.version


def static_at_work(seed: int) -> Any:
    quorum, leader = at_work(seed, 3, is_dynamic=False)
    # Until every voter has sent the leader its details.
    quorum.run(5_000)
    return quorum, leader


def upgrade(leader: SimulatedReplica) -> None:
    leader.client.upgrade_kraft_version(leader.client.leader_and_epoch.epoch, 1, validate_only=False)


def versions(quorum: SimulatedQuorum) -> set[int]:
    return {each.client.kraft_version for each in quorum.running()}


@pytest.mark.parametrize("seed", SEEDS)
def test_uncommitted_upgrade_of_a_deposed_leader_is_reverted(seed: int) -> None:
    quorum, old = static_at_work(seed)
    quorum.cut([old.node_id], quorum.replicas)
    upgrade(old)
    assert old.client.kraft_version == 1

    quorum.run_until(lambda: quorum.leader() not in (None, old), within_ms=10_000)
    quorum.heal()
    quorum.run_until(lambda: versions(quorum) == {0}, within_ms=5_000)

    quorum.run(5_000)
    upgrade(quorum.leader())
    quorum.run_until(lambda: versions(quorum) == {1}, within_ms=5_000)
    quorum.append()
    quorum.run(1_000)
    assert len({each.next_offset for each in quorum.running()}) == 1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power-cut"])
def test_upgrade_replicated_to_one_follower_is_committed_by_that_follower(seed: int, power_cut: bool) -> None:
    quorum, old = static_at_work(seed)
    heir, other = others_than(old)
    quorum.cut([old.node_id], [other.node_id])
    upgrade(old)
    quorum.run_until(lambda: heir.client.kraft_version == 1, within_ms=1_000)
    quorum.kill(old.node_id, power_cut=power_cut)
    # The messages in flight to the other one are lost.
    quorum.run(20)
    quorum.heal()

    quorum.run_until(quorum.has_working_leader, within_ms=10_000)
    assert quorum.leader() is heir
    old.start()

    quorum.run_until(lambda: versions(quorum) == {1}, within_ms=10_000)

    assert all(each.client.voters == heir.client.voters for each in quorum.running())


def test_kraft_version_upgrade_needs_a_leader_that_has_committed_in_its_epoch() -> None:
    quorum, old = static_at_work(1)
    quorum.kill(old.node_id)
    quorum.run_until(lambda: quorum.leader() is not None)
    leader = quorum.leader()
    assert leader.client.high_watermark is None

    with pytest.raises(KafkaError) as caught:
        upgrade(leader)

    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
