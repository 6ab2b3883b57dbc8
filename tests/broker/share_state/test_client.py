"""Requests to share coordinators: which node, in which order, and how often they are repeated."""

import pytest

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerFailure
from ottla.purgatory import Delayed
from ottla.share_state.client import (
    PARTITIONS_PER_REQUEST,
    READS_PER_REQUEST,
    RETRY_BACKOFF_MS,
    TRIES_MAX,
    PersisterClient,
)
from ottla.share_state.persister import Persister, SharePartitionKey, StateBatch, StateResult, StateWrite
from ottla.types import SHARE_GROUP_STATE_TOPIC, TopicPartition
from ottla.wire.messages import read_share_group_state as read_messages
from ottla.wire.messages import write_share_group_state as write_messages
from share_node import KEY, TOPIC_ID, ShareNode
from transaction_node import ScriptedPeers, Sent

OWN, COORDINATOR, NEXT = 1, 2, 3
STATE_PARTITION = TopicPartition(SHARE_GROUP_STATE_TOPIC, 0)


class Client:
    """A client on node 1 of a cluster whose node 2 leads the only partition of ``__share_group_state``."""

    def __init__(self) -> None:
        self.own = ShareNode()
        self.clock = self.own.clock
        self.peers = ScriptedPeers(leaders={STATE_PARTITION: COORDINATOR})
        self.partition: int | None = 0
        self.creations = 0
        self.client = PersisterClient(
            node_id=OWN,
            own=self.own.coordinator,
            channel=self.peers,
            clock=self.clock,
            metadata=self.peers,
            partition_for=lambda _: self.partition,
            listener="PLAINTEXT",
            timeout_ms=30_000,
        )
        self.client.on_missing_topic = self._count_creation
        self.persister: Persister = self.client
        self.done: list[tuple[int, ErrorCode]] = []

    def _count_creation(self) -> None:
        self.creations += 1

    def write(self, start_offset: int, key: SharePartitionKey = KEY) -> None:
        """Write a start offset; `done` has it with the error once there is a result."""
        write = StateWrite(
            state_epoch=1,
            leader_epoch=2,
            start_offset=start_offset,
            delivery_complete_count=3,
            batches=(StateBatch(start_offset, start_offset + 1, 2, 1),),
        )
        self.persister.write(key, write).on_complete(lambda result: self.done.append((start_offset, result.error)))

    def advance(self, milliseconds: int) -> None:
        end_ms = self.clock.monotonic_ms() + milliseconds
        while (due_ms := self.client.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.clock.advance(max(due_ms - self.clock.monotonic_ms(), 0))
            self.client.tick(self.clock.monotonic_ms())
        self.clock.advance(end_ms - self.clock.monotonic_ms())


@pytest.fixture
def client() -> Client:
    return Client()


def offsets(sent: Sent) -> list[tuple[str, int, int]]:
    """Return group, partition and start offset of each part of a write."""
    assert isinstance(sent.request, write_messages.WriteShareGroupStateRequest)
    return [
        (sent.request.group_id, partition.partition, partition.start_offset)
        for topic in sent.request.topics
        for partition in topic.partitions
    ]


def respond(sent: Sent, error: ErrorCode = ErrorCode.NONE) -> None:
    assert isinstance(sent.request, write_messages.WriteShareGroupStateRequest)
    sent.request.encode(1)
    results = [
        write_messages.WriteStateResult(
            topic_id=topic.topic_id,
            partitions=[
                write_messages.PartitionResult(partition=partition.partition, error_code=int(error))
                for partition in topic.partitions
            ],
        )
        for topic in sent.request.topics
    ]
    sent.result.complete(write_messages.WriteShareGroupStateResponse(results=results))


def key(partition: int, group_id: str = "group") -> SharePartitionKey:
    return SharePartitionKey(group_id, TOPIC_ID, partition)


def test_request_goes_to_the_leader_of_the_state(client: Client) -> None:
    client.write(7)

    (sent,) = client.peers.take()
    assert sent.endpoint.port == COORDINATOR
    assert offsets(sent) == [("group", 0, 7)]
    respond(sent)
    assert client.done == [(7, ErrorCode.NONE)]
    assert client.client.next_deadline_ms() is None


def test_own_coordinator_is_called_directly(client: Client) -> None:
    client.peers.leaders[STATE_PARTITION] = OWN
    client.own.initialize()

    client.write(7)

    assert client.peers.take() == []
    assert client.done == [(7, ErrorCode.NONE)]
    assert client.own.read().start_offset == 7


def test_share_partitions_of_a_group_wait_for_one_request(client: Client) -> None:
    for partition in range(3):
        client.write(partition, key(partition))
    client.write(9, key(0, "other"))
    (first,) = client.peers.take()
    assert offsets(first) == [("group", 0, 0)]

    respond(first)

    client.advance(0)
    (second,) = client.peers.take()
    assert offsets(second) == [("group", 1, 1), ("group", 2, 2)]
    respond(second)
    client.advance(0)
    (third,) = client.peers.take()
    assert offsets(third) == [("other", 0, 9)]


def test_large_group_does_not_keep_others_waiting(client: Client) -> None:
    for partition in range(2 * PARTITIONS_PER_REQUEST + 1):
        client.write(partition, key(partition))
    client.write(9, key(0, "other"))

    sizes = []
    for _ in range(4):
        (sent,) = client.peers.take()
        sizes.append(len(offsets(sent)))
        respond(sent)

    assert sizes == [1, PARTITIONS_PER_REQUEST, 1, PARTITIONS_PER_REQUEST]


def test_calls_for_a_share_partition_are_carried_out_in_order(client: Client) -> None:
    client.write(1)
    client.write(2)
    read = client.persister.read(KEY, leader_epoch=4)
    client.write(3)

    (first,) = client.peers.take()
    first.result.complete(PeerFailure.DISCONNECTED)
    assert client.peers.take() == []
    client.advance(RETRY_BACKOFF_MS)
    (repeated,) = client.peers.take()
    assert offsets(repeated) == [("group", 0, 1)]
    respond(repeated)
    client.advance(0)
    (second,) = client.peers.take()
    assert offsets(second) == [("group", 0, 2)]
    respond(second)
    client.advance(0)
    (third,) = client.peers.take()
    assert isinstance(third.request, read_messages.ReadShareGroupStateRequest)
    partition = read_messages.PartitionResult(
        partition=0,
        state_epoch=5,
        start_offset=6,
        state_batches=[read_messages.StateBatch(first_offset=6, last_offset=9, delivery_state=2, delivery_count=1)],
    )
    third.result.complete(
        read_messages.ReadShareGroupStateResponse(
            results=[read_messages.ReadStateResult(topic_id=TOPIC_ID, partitions=[partition])]
        )
    )
    assert read.value == (ErrorCode.NONE, None, 5, 6, (StateBatch(6, 9, 2, 1),))
    client.advance(0)
    (fourth,) = client.peers.take()
    assert offsets(fourth) == [("group", 0, 3)]
    assert client.done == [(1, ErrorCode.NONE), (2, ErrorCode.NONE)]


def test_response_to_reads_has_few_partitions(client: Client) -> None:
    for partition in range(2 * READS_PER_REQUEST):
        client.persister.read(key(partition), leader_epoch=1)
    client.peers.take()[0].result.complete(read_messages.ReadShareGroupStateResponse(results=[]))

    (sent,) = client.peers.take()

    assert isinstance(sent.request, read_messages.ReadShareGroupStateRequest)
    assert [len(topic.partitions) for topic in sent.request.topics] == [READS_PER_REQUEST]


def test_request_of_writes_is_bounded_by_its_state_batches(client: Client) -> None:
    batches = tuple(StateBatch(offset, offset, 2, 1) for offset in range(1_000))
    write = StateWrite(state_epoch=1, leader_epoch=2, start_offset=0, delivery_complete_count=0, batches=batches)
    for partition in range(5):
        client.persister.write(key(partition), write)

    sizes = []
    for _ in range(3):
        (sent,) = client.peers.take()
        sizes.append(len(offsets(sent)))
        respond(sent)

    assert sizes == [1, 2, 2]


def test_write_does_not_wait_for_summaries(client: Client) -> None:
    for _ in range(3):
        client.persister.read_summary(KEY, leader_epoch=-1)
    (summary,) = client.peers.take()
    client.peers.leaders[STATE_PARTITION] = NEXT

    client.write(7)

    assert [offsets(sent) for sent in client.peers.take()] == [[("group", 0, 7)]]
    summary.result.complete(PeerFailure.DISCONNECTED)
    assert len(client.peers.take()) == 1


def test_calls_of_one_share_partition_share_a_tick(client: Client) -> None:
    client.write(1)
    client.write(2)
    client.write(3)
    client.peers.leaders[STATE_PARTITION] = OWN
    client.own.initialize()
    respond(client.peers.take()[0])

    client.client.tick(client.clock.monotonic_ms())

    assert client.done == [(1, ErrorCode.NONE), (2, ErrorCode.NONE), (3, ErrorCode.NONE)]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
def test_call_follows_a_coordinator_that_moves(client: Client, error: ErrorCode) -> None:
    client.write(7)
    respond(client.peers.take()[0], error)
    client.peers.leaders[STATE_PARTITION] = NEXT

    client.advance(RETRY_BACKOFF_MS)

    (sent,) = client.peers.take()
    assert sent.endpoint.port == NEXT
    respond(sent)
    assert client.done == [(7, ErrorCode.NONE)]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_rejected_call_is_not_repeated(client: Client, error: ErrorCode) -> None:
    client.write(7)

    respond(client.peers.take()[0], error)

    assert client.done == [(7, error)]
    assert client.client.next_deadline_ms() is None


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (PeerFailure.DISCONNECTED, ErrorCode.NETWORK_EXCEPTION),
        (PeerFailure.TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_tries_are_bounded(client: Client, failure: PeerFailure, error: ErrorCode) -> None:
    client.write(7)
    tries = 0
    while not client.done:
        (sent,) = client.peers.take()
        tries += 1
        sent.result.complete(failure)
        client.advance(RETRY_BACKOFF_MS * 2**TRIES_MAX)

    assert tries == TRIES_MAX
    assert client.done == [(7, error)]


def test_coordinator_of_an_old_version_is_not_tried_again(client: Client) -> None:
    client.write(7)

    client.peers.take()[0].result.complete(PeerFailure.UNSUPPORTED_VERSION)

    assert client.done == [(7, ErrorCode.UNSUPPORTED_VERSION)]


def test_failure_with_thousands_of_waiting_calls_does_not_recurse(client: Client) -> None:
    """One request for each group: more than Python allows frames."""
    for number in range(2_000):
        client.write(number, key(0, f"group-{number}"))
    client.peers.alive.remove(COORDINATOR)

    client.peers.take()[0].result.complete(PeerFailure.DISCONNECTED)
    client.advance(60_000)

    assert len(client.done) == 2_000
    assert {error for _, error in client.done} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_failures_without_a_request_do_not_recurse(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2_000):
        client.write(number, key(0, f"group-{number}"))
    (sent,) = client.peers.take()
    failed = Delayed.of(PeerFailure.UNSUPPORTED_VERSION)
    monkeypatch.setattr(client.peers, "send", lambda *_, **__: failed)

    sent.result.complete(PeerFailure.UNSUPPORTED_VERSION)

    assert len(client.done) == 2_000


def test_missing_topic_is_created(client: Client) -> None:
    client.partition = None
    client.write(7)
    assert client.creations == 1
    client.partition = 0

    client.advance(RETRY_BACKOFF_MS)

    assert [offsets(sent) for sent in client.peers.take()] == [[("group", 0, 7)]]


def test_missing_coordinator_is_waited_for(client: Client) -> None:
    client.peers.alive.remove(COORDINATOR)
    client.write(7)

    client.advance(60_000)

    assert client.peers.take() == []
    assert client.done == [(7, ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_partition_without_result_has_an_error(client: Client) -> None:
    client.write(7)

    client.peers.take()[0].result.complete(write_messages.WriteShareGroupStateResponse(results=[]))

    assert client.done == [(7, ErrorCode.UNKNOWN_SERVER_ERROR)]


def test_result_may_cause_the_next_call(client: Client) -> None:
    done: list[StateResult] = []

    def continue_with_delete(_: StateResult) -> None:
        client.persister.delete(KEY).on_complete(done.append)

    client.persister.initialize(KEY, state_epoch=1, start_offset=0).on_complete(continue_with_delete)
    client.peers.leaders[STATE_PARTITION] = OWN
    client.peers.take()[0].result.complete(PeerFailure.DISCONNECTED)
    client.advance(RETRY_BACKOFF_MS)

    assert done == [StateResult(ErrorCode.NONE)]
