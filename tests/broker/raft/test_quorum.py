"""Several replicas under faults: what Kafka's RaftEventSimulationTest asks, by the same names, from tens of seeds."""

import pytest

from ottla.simulator.quorum import SimulatedQuorum

SEEDS = range(8)


def elected(quorum: SimulatedQuorum, *, within_ms: int = 10_000) -> int:
    """Let time pass until a leader has committed something; return how long that took."""
    return quorum.run_until(lambda: has_working_leader(quorum), within_ms=within_ms)


def has_working_leader(quorum: SimulatedQuorum) -> bool:
    leader = quorum.leader()
    return leader is not None and leader.client.high_watermark is not None


def everybody_has(quorum: SimulatedQuorum, offset: int) -> bool:
    return all(replica.next_offset >= offset for replica in quorum.running())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("is_dynamic", [True, False], ids=["dynamic", "static"])
def test_can_elect_initial_leader(seed: int, voters: int, is_dynamic: bool) -> None:
    quorum = SimulatedQuorum(seed, voters=voters, observers=seed % 3, is_dynamic=is_dynamic)

    quorum.start_all()

    assert elected(quorum) < 1_000
    quorum.append_every(3)
    quorum.run_until(lambda: everybody_has(quorum, 20), within_ms=5_000)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("voters", [3, 4, 5])
@pytest.mark.parametrize("power_cut", [False, True])
def test_can_elect_new_leader_after_old_leader_failure(seed: int, voters: int, power_cut: bool) -> None:
    quorum = SimulatedQuorum(seed, voters=voters, observers=seed % 3)
    quorum.start_all()
    elected(quorum)
    quorum.append_every(5)
    quorum.run(1_000)
    leader = quorum.leader()
    assert leader is not None

    quorum.kill(leader.node_id, power_cut=power_cut)

    # The issue allows one second; nothing but a pre-vote, a vote and their syncs should be needed.
    assert elected(quorum) < 500
    committed = quorum.committed_offset
    leader.start()
    quorum.run_until(lambda: everybody_has(quorum, committed + 20))
