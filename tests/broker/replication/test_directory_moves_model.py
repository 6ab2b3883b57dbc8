"""A model test of moves: whatever happens and wherever the node stops, the log has each acknowledged record once.

One node, one partition, three log directories. A process stops between any two operations on the disk, killed or by a
power cut that keeps all that was synced.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ottla.log.config import LogConfig
from ottla.types import Offset
from ottla.wire.records import iterate_batches, read_records
from replicating_brokers import DIRECTORIES, Broker, Cluster

EXAMPLES = int(os.environ.get("OTTLA_LOG_MODEL_EXAMPLES", "40"))
PATHS = list(DIRECTORIES)


class _ProcessStoppedError(Exception):
    """The process ends before an operation on the disk."""


class StoppingDisk:
    """Ends the process before the n-th operation that changes the disk."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.left: int | None = None
        count = broker.disk.count

        def counted(operation: str, path: str) -> None:
            if self.left is not None and operation not in ("open", "read", "list"):
                self.left -= 1
                if self.left < 0:
                    raise _ProcessStoppedError(f"before {operation} {path}")
            count(operation, path)

        broker.disk.count = counted  # type: ignore[method-assign]


class MoveModel(RuleBasedStateMachine):
    """``records`` are the values by offset; ``durable_end`` is what a power cut must keep."""

    new_cluster: Callable[..., Cluster]

    def __init__(self) -> None:
        super().__init__()
        config = LogConfig(segment_bytes=600, retention_ms=-1)
        self.cluster = type(self).new_cluster(1, directory_count=3, config=config)
        self.cluster.controller.create_topic("t", (1,))
        self.cluster.settle()
        self.broker = self.cluster[1]
        self.disk = StoppingDisk(self.broker)
        self.records: dict[Offset, bytes] = {}
        self.log_start: Offset = 0
        self.durable_end: Offset = 0
        self.count = 0

    # --- events

    @rule(count=st.integers(1, 30), size=st.sampled_from([1, 100, 400]))
    def append(self, count: int, size: int) -> None:
        for _ in range(count):
            self.count += 1
            value = b"%d." % self.count * size
            offset = self.log.log_end_offset
            self.broker.produce(value[: 10 + size], acks=1)
            self.records[offset] = value[: 10 + size]

    @rule()
    def sync(self) -> None:
        self.log.flush()
        self.durable_end = self.log.log_end_offset

    @rule(steps=st.integers(1, 40), completes_syncs=st.booleans())
    def pass_time(self, steps: int, completes_syncs: bool) -> None:
        for _ in range(steps):
            self.step(completes_syncs)

    @rule()
    def complete(self) -> None:
        """Let every move end."""
        self.cluster.run(1_000)

    @rule(path=st.sampled_from(PATHS))
    def move(self, path: str) -> None:
        self.broker.replicas.moves.start(self.broker.partition(), path, may_create=True)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        """As a follower does that has diverged; the next leader has another epoch.

        It is synced: else a power cut may bring the records back, which replication repairs. So is the lower recovery
        point, which is written off the loop: a kill before that, and a power cut later, lose unsynced records.
        """
        log = self.log
        offset = log.log_start_offset + int((log.log_end_offset - log.log_start_offset) * share)
        log.truncate_to(offset)
        self.records = {each: value for each, value in self.records.items() if each < log.log_end_offset}
        self.durable_end = min(self.durable_end, log.log_end_offset)
        self.log_start = log.log_start_offset
        self.sync()
        self.broker.disk.complete_syncs()
        self.next_epoch()

    @rule(path=st.sampled_from(PATHS), steps=st.integers(1, 12), share=st.floats(0, 1), count=st.integers(1, 30))
    def truncate_while_moving(self, path: str, steps: int, share: float, count: int) -> None:
        self.append(count, 100)
        self.move(path)
        self.pass_time(steps, True)
        self.truncate(share)
        self.append(count, 100)

    @rule(share=st.floats(0, 1), deletes=st.booleans())
    def raise_log_start(self, share: float, deletes: bool) -> None:
        log = self.log
        log.raise_log_start(log.log_start_offset + int((log.log_end_offset - log.log_start_offset) * share))
        self.log_start = log.log_start_offset
        if deletes:
            log.apply_retention(self.cluster.clock.wall_ms())

    @rule(operations=st.integers(0, 60), cuts_power=st.booleans(), path=st.sampled_from(PATHS))
    def stop_while_moving(self, operations: int, cuts_power: bool, path: str) -> None:
        """Stop the process before the disk operation of this number, and start it again."""
        self.move(path)
        self.disk.left = operations
        with suppress(_ProcessStoppedError):
            for _ in range(60):
                self.step(True)
        self.disk.left = None
        self.restart(cuts_power=cuts_power)

    @rule(is_clean=st.booleans(), cuts_power=st.booleans())
    def stop(self, is_clean: bool, cuts_power: bool) -> None:
        if is_clean:
            self.broker.logs.close()
            self.durable_end = self.log.log_end_offset
        self.restart(cuts_power=cuts_power)

    # --- machinery

    @property
    def log(self) -> Any:
        return self.broker.partition().log

    def next_epoch(self) -> None:
        self.cluster.controller.change(leader=1)
        self.cluster.learn()

    def step(self, completes_syncs: bool) -> None:
        self.cluster.clock.advance(7)
        self.cluster.learn()
        self.broker.background.complete_work()
        if completes_syncs:
            self.broker.disk.complete_syncs()
        self.broker.replicas.tick(self.cluster.clock.monotonic_ms())
        self.broker.logs.maintenance.tick(self.cluster.clock.monotonic_ms())
        while self.cluster.step():
            pass

    def restart(self, *, cuts_power: bool) -> None:
        if cuts_power:
            self.broker.disk.crash()
        else:
            self.broker.disk.kill()
        self.cluster.responses.clear()
        self.broker.start()
        self.cluster.learn()
        self.broker.replicas.metadata_publisher.remove_strays()
        log = self.log
        end = log.log_end_offset
        if cuts_power:
            assert end >= self.durable_end, f"records from {end} to {self.durable_end} were synced and are lost"
        else:
            assert end >= max(self.records, default=-1) + 1, "killed: nothing may be lost"
        assert log.log_start_offset <= self.log_start
        self.records = {offset: value for offset, value in self.records.items() if offset < end}
        self.durable_end = min(self.durable_end, end)
        log.raise_log_start(min(self.log_start, end))
        self.log_start = log.log_start_offset
        self.check_one_directory()
        self.next_epoch()

    def check_one_directory(self) -> None:
        named = [f"{path}/t-0" for path in PATHS if self.broker.disk.exists(f"{path}/t-0")]
        assert named == [self.log.directory]

    @invariant()
    def log_has_every_record_once(self) -> None:
        log, found = self.log, {}
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            piece = log.read(offset, size_bytes_max=1 << 20).records
            if piece is None:
                break
            for batch in iterate_batches(bytearray(piece.read())):
                batch.check_crc()
                for record in read_records(batch, size_bytes_max=1 << 20):
                    assert record.offset not in found
                    found[record.offset] = record.value
                offset = batch.next_offset
        start = log.log_start_offset
        wanted = {offset: value for offset, value in self.records.items() if offset >= start}
        assert {offset: value for offset, value in found.items() if offset >= start} == wanted


def test_moves_lose_and_repeat_nothing(new_cluster: Callable[..., Cluster]) -> None:
    machine = type("BoundMoveModel", (MoveModel,), {"new_cluster": staticmethod(new_cluster)})
    run_state_machine_as_test(machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None))
