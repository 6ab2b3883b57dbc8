"""Wall clocks that are set back and forth by hours: no node is taken for failed, and nothing is lost."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from benchmarks.wall_clocks import WallClock, missing
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

PARTITIONS = 3
HOURS = 5
AHEAD_H = (HOURS, -HOURS, 0)
"""Of the true time, one after the other."""
LATER_S = 1.5


@pytest.mark.skipif(missing() is not None, reason=f"needs {missing()}")
def test_no_node_fails_when_its_clock_is_set_and_nothing_is_lost(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster()
    clocks = {}
    for node in cluster.nodes.values():
        clock = clocks[node.node_id] = WallClock(node.directory)
        node.launch = partial(launch_with, clock, node.launch)
    cluster.start()
    # A leader whose clock is behind would reject records with the producer's time: they come from its future.
    cluster.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2", message_timestamp_type="LogAppendTime")
    ledger = cluster.ledger("t")
    ledger.start()
    leaders = cluster.leaders("t")
    for node_id, clock in clocks.items():
        for ahead_h in AHEAD_H:
            clock.set_ahead(ahead_h * 3600)
            time.sleep(LATER_S)
            assert cluster.leaders("t") == leaders, (node_id, ahead_h)
    cluster.wait_in_sync("t")
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))
    assert set(leaders.values()) == set(clocks), "each clock was one of a leader"
    assert min(newest_timestamps(cluster)) > time.time() + (HOURS - 1) * 3600, "leaders had the time that was set"
    for node in cluster.nodes.values():
        assert "from unfenced to fenced" not in node.log_text()


def launch_with(clock: WallClock, launch: Callable[..., Any], command: list[str], log: Any) -> Any:
    return launch(clock.command(command), log)


def newest_timestamps(cluster: Any) -> list[float]:
    """Return the greatest timestamp of each partition, in seconds."""
    asked = {TopicPartition("t", index): OffsetSpec.max_timestamp() for index in range(PARTITIONS)}
    return [future.result(30).timestamp / 1000 for future in cluster.admin().list_offsets(asked).values()]
