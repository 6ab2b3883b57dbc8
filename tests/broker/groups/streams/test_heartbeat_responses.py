"""Responses to heartbeats of streams groups: tasks, also after a response was lost; coordinators that were replaced."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.groups.client import Client
from ottla.groups.config import GroupConfig
from ottla.purgatory.steps import run_to_end
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from topologies import subtopology

Beat = Callable[..., StreamsGroupHeartbeatResponse]


@pytest.fixture
def node(new_group_node: Callable[..., Any]) -> Any:
    return new_group_node(config=GroupConfig(streams_initial_rebalance_delay_ms=0, streams_assignment_interval_ms=0))


@pytest.fixture
def beat(node: Any) -> Beat:
    """Send a heartbeat; without ``epoch`` the member joins, with ``owned`` it lists the active tasks that it has.

    Member a has all three tasks, in epoch 2, and has to revoke one for member b since epoch 3.
    """

    def beat(member_id: str, epoch: int = 0, owned: list[int] | None = None) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)
        if epoch == 0:
            request.topology = Topology(subtopologies=[subtopology(sources=["t"])])
            request.rebalance_timeout_ms = 60_000
            request.process_id = member_id
        if epoch == 0 or owned is not None:
            request.active_tasks = [StreamsGroupHeartbeatRequestTaskIds(subtopology_id="0", partitions=owned or [])]
            request.standby_tasks = request.warmup_tasks = []
        if epoch == 0:
            request.active_tasks = []
        result = run_to_end(node.groups.streams.heartbeat(Client(client_id="client", host="/127.0.0.1"), request))
        response: StreamsGroupHeartbeatResponse = result.response
        return response

    assert active_tasks(beat("a")) == [0, 1, 2]
    assert beat("b").member_epoch == 3
    assert active_tasks(beat("a", 2)) == [0, 1]
    return beat


def active_tasks(response: StreamsGroupHeartbeatResponse) -> list[int] | None:
    """Return the partitions of the active tasks of a response; None if it has no tasks."""
    if response.active_tasks is None:
        assert response.standby_tasks is response.warmup_tasks is None
        return None
    return [partition for entry in response.active_tasks for partition in entry.partitions]


def test_revocation_is_repeated_to_a_member_that_lists_more_tasks(beat: Beat) -> None:
    assert active_tasks(beat("a", 2, [0, 1, 2])) == [0, 1]
    assert active_tasks(beat("a", 2, [0, 1])) is None


def test_new_task_is_repeated_to_a_member_that_does_not_list_it(beat: Beat) -> None:
    beat("a", 2, [0, 1])
    assert active_tasks(beat("b", 3)) == [2]

    assert active_tasks(beat("b", 3, [])) == [2]
    assert active_tasks(beat("b", 3, [2])) is None


def test_member_that_sends_its_previous_epoch_receives_its_tasks(beat: Beat) -> None:
    beat("a", 2, [0, 1])
    assert beat("b", 3).member_epoch == 3
    assert beat("c").member_epoch == 4
    response = beat("b", 3)
    assert (response.member_epoch, active_tasks(response)) == (4, None)

    response = beat("b", 3, [])

    assert (response.member_epoch, active_tasks(response)) == (4, [2])


def test_heartbeat_that_lists_no_tasks_gets_none(beat: Beat) -> None:
    assert active_tasks(beat("a", 2)) is None


def test_coordinator_that_may_have_been_replaced_rejects_heartbeats_that_change_nothing(node: Any, beat: Beat) -> None:
    """It would confirm members that the next coordinator has removed, and return tasks that others have by then."""
    beat("a", 2, [0, 1])
    beat("b", 3)
    node.log.is_confirmed = False

    assert beat("a", 3).error_code == ErrorCode.NOT_COORDINATOR
    response = beat("b")
    assert (response.error_code, response.active_tasks) == (ErrorCode.NOT_COORDINATOR, None)

    node.log.is_confirmed = True
    assert beat("a", 3).error_code == ErrorCode.NONE
    assert active_tasks(beat("b")) == [2]


def test_heartbeat_with_records_needs_no_confirmation_but_their_commit(node: Any, beat: Beat) -> None:
    node.log.is_confirmed = False

    response = beat("a", 2, [0, 1])

    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 3)
