"""`ottla partition reassign --throttle` on three nodes: slow while it lasts, and nothing of it is left afterwards."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource

TOPIC = "flights"
SLOW, FAST = 1_000, 100_000_000
"""Bytes per second; at the first, a move takes so long that the test finds it on its way."""


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Any:
    """Three nodes that copy some kilobytes at a time; one of them has the topic's partition."""
    made = new_cluster(replica_fetch_max_bytes="10000", replica_fetch_response_max_bytes="10000")
    made.start()
    made.create_topic(TOPIC, replicas=1)
    return made


def ottla(cluster: Any, *arguments: str, code: int = 0) -> str:
    """Run `ottla partition reassign`; return its output."""
    ran = subprocess.run(
        [sys.executable, "-m", "ottla", "partition", "reassign", *arguments, "-b", cluster.bootstrap],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    return ran.stdout + ran.stderr


def throttles(cluster: Any) -> dict[str, str]:
    """Return the configured throttles, by resource and key; those of a broker from itself."""
    found = {}
    for resource in [ConfigResource("topic", TOPIC), *(ConfigResource("broker", str(node)) for node in cluster.nodes)]:
        for name, entry in cluster.admin().describe_configs([resource])[resource].result(30).items():
            if ".replication.throttled." in name and not entry.is_default and entry.value:
                found[f"{resource.name} {name}"] = entry.value
    return found


def settle(cluster: Any, expected: dict[str, str]) -> None:
    """Wait until the throttles are ``expected``: each broker learns of a change a moment after the controller."""
    deadline = time.monotonic() + 30
    while (found := throttles(cluster)) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found == expected


def expected(moving: dict[str, str], rate: int) -> dict[str, str]:
    rates = {
        f"{node} {side}.replication.throttled.rate": str(rate) for node in "123" for side in ("leader", "follower")
    }
    return rates | {f"{TOPIC} {side}.replication.throttled.replicas": text for side, text in moving.items()}


def test_throttle_is_set_during_a_reassignment_and_removed_after_it(cluster: Any) -> None:
    ledger = cluster.ledger(TOPIC)
    ledger.send(20_000)
    ledger.stop()
    assert "lifted" in ottla(cluster, f"{TOPIC}-0=9", "--throttle", str(SLOW), "--yes", code=1)
    settle(cluster, {})

    (source,) = cluster.leaders(TOPIC).values()
    others = [node for node in (1, 2, 3) if node != source]
    target = f"{TOPIC}-0={others[0]},{others[1]}"
    set_for = {"leader": f"0:{source}", "follower": ",".join(f"0:{node}" for node in others)}

    said = ottla(cluster, target, "--throttle", str(SLOW), "--yes")

    assert f"copies at most {SLOW} B/s" in said
    assert "the throttle stays; ottla partition reassign --verify lifts it" in said
    settle(cluster, expected(set_for, SLOW))
    assert "the brokers' rates stay" in ottla(cluster, "--verify", code=10)
    settle(cluster, expected(set_for, SLOW))

    ottla(cluster, TOPIC, "--cancel", "--yes")

    assert cluster.in_sync(TOPIC) == [[source]]
    settle(cluster, {})

    ottla(cluster, target, "--throttle", str(FAST), "--yes", "--wait", "--timeout", "60")

    assert cluster.in_sync(TOPIC) == [others]
    settle(cluster, {})
    assert sorted(cluster.read_all(TOPIC, 1)) == list(range(20_000))


def test_unavailable_broker_keeps_its_rate_and_the_command_reports_it(cluster: Any) -> None:
    cluster.nodes[3].kill()
    deadline = time.monotonic() + 30
    while "broker 3 is absent: a rate of it is not cleared" not in ottla(cluster, "--verify"):
        assert time.monotonic() < deadline, "the command does not report it"
