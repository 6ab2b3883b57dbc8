"""Controllers in memory for the tests of this folder."""

from collections.abc import Callable

import pytest

from controllers_in_memory import ControllerCluster, ControllerNode


@pytest.fixture
def new_cluster() -> Callable[..., ControllerCluster]:
    """Return the class: ``new_cluster(1, 2, 3, controllers=2)``."""
    return ControllerCluster


@pytest.fixture
def new_controller() -> Callable[..., ControllerNode]:
    """Return the class: ``new_controller(features=..., static=...)``."""
    return ControllerNode


@pytest.fixture
def node() -> ControllerNode:
    """A controller with the broker 1."""
    node = ControllerNode()
    node.add_brokers(1)
    return node
