"""The operator's view of brokers that lag behind the controller: never an older state than a former view."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.simulator.faults.network_chaos import NetworkChaos
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.event_loop import SimulatedEventLoop
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import TopicPartition
from ottla_operator.adapters.kafka import ottla_admin
from ottla_operator.errors import BrokerUnreachableError, QuorumLostError
from ottla_operator.ports.broker_admin import BrokerAdmin, NewTopic

LAG_MS = 400
ResultT = TypeVar("ResultT")


class World:
    """Three nodes, of which one that does not lead the quorum receives everything late."""

    def __init__(self) -> None:
        self.network_chaos = NetworkChaos(SeededRandom(5), fastest_ms=1, slowest_ms=2)
        self.cluster = Cluster(5, conditions=self.network_chaos)
        self.cluster.start()
        self.cluster.run_until_ready()
        leader = self.cluster.leader_id()
        assert leader is not None
        self.leader = leader
        self.late = next(node_id for node_id in self.cluster.nodes if node_id != leader)
        self.network_chaos.slow(f"node{leader}", f"node{self.late}", LAG_MS)

    def asked(self, node_id: int, question: Callable[[BrokerAdmin], Awaitable[ResultT]]) -> ResultT:
        """Query one node, over a connection of an operator of its own."""
        loop = SimulatedEventLoop(self.cluster, f"operator{node_id}")

        async def ask() -> ResultT:
            async with ottla_admin.connector()(f"node{node_id}:9092", {}) as brokers:
                return await question(brokers)

        task = loop.create_task(ask())
        self.cluster.run_until(task.done)
        loop.kill()
        return task.result()


def test_lagging_broker_is_queried_until_it_has_committed_records() -> None:
    world = World()
    world.asked(
        world.leader,
        lambda brokers: brokers.create_topics([NewTopic(name="news", partitions=1, replication_factor=3, config={})]),
    )
    assert "news" not in world.cluster.nodes[world.late].node.metadata.image.topics.by_name, "it does not lag"

    view = world.asked(world.late, lambda brokers: brokers.observe())

    assert [it.partition for it in view.partitions] == [TopicPartition("news", 0)]


def test_broker_that_never_catches_up_gives_no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    late = world.cluster.nodes[world.late].node.metadata
    monkeypatch.setattr(type(late), "offset", property(lambda self: 3 if self is late else 1 << 40))

    with pytest.raises(KafkaError, match="has the metadata up to offset 3") as caught:
        world.asked(world.late, lambda brokers: brokers.observe())

    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


async def of_cluster(brokers: BrokerAdmin) -> object:
    return await brokers.observe()


async def of_users(brokers: BrokerAdmin) -> object:
    return await brokers.describe_users(["alice"])


@pytest.mark.parametrize("question", [of_cluster, of_users])
def test_broker_without_a_quorum_leader_raises_quorum_lost(
    question: Callable[[BrokerAdmin], Awaitable[object]],
) -> None:
    world = World()
    for node_id in set(world.cluster.nodes) - {world.late}:
        world.cluster.kill(node_id)

    with pytest.raises(QuorumLostError, match=f"node{world.late}:9092 responds, but no leader"):
        world.asked(world.late, question)


def test_unreachable_brokers_are_no_lost_quorum() -> None:
    world = World()
    for node_id in world.cluster.nodes:
        world.cluster.kill(node_id)

    with pytest.raises(BrokerUnreachableError) as caught:
        world.asked(world.late, lambda brokers: brokers.observe())

    assert not isinstance(caught.value, QuorumLostError)


def test_time_in_the_loop_is_simulated() -> None:
    world = World()
    loop = SimulatedEventLoop(world.cluster, "sleeper")
    began_ms = world.cluster.clock.monotonic_ms()

    async def sleep() -> float:
        await asyncio.sleep(1.5)
        return asyncio.get_running_loop().time()

    task = loop.create_task(sleep())
    world.cluster.run_until(task.done)

    assert task.result() == pytest.approx((began_ms + 1_500) / 1_000)
    loop.kill()


def test_killed_process_has_no_further_effect() -> None:
    world = World()
    loop = SimulatedEventLoop(world.cluster, "victim")
    done: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            done.append("worked")
        finally:
            await asyncio.sleep(0)

    loop.create_task(work())
    world.cluster.run(500)
    loop.kill()
    world.cluster.run(2_000)

    assert done == []


def test_connection_to_a_closed_port_is_rejected() -> None:
    world = World()
    world.cluster.kill(world.late)
    loop = SimulatedEventLoop(world.cluster, "caller")

    async def connect() -> None:
        await asyncio.open_connection(f"node{world.late}", 9092)

    task = loop.create_task(connect())
    world.cluster.run_until(task.done)

    assert isinstance(task.exception(), ConnectionRefusedError)
    loop.kill()


def test_uncaught_error_ends_the_simulation() -> None:
    world = World()
    loop = SimulatedEventLoop(world.cluster, "thrower")

    def throw() -> None:
        raise ZeroDivisionError

    loop.call_later(0.1, throw)
    with pytest.raises(ZeroDivisionError):
        world.cluster.run(200)
    loop.kill()
