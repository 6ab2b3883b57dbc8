"""This project's members of consumer and share groups, and its group commands, with JVM Kafka and Ottla."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jvm_kafka import kafka_command, kafka_libs

from ottla.client.admin import AdminClient
from ottla.client.consumer import ConsumedRecord
from ottla.client.consumer_protocol_member import ConsumerProtocolMember
from ottla.client.producer import Producer
from ottla.client.share_consumer import ShareConsumer
from ottla.config.resource_type import ConfigResourceType
from ottla.types import TopicPartition
from ottla.wire.acknowledge_type import AcknowledgeType

RECORDS = 40
PARTITIONS = 4


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def bootstrap(
    request: pytest.FixtureRequest, new_node: Callable[..., Any], free_port: Callable[[], int]
) -> Iterator[str]:
    """A node of the implementation that the parameter names."""
    node = new_node(command_of=kafka_command(kafka_libs(), free_port())) if request.param == "kafka" else new_node()
    yield node.bootstrap
    node.kill()


@pytest.fixture
def topic(bootstrap: str, unique: Callable[[str], str]) -> str:
    """A topic whose partitions have ten records each."""
    name = unique("topic")

    async def fill() -> None:
        async with AdminClient(bootstrap) as admin, Producer(bootstrap) as producer:
            await admin.create_topic(name, partitions=PARTITIONS, replication_factor=1)
            for number in range(RECORDS):
                await producer.send(name, b"%d" % number, partition=number % PARTITIONS)
            await producer.flush()

    asyncio.run(fill())
    return name


def member_of(bootstrap: str, group: str, topic: str, **options: Any) -> ConsumerProtocolMember:
    return ConsumerProtocolMember(bootstrap, group_id=group, topics=[topic], offset_reset="earliest", **options)


async def poll_until(members: list[ConsumerProtocolMember], shares: list[int]) -> list[bytes | None]:
    """Poll until the members own so many partitions each; return the values that came meanwhile."""
    values: list[bytes | None] = []
    async with asyncio.timeout(60):
        while [len(member.assignment) for member in members] != shares:
            for records in await asyncio.gather(*(member.poll(max_wait_ms=200) for member in members)):
                values += [record.value for record in records]
    return values


def ottla(bootstrap: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "ottla", *arguments, "-b", bootstrap]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.parametrize("assignor", ["range", None])
def test_members_share_the_partitions_and_read_each_record_once(
    bootstrap: str, topic: str, unique: Callable[[str], str], assignor: str | None
) -> None:
    group = unique("group")

    async def run() -> list[bytes | None]:
        async with member_of(bootstrap, group, topic, server_assignor=assignor) as first:
            values = await poll_until([first], [PARTITIONS])
            async with member_of(bootstrap, group, topic, server_assignor=assignor) as second:
                values += await poll_until([first, second], [2, 2])
                assert not set(first.assignment) & set(second.assignment)
            values += await poll_until([first], [PARTITIONS])
            while len(values) < RECORDS:
                values += [record.value for record in await first.poll(max_wait_ms=200)]
        async with AdminClient(bootstrap) as admin:
            offsets = await admin.group_offsets(group)
            assert {where: committed.offset for where, committed in offsets.items()} == {
                TopicPartition(topic, number): RECORDS // PARTITIONS for number in range(PARTITIONS)
            }
        return values

    assert sorted(asyncio.run(run()), key=lambda value: int(value or b"")) == [b"%d" % each for each in range(RECORDS)]


def test_commands_show_reset_and_delete_a_group_of_the_consumer_protocol(
    bootstrap: str, topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    consume = ("consume", "-g", group, "--group-protocol", "consumer")

    assert len(ottla(bootstrap, *consume, topic, "-n", "10").splitlines()) == 10
    listed = {each["name"]: each for each in json.loads(ottla(bootstrap, "group", "list", "-o", "json"))}
    described = json.loads(ottla(bootstrap, "group", "describe", group, "-o", "json"))
    ottla(bootstrap, "group", "reset", group, topic, "--to", "start", "--yes")
    expression = ("-r", f"{topic[:-1]}.", "--assignor", "range")
    again = ottla(bootstrap, *consume, *expression, "-n", str(RECORDS)).splitlines()
    ottla(bootstrap, "group", "delete", group, "--yes")
    left = [each["name"] for each in json.loads(ottla(bootstrap, "group", "list", "-o", "json"))]

    assert (listed[group]["type"], listed[group]["state"]) == ("consumer", "Empty")
    assert (described["type"], described["members"], described["totalLag"]) == ("consumer", 0, RECORDS - 10)
    assert sorted(map(int, again)) == list(range(RECORDS))
    assert group not in left


def test_members_are_listed_with_their_partitions(bootstrap: str, topic: str, unique: Callable[[str], str]) -> None:
    group = unique("group")

    async def run() -> None:
        async with member_of(bootstrap, group, topic) as member:
            await poll_until([member], [PARTITIONS])
            async with asyncio.timeout(60):
                # The coordinator shows what the member has reported, so it may lag behind what the member reads.
                while await listed() != {member.member_id: [f"{topic}-{number}" for number in range(PARTITIONS)]}:
                    await member.poll(max_wait_ms=200)

    async def listed() -> dict[str, list[str]]:
        text = await asyncio.to_thread(ottla, bootstrap, "group", "members", group, "-o", "json")
        return {each["memberId"]: each["assignment"] for each in json.loads(text)}

    asyncio.run(run())


def test_share_group_is_described_and_deleted(bootstrap: str, topic: str, unique: Callable[[str], str]) -> None:
    group = unique("group")

    async def show(*arguments: str) -> Any:
        return json.loads(await asyncio.to_thread(ottla, bootstrap, "group", *arguments, "-o", "json"))

    async def run() -> None:
        async with ShareConsumer(bootstrap, group_id=group, topics=[topic]) as member:
            await member.poll(max_wait_ms=200)
            (listed,) = [each for each in await show("list") if each["name"] == group]
            (shown,) = await show("members", group)
            described = await show("describe", group)

        assert (listed["type"], listed["protocolType"]) == ("share", "share")
        assert shown["memberId"] == member.member_id
        assert (described["type"], described["assignor"], described["members"]) == ("share", "simple", 1)

    asyncio.run(run())
    ottla(bootstrap, "group", "delete", group, "--yes")


async def reset_to_earliest(bootstrap: str, group: str) -> None:
    async with AdminClient(bootstrap) as admin:
        await admin.alter_configs(ConfigResourceType.GROUP, group, upserts={"share.auto.offset.reset": "earliest"})


async def poll_all(members: list[ShareConsumer], values: set[bytes | None], count: int) -> None:
    """Poll until ``count`` different values have come; fail if one comes twice."""
    async with asyncio.timeout(60):
        while len(values) < count:
            for records in await asyncio.gather(*(member.poll(max_wait_ms=200) for member in members)):
                new = {record.value for record in records}
                assert not values & new
                values |= new


def test_members_of_a_share_group_share_the_records(bootstrap: str, topic: str, unique: Callable[[str], str]) -> None:
    group = unique("group")

    async def run() -> None:
        await reset_to_earliest(bootstrap, group)
        values: set[bytes | None] = set()
        options: dict[str, Any] = {"group_id": group, "topics": [topic], "records_max": 5}
        async with ShareConsumer(bootstrap, **options) as first, ShareConsumer(bootstrap, **options) as second:
            await poll_all([first, second], values, RECORDS)
            for member in (first, second):
                assert await member.poll(max_wait_ms=200) == []
                assert member.rejected == {}
        async with ShareConsumer(bootstrap, **options) as third:
            while not third.assignment:
                await third.poll(max_wait_ms=200)
            assert await third.poll(max_wait_ms=500) == []

    asyncio.run(run())


def test_released_records_are_delivered_again_and_rejected_ones_are_not(
    bootstrap: str, topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")

    async def run() -> None:
        await reset_to_earliest(bootstrap, group)
        async with ShareConsumer(bootstrap, group_id=group, topics=[topic]) as member:
            records: list[ConsumedRecord] = []
            async with asyncio.timeout(60):
                while len(records) < RECORDS:
                    got = await member.poll(max_wait_ms=200)
                    for record in got:
                        kind = AcknowledgeType.RELEASE if record.offset % 3 == 0 else AcknowledgeType.REJECT
                        member.acknowledge(record, kind)
                    records += got
                again: list[ConsumedRecord] = []
                released = {(record.partition, record.offset) for record in records if record.offset % 3 == 0}
                while len(again) < len(released):
                    again += await member.poll(max_wait_ms=200)
            assert {(record.partition, record.offset) for record in again} == released
            assert await member.poll(max_wait_ms=500) == []
            assert member.rejected == {}

    asyncio.run(run())


def test_records_that_a_command_does_not_show_stay_for_the_next_one(
    bootstrap: str, topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    asyncio.run(reset_to_earliest(bootstrap, group))
    consume = ("consume", topic, "-g", group, "--group-protocol", "share")

    first = ottla(bootstrap, *consume, "-n", "15").splitlines()
    second = ottla(bootstrap, *consume, "-n", str(RECORDS - 15)).splitlines()

    assert sorted(map(int, first + second)) == list(range(RECORDS))
