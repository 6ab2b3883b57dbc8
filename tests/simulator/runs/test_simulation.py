"""Whole clusters from seeds: every invariant holds, runs repeat to the byte, and failures can be replayed.

OTTLA_SEEDS_TIMES multiplies the number of seeds of `make test`.
"""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import Invariant, ReplicaChange, SegmentReplacement
from ottla.simulator.runs import campaign
from ottla.simulator.runs.plan import draw_plan
from ottla.simulator.runs.simulation import Simulation
from ottla.wire.records import read_records

RUN_MS = 8_000
SEEDS = 100 * int(os.environ.get("OTTLA_SEEDS_TIMES", "1"))


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_every_invariant_holds(seed: int) -> None:
    outcome = Simulation(seed).run(RUN_MS)

    assert outcome.failure is None, campaign.report(outcome, RUN_MS / 60_000)


@pytest.mark.parametrize("seed", [12, 6, 8])
def test_same_seed_gives_the_same_run_in_every_process(seed: int) -> None:
    """Hashes of strings differ from process to process: nothing may depend on the order of a set."""
    code = (
        "from ottla.simulator.runs.simulation import Simulation; "
        f"o = Simulation({seed}).run(10_000); print(o.digest, o.events)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": hash_seed}
        ).stdout
        for hash_seed in ("1", "3")
    ]

    assert runs[0] == runs[1]


def test_other_seeds_give_other_runs() -> None:
    digests = {Simulation(seed).run(2_000).digest for seed in range(20, 24)}

    assert len(digests) == 4


def test_shapes_and_kinds_of_clients_are_all_drawn() -> None:
    plans = [draw_plan(seed) for seed in range(1, 201)]

    assert {plan.brokers for plan in plans} == {1, 2, 3, 5}
    assert {plan.combined for plan in plans} == {True, False}
    assert {producer for plan in plans for topic in plan.topics for producer in topic.producers} == {
        (-1, True),
        (-1, False),
        (1, False),
        (0, False),
    }


def test_every_fault_strikes_in_the_fixed_seeds() -> None:
    simulation = Simulation(1)
    known: set[str] = set()
    for seed in range(1, 40):
        known |= set(Simulation(seed).nemesis.faults)

    assert len(known) >= 16
    assert simulation.nemesis.counts == {}


class NothingIsEverCommitted(Invariant):
    """An invariant that no cluster keeps."""

    def on_replica(self, change: ReplicaChange) -> None:
        if change.now.high_watermark > 10:
            raise InvariantViolation("NothingIsEverCommitted: but it was")


@pytest.mark.parametrize(("seed", "levels"), [(158, (2, 0)), (254, (2, 0)), (254, (2, 0, 1))])
def test_transactions_end_when_the_level_is_lowered_from_2_to_0(seed: int, levels: tuple[int, ...]) -> None:
    """Records of version 0 cannot hold ids that were used under 2: in JVM Kafka, their transactions do not end then."""
    outcome = Simulation(seed, plan=replace(draw_plan(seed), transaction_versions=levels)).run(RUN_MS)

    assert outcome.failure is None, campaign.report(outcome, RUN_MS / 60_000)
    assert outcome.committed > 0


class RemovedTombstones(Invariant):
    """Counts the tombstones that compaction removes; violated by none."""

    count = 0

    def on_replacement(self, replacement: SegmentReplacement) -> None:
        segment = replacement.segment
        replaced, cleaned = (
            sum(record.value is None for batch in batches for record in read_records(batch, size_bytes_max=1 << 20))
            for batches in (segment.batches, segment.cleaned)
        )
        self.count += max(0, replaced - cleaned)


def test_compaction_removes_tombstones_from_the_keyed_topic() -> None:
    simulation = Simulation(26)
    removed = RemovedTombstones(simulation.state_observer)
    simulation.state_observer.invariants.append(removed)

    assert simulation.run(RUN_MS).failure is None
    assert removed.count > 0


def test_failure_report_has_the_command_that_repeats_it() -> None:
    def failing() -> Simulation:
        simulation = Simulation(3)
        simulation.state_observer.invariants.append(NothingIsEverCommitted(simulation.state_observer))
        return simulation

    first, second = failing().run(RUN_MS), failing().run(RUN_MS)
    text = campaign.report(first, 0.5)

    assert first.failure == "NothingIsEverCommitted: but it was"
    assert (first.digest, first.simulated_ms) == (second.digest, second.simulated_ms)
    assert "python -m ottla.simulator --seed 3 --minutes 0.5" in text
    assert "seed 3 at commit" in text
    assert "leads the metadata quorum" in text


def test_command_runs_seeds_and_reports_simulated_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert campaign.main(["--seed", "7", "--count", "2", "--minutes", "0.05"]) == 0

    said = capsys.readouterr().out
    assert "seed 7: ok" in said
    assert "seed 8: ok" in said
    assert "2 seeds, " in said
    assert "every invariant held" in said


def test_fresh_seeds_run_until_the_time_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert campaign.main(["--seconds", "0.01", "--minutes", "0.02"]) == 0

    assert "simulated hours" in capsys.readouterr().out


def test_restarted_leader_detects_a_duplicate_of_an_older_batch() -> None:
    """The producer snapshot has up to five batches of each; with the newest alone this duplicate was rejected."""
    outcome = Simulation(1047).run(30_000)

    assert outcome.failure is None, campaign.report(outcome, 0.5)


def test_log_lost_before_the_controller_knew_its_directory_is_not_recreated() -> None:
    """The directory returned with its log, and the node, which had two then, never started again."""
    outcome = Simulation(2126428070).run(30_000)

    assert outcome.failure is None, campaign.report(outcome, 0.5)


def test_limit_of_a_liveness_check_restarts_with_progress() -> None:
    """Seed 940000190: copiers with many records needed more than the limit, and never stood still."""
    simulation = Simulation(3)
    clock = simulation.cluster.clock
    simulation.cluster.start()

    simulation._until("6 s have passed", lambda: clock.monotonic_ms() >= 6_000, 2_000, clock.monotonic_ms)
    with pytest.raises(InvariantViolation, match="not within 2000 ms without faults: nothing; "):
        simulation._until("nothing", lambda: False, 2_000, lambda: min(clock.monotonic_ms(), 9_000))
    assert 11_000 <= clock.monotonic_ms() < 12_000
