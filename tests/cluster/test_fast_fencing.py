"""A broker that is killed is fenced because its process has ended; its session has half an hour left."""

import time
from collections.abc import Callable
from typing import Any

KILLS = 8


def test_every_kill_is_detected_before_the_session_timeout(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(*["broker,controller"] * 3, "broker", broker_session_timeout_ms="1800000")
    cluster.start()
    cluster.create_topic("t")
    for kills in range(1, KILLS + 1):
        cluster.nodes[4].kill()
        deadline = time.monotonic() + 30
        while (
            sum(node.log_text().count("fencing broker 4: its process has ended") for node in cluster.nodes.values())
            < kills
        ):
            assert time.monotonic() < deadline, f"kill {kills} went unnoticed"
            time.sleep(0.05)
        cluster.restart(4)
        cluster.wait_known()

    assert not any("its session timed out" in node.log_text() for node in cluster.nodes.values())
