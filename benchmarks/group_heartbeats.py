"""Members of the consumer protocol (KIP-848): the cost of their heartbeats, and how long one's death stops the others.

    python -m benchmarks.group_heartbeats --bootstrap-server 127.0.0.1:9092 --pid 4711 steady --members 2000
    python -m benchmarks.group_heartbeats --bootstrap-server 127.0.0.1:9092 death --members 100 --partitions 1000

``steady``: groups of 100 members whose partitions do not change, each with a heartbeat per second: CPU time of the
node. ``death``: a group in which one member falls silent for ever. From then on, until each partition has an owner
again (its session has to end first, after 45 s by default): how long members that live on had none for a partition that
they had before, and how long it took in all.

The members are no consumers: they send the heartbeats of one, at the interval that the coordinator returns (``death``),
revoke at once what they lose, and read nothing.
"""

import argparse
import asyncio
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import measure
from benchmarks.measure import Figure

from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.errors import ErrorCode
from ottla.types import Endpoint, Uuid
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

MEMBERS_PER_GROUP = 100
MEMBERS_PER_CONNECTION = 100
REBALANCE_TIMEOUT_MS = 300_000
TIMEOUT_S = 300
RETRY_S = 0.1

Owned = dict[Uuid, set[int]]


@dataclass(slots=True)
class Ownership:
    """Since when each partition has no owner, and the longest of such times for partitions of living members."""

    free_since_s: dict[tuple[Uuid, int], float] = field(default_factory=dict)
    of_dead: set[tuple[Uuid, int]] = field(default_factory=set)
    longest_s: float = 0.0
    is_measured: bool = False

    def change(self, before: Owned, after: Owned) -> None:
        now_s = time.perf_counter()
        old = {(topic, partition) for topic, partitions in before.items() for partition in partitions}
        new = {(topic, partition) for topic, partitions in after.items() for partition in partitions}
        self.free_since_s.update(dict.fromkeys(old - new, now_s))
        for each in new - old:
            since_s = self.free_since_s.pop(each, now_s)
            if self.is_measured and each not in self.of_dead:
                self.longest_s = max(self.longest_s, now_s - since_s)
            self.of_dead.discard(each)


@dataclass(slots=True)
class Member:
    """One member; `beat` sends a heartbeat."""

    connection: Connection
    group: str
    topic: str
    ownership: Ownership
    member_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0
    interval_s: float = 0.0
    owned: Owned = field(default_factory=dict)
    is_changed: bool = True

    async def beat(self) -> None:
        """Send a heartbeat; of what it owns, too, if that has changed."""
        is_join = self.epoch == 0
        owned = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in self.owned.items()
        ]
        is_reported, self.is_changed = self.is_changed, False
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_join else -1,
            subscribed_topic_names=[self.topic] if is_join else None,
            topic_partitions=owned if is_reported or is_join else None,
        )
        response = await self.connection.send(request, ConsumerGroupHeartbeatResponse)
        if is_join and ErrorCode(response.error_code).is_retriable:
            # The node has not learned yet that it leads the group's partition, or loads it.
            self.interval_s, self.is_changed = RETRY_S, False
            return
        if response.error_code:
            raise RuntimeError(f"heartbeat of {self.member_id}: error {response.error_code}, {response.error_message}")
        self.epoch, self.interval_s = response.member_epoch, response.heartbeat_interval_ms / 1000
        if response.assignment is None:
            return
        after = {each.topic_id: set(each.partitions) for each in response.assignment.topic_partitions}
        if after != self.owned:
            self.ownership.change(self.owned, after)
            self.owned, self.is_changed = after, True

    async def live(self) -> None:
        """Send heartbeats at the coordinator's interval, and at once when partitions have changed."""
        while True:
            await self.beat()
            if not self.is_changed:
                await asyncio.sleep(self.interval_s)


