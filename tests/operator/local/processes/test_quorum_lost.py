"""Two of three controllers end at once: the Cluster's conditions say so, and no written record is lost."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.types import TopicPartition
from ottla_operator import local
from ottla_operator.local import ExitCode

Builder = Callable[..., dict[str, Any]]

pytestmark = [pytest.mark.interop, pytest.mark.cluster, pytest.mark.timeout(300)]

TIMEOUT_S = 120
LEADER_ALONE_S_MAX = 60
IN_SYNC_S_MAX = 30
RECORDS = [b"%d" % number for number in range(100)]
LASTING = TopicPartition("lasting", 0)


@pytest.fixture(params=["together", "apart"])
def state_dir(request: pytest.FixtureRequest, tmp_path: Path, free_ports: Callable[..., int]) -> Iterator[Path]:
    """A state directory with three controllers, which are brokers as well or run next to two brokers."""
    nodes = {"brokers": 3} if request.param == "together" else {"brokers": 2, "controllers": 3}
    outcome = local.up(state_dir=tmp_path, port=free_ports(sum(nodes.values())), timeout_s=TIMEOUT_S, **nodes)
    assert outcome.exit_code == ExitCode.OK, outcome.message
    yield tmp_path
    local.down(state_dir=tmp_path)


def conditions(state_dir: Path) -> dict[str, tuple[str, str, str]]:
    """Return the Cluster's present conditions, by type: status, reason and message."""
    (cluster,) = local.get("cluster", state_dir=state_dir)
    return {it["type"]: (it["status"], it["reason"], it["message"]) for it in cluster["status"]["conditions"]}


def controllers(state_dir: Path) -> list[local.NodeStatus]:
    found = local.status(state_dir=state_dir)
    assert found is not None
    return [node for node in found.nodes if any("controller" in role for role in node.roles)]


def bootstrap(state_dir: Path) -> str:
    found = local.status(state_dir=state_dir)
    assert found is not None
    return found.bootstrap_servers


async def write(servers: str) -> None:
    async with Producer(servers) as producer:
        await asyncio.gather(*[await producer.send(LASTING.topic, it, partition=0) for it in RECORDS])


async def read(servers: str) -> list[bytes]:
    found: list[bytes] = []
    async with Consumer(servers) as consumer:
        consumer.assign({LASTING: 0})
        while len(found) < len(RECORDS):
            found += [record.value or b"" for record in await consumer.fetch(max_wait_ms=500)]
    return found


def test_lost_quorum_and_its_return_are_reported(state_dir: Path, topic_manifest: Builder) -> None:
    topic = topic_manifest("lasting", 1, replicationFactor=2)
    local.apply([topic], state_dir=state_dir, timeout_s=TIMEOUT_S)
    asyncio.run(write(bootstrap(state_dir)))

    killed = controllers(state_dir)[1:]
    for node in killed:
        assert node.pid is not None
        os.kill(node.pid, signal.SIGKILL)
    # An isolated leader leads until its followers' fetch time-out, and reports the nodes that are down until then.
    ends_s = time.monotonic() + LEADER_ALONE_S_MAX
    while (said := conditions(state_dir)["Degraded"])[:2] == ("True", "NodesDown"):
        assert time.monotonic() < ends_s, said
    for status, reason, message in (said, conditions(state_dir)["Degraded"]):
        assert (status, reason) == ("True", "QuorumLost")
        assert message.startswith("the metadata quorum has no leader: 2 of 3 controllers do not run: "), message
        assert all(f"node {node.name}: stopped" in message for node in killed), message
        assert "bring back at least 1 of them" in message, message

    outcome = local.up(state_dir=state_dir, timeout_s=TIMEOUT_S)

    assert outcome.exit_code == ExitCode.OK, outcome.message
    assert conditions(state_dir)["Ready"][:2] == ("True", "Ready")
    # Ready says that every node is; restarted ones fetch what they missed before they count as in sync.
    ends_s = time.monotonic() + IN_SYNC_S_MAX
    while (said := conditions(state_dir)["Degraded"])[:2] == ("True", "UnderReplicated"):
        assert time.monotonic() < ends_s, said
    assert said[:2] == ("False", "NotDegraded"), said
    assert asyncio.run(read(bootstrap(state_dir))) == RECORDS
