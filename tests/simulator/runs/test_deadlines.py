"""Cached deadlines of the parts of a node equal the computed ones, in clusters with faults."""

import pytest

from ottla.simulator.runs.simulation import Simulation
from ottla.simulator.world.node import SimulatedNode


@pytest.mark.parametrize("seed", [3, 5, 11])
def test_cached_deadlines_equal_computed_ones_after_every_event(seed: int) -> None:
    simulation = Simulation(seed)
    look = simulation.cluster.on_event

    def compare(place: SimulatedNode) -> None:
        look(place)
        process = place.process
        if process is not None:
            raft, peers = process.raft, process.peers
            remembered = (raft.next_deadline_ms(), peers.next_deadline_ms())
            raft._due_ms, peers._is_due_known = None, False
            assert (raft.next_deadline_ms(), peers.next_deadline_ms()) == remembered

    simulation.cluster.on_event = compare
    outcome = simulation.run(4_000)

    assert outcome.failure is None
