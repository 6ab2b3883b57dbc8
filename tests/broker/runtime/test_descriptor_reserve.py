"""Reserved descriptors are released for a file that cannot be opened otherwise, and reserved again later."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.runtime.descriptor_reserve import DescriptorReserve
from ottla.runtime.disk import OsDisk


def take_all(taken: list[int]) -> None:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))


@pytest.fixture
def exhausted(tmp_path: Path) -> Iterator[list[int]]:
    """Use up all descriptors of the process, once the test has its folder; yield some of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.open(os.devnull, os.O_RDONLY)
    taken = [highest]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, highest + 50), hard))
    with pytest.raises(OSError, match="Too many open files"):
        take_all(taken)
    yield taken
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def reserve() -> Iterator[DescriptorReserve]:
    held = DescriptorReserve(2)
    yield held
    held.close()


def test_disk_opens_files_from_the_reserve(reserve: DescriptorReserve, exhausted: list[int], tmp_path: Path) -> None:
    disk = OsDisk(lambda _: None, reserve=reserve)
    files = [disk.open(str(tmp_path / str(number)), create=True) for number in range(2)]

    with pytest.raises(OSError, match="Too many open files"):
        disk.open(str(tmp_path / "2"), create=True)
    for file in files:
        file.close()
    os.close(exhausted.pop())
    for _ in range(3):
        disk.open(str(tmp_path / "0"), read_only=True).close()

    assert not reserve.is_short


def test_reserve_is_kept_for_other_errors(reserve: DescriptorReserve, tmp_path: Path) -> None:
    disk = OsDisk(lambda _: None, reserve=reserve)

    with pytest.raises(FileNotFoundError):
        disk.open(str(tmp_path / "none"))
    assert not reserve.is_short
