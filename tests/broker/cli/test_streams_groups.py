"""`ottla group` with streams groups (KIP-1071), against a node."""

import asyncio
import json
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.errors import raise_for
from ottla.client.results import CommittedOffset
from ottla.config.resource_type import ConfigResourceType
from ottla.types import TopicPartition
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)

LEAVES = -1
WITHOUT_DELAY = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"}


def topics_of(group: str) -> tuple[str, str]:
    """Return the repartition and the changelog topic."""
    return f"{group}-by-word-repartition", f"{group}-counts-changelog"


async def send_heartbeat(admin: AdminClient, group: str, topic: str, epoch: int) -> StreamsGroupHeartbeatResponse:
    repartition, changelog = (TopicInfo(name=name) for name in topics_of(group))
    words = Subtopology(subtopology_id="0", source_topics=[topic], repartition_sink_topics=[repartition.name])
    by_word = Subtopology(
        subtopology_id="1", repartition_source_topics=[repartition], state_changelog_topics=[changelog]
    )
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id="member",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        process_id="process",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        topology=Topology(subtopologies=[words, by_word]) if epoch == 0 else None,
    )

    async def attempt() -> StreamsGroupHeartbeatResponse:
        response = await admin.cluster.send_to_coordinator(group, request, StreamsGroupHeartbeatResponse)
        raise_for(response.error_code, response.error_message)
        return response

    return await admin.cluster.retry(attempt, group_id=group)


async def join(bootstrap: str, group: str, topic: str) -> None:
    """Let a member join until it has tasks."""
    async with AdminClient(bootstrap) as admin:
        await admin.alter_configs(ConfigResourceType.GROUP, group, upserts=WITHOUT_DELAY)
        for _ in range(600):
            response = await send_heartbeat(admin, group, topic, 0)
            if response.active_tasks:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"the member has no tasks: {response}")


async def leave(bootstrap: str, group: str, topic: str) -> None:
    async with AdminClient(bootstrap) as admin:
        await send_heartbeat(admin, group, topic, LEAVES)
        offsets = {TopicPartition(name, 0): CommittedOffset(offset=0) for name in (topic, topics_of(group)[0])}
        await admin.alter_group_offsets(group, offsets)


@pytest.fixture
def group(ottla: Any, node: str, topic: str) -> str:
    """A streams group with one member, which has all tasks; its internal topics exist."""
    name = f"counts-{topic}"
    asyncio.run(join(node, name, topic))
    return name


@pytest.fixture
def empty(node: str, group: str, topic: str) -> str:
    """A streams group without members, with offsets of its source and of its repartition topic."""
    asyncio.run(leave(node, group, topic))
    return group


def test_description_has_topology_and_tasks(ottla: Any, group: str, topic: str) -> None:
    described: dict[str, Any] = json.loads(ottla("group", "describe", group, "-o", "json").out)

    repartition, changelog = topics_of(group)
    assert (described["type"], described["state"], described["members"]) == ("streams", "Stable", 1)
    assert described["assignmentEpoch"] == described["groupEpoch"] > 0
    assert described["topologyEpoch"] == 0
    assert described["subtopologies"] == [
        {
            "subtopologyId": "0",
            "sourceTopics": [topic],
            "repartitionSourceTopics": [],
            "repartitionSinkTopics": [repartition],
            "changelogTopics": [],
        },
        {
            "subtopologyId": "1",
            "sourceTopics": [],
            "repartitionSourceTopics": [repartition],
            "repartitionSinkTopics": [],
            "changelogTopics": [changelog],
        },
    ]
    (tasks,) = described["tasks"]
    assert (tasks["memberId"], tasks["processId"], tasks["memberEpoch"]) == (
        "member",
        "process",
        described["groupEpoch"],
    )
    assert (tasks["activeTasks"], tasks["standbyTasks"], tasks["warmupTasks"]) == (
        ["0_0", "0_1", "0_2", "1_0", "1_1", "1_2"],
        [],
        [],
    )
    assert {entry["topic"] for entry in described["partitions"]} == {topic, repartition}


def test_description_for_people_shows_tables_of_subtopologies_and_tasks(ottla: Any, group: str, topic: str) -> None:
    lines = [line.split() for line in ottla("group", "describe", group).out.splitlines()]

    repartition, changelog = topics_of(group)
    assert ["Topology", "epoch", "0"] in lines
    assert ["SUBTOPOLOGY", "SOURCES", "REPARTITION", "CHANGELOGS"] in lines
    assert ["1", "-", repartition, changelog] in lines
    assert ["MEMBER", "CLIENT", "ACTIVE", "STANDBY", "WARMUP"] in lines
    assert lines[-1][0] == "member"
    assert lines[-1][-3:] == ["0_0,0_1,0_2,1_0,1_1,1_2", "-", "-"]


def test_members_are_listed_with_their_tasks(ottla: Any, group: str) -> None:
    lines = [line.split() for line in ottla("group", "members", group, "-o", "wide").out.splitlines()]

    assert lines[0] == [
        *("MEMBER", "CLIENT", "HOST", "PARTITIONS", "ACTIVE", "STANDBY", "WARMUP"),
        *("PROCESS", "EPOCH", "INSTANCE", "ASSIGNMENT"),
    ]
    assert lines[1][3:8] == ["6", "0_0,0_1,0_2,1_0,1_1,1_2", "-", "-", "process"]


def test_group_is_listed_with_its_type(ottla: Any, group: str) -> None:
    listed = json.loads(ottla("group", "list", "-o", "json").out)

    assert {"name": group, "type": "streams", "state": "Stable", "protocolType": "streams"} in listed


@pytest.mark.parametrize("command", [("delete",), ("reset", "--all-topics", "--to", "start")])
def test_group_with_a_member_is_neither_reset_nor_deleted(ottla: Any, group: str, command: tuple[str, ...]) -> None:
    ran = ottla("group", command[0], group, *command[1:], "--yes")

    assert (ran.code, "has 1 member(s), state Stable" in ran.err) == (1, True)


def test_reset_of_all_topics_leaves_out_internal_topics(ottla: Any, empty: str, topic: str) -> None:
    ran = ottla("group", "reset", empty, "--all-topics", "--to", "start", "--yes", "-o", "json")

    assert [entry["topic"] for entry in json.loads(ran.out)] == [topic]


@pytest.mark.parametrize("with_topics", [True, False], ids=["with-internal-topics", "without"])
def test_group_is_deleted(ottla: Any, empty: str, topic: str, with_topics: bool) -> None:
    option = ("--internal-topics",) if with_topics else ()

    ran = ottla("group", "delete", empty, *option, "--yes")

    left = {entry["name"] for entry in json.loads(ottla("topic", "list", "-o", "json").out)}
    assert ran.code == 0, ran
    assert ran.err.endswith("1 group(s) deleted, 2 topic(s) deleted\n" if with_topics else "1 group(s) deleted\n")
    assert (set(topics_of(empty)) & left == set()) is with_topics
    assert topic in left
    assert ottla("group", "describe", empty).code == 3


def test_dry_run_of_a_deletion_names_the_internal_topics(ottla: Any, empty: str) -> None:
    ran = ottla("group", "delete", empty, "--internal-topics", "--dry-run")

    assert [f"topic {name} would be deleted" in ran.err for name in topics_of(empty)] == [True, True]
    assert ottla("group", "describe", empty).code == 0
