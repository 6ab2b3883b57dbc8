"""A cleaning on real files, by a process of its own: it has the result of one in this process, also if it is killed."""

import os
import queue
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compacted_log import COMPACTED, TOPIC_PARTITION, Clock, filled
from ottla.log.cleaner.config import CleanerConfig
from ottla.log.cleaner.log_cleaner import LogCleaner
from ottla.log.partition_log import AppendOrigin, PartitionLog
from ottla.runtime.background import BackgroundWorkers
from ottla.runtime.disk import OsDisk
from ottla.wire.records import Record, build_batch

TIMEOUT_S = 30


class CleanedByProcess:
    """The log of `compacted_log.filled` on real files, with its cleaner, and a loop for both."""

    def __init__(self, directory: Path) -> None:
        self.posted: queue.Queue[Callable[[], None]] = queue.Queue()
        self.clock = Clock()
        self.directory = directory
        self.cleaned = 0
        self.disk = OsDisk(self.posted.put)
        self.workers = BackgroundWorkers(self.posted.put)
        self.log = PartitionLog.open(
            disk=self.disk,
            directory=str(directory),
            topic_partition=TOPIC_PARTITION,
            config=COMPACTED,
            clock=self.clock,
            recovery_point=0,
            on_storage_error=self._fail,
        )
        self._append()
        self.cleaner = LogCleaner(
            disk=self.disk,
            clock=self.clock,
            background=self.workers,
            logs={TOPIC_PARTITION: self.log},
            config=CleanerConfig(io_buffer_bytes=8),
            may_clean=lambda _: True,
            is_being_moved=lambda _: False,
            on_cleaned=self._on_cleaned,
            wake=lambda _: None,
        )

    def _fail(self, error: Exception) -> None:
        raise error

    def _on_cleaned(self, _: PartitionLog) -> None:
        self.cleaned += 1

    def _append(self) -> None:
        for number in range(30):
            record = Record(0, self.clock.now_ms, b"key-%d" % (number % 5), b"value-%02d" % number)
            self.log.append_as_leader(
                bytearray(build_batch([record])), leader_epoch=0, now_ms=self.clock.now_ms, origin=AppendOrigin.CLIENT
            )
        self.log.roll(self.clock.now_ms)
        self.log.flush()
        while self.log.recovery_point < self.log.log_end_offset:
            self.run_one()
        self.log.update_high_watermark(self.log.log_end_offset)

    def run_one(self) -> None:
        self.posted.get(timeout=TIMEOUT_S)()

    def start_cleaning(self) -> None:
        self.cleaner.due_ms = self.clock.monotonic_ms()
        self.cleaner.run_slice(self.clock.monotonic_ms())

    def finish_cleaning(self) -> None:
        while not self.cleaned:
            self.run_one()

    def kill_process(self) -> None:
        (process,) = self.workers._processes
        while process._child is None:
            self.run_one()
        os.kill(process._child.pid, signal.SIGKILL)
        process._child.wait()

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.directory.glob("*.log")}

    def close(self) -> None:
        self.workers.close()
        self.disk.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CleanedByProcess]:
    log = CleanedByProcess(tmp_path / "topic-0")
    yield log
    log.close()


def files_of_a_cleaning_in_this_process() -> dict[str, bytes]:
    log = filled()
    log.clean()
    disk: Any = log.disk
    return {
        path.rpartition("/")[2]: disk.open(path).pread(1 << 20, 0) for path in disk.paths() if path.endswith(".log")
    }


def test_cleaning_by_a_process_writes_the_files_of_one_in_this_process(log: CleanedByProcess) -> None:
    log.start_cleaning()
    log.finish_cleaning()

    assert log.files() == files_of_a_cleaning_in_this_process()


@pytest.mark.parametrize("slices", [1, 10, 40])
def test_killed_process_gives_the_cleaning_up_and_the_next_one_has_the_same_result(
    log: CleanedByProcess, slices: int
) -> None:
    log.start_cleaning()
    for _ in range(slices):
        log.run_one()
    log.kill_process()
    while log.cleaner._jobs:
        log.run_one()
    assert log.cleaned == 0
    assert not list(log.directory.glob("*.cleaned"))
    log.clock.now_ms += log.cleaner.config.backoff_ms
    log.start_cleaning()
    log.finish_cleaning()

    assert log.files() == files_of_a_cleaning_in_this_process()


def test_corrupt_batch_is_named_by_the_process_that_reads_it(
    log: CleanedByProcess, caplog: pytest.LogCaptureFixture
) -> None:
    path = sorted(log.directory.glob("*.log"))[1]
    base_offset = int(path.stem)
    corrupt = bytearray(path.read_bytes())
    corrupt[70] ^= 1
    path.write_bytes(corrupt)

    log.start_cleaning()
    while log.cleaner._jobs:
        log.run_one()

    assert f"Marking topic-0 as uncleanable: compaction of {log.directory} stops until the node restarts" in caplog.text
    assert f"CORRUPT_MESSAGE: the batch at offset {base_offset}:" in caplog.text
    assert not list(log.directory.glob("*.cleaned"))
