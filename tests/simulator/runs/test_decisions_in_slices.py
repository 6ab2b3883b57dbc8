"""Whole clusters whose controllers decide one partition per slice, and whose nodes apply one batch per slice, propose
one in-sync set per request, and add one partition per fetch.

Each event loop iteration, crash and lost leadership can fall between two records of a decision that is one batch in
clusters of so few partitions.
"""

import pytest

from ottla.controller import decision_queue
from ottla.raft import commit_feed
from ottla.replication import replica_fetcher
from ottla.replication.isr import alter_partition_manager
from ottla.simulator.runs import campaign
from ottla.simulator.runs.simulation import Simulation

RUN_MS = 8_000


@pytest.mark.parametrize("seed", range(1_001, 1_011))
def test_every_invariant_holds_between_slices(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_queue, "DECIDED_PER_SLICE", 1)
    monkeypatch.setattr(commit_feed, "SLICE_BYTES_MAX", 1)
    monkeypatch.setattr(alter_partition_manager, "SENT_MAX", 1)
    monkeypatch.setattr(replica_fetcher, "NAMED_MAX", 1)

    outcome = Simulation(seed).run(RUN_MS)

    assert outcome.failure is None, campaign.report(outcome, RUN_MS / 60_000)
