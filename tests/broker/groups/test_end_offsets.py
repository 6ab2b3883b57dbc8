"""Requests to leaders for the ends of their partitions, and the lag of share groups that they give."""

from collections.abc import Callable
from typing import Any

import pytest

from group_drivers import CoordinatorDriver
from ottla.errors import ErrorCode
from ottla.groups.share.end_offsets import (
    PARTITIONS_PER_REQUEST,
    RETRY_BACKOFF_MS,
    TRIES_MAX,
    EndOffset,
    EndOffsetClient,
)
from ottla.peers.channel import PeerFailure
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import TopicPartition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from share_requests import send
from transaction_node import ScriptedPeers, Sent

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Client:
    """A client of a cluster whose nodes 1 and 2 lead a partition each."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.peers = ScriptedPeers()
        self.client = EndOffsetClient(
            channel=self.peers, clock=self.clock, metadata=self.peers, listener="PLAINTEXT", timeout_ms=30_000
        )

    def list_latest(self, *partitions: TopicPartition) -> list[EndOffset]:
        """Request the ends; the list has those that are known, now and later."""
        found: list[EndOffset] = []
        for each in self.client.list_latest(partitions):
            each.on_complete(found.append)
        return found

    def advance(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.client.tick(self.clock.monotonic_ms())


@pytest.fixture
def client() -> Client:
    return Client()


def partitions_of(sent: Sent) -> list[int]:
    assert isinstance(sent.request, ListOffsetsRequest)
    assert sent.request.isolation_level == 0
    return [partition.partition_index for topic in sent.request.topics for partition in topic.partitions]


def respond(sent: Sent, offset: int = 7, error: ErrorCode = ErrorCode.NONE) -> None:
    partitions = [
        ListOffsetsPartitionResponse(partition_index=index, offset=offset, error_code=int(error))
        for index in partitions_of(sent)
    ]
    sent.result.complete(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)]))


def test_each_leader_gets_one_request(client: Client) -> None:
    found = client.list_latest(T0, T1)

    first, second = client.peers.take()
    respond(first, 10)
    respond(second, 5)

    assert (first.endpoint.port, second.endpoint.port) == (1, 2)
    assert found == [EndOffset(ErrorCode.NONE, 10), EndOffset(ErrorCode.NONE, 5)]


def test_partitions_that_wait_for_a_busy_leader_go_in_the_next_request(client: Client) -> None:
    client.peers.leaders = {TopicPartition("t", index): 1 for index in range(PARTITIONS_PER_REQUEST + 2)}
    found = client.list_latest(*client.peers.leaders)

    (first,) = client.peers.take()
    assert len(partitions_of(first)) == PARTITIONS_PER_REQUEST
    respond(first)
    (second,) = client.peers.take()
    respond(second)

    assert len(partitions_of(second)) == 2
    assert len(found) == PARTITIONS_PER_REQUEST + 2


def test_partition_that_is_requested_twice_is_in_the_request_once(client: Client) -> None:
    found = client.list_latest(T0, T0)

    (sent,) = client.peers.take()
    respond(sent)

    assert (partitions_of(sent), len(found)) == ([0], 2)


def test_partition_without_leader_is_an_error(client: Client) -> None:
    client.peers.alive = {1}

    assert client.list_latest(T1, TopicPartition("t", 9)) == [EndOffset(ErrorCode.LEADER_NOT_AVAILABLE)] * 2


def test_lost_connection_is_repeated_to_the_next_leader(client: Client) -> None:
    found = client.list_latest(T0)
    client.peers.take()[0].result.complete(PeerFailure.DISCONNECTED)
    client.peers.leaders[T0] = 3

    client.advance(RETRY_BACKOFF_MS - 1)
    assert client.peers.take() == []
    client.advance(1)
    (sent,) = client.peers.take()
    respond(sent)

    assert (sent.endpoint.port, found) == (3, [EndOffset(ErrorCode.NONE, 7)])


def test_failure_with_thousands_of_waiting_calls_does_not_recurse(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.groups.share.end_offsets.PARTITIONS_PER_REQUEST", 1)
    partitions = [TopicPartition("t", index) for index in range(2_000)]
    client.peers.leaders = dict.fromkeys(partitions, 1)
    found = client.list_latest(*partitions)
    client.peers.alive.remove(1)

    client.peers.take()[0].result.complete(PeerFailure.DISCONNECTED)
    client.advance(RETRY_BACKOFF_MS)
    assert 0 < len(found) < 1_000
    for _ in range(4):
        client.advance(0)

    assert found == [EndOffset(ErrorCode.LEADER_NOT_AVAILABLE)] * 2_000


def test_last_failure_is_the_error(client: Client) -> None:
    found = client.list_latest(T0)
    for number in range(TRIES_MAX):
        client.peers.take()[0].result.complete(PeerFailure.TIMED_OUT)
        client.advance(RETRY_BACKOFF_MS * 2**number)

    assert found == [EndOffset(ErrorCode.REQUEST_TIMED_OUT)]
    assert client.client.next_deadline_ms() is None


def test_error_of_a_leader_is_not_repeated(client: Client) -> None:
    found = client.list_latest(T0)
    respond(client.peers.take()[0], -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert found == [EndOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


# The lag


@pytest.fixture
def driver(new_group_node: Callable[..., Any]) -> CoordinatorDriver:
    return CoordinatorDriver(new_group_node, {})


def describe(driver: CoordinatorDriver) -> Any:
    """Describe the first partition of the topic."""
    (group,) = send(driver, "a share_offsets group=g topics=t:0").groups
    return group.topics[0].partitions[0]


def test_lag_leaves_out_records_that_were_delivered_completely(driver: CoordinatorDriver) -> None:
    send(driver, "a share_alter group=g topics=t:0=2")
    driver.node.persister.complete_count = 3
    driver.node.end_offsets.ends[T0] = EndOffset(ErrorCode.NONE, 10)

    described = describe(driver)

    assert (described.start_offset, described.lag) == (2, 5)


def test_lag_is_unknown_without_a_count_of_delivered_records(driver: CoordinatorDriver) -> None:
    send(driver, "a share_alter group=g topics=t:0=2")

    described = describe(driver)

    assert (described.start_offset, described.lag) == (2, -1)


def test_description_reads_each_existing_partition_once(driver: CoordinatorDriver) -> None:
    (group,) = send(driver, "a share_offsets group=g topics=t:0:0:1:99:0").groups

    described = [(it.partition_index, it.error_code, it.start_offset) for it in group.topics[0].partitions]
    assert described == [(index, 0, -1) for index in (0, 0, 1, 99, 0)]
    assert [key.partition for _, key in driver.node.persister.calls] == [0, 1]


def test_unknown_end_is_the_error_of_the_partition(driver: CoordinatorDriver) -> None:
    send(driver, "a share_alter group=g topics=t:0=2")
    driver.node.persister.complete_count = 0
    driver.node.end_offsets.ends[T0] = EndOffset(ErrorCode.LEADER_NOT_AVAILABLE)

    described = describe(driver)

    assert (described.error_code, described.start_offset, described.lag) == (ErrorCode.LEADER_NOT_AVAILABLE, 0, -1)
