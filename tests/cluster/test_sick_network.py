"""Nodes on hosts whose packets are lost, delayed, or go one way only: others lead, and nothing is lost or repeated."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from benchmarks import sick_network
from benchmarks.sick_network import CALLER, CUT, Impairment

from ottla.client.connection import Connection
from ottla.types import Endpoint
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

PARTITIONS = 6
SICK_S = 5
"""Shorter than broker.session.timeout.ms: the session is not what ends the wait."""
IN_SYNC_TIMEOUT_S = 60
ISOLATED = "neither the quorum nor a follower responds to this node"


@pytest.fixture
def network() -> Iterator[Any]:
    if (missing := sick_network.missing()) is not None:
        pytest.skip(f"hosts are network namespaces: needs {missing}")
    with sick_network.running((1, 2, 3)) as network:
        yield network


@pytest.fixture
def cluster(network: Any, new_cluster: Callable[..., Any]) -> Iterator[Any]:
    made = new_cluster(network=network)
    with closing(made):
        made.start()
        made.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
        yield made


class Ordeal:
    """A cluster whose nodes have sick networks, one after the other, while a ledger is kept."""

    def __init__(self, cluster: Any, network: Any) -> None:
        self.cluster = cluster
        self.network = network
        self.ledger = cluster.ledger("t")
        self.ledger.start()
        self.ledger.wait_acknowledged(PARTITIONS)

    def victims(self) -> list[int]:
        """Return the active controller, and another node."""
        active = self.cluster.active_controller()
        return [active, next(each for each in self.cluster.nodes if each != active)]

    def suffer(self, victim: int, *, hears: bool, is_heard: bool, clients_too: bool) -> None:
        """Cut one node off, on one way or both, and check that the others lead meanwhile."""
        network, cluster, node = self.network, self.cluster, self.cluster.nodes[victim]
        others = network.everyone_but(victim, *(() if clients_too else (CALLER,)))
        peer = next(each for each in cluster.nodes if each != victim)
        cluster.spread_leaders("t", via=peer)
        acknowledged, mark = len(self.ledger.acknowledged), len(node.log_text())
        ways = ([] if hears else [(others, [victim])]) + ([] if is_heard else [([victim], others)])
        for senders, receivers in ways:
            network.impair(senders, receivers, CUT)
        time.sleep(SICK_S)
        assert victim not in {partition.leader_id for partition in self.partitions_known_to(peer)}
        assert len(self.ledger.acknowledged) > acknowledged
        cluster.wait_line(node, ISOLATED, mark)
        network.heal()
        self.wait_known_in_sync()

    def wait_known_in_sync(self) -> None:
        """Wait until every node knows that every partition has three replicas in sync."""
        deadline = time.monotonic() + IN_SYNC_TIMEOUT_S
        for node_id in self.cluster.nodes:
            while any(len(partition.isr_nodes) < 3 for partition in self.partitions_known_to(node_id)):
                assert time.monotonic() < deadline, f"not in sync again: {self.partitions_known_to(node_id)}"
                time.sleep(0.1)

    def partitions_known_to(self, node_id: int) -> list[MetadataResponsePartition]:
        """Return the partitions as exactly that node knows them.

        librdkafka asks any node: one that was cut off until now does not know yet that it is not in sync.
        """
        host, port = self.cluster.nodes[node_id].address.split(":")
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])

        async def ask() -> MetadataResponse:
            connection = await Connection.open(Endpoint(host, int(port)))
            try:
                return await connection.send(request, MetadataResponse)
            finally:
                await connection.close()

        return asyncio.run(ask()).topics[0].partitions

    def check(self) -> None:
        self.ledger.stop()
        self.ledger.check(self.cluster.read_all("t", PARTITIONS))


@pytest.mark.parametrize("clients_too", [True, False], ids=["from-all", "from-nodes"])
def test_node_that_is_cut_off_is_replaced_and_returns(cluster: Any, network: Any, clients_too: bool) -> None:
    ordeal = Ordeal(cluster, network)
    for hears, is_heard in ((False, True), (True, False), (False, False)):
        for victim in ordeal.victims():
            ordeal.suffer(victim, hears=hears, is_heard=is_heard, clients_too=clients_too)
    ordeal.check()
    assert not any("its session timed out" in each.log_text() for each in cluster.nodes.values())


def test_records_are_acknowledged_over_links_that_lose_or_delay_packets(cluster: Any, network: Any) -> None:
    """Sessions may end here: after a false alarm, which loss can cause, the controller raises none for a session."""
    ordeal = Ordeal(cluster, network)
    for victim in ordeal.victims():
        others = network.everyone_but(victim)
        for impairment, among in ((Impairment(loss=0.3), others), (Impairment(delay_s=0.5), others[:1])):
            acknowledged = len(ordeal.ledger.acknowledged)
            network.impair([victim, *among], [victim, *among], impairment)
            time.sleep(SICK_S)
            assert len(ordeal.ledger.acknowledged) > acknowledged
            network.heal()
            ordeal.wait_known_in_sync()
    ordeal.check()
