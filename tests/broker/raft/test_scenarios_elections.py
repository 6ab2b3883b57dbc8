"""Known election scenarios of Raft, with KRaft: which candidates get votes, and when leaders step down."""

from collections.abc import Callable

import pytest

from ottla.raft.follower import FollowerState
from ottla.raft.requests import vote_request
from ottla.raft.resigned import ResignedState
from ottla.simulator.runs.quorum.replica import CLUSTER_ID, SimulatedReplica
from ottla.simulator.runs.quorum.simulation import SimulatedQuorum
from ottla.types import OffsetAndEpoch

SEEDS = range(3)


def at_work(seed: int, voters: int = 3, *, is_dynamic: bool = True) -> tuple[SimulatedQuorum, SimulatedReplica]:
    """Return a quorum in which all replicas have the same log, and its leader."""
    quorum = SimulatedQuorum(seed, voters=voters, is_dynamic=is_dynamic)
    return quorum, quorum.begin()


def epoch_of(replica: SimulatedReplica) -> int:
    return replica.client.leader_and_epoch.epoch


def followers_of(leader: SimulatedReplica) -> list[SimulatedReplica]:
    return [each for each in leader.quorum.running() if each is not leader]


def all_have_the_same(quorum: SimulatedQuorum) -> bool:
    return len({(each.next_offset, each.client.log_end_offset) for each in quorum.running()}) == 1


def is_granted(voter: SimulatedReplica, candidate: SimulatedReplica, epoch: int) -> bool:
    request = vote_request(
        cluster_id=CLUSTER_ID,
        voter=voter.key,
        candidate=candidate.key,
        epoch=epoch,
        log_end=OffsetAndEpoch(1_000, epoch - 1),
        is_pre_vote=False,
    )
    return voter.client.handle_vote(request).topics[0].partitions[0].vote_granted


@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power-cut"])
@pytest.mark.parametrize("is_dynamic", [True, False], ids=["dynamic", "static"])
def test_vote_is_granted_once_per_epoch_across_restarts(power_cut: bool, is_dynamic: bool) -> None:
    quorum, leader = at_work(1, is_dynamic=is_dynamic)
    voter, other = followers_of(leader)
    epoch = epoch_of(leader) + 5
    assert is_granted(voter, other, epoch)

    quorum.kill(voter.node_id, power_cut=power_cut)
    voter.start()

    assert not is_granted(voter, leader, epoch)
    assert is_granted(voter, other, epoch)
    assert is_granted(voter, leader, epoch + 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_candidate_with_an_older_log_is_never_elected(seed: int) -> None:
    quorum, leader = at_work(seed)
    behind, up_to_date = followers_of(leader)
    quorum.cut([behind.node_id], quorum.replicas)
    quorum.append()
    quorum.run(500)

    quorum.kill(leader.node_id)
    quorum.heal()
    quorum.run_until(quorum.has_working_leader, within_ms=20_000)

    assert quorum.leader() is up_to_date


@pytest.mark.parametrize("seed", SEEDS)
def test_candidate_requests_votes_once_its_log_is_synced(seed: int) -> None:
    """With records that a power cut takes it would be elected, in the same epoch, without them."""
    quorum, leader = at_work(seed)
    behind, longer = followers_of(leader)
    quorum.cut([behind.node_id], quorum.replicas)
    syncs: list[Callable[[], None]] = []
    longer.disk.schedule_syncs(syncs.append)
    before = longer.client.log_end_offset
    quorum.append()
    quorum.run_until(lambda: longer.client.log_end_offset > before, within_ms=1_000)

    quorum.kill(leader.node_id)
    quorum.heal()
    quorum.run(10_000)

    assert quorum.leader() is None
    longer.disk.schedule_syncs(lambda perform: perform())
    while syncs:
        syncs.pop(0)()
    quorum.run_until(quorum.has_working_leader, within_ms=20_000)
    assert quorum.leader() is longer


@pytest.mark.parametrize("seed", SEEDS)
def test_leader_of_an_older_epoch_steps_down_for_a_newer_epoch(seed: int) -> None:
    quorum, old = at_work(seed)
    quorum.cut([old.node_id], quorum.replicas)
    quorum.append()
    lost_offset = old.client.log_end_offset
    quorum.run_until(lambda: quorum.leader() not in (None, old), within_ms=3_000)
    assert old.client.is_leader

    quorum.heal()
    quorum.run_until(lambda: isinstance(old.client.state, FollowerState), within_ms=500)

    quorum.run_until(quorum.has_working_leader, within_ms=500)
    quorum.append()
    quorum.append()
    quorum.run_until(lambda: all_have_the_same(quorum) and old.next_offset > lost_offset, within_ms=2_000)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [3, 5])
