"""Real clusters of several processes: they start, roll, scale up and down, and no written record is lost.

Safety is asserted in `tests/operator/controllers/cluster/test_many_nodes.py`, against simulated clusters.
"""

import asyncio
import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.types import TopicPartition
from ottla_operator import local
from ottla_operator.local import ExitCode

Document = dict[str, Any]

pytestmark = [pytest.mark.interop, pytest.mark.cluster, pytest.mark.timeout(300)]

TIMEOUT_S = 120
NODES_MAX = 6


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cluster"
    local.down(state_dir=tmp_path / "cluster")


def up(state_dir: Path, **options: Any) -> local.Outcome:
    outcome = local.up(state_dir=state_dir, timeout_s=TIMEOUT_S, **options)
    assert outcome.exit_code == ExitCode.OK, outcome.message
    return outcome


def status(state_dir: Path) -> local.ClusterStatus:
    found = local.status(state_dir=state_dir)
    assert found is not None
    return found


def bootstrap(state_dir: Path) -> str:
    return status(state_dir).bootstrap_servers


def write_and_read(servers: str, topic: str, numbers: range) -> list[bytes]:
    """Write ``numbers`` with acks=all, and return all that the topic's partition 0 holds."""

    async def run() -> list[bytes]:
        partition = TopicPartition(topic, 0)
        async with Producer(servers) as producer:
            await asyncio.gather(*[await producer.send(topic, str(it).encode(), partition=0) for it in numbers])
        found: list[bytes] = []
        async with Consumer(servers) as consumer:
            consumer.assign({partition: 0})
            while len(found) < numbers.stop:
                found += [record.value or b"" for record in await consumer.fetch(max_wait_ms=500)]
        return found

    return asyncio.run(run())


def replicas(servers: str, topic: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return replicas and ISR of each partition, sorted."""

    async def run() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        async with AdminClient(servers) as admin:
            described = await admin.describe_topic_partitions([topic])
        return [(tuple(sorted(it.replicas)), tuple(sorted(it.isr))) for it in described[topic].partitions]

    return asyncio.run(run())


def apply(state_dir: Path, document: Document) -> local.Outcome:
    (outcome,) = local.apply([document], state_dir=state_dir, timeout_s=TIMEOUT_S)
    assert outcome.exit_code == ExitCode.OK, outcome.message
    return outcome


def test_life_of_a_cluster(state_dir: Path, topic_manifest: Any, free_ports: Callable[..., int]) -> None:
    up(state_dir, brokers=3, port=free_ports(NODES_MAX))
    servers = bootstrap(state_dir)
    assert [node.roles.count("active controller") for node in status(state_dir).nodes].count(1) == 1
    apply(state_dir, topic_manifest("lasting", 3, replicationFactor=1))
    assert write_and_read(servers, "lasting", range(100)) == [b"%d" % it for it in range(100)]

    # Another replication factor.
    apply(state_dir, topic_manifest("lasting", 3, replicationFactor=3))
    assert replicas(servers, "lasting") == [((0, 1, 2), (0, 1, 2))] * 3

    # A roll.
    (stored,) = local.get("cluster", state_dir=state_dir)
    changed = copy.deepcopy({**stored, "spec": {**stored["spec"], "config": {"num.partitions": "3"}}})
    rolled = apply(state_dir, changed)
    assert sum(step.startswith("restart node") for step in rolled.steps) == 3
    assert write_and_read(servers, "lasting", range(100, 200)) == [b"%d" % it for it in range(200)]

    # Two more brokers, and removed again after a drain.
    up(state_dir, brokers=5)
    apply(state_dir, topic_manifest("wide", 5, replicationFactor=3))
    assert any(node in (3, 4) for held, _ in replicas(servers, "wide") for node in held)
    up(state_dir, brokers=3)
    assert all(held == in_sync == (0, 1, 2) for held, in_sync in replicas(servers, "wide"))
    assert [node.node_id for node in status(state_dir).nodes] == [0, 1, 2]
    assert write_and_read(servers, "lasting", range(200, 300)) == [b"%d" % it for it in range(300)]


def test_one_node_becomes_three_voters(state_dir: Path, topic_manifest: Any, free_ports: Callable[..., int]) -> None:
    up(state_dir, port=free_ports(NODES_MAX))
    apply(state_dir, topic_manifest("lasting", 1))
    write_and_read(bootstrap(state_dir), "lasting", range(50))

    up(state_dir, brokers=3)
    servers = bootstrap(state_dir)

    async def voters() -> list[int]:
        async with AdminClient(servers) as admin:
            return sorted(voter.node_id for voter in (await admin.describe_quorum()).voters)

    assert asyncio.run(voters()) == [0, 1, 2]
    assert write_and_read(servers, "lasting", range(50, 60)) == [b"%d" % it for it in range(60)]


def test_controllers_apart(state_dir: Path, free_ports: Callable[..., int]) -> None:
    up(state_dir, brokers=2, controllers=3, port=free_ports(NODES_MAX))

    nodes = status(state_dir).nodes
    assert [(node.node_id, node.roles[0].split()[-1]) for node in nodes] == [
        (0, "broker"),
        (1, "broker"),
        (100, "controller"),
        (101, "controller"),
        (102, "controller"),
    ]


@pytest.mark.parametrize("after_s", [0.3, 0.9, 1.8])
def test_start_that_is_killed_is_finished_by_the_next(
    state_dir: Path, after_s: float, free_ports: Callable[..., int]
) -> None:
    port = free_ports(NODES_MAX)
    command = [sys.executable, "-m", "ottla", "up", "--detach", "--brokers", "3", "--port", str(port)]
    with subprocess.Popen([*command, "--dir", str(state_dir)], stderr=subprocess.DEVNULL) as first:
        time.sleep(after_s)
        first.kill()

    up(state_dir, brokers=3, port=port)

    assert [node.state for node in status(state_dir).nodes] == ["ready"] * 3


def test_interrupt_leaves_no_process_behind(state_dir: Path, free_ports: Callable[..., int]) -> None:
    command = [sys.executable, "-m", "ottla", "up", "--brokers", "3", "--port", str(free_ports(NODES_MAX))]
    with subprocess.Popen([*command, "--dir", str(state_dir)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "Ctrl-C stops it" in line:
                break
        pids = [node.pid for node in status(state_dir).nodes]
        assert None not in pids
        process.send_signal(signal.SIGINT)
        process.stderr.read()

    assert process.returncode == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid or 0, 0)
