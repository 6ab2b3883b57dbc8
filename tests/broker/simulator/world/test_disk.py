"""The simulated disk: what a power cut takes, what it leaves, and how operations are made to fail."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Uuid
from ottla.wire.records import Record, build_batch


class Scripted:
    """A port `Random` that returns numbers of a list."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def randrange(self, stop: int) -> int:
        number = self.numbers.pop(0)
        assert 0 <= number < stop
        return number

    def uuid(self) -> Uuid:
        return Uuid(bytes(16))


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("/d")
    disk.sync_directory("/d")
    return disk


def test_power_cut_loses_unsynced_data(disk: SimulatedDisk) -> None:
    file = disk.open("/d/f", create=True)
    file.pwritev([b"one"], 0)
    file.sync()
    file.pwritev([b"two"], 3)

    disk.crash()

    assert disk.contents("/d/f") == b"one"


def test_power_cut_may_leave_part_of_unsynced_data_and_tear_a_write(disk: SimulatedDisk) -> None:
    file = disk.open("/d/f", create=True)
    file.sync()
    for position, data in ((0, b"one"), (3, b"two"), (6, b"six")):
        file.pwritev([data], position)

    # No name is pending; one write is kept, two bytes of the next.
    disk.crash(Scripted(0, 1, 2))

    assert disk.contents("/d/f") == b"onetw"


def test_power_cut_may_flip_a_bit_of_unsynced_data_only(disk: SimulatedDisk) -> None:
    file = disk.open("/d/f", create=True)
    file.pwritev([b"one"], 0)
    file.sync()
    file.pwritev([b"two"], 3)
    file.pwritev([b"six"], 6)

    # No name is pending; both writes are kept, a bit flips: in the second write, its third byte, bit 0.
    disk.crash(Scripted(0, 2, 0, 1, 2, 0), flips_bits=True)

    assert disk.contents("/d/f") == b"onetwosiy"
    assert disk.durable_contents("/d/f") == b"onetwosiy"


@pytest.mark.parametrize(
    ("position", "is_flipped"),
    [(0, False), (7, False), (8, True), (11, True), (12, False), (15, False), (16, True), (17, True), (60, True)],
)
def test_power_cut_flips_no_bit_that_a_reader_cannot_notice(
    disk: SimulatedDisk, position: int, is_flipped: bool
) -> None:
    """Seeds 700000166 and 700000393: a later leader epoch or, with gaps, a higher offset looks like any other."""
    batches = [build_batch([Record(offset, 0, None, b"x")], base_offset=offset) for offset in range(2)]
    file = disk.open("/d/f", create=True)
    file.sync()
    file.pwritev(batches, 0)

    # No name is pending; the write is kept, a bit flips: of this byte of the second batch, bit 0.
    disk.crash(Scripted(0, 1, 0, 0, len(batches[0]) + position, 0), flips_bits=True)

    assert (disk.contents("/d/f") != b"".join(batches)) is is_flipped


@given(st.integers(0, 1_000))
def test_synced_data_survives_every_power_cut(seed: int) -> None:
    disk = SimulatedDisk()
    file = disk.open("/f", create=True)
    file.pwritev([b"synced"], 0)
    file.sync()
    file.pwritev([b"not"], 6)

    disk.crash(SeededRandom(seed), flips_bits=True)

    assert disk.contents("/f")[:6] == b"synced"


def test_broken_directory_fails_until_it_is_repaired(disk: SimulatedDisk) -> None:
    disk.make_directory("/d2")
    file = disk.open("/d/f", create=True)
    disk.break_directory("/d")

    for attempt in (
        lambda: file.pwritev([b"x"], 0),
        file.sync,
        lambda: disk.open("/d/g", create=True),
        lambda: disk.list_directory("/d"),
    ):
        with pytest.raises(OSError, match="Input/output error"):
            attempt()
    disk.open("/d2/f", create=True).pwritev([b"x"], 0)
    assert disk.broken_directories == ["/d"]
    disk.repair_directories()
    file.pwritev([b"x"], 0)


def test_observer_reads_the_disk_despite_faults(disk: SimulatedDisk) -> None:
    file = disk.open("/d/f", create=True)
    file.pwritev([b"one"], 0)
    disk.break_directory("/d")
    disk.is_observed = True

    assert file.pread(3, 0) == b"one"