async def connections(endpoint: Endpoint, group: str, members: int) -> list[Connection]:
    """Open connections once the node coordinates groups: the first one creates the topic for it."""
    async with Cluster([endpoint]) as cluster:
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        await cluster.retry(lambda: cluster.send_to_coordinator(group, request, ConsumerGroupDescribeResponse))
    return [await Connection.open(endpoint) for _ in range(-(-members // MEMBERS_PER_CONNECTION))]


def is_settled(members: Sequence[Member], partitions: int) -> bool:
    """Return whether every partition has an owner, and the owners the same number, or one more or less."""
    sizes = [sum(map(len, member.owned.values())) for member in members]
    return sum(sizes) == partitions and max(sizes) - min(sizes) <= 1


async def settle(members: Sequence[Member], tasks: "Sequence[asyncio.Task[None]]", partitions: int) -> None:
    """Wait until the members share the partitions; ``tasks`` send their heartbeats, and raise their errors here."""
    deadline_s = time.perf_counter() + TIMEOUT_S
    while not is_settled(members, partitions):
        if time.perf_counter() > deadline_s:
            raise RuntimeError(f"{len(members)} members do not share {partitions} partitions after {TIMEOUT_S} s")
        for task in tasks:
            if task.done():
                task.result()
        await asyncio.sleep(0.005)


async def steady(endpoint: Endpoint, topic: str, arguments: argparse.Namespace) -> list[Figure]:
    """Measure the CPU time of the node while members send a heartbeat per second."""
    links = await connections(endpoint, topic, arguments.members)
    members = [
        Member(links[number // MEMBERS_PER_CONNECTION], f"{topic}-{number // MEMBERS_PER_GROUP}", topic, Ownership())
        for number in range(arguments.members)
    ]
    joining = [asyncio.create_task(member.live()) for member in members]
    for first in range(0, len(members), MEMBERS_PER_GROUP):
        await settle(members[first : first + MEMBERS_PER_GROUP], joining, arguments.partitions)
    measure.progress(f"{len(members)} members have joined")
    for task in joining:
        task.cancel()
    await asyncio.gather(*joining, return_exceptions=True)

    async def beat_each_second(member: Member) -> None:
        await asyncio.sleep(random.random())
        while True:
            started_s = time.perf_counter()
            await member.beat()
            beats.append(time.perf_counter() - started_s)
            await asyncio.sleep(1 - (time.perf_counter() - started_s))

    beats: list[float] = []
    tasks = [asyncio.create_task(beat_each_second(member)) for member in members]
    await asyncio.sleep(arguments.warm_up_seconds)
    node = measure.Node(arguments.pid)
    beats.clear()
    cpu_s, started_s = node.cpu_s(), time.perf_counter()
    await asyncio.sleep(arguments.seconds)
    cpu_s, elapsed_s, count = node.cpu_s() - cpu_s, time.perf_counter() - started_s, len(beats)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for link in links:
        await link.close()
    name = f"{len(members)} members, a heartbeat per second"
    return [
        Figure(name=name, value=count / elapsed_s, unit="heartbeats/s"),
        Figure(name=f"{name}: p99", value=1000 * measure.percentile(beats, 0.99), unit="ms", better="lower"),
        Figure(name=f"{name}: CPU", value=100 * cpu_s / elapsed_s, unit="% of a core", better="lower"),
    ]


async def death(endpoint: Endpoint, topic: str, arguments: argparse.Namespace) -> list[Figure]:
    """Measure from the silence of one member until the others have its partitions."""
    links = await connections(endpoint, topic, arguments.members)
    ownership = Ownership()
    members = [
        Member(links[number // MEMBERS_PER_CONNECTION], topic, topic, ownership) for number in range(arguments.members)
    ]
    tasks = [asyncio.create_task(member.live()) for member in members]
    await settle(members, tasks, arguments.partitions)
    # Their epochs may still differ by one: all have the newest after two intervals.
    await asyncio.sleep(2 * max(member.interval_s for member in members))
    measure.progress(f"{len(members)} members share {arguments.partitions} partitions; one falls silent")
    dead, tasks[0] = members[0], await _stop(tasks[0])
    ownership.of_dead = {(topic_id, each) for topic_id, partitions in dead.owned.items() for each in partitions}
    ownership.change(dead.owned, {})
    ownership.is_measured = True
    silent_s = time.perf_counter()
    await settle(members[1:], tasks[1:], arguments.partitions)
    elapsed_s = time.perf_counter() - silent_s
    for task in tasks[1:]:
        await _stop(task)
    for link in links:
        await link.close()
    name = f"{len(members)} members, {arguments.partitions} partitions, one dies"
    return [
        Figure(name=f"{name}: longest pause of a living member", value=ownership.longest_s, unit="s", better="lower"),
        Figure(name=f"{name}: until its partitions are owned", value=elapsed_s, unit="s", better="lower"),
    ]


async def _stop(task: "asyncio.Task[None]") -> "asyncio.Task[None]":
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return task


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("kind", choices=("steady", "death"))
    options.add_argument("--members", type=int, default=100)
    options.add_argument("--partitions", type=int, default=1000)
    options.add_argument("--seconds", type=float, default=20)
    options.add_argument("--warm-up-seconds", type=float, default=10, help="a JVM compiles what it has seen often")
    arguments = options.parse_args()
    host, port = measure.address_of(arguments.bootstrap_server)
    run = steady if arguments.kind == "steady" else death
    with measure.temporary_topic(arguments.bootstrap_server, arguments.kind, arguments.partitions) as topic:
        figures = asyncio.run(run(Endpoint(host, port), topic, arguments))
    measure.report(figures, arguments.json)


if __name__ == "__main__":
    main()
