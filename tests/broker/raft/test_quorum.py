"""Several replicas under faults: the cases of Kafka's RaftEventSimulationTest, by the same names, from a few seeds.

The invariants of `ottla.simulator.runs.quorum.invariants` are checked after every event of every test.
OTTLA_SEEDS_TIMES multiplies the number of seeds.
"""

import os
from collections.abc import Callable

import pytest

from ottla.raft import commit_feed
from ottla.raft.config import RaftConfig
from ottla.simulator.runs.quorum.replica import SimulatedReplica
from ottla.simulator.runs.quorum.simulation import SimulatedQuorum

SEEDS = range(3 * int(os.environ.get("OTTLA_SEEDS_TIMES", "1")))


def elected(quorum: SimulatedQuorum, *, within_ms: int = 10_000) -> int:
    """Let time pass until a leader has committed something; return how long that took."""
    return quorum.run_until(quorum.has_working_leader, within_ms=within_ms)


def new_quorum(seed: int, voters: int, *, observers: int = 0) -> tuple[SimulatedQuorum, SimulatedReplica]:
    """Return a quorum with an elected leader, and the leader."""
    quorum = SimulatedQuorum(seed, voters=voters, observers=observers)
    quorum.start_all()
    elected(quorum)
    quorum.append_every(20)
    quorum.run(1_000)
    leader = quorum.leader()
    assert leader is not None
    return quorum, leader


def reach(quorum: SimulatedQuorum, more: int = 20, *, within_ms: int = 30_000) -> None:
    """Let time pass until every replica has ``more`` records than are committed now."""
    target = quorum.committed_offset + more
    quorum.run_until(lambda: all(each.next_offset >= target for each in quorum.running()), within_ms=within_ms)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("is_dynamic", [True, False], ids=["dynamic", "static"])
def test_can_elect_initial_leader(seed: int, voters: int, is_dynamic: bool) -> None:
    quorum = SimulatedQuorum(seed, voters=voters, observers=seed % 3, is_dynamic=is_dynamic)

    quorum.start_all()

    assert elected(quorum) < 1_000
    quorum.append_every(10)
    reach(quorum, within_ms=5_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_new_leader_is_active_when_it_has_seen_all_slices(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_feed, "SLICE_BYTES_MAX", 1)
    quorum, leader = new_quorum(seed, voters=3)
    for _ in range(50):
        quorum.append()
    end_offset = leader.client.log_end_offset
    others = [each for each in quorum.running() if each is not leader]
    quorum.run_until(lambda: any(each.client.log_end_offset >= end_offset for each in others))

    quorum.kill(leader.node_id)

    elected(quorum)
    reach(quorum)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [3, 4, 5])
@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power-cut"])
def test_can_elect_new_leader_after_old_leader_failure(seed: int, voters: int, power_cut: bool) -> None:
    quorum, leader = new_quorum(seed, voters, observers=seed % 3)

    quorum.kill(leader.node_id, power_cut=power_cut)

    # The guarantee is one second; only a pre-vote, a vote and their syncs should be needed.
    assert elected(quorum) < 500
    leader.start()
    reach(quorum)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [2, 3, 5])
def test_leader_that_shuts_down_in_order_is_replaced_at_once(seed: int, voters: int) -> None:
    quorum, leader = new_quorum(seed, voters)

    quorum.close(leader.node_id)

    if voters > 2:
        assert elected(quorum) < 200
    leader.start()
    reach(quorum)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power-cut"])
def test_can_recover_after_all_nodes_killed(seed: int, voters: int, power_cut: bool) -> None:
    quorum, _ = new_quorum(seed, voters)
    committed = quorum.committed_offset
    for node_id in list(quorum.replicas):
        quorum.kill(node_id, power_cut=power_cut)

    quorum.start_all(range(1, voters // 2 + 2))

    elected(quorum)
    reach(quorum)
    assert quorum.committed_offset > committed


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [3, 5])
def test_can_elect_new_leader_after_old_leader_partitioned_away(seed: int, voters: int) -> None:
    quorum, old = new_quorum(seed, voters, observers=1)
    others = [node_id for node_id in quorum.replicas if node_id != old.node_id]

    quorum.cut([old.node_id], others)

    # Connections time out here, so the fetch timeout of 2 s has to pass.
    quorum.run_until(lambda: quorum.leader() not in (None, old), within_ms=10_000)
    quorum.run_until(lambda: not old.client.is_leader, within_ms=5_000)
    quorum.heal()
    reach(quorum)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [3, 5])