def test_kill_loses_nothing(disk: SimulatedDisk) -> None:
    disk.open("/d/f", create=True).pwritev([b"one"], 0)

    disk.kill()

    assert disk.contents("/d/f") == b"one"


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_files_and_locks_of_an_ended_process_are_released(disk: SimulatedDisk, how: str) -> None:
    file = disk.open("/d/f", create=True)
    file.sync()
    disk.lock("/d/.lock")
    disk.sync_later([file], lambda error: pytest.fail("nobody is there to hear of it"))
    with pytest.raises(BlockingIOError):
        disk.lock("/d/.lock")

    getattr(disk, how)()

    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)
    assert disk.complete_syncs() == 0
    disk.lock("/d/.lock")


def test_names_are_durable_when_anything_is_synced_and_in_order(disk: SimulatedDisk) -> None:
    disk.open("/d/old", create=True).sync()
    disk.rename("/d/old", "/d/new")
    disk.open("/d/later", create=True)
    disk.crash(Scripted(1, 0))
    assert disk.paths() == ["/d/new"]

    disk.remove("/d/new")
    disk.crash()
    assert disk.paths() == ["/d/new"]

    disk.remove("/d/new")
    disk.open("/d", read_only=True).sync()
    disk.crash()
    assert disk.paths() == []


def test_truncation_is_lost_like_a_write(disk: SimulatedDisk) -> None:
    file = disk.open("/d/f", create=True)
    file.pwritev([b"abc"], 0)
    file.sync()
    file.truncate(1)
    assert disk.contents("/d/f") == b"a"

    disk.crash()

    assert disk.contents("/d/f") == b"abc"


def test_open_file_outlives_its_name(disk: SimulatedDisk) -> None:
    file = disk.open("/d/f", create=True)
    file.pwritev([b"abc"], 0)

    disk.remove("/d/f")

    assert file.pread(10, 1) == b"bc"


def test_directory_is_moved_and_removed_with_its_contents(disk: SimulatedDisk) -> None:
    disk.make_directory("/d/x/y")
    disk.open("/d/x/y/f", create=True)
    disk.open("/d/xx", create=True)

    disk.rename("/d/x", "/d/z")
    assert disk.paths() == ["/d/xx", "/d/z/y/f"]
    assert disk.list_directory("/d") == ["xx", "z"]
    disk.remove_tree("/d/z")

    assert disk.paths() == ["/d/xx"]


@pytest.mark.parametrize("operation", ["open", "read", "write", "truncate", "sync", "rename", "remove", "list"])
def test_any_operation_can_fail_once(disk: SimulatedDisk, operation: str) -> None:
    file = disk.open("/d/f", create=True)
    actions = {
        "open": lambda: disk.open("/d/f"),
        "read": lambda: file.pread(1, 0),
        "write": lambda: file.pwritev([b"abcd"], 0),
        "truncate": lambda: file.truncate(0),
        "sync": file.sync,
        "rename": lambda: disk.rename("/d/f", "/d/f"),
        "remove": lambda: disk.remove("/d/f"),
        "list": lambda: disk.list_directory("/d"),
    }
    disk.fail_next(operation, errno.EIO, path_part="/d", skip=1)
    actions[operation]() if operation != "remove" else disk.open("/d/g", create=True)
    if operation == "remove":
        disk.remove("/d/g")

    with pytest.raises(OSError, match="Input/output error"):
        actions[operation]()
    actions[operation]()

    assert disk.operations[operation] >= 3


def test_full_disk_writes_the_bytes_that_fit(disk: SimulatedDisk) -> None:
    disk.capacity_bytes = 10
    file = disk.open("/d/f", create=True)
    file.pwritev([b"12345678"], 0)

    with pytest.raises(OSError, match="No space left"):
        file.pwritev([b"abcd"], 8)

    assert disk.contents("/d/f") == b"12345678ab"
    file.pwritev([b"overwrite"], 0)


@given(st.lists(st.tuples(st.integers(0, 50), st.binary(max_size=20)), max_size=10))
def test_synced_data_is_durable_to_the_byte(writes: list[tuple[int, bytes]]) -> None:
    disk = SimulatedDisk()
    file = disk.open("/f", create=True)
    model = bytearray()
    for position, data in writes:
        file.pwritev([data], position)
        if data:
            model.extend(bytes(max(0, position - len(model))))
        model[position : position + len(data)] = data
    file.sync()
    disk.crash()

    assert disk.contents("/f") == disk.durable_contents("/f") == bytes(model)
