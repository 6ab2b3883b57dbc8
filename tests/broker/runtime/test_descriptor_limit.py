"""A node may open as many sockets as the system's hard limit lets it, and has room for a crowd of them."""

import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.runtime.descriptor_limit import TABLE_SIZE, lift_descriptor_limit, make_descriptor_table

SHOW_TABLE = """
import resource, sys
from ottla.runtime.descriptor_limit import lift_descriptor_limit, make_descriptor_table
lift_descriptor_limit()
make_descriptor_table(int(sys.argv[1]))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("FDSize")))
"""


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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell how large the table is")
@pytest.mark.parametrize(("limit", "size"), [(-1, TABLE_SIZE), (1 << 20, TABLE_SIZE), (1024, 1024)])
def test_the_table_is_as_large_as_a_crowd_needs_before_anybody_comes(limit: int, size: int) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < TABLE_SIZE:
        pytest.skip("so many descriptors are not allowed here")
    # In a process of its own: a table only ever grows.
    shown = subprocess.run(
        [sys.executable, "-c", SHOW_TABLE, str(limit)], check=True, capture_output=True, text=True
    ).stdout

    assert int(shown) == size


def test_where_so_many_are_not_allowed_the_table_grows_as_it_has_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError("Invalid argument")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    before = os.dup(0)
    os.close(before)
    make_descriptor_table(-1)

    assert os.dup(0) == before
    os.close(before)