def test_can_make_progress_if_majority_is_reachable(seed: int, voters: int) -> None:
    quorum, _ = new_quorum(seed, voters, observers=1)
    minority = range(1, voters // 2 + 1)
    majority = [node_id for node_id in quorum.replicas if node_id not in minority]

    quorum.cut(minority, majority)

    target = quorum.committed_offset + 100
    quorum.run_until(lambda: quorum.replicas[majority[0]].next_offset >= target, within_ms=30_000)
    quorum.heal()
    reach(quorum)


@pytest.mark.parametrize("seed", SEEDS)
def test_leadership_assigned_only_once_with_network_partition_if_there_exists_majority(seed: int) -> None:
    quorum = SimulatedQuorum(seed, voters=5)
    # 2 and 4 cannot reach each other, but both reach a majority: without pre-votes they would depose one another.
    quorum.cut([2], [4, 5])
    quorum.cut([1], [3])
    quorum.start_all()
    elected(quorum)
    quorum.append_every(20)
    leader = quorum.leader()
    assert leader is not None
    epoch = leader.client.leader_and_epoch.epoch

    quorum.run(8_000)

    assert quorum.leader() is leader
    assert leader.client.leader_and_epoch.epoch == epoch


@pytest.mark.parametrize("seed", SEEDS)
def test_leadership_will_not_change_during_network_partition_if_majority_still_reachable(seed: int) -> None:
    quorum, leader = new_quorum(seed, 5)
    epoch = leader.client.leader_and_epoch.epoch
    cut_off = [node_id for node_id in quorum.replicas if node_id != leader.node_id][:2]

    # They reach all replicas except for the leader.
    quorum.cut(cut_off, [leader.node_id])
    quorum.run(8_000)
    quorum.heal()
    reach(quorum)

    assert quorum.leader() is leader
    assert leader.client.leader_and_epoch.epoch == epoch


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [3, 5])
def test_can_make_progress_after_back_to_back_leader_failures(seed: int, voters: int) -> None:
    quorum, _ = new_quorum(seed, voters)

    for _ in range(5):
        leader = quorum.leader()
        assert leader is not None
        quorum.kill(leader.node_id, power_cut=True)
        elected(quorum)
        leader.start()
        quorum.run(quorum.random.randrange(300))

    elected(quorum)
    reach(quorum)


@pytest.mark.parametrize("seed", SEEDS)
def test_check_single_node_committed_data_loss_quorum_size_three(seed: int) -> None:
    quorum, leader = new_quorum(seed, 3)
    victim = next(each for each in quorum.running() if each is not leader)
    quorum.kill(victim.node_id)

    # The same identity on an empty disk: static voters cannot detect it, dynamic ones can, and it stays an observer.
    victim.wipe()
    victim.start()
    quorum.run(3_000)

    assert not quorum.is_voter(victim)
    reach(quorum)


# --- beyond Kafka's nine


@pytest.mark.parametrize("seed", SEEDS)
def test_observer_far_behind_loads_the_snapshot(seed: int) -> None:
    config = RaftConfig(retention_size_bytes=2_000, retention_ms=-1)
    quorum = SimulatedQuorum(seed, voters=3, observers=1, config=config, snapshot_interval_batches=20)
    quorum.start_all([1, 2, 3])
    elected(quorum)
    quorum.append_every(200)
    quorum.run(70_000)

    late = quorum.replicas[4]
    late.start()
    reach(quorum, more=5)

    assert late.loaded
    late.client.close()
    late.kill(power_cut=True)
    late.start()
    reach(quorum, more=5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [3, 4, 5])
def test_chaos(seed: int, voters: int) -> None:
    quorum = SimulatedQuorum(seed, voters=voters, observers=seed % 2, snapshot_interval_batches=10)
    quorum.start_all()
    quorum.append_every(25)

    for _ in range(15):
        quorum.disturb()
        quorum.run(quorum.random.randrange(1_500))

    quorum.repair()
    elected(quorum, within_ms=20_000)
    reach(quorum)


@pytest.mark.parametrize(("seed", "voters"), [*((seed, 3) for seed in SEEDS), (0, 1), (1, 1)])
def test_voters_change_under_chaos(seed: int, voters: int) -> None:
    quorum = SimulatedQuorum(seed, voters=voters, standby=3, snapshot_interval_batches=10)
    quorum.start_all()
    quorum.append_every(25)

    for _ in range(20):
        quorum.change_voters()
        if quorum.random.randrange(2):
            quorum.disturb()
        quorum.run(quorum.random.randrange(1_000))

    quorum.repair()
    elected(quorum, within_ms=20_000)
    reach(quorum)


@pytest.mark.parametrize("mutate", [lambda quorum: quorum.kill(2)])
def test_same_seed_gives_the_same_run(mutate: Callable[[SimulatedQuorum], object]) -> None:
    def run() -> tuple[int, int, list[object]]:
        quorum, _ = new_quorum(5, 3)
        mutate(quorum)
        quorum.run(2_000)
        return quorum.event_count, quorum.committed_offset, [each.client.state for each in quorum.running()]

    assert repr(run()) == repr(run())
