"""What of a log would survive a power cut, also while it moves to another log directory."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.simulator.invariants.sync_invariants import _is_synced
from ottla.simulator.world.disk import SimulatedDisk
from ottla.wire.records import Record, build_batch

OLD, COPY, NEW = "/a/t-0", "/b/t-0-future", "/b/t-0"
END = 2


def batch(offset: int) -> bytes:
    return build_batch([Record(offset, 0, None, b"value", ())], base_offset=offset)


def log(directory: str, end: int = END) -> Any:
    """A log of one segment that has the offsets below ``end``."""
    segment = SimpleNamespace(path=f"{directory}/0.log", base_offset=0)
    return SimpleNamespace(segments=lambda: [segment], log_end_offset=end)


def write(disk: SimulatedDisk, directory: str, *, synced: int, end: int = END) -> None:
    """Write a log of one record for each offset, of which those below ``synced`` are synced."""
    disk.make_directory(directory)
    file = disk.open(f"{directory}/0.log", create=True)
    position = 0
    for offset in range(end):
        if offset == synced:
            file.sync()
        position += file.pwritev([batch(offset)], position)
    if synced == end:
        file.sync()


@pytest.fixture
def place() -> Any:
    place = SimpleNamespace(disk=SimulatedDisk())
    for directory in ("/a", "/b"):
        place.disk.make_directory(directory)
    return place


@pytest.mark.parametrize("synced", range(END + 1))
def test_records_survive_if_they_are_synced(place: Any, synced: int) -> None:
    write(place.disk, OLD, synced=synced)

    found = [_is_synced(place, log(OLD), None, range(offset, offset + 1)) for offset in range(END)]

    assert found == [offset < synced for offset in range(END)]


@pytest.mark.parametrize(
    ("old", "old_end", "copy", "is_synced"),
    [
        pytest.param(END, END, END, True, id="both"),
        pytest.param(END - 1, END, END, False, id="not-the-replaced-files"),
        pytest.param(END - 1, END - 1, END, False, id="replaced-files-end-before"),
        pytest.param(END, END, END - 1, False, id="not-the-copy"),
    ],
)
def test_a_new_name_that_is_not_synced_needs_both_the_copy_and_the_replaced_files(
    place: Any, old: int, old_end: int, copy: int, is_synced: bool
) -> None:
    write(place.disk, OLD, synced=old, end=old_end)
    write(place.disk, COPY, synced=copy)
    place.disk.rename(COPY, NEW)

    assert _is_synced(place, log(NEW), log(OLD, old_end), range(END)) is is_synced
    assert not _is_synced(place, log(NEW), None, range(END))


def test_a_new_name_that_is_synced_needs_the_copy_only(place: Any) -> None:
    write(place.disk, COPY, synced=END)
    place.disk.rename(COPY, NEW)
    place.disk.sync_directory("/b")

    assert _is_synced(place, log(NEW), None, range(END))