def test_partitioned_leader_resigns_commits_nothing_and_returns_as_follower(seed: int, voters: int) -> None:
    quorum, old = at_work(seed, voters)
    epoch, committed = epoch_of(old), old.client.high_watermark
    quorum.cut([old.node_id], quorum.replicas)
    quorum.append()
    quorum.run(2_000)
    assert old.client.is_leader

    quorum.run_until(lambda: not old.client.is_leader, within_ms=1_500)

    assert old.next_offset == committed
    # It may lead a later epoch only, so it enters the next one as unattached at the latest.
    quorum.run(60_000)
    assert epoch_of(old) <= epoch + 1
    new = quorum.leader()
    assert new is not None
    new_epoch = epoch_of(new)
    quorum.heal()
    quorum.run_until(lambda: isinstance(old.client.state, FollowerState), within_ms=5_000)
    quorum.run(5_000)
    assert quorum.leader() is new
    assert epoch_of(new) == new_epoch


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("both_ways", [True, False], ids=["both-ways", "deaf"])
def test_follower_that_returns_from_a_long_partition_deposes_no_leader(seed: int, both_ways: bool) -> None:
    quorum, leader = at_work(seed)
    epoch = epoch_of(leader)
    away = followers_of(leader)[0]
    quorum.cut([each.node_id for each in quorum.running() if each is not away], [away.node_id], both_ways=both_ways)
    quorum.append_every(200)
    quorum.run(120_000)
    assert epoch_of(away) == epoch

    quorum.heal()
    quorum.run_until(lambda: away.next_offset == leader.next_offset, within_ms=5_000)

    assert quorum.leader() is leader
    assert epoch_of(leader) == epoch


@pytest.mark.parametrize("seed", SEEDS)
def test_quorum_recovers_after_a_partition_of_all_voters(seed: int) -> None:
    quorum, old = at_work(seed)
    quorum.cut(quorum.replicas, quorum.replicas)
    quorum.run(30_000)
    assert quorum.leader() is None
    # Only the resigned leader entered a new epoch, as it must not lead its own again.
    assert {epoch_of(each) - epoch_of(old) for each in followers_of(old)} == {-1}

    quorum.heal()

    quorum.run_until(quorum.has_working_leader, within_ms=10_000)
    quorum.run_until(lambda: all_have_the_same(quorum), within_ms=5_000)


@pytest.mark.parametrize("is_dynamic", [True, False], ids=["dynamic", "static"])
def test_only_voter_leads_as_soon_as_it_starts(is_dynamic: bool) -> None:
    quorum = SimulatedQuorum(1, voters=1, is_dynamic=is_dynamic)
    only = quorum.replicas[1]
    for epoch in (1, 2, 3):
        only.start()

        assert only.client.is_leader
        assert epoch_of(only) == epoch
        quorum.run_until(quorum.has_working_leader, within_ms=50)
        quorum.kill(1, power_cut=True)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [3, 5])
def test_leader_that_shuts_down_hands_over_to_a_caught_up_voter(seed: int, voters: int) -> None:
    quorum, old = at_work(seed, voters)
    epoch = epoch_of(old)
    behind = followers_of(old)[0]
    quorum.cut([behind.node_id], quorum.replicas)
    quorum.append()
    quorum.run(500)
    quorum.heal()

    old.client.resign(epoch)

    assert isinstance(old.client.state, ResignedState)
    quorum.run_until(quorum.has_working_leader, within_ms=300)
    new = quorum.leader()
    assert new not in (None, old, behind)
    assert epoch_of(new) == epoch + 1  # type: ignore[arg-type]
