"""A node may open as many sockets as the system's hard limit lets it."""

import resource
from collections.abc import Iterator

import pytest

from ottla.runtime.descriptor_limit import lift_descriptor_limit


@pytest.fixture
def hard_limit() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        pytest.skip("without a limit there is nothing to lift")
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_becomes_the_hard_one(hard_limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit - 1, hard_limit))

    assert lift_descriptor_limit() == hard_limit
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard_limit, hard_limit)


def test_a_limit_that_cannot_be_lifted_stays(hard_limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit - 1, hard_limit))
    with monkeypatch.context() as patched:
        patched.setattr(resource, "setrlimit", refuse)
        assert lift_descriptor_limit() == hard_limit - 1
