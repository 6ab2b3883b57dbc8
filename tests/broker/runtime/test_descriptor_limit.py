"""A node raises its descriptor limit to the hard limit, and pre-sizes its descriptor table."""

import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.runtime.descriptor_limit import TABLE_SIZE, lift_descriptor_limit, presize_descriptor_table

SHOW_TABLE = """
import resource, sys
from ottla.runtime.descriptor_limit import lift_descriptor_limit, presize_descriptor_table
lift_descriptor_limit()
presize_descriptor_table(int(sys.argv[1]))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("FDSize")))
"""


@pytest.fixture
def hard_limit() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        pytest.skip("without a limit there is nothing to raise")
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_soft_limit_is_raised_to_hard_limit(hard_limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit - 1, hard_limit))

    assert lift_descriptor_limit() == hard_limit
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard_limit, hard_limit)


def test_limit_that_cannot_be_raised_stays(hard_limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit - 1, hard_limit))
    with monkeypatch.context() as patched:
        patched.setattr(resource, "setrlimit", fail)
        assert lift_descriptor_limit() == hard_limit - 1


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not report the size of the table")
@pytest.mark.parametrize(("limit", "size"), [(-1, TABLE_SIZE), (1 << 20, TABLE_SIZE), (1024, 1024)])
def test_descriptor_table_is_presized_before_first_connection(limit: int, size: int) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < TABLE_SIZE:
        pytest.skip("the descriptor limit is too low")
    # In a process of its own: a table never shrinks.
    shown = subprocess.run(
        [sys.executable, "-c", SHOW_TABLE, str(limit)], check=True, capture_output=True, text=True
    ).stdout

    assert int(shown) == size


def test_descriptor_table_grows_on_demand_if_presizing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError("Invalid argument")

    monkeypatch.setattr(fcntl, "fcntl", fail)
    before = os.dup(0)
    os.close(before)
    presize_descriptor_table(-1)

    assert os.dup(0) == before
    os.close(before)
