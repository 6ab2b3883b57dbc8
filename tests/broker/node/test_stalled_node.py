"""A node whose loop is stalled is replaced when it disconnects, long before its session ends."""

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.topics import PartitionRegistration
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, produce, records_in
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.world.cluster import Cluster
from ottla.types import NodeId

STALL_MS = 1_500
"""Default of ottla.loop.stall.disconnect.ms."""
TAKE_OVER_MS = 1_000
SESSION_MS = 9_000


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
@pytest.mark.parametrize("seed", range(3))
def test_stalled_node_is_replaced_when_it_disconnects_and_returns(seed: int, is_controller: bool) -> None:
    cluster = Cluster(seed=seed, controllers=3, combined=True)
    observer = StateObserver(cluster)
    cluster.before_start, cluster.on_event = observer.before_start, observer.observe_node
    cluster.start()
    cluster.run_until_ready()
    active = cluster.leader_id()
    assert active is not None
    create_topic(cluster.connect(active), "t", partitions=3, replicas=3)
    cluster.run_until(lambda: "t" in observer.image.topics.by_name)
    cluster.run(1_000)

    def partitions() -> list[PartitionRegistration]:
        return list(observer.image.topics.by_name["t"].partitions.values())

    def send(partition: int, value: bytes) -> int:
        client = cluster.connect(partitions()[partition].leader)
        return produce(client, "t", batch_of(client, [value]), partition=partition, acks=-1).error_code

    victim: NodeId = active if is_controller else next(each for each in cluster.nodes if each != active)
    assert victim in {each.leader for each in partitions()}
    for partition in range(3):
        assert send(partition, b"before") == ErrorCode.NONE

    cluster.freeze(victim)
    cluster.run(STALL_MS)
    cluster.disconnect(victim)
    cluster.run(TAKE_OVER_MS)
    assert all(victim not in each.isr for each in partitions())
    for partition in range(3):
        assert send(partition, b"meanwhile") == ErrorCode.NONE
    cluster.run(SESSION_MS)
    cluster.thaw(victim)

    cluster.run_until(lambda: all(len(each.isr) == 3 for each in partitions()), limit_ms=10_000)
    for index, each in enumerate(partitions()):
        assert send(index, b"after") == ErrorCode.NONE
        records = records_in(fetch(cluster.connect(each.leader), "t", 0, partition=index))
        assert [record.value for record in records] == [b"before", b"meanwhile", b"after"]
