"""A consumer group reads along while the nodes below it are killed, frozen and rolled: every record, in order."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from cluster_ledger import position_and_number
from confluent_kafka import Consumer, KafkaException

PARTITIONS = 6


class Reader:
    """A member of a group, in a thread: notes its records, and commits its position periodically."""

    def __init__(self, bootstrap: str) -> None:
        self.records: list[tuple[int, int, int]] = []
        """Partition, offset and number of each record, as they came."""

        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(["t"])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            self.records.append(position_and_number(message))
            if len(self.records) % 20 == 0:
                self._commit()

    def _commit(self) -> None:
        # Between coordinators, or while the group rebalances, it fails: the next commit covers what this one did not.
        with contextlib.suppress(KafkaException):
            self._consumer.commit(asynchronous=False)


def check(ledger: Any, readers: list[Reader]) -> None:
    """Check that all acknowledged records were read, each at one offset, and that no reader saw another past."""
    seen: dict[tuple[int, int], int] = {}
    for reader in readers:
        for partition, offset, number in reader.records:
            assert seen.setdefault((partition, offset), number) == number, "an offset was given to two records"
    ledger.check(seen.values())


def wait_until_read(ledger: Any, readers: list[Reader]) -> None:
    deadline = time.monotonic() + 60
    while not ledger.acknowledged <= {number for reader in readers for _, _, number in reader.records}:
        assert time.monotonic() < deadline, "the group does not come to the end of what was acknowledged"
        time.sleep(0.1)


def kill(cluster: Any, node_id: int) -> None:
    cluster.nodes[node_id].kill()
    time.sleep(0.5)
    cluster.restart(node_id)


def freeze(cluster: Any, node_id: int) -> None:
    """Long enough to be fenced, and to be thrown out of every in-sync set."""
    cluster.nodes[node_id].signal(signal.SIGSTOP)
    time.sleep(4)
    cluster.nodes[node_id].signal(signal.SIGCONT)


def roll(cluster: Any, node_id: int) -> None:
    assert cluster.nodes[node_id].stop() == 0
    cluster.restart(node_id)


@pytest.mark.parametrize("disturb", [kill, freeze, roll])
def test_group_reads_everything(new_cluster: Callable[..., Any], disturb: Callable[[Any, int], None]) -> None:
    cluster = new_cluster(
        offsets_topic_replication_factor="3",
        broker_session_timeout_ms="2500",
        broker_heartbeat_interval_ms="500",
        replica_lag_time_max_ms="3000",
    )
    cluster.start()
    cluster.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
    ledger = cluster.ledger("t")
    readers = [Reader(cluster.bootstrap), Reader(cluster.bootstrap)]
    ledger.start()
    for node_id in cluster.nodes:
        time.sleep(0.5)
        disturb(cluster, node_id)
        cluster.wait_in_sync("t")
    ledger.stop()
    wait_until_read(ledger, readers)
    for reader in readers:
        reader.stop()

    check(ledger, readers)
