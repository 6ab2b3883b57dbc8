"""Nodes that require SASL."""

import pytest

from locked_node import start
from ottla.simulator.world.single_node import RunningNode, World


@pytest.fixture
def locked(world: World) -> RunningNode:
    """A node with a SASL listener and a listener without."""
    return start(world)
