"""What a heartbeat of a streams group has prepared or started is void when the group changes in the meantime."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from group_node import GroupNode
from ottla.errors import ErrorCode
from ottla.groups.client import Client
from ottla.groups.config import GroupConfig
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.service import StreamsHeartbeatResult
from ottla.purgatory.steps import Steps, run_to_end
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from topologies import internal_topic, subtopology

MANY = 300
"""Tasks for which the target is computed by a job."""


@pytest.fixture
def node(new_group_node: Callable[..., Any]) -> GroupNode:
    config = GroupConfig(streams_initial_rebalance_delay_ms=0, streams_assignment_interval_ms=0)
    group_node: GroupNode = new_group_node(config=config)
    return group_node


def begin(
    node: GroupNode, member_id: str, epoch: int = 0, *subtopologies: Subtopology
) -> Steps[StreamsHeartbeatResult]:
    """Begin a heartbeat; a member joins with a topology, which reads topic ``t`` unless the test passes another one."""
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)
    if epoch == 0:
        request.topology = Topology(subtopologies=list(subtopologies) or [subtopology(sources=["t"])])
        request.rebalance_timeout_ms = 60_000
        request.process_id = member_id
        request.active_tasks = request.standby_tasks = request.warmup_tasks = []
        request.user_endpoint = StreamsGroupHeartbeatRequestEndpoint(host=member_id, port=1)
    return node.groups.streams.heartbeat(Client(client_id="client", host="/127.0.0.1"), request)


def beat(node: GroupNode, member_id: str, epoch: int = 0, *subtopologies: Subtopology) -> StreamsGroupHeartbeatResponse:
    return run_to_end(begin(node, member_id, epoch, *subtopologies)).response


def groups_of(node: GroupNode) -> dict[str, StreamsGroup]:
    return node.groups._runtime.context_for("g").shard.streams.groups


def group_of(node: GroupNode) -> StreamsGroup:
    return groups_of(node)["g"]


def target_of(node: GroupNode, member_id: str) -> int:
    """Return the number of active tasks in a member's target assignment."""
    return sum(map(len, group_of(node).target[member_id].active.values()))


def test_member_leaves_a_group_whose_topology_cannot_be_configured(node: GroupNode) -> None:
    # No topic determines the number of partitions of r, which is found when the source topic exists.
    loop = subtopology("1", repartition_sources=[internal_topic("r")], sinks=["r"])
    joined = beat(node, "a", 0, subtopology(sources=["later"]), loop)
    node.add_partitions("later", range(3))
    assert beat(node, "a", joined.member_epoch).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY

    assert beat(node, "a", -1).error_code == ErrorCode.NONE
    assert group_of(node).is_empty


def test_job_assigns_the_tasks_of_the_epoch_that_it_completes(node: GroupNode) -> None:
    node.add_partitions("t", range(3, MANY))
    joined = beat(node, "a")
    node.add_partitions("t", range(MANY, MANY + 50))
    beat(node, "a", joined.member_epoch)

    node.advance(100)

    group = group_of(node)
    assert group.assignment_epoch == group.epoch
    assert target_of(node, "a") == MANY + 50


def test_first_member_gets_the_tasks_of_topics_that_change_at_any_step_of_its_join(
    new_group_node: Callable[..., Any],
) -> None:
    for steps in count(1):
        node = new_group_node(config=GroupConfig(streams_initial_rebalance_delay_ms=500))
        joining = begin(node, "a")
        for _ in range(steps):
            next(joining)
        if groups_of(node):
            # The join is decided.
            break
        node.add_partitions("t", range(3, 5))
        run_to_end(joining)

        node.advance(600)

        assert target_of(node, "a") == 5, f"they changed after {steps} steps"
    assert steps > 5


def test_members_that_leave_while_endpoints_are_listed_leave_nothing_behind(node: GroupNode) -> None:
    beat(node, "a")
    beat(node, "b")
    listing = begin(node, "a", group_of(node).members["a"].member_epoch)
    group_of(node).endpoints.clear()
    while "a" not in group_of(node).endpoints:
        next(listing)
    beat(node, "b", -1)

    run_to_end(listing)

    assert group_of(node).endpoints.keys() == {"a"}


def test_topology_is_configured_in_slices_again_when_topics_change(new_group_node: Callable[..., Any]) -> None:
    subtopologies = [subtopology(str(number), sources=["t"]) for number in range(400)]
    steps = sum(1 for _ in begin(new_group_node(), "a", 0, *subtopologies))
    node = new_group_node()
    joining = begin(node, "a", 0, *subtopologies)
    for _ in range(steps // 2):
        next(joining)
    node.add_partitions("t", range(3, 5))

    assert sum(1 for _ in joining) > steps * 3 // 4
