"""Descriptors above the limit are closed, the least recently used first, and reopened on use."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import StorageError
from ottla.log.config import LogConfig
from ottla.log.open_files import OpenFiles
from ottla.log.partition_log import PartitionLog
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import TopicPartition
from ottla.wire.records import parse_batch

NOW_MS = 1_700_000_000_000


class Holder:
    def __init__(self) -> None:
        self.was_used = True
        self.is_open = True

    def release(self) -> None:
        self.is_open = False


def test_file_not_used_since_the_last_round_is_closed_first() -> None:
    open_files = OpenFiles(limit=3)
    holders = [Holder() for _ in range(3)]
    for holder in holders:
        open_files.opened(holder)

    open_files.opened(Holder())
    assert [holder.is_open for holder in holders] == [False, True, True], "all had been used: the oldest goes"
    holders[1].was_used = True
    open_files.opened(Holder())

    assert [holder.is_open for holder in holders] == [False, True, False]
    assert len(open_files) == 3


def test_failed_release_keeps_the_other_file_registered() -> None:
    class Stuck(Holder):
        def release(self) -> None:
            raise StorageError("cannot write an index")

    open_files = OpenFiles(limit=1)
    open_files.opened(Stuck())
    late = Holder()

    with pytest.raises(StorageError):
        open_files.opened(late)

    open_files.closed(late)
    assert len(open_files) == 0


def test_many_logs_share_few_descriptors(disk: SimulatedDisk, clock: Any, make_batch: Callable[..., bytearray]) -> None:
    open_files = OpenFiles(limit=2)
    logs = [
        PartitionLog.open(
            disk=disk,
            directory=f"/data/topic-{partition}",
            topic_partition=TopicPartition("topic", partition),
            config=LogConfig(index_interval_bytes=0),
            clock=clock,
            open_files=open_files,
        )
        for partition in range(5)
    ]
    for _ in range(3):
        for log in logs:
            log.append_as_leader(make_batch(1), leader_epoch=0, now_ms=NOW_MS)

    assert len(open_files) == 2
    for log in logs:
        records = log.read(2, size_bytes_max=1000).records
        assert records is not None
        assert parse_batch(records.read()).base_offset == 2
