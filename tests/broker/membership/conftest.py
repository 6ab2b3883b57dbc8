"""A controller in memory at which the broker's side of membership registers."""

from collections.abc import Callable

import pytest

from controllers_in_memory import ControllerNode


@pytest.fixture
def new_controller() -> Callable[..., ControllerNode]:
    """Return the class: ``new_controller(features=..., static=...)``."""
    return ControllerNode
