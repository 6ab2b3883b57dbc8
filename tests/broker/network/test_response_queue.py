"""Produces that wait for their followers do not block later requests, and responses keep the requests' order."""

import struct

import pytest

from ottla.network.response_queue import IN_PROGRESS_MAX, ResponseQueue
from ottla.purgatory import Delayed
from ottla.simulator.clients.requests import batch_of, create_topic
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.single_node import Client
from ottla.types import TopicPartition
from ottla.wire.codec import Message
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.messages.registry import ApiKey

VERSION = 9


@pytest.fixture
def leader() -> Client:
    """A client of the leader of t-0, which has three replicas, all in sync."""
    cluster = Cluster(seed=1)
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", replicas=3)

    def led_by() -> int:
        registration = cluster.nodes[1].node.metadata.partition(TopicPartition("t", 0))
        return -1 if registration is None else registration.leader

    cluster.run_until(lambda: led_by() > 0)
    cluster.run(1_000)
    return cluster.connect(led_by())


def produce_frame(client: Client, value: bytes) -> bytes:
    data = PartitionProduceData(index=0, records=batch_of(client, [value]))
    topic = TopicProduceData(name="t", partition_data=[data])
    return client.frame(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), VERSION)


def end_offset(client: Client) -> int:
    partition = client.node.node.replicas.find("t", 0)
    assert partition is not None
    return partition.log.log_end_offset


def take_correlation_ids(client: Client, count: int) -> list[int]:
    """Advance the clock until ``count`` responses have arrived."""
    found: list[int] = []
    for _ in range(1_000):
        while (frame := client.take_frame()) is not None:
            found.append(int.from_bytes(frame[:4], "big"))
        if len(found) >= count:
            break
        client.node.run(1)
    return found


def test_pipelined_produces_are_appended_at_once_and_acknowledged_in_order(leader: Client) -> None:
    leader.send_bytes(b"".join(produce_frame(leader, b"%d" % index) for index in range(5)))

    assert end_offset(leader) == 5
    assert leader.take_frame() is None
    assert take_correlation_ids(leader, 5) == [1, 2, 3, 4, 5]


def test_produces_of_one_read_go_to_the_followers_in_one_fetch(leader: Client) -> None:
    """One round trip for all: the first response and the last leave at the same time."""
    leader.send_bytes(b"".join(produce_frame(leader, b"%d" % index) for index in range(5)))
    for _ in range(1_000):
        leader.node.run(1)
        frames = []
        while (frame := leader.take_frame()) is not None:
            frames.append(frame)
        if frames:
            break

    assert len(frames) == 5


def test_response_of_another_api_leaves_after_the_waiting_produces(leader: Client) -> None:
    metadata = MetadataRequest(topics=[])
    leader.send_bytes(produce_frame(leader, b"a") + produce_frame(leader, b"b"))
    leader.send_bytes(leader.frame(metadata, 9))

    assert take_correlation_ids(leader, 3) == [1, 2, 3]


def test_response_to_an_unknown_version_leaves_after_the_waiting_produces(leader: Client) -> None:
    leader.send_bytes(produce_frame(leader, b"a"))
    unknown = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 2, -1)
    leader.send_bytes(struct.pack(">i", len(unknown)) + unknown)

    assert take_correlation_ids(leader, 2) == [1, 2]
    assert leader.peer.is_read_from


def test_requests_in_progress_of_one_connection_are_bounded(leader: Client) -> None:
    frames = b"".join(produce_frame(leader, b"%d" % index) for index in range(IN_PROGRESS_MAX + 3))
    leader.send_bytes(frames)
    first = end_offset(leader)

    assert first == IN_PROGRESS_MAX
    assert not leader.peer.is_read_from
    assert take_correlation_ids(leader, IN_PROGRESS_MAX + 3) == list(range(1, IN_PROGRESS_MAX + 4))
    assert end_offset(leader) == IN_PROGRESS_MAX + 3
    assert leader.peer.is_read_from


def test_closed_connection_leaves_no_waiting_response(leader: Client) -> None:
    node = leader.node.node
    leader.send_bytes(produce_frame(leader, b"a") + produce_frame(leader, b"b"))
    before = len(node.replicas.produce_purgatory)
    node.closed(leader.peer.connection, "gone")

    assert before == 2
    assert len(node.replicas.produce_purgatory) == 0
    assert end_offset(leader) == 2


def test_responses_leave_in_order_and_only_a_blocking_one_blocks_requests() -> None:
    responses, sent = ResponseQueue(), []
    waiting: list[Delayed[Message]] = [Delayed() for _ in range(3)]
    responses.add(waiting[0], sent.append, blocks_requests=False)
    responses.add(waiting[1], sent.append, blocks_requests=False)
    assert not responses.blocks_further_requests
    responses.add(waiting[2], sent.append, blocks_requests=True)
    assert responses.blocks_further_requests
    results = [ProduceResponse(), ProduceResponse(throttle_time_ms=1), MetadataResponse()]
    for index in (2, 1):
        waiting[index].complete(results[index])
        assert not responses.is_next_complete
    assert not responses.blocks_further_requests, "later requests may be handled: their responses leave later anyway"
    waiting[0].complete(results[0])
    while responses.is_next_complete:
        assert responses.finish_next() is None

    assert sent == results
    assert len(responses) == 0


def test_response_in_slices_keeps_its_place_and_no_request_is_handled_meanwhile() -> None:
    responses, finished = ResponseQueue(), []
    encoded: Delayed[str] = Delayed()
    responses.add(
        Delayed.of("large"),
        lambda result: finished.append(result) or (encoded if result == "large" else None),
        blocks_requests=False,
    )
    responses.add(Delayed.of("next"), finished.append, blocks_requests=False)
    assert responses.finish_next() is encoded

    assert not responses.is_next_complete
    assert responses.blocks_further_requests
    encoded.complete("encoded")
    assert not responses.blocks_further_requests
    while responses.is_next_complete:
        responses.finish_next()
    assert finished == ["large", "encoded", "next"]


def test_wait_of_a_handler_that_ran_in_slices_blocks_only_where_its_api_does() -> None:
    responses = ResponseQueue()
    committed: Delayed[str] = Delayed()
    handled: Delayed[Delayed[str]] = Delayed()
    responses.add(
        handled, lambda result: result if result is committed else None, blocks_requests=False, is_running=True
    )
    assert responses.blocks_further_requests
    handled.complete(committed)

    assert responses.finish_next() is committed
    assert not responses.blocks_further_requests
