"""A Fetch of many partitions: in slices, each error once, no more lookups than the request or changes require."""

from collections import Counter
from itertools import pairwise
from types import GeneratorType
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext
from ottla.handlers.catalog import find
from ottla.purgatory import Delayed
from ottla.replication.fetch.fetch_round import PER_SLICE, STRAIGHT_MAX, FetchRound
from ottla.replication.sessions.fetch_session import RETRIED_PER_FETCH_MAX, RETRY_MS
from ottla.simulator.clients.requests import batch_of, create_topic, produce, records_in
from ottla.simulator.world.single_node import Client, RunningNode, anonymous_client
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

MANY = 100
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def request(
    named: list[tuple[str, int, int]] | None = None,
    *,
    session_id: int = 0,
    epoch: int = -1,
    wait_ms: int = 0,
    removed: list[tuple[str, int]] | None = None,
) -> FetchRequest:
    """Return a fetch of (topic, partition, offset), each in an entry of its own."""
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)],
            )
            for topic, index, offset in named or []
        ],
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[index]) for topic, index in removed or []],
    )


def errors_in(response: FetchResponse) -> list[tuple[str, int, ErrorCode]]:
    return [
        (topic.topic, partition.partition_index, ErrorCode(partition.error_code))
        for topic in response.responses
        for partition in topic.partitions
    ]


def values_in(response: FetchResponse) -> dict[int, bytes]:
    """Return the first record of each partition that has some."""
    return {
        partition.partition_index: records_in(partition)[0].value or b""
        for topic in response.responses
        for partition in topic.partitions
        if partition.records
    }


@pytest.fixture
def client(running: RunningNode) -> Client:
    client = running.connect()
    create_topic(client, "t", partitions=MANY)
    running.run(1_000)
    return client


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Number of lookups of each partition."""
    counted: Counter[int] = Counter()
    find_partition = FetchRound._partition_of

    def noted(round_: FetchRound, key: Any, fetched: Any) -> Any:
        counted[key[2]] += 1
        return find_partition(round_, key, fetched)

    monkeypatch.setattr(FetchRound, "_partition_of", noted)
    return counted


def handle(running: RunningNode, message: FetchRequest) -> Any:
    served = find(1, 12)
    assert served is not None
    now_ms = running.clock.monotonic_ms()
    context = RequestContext(1, 12, 1, "c", anonymous_client(), running.node.services, now_ms)
    return served.handler(context, message)


# --- errors


def test_error_in_a_session_is_reported_again_when_the_client_names_the_partition(client: Client) -> None:
    first = client.ask(request([("no", 0, 0)], epoch=0), FetchResponse, 12)
    quiet = client.ask(request(session_id=first.session_id, epoch=1), FetchResponse, 12)
    named = client.ask(request([("no", 0, 0)], session_id=first.session_id, epoch=2), FetchResponse, 12)

    assert errors_in(first) == errors_in(named) == [("no", 0, UNKNOWN)]
    assert quiet.responses == []


def test_error_in_a_session_is_reported_again_after_a_while(running: RunningNode, client: Client) -> None:
    first = client.ask(request([("no", 0, 0)], epoch=0), FetchResponse, 12)
    started_ms = running.clock.monotonic_ms()
    again = client.ask(request(session_id=first.session_id, epoch=1, wait_ms=60_000), FetchResponse, 12)

    assert errors_in(again) == [("no", 0, UNKNOWN)]
    assert RETRY_MS <= running.clock.monotonic_ms() - started_ms <= RETRY_MS + 20


def test_fetch_checks_few_of_many_failed_partitions(
    running: RunningNode, client: Client, lookups: Counter[int]
) -> None:
    named = [("no", index, 0) for index in range(3_000)]
    first = client.ask(request(named, epoch=0), FetchResponse, 12)
    first_lookups = lookups.total()
    running.run(2 * RETRY_MS)
    again = client.ask(request(session_id=first.session_id, epoch=1), FetchResponse, 12)

    assert (len(errors_in(first)), first_lookups) == (3_000, 3_000)
    assert len(errors_in(again)) == lookups.total() - first_lookups == RETRIED_PER_FETCH_MAX


def test_every_failed_partition_is_retried(running: RunningNode, client: Client) -> None:
    named = [("no", index, 0) for index in range(MANY)]
    session_id = client.ask(request(named, epoch=0), FetchResponse, 12).session_id
    reported: Counter[int] = Counter()
    for epoch in range(1, 15):
        running.run(2 * RETRY_MS)
        response = client.ask(request(session_id=session_id, epoch=epoch), FetchResponse, 12)
        reported.update(index for _, index, _ in errors_in(response))

    assert set(reported) == set(range(MANY))
    assert max(reported.values()) - min(reported.values()) <= 1


def test_failed_partition_is_readable_once_its_topic_is_created(running: RunningNode, client: Client) -> None:
    reader = running.connect()
    session_id = reader.ask(request([("late", 0, 0)], epoch=0), FetchResponse, 12).session_id
    create_topic(client, "late")
    produce(client, "late", batch_of(client, [b"a"]))
    running.run(RETRY_MS)
    response = reader.ask(request(session_id=session_id, epoch=1), FetchResponse, 12)

    assert values_in(response) == {0: b"a"}


def test_partition_that_recovers_is_listed_without_records_too(running: RunningNode, client: Client) -> None:
    session_id = client.ask(request([("late", 0, 0)], epoch=0), FetchResponse, 12).session_id
    create_topic(client, "late")
    running.run(RETRY_MS)
    response = client.ask(request(session_id=session_id, epoch=1), FetchResponse, 12)

    assert errors_in(response) == [("late", 0, ErrorCode.NONE)]


# --- repeated partitions; the responses are those of Kafka 4.3.1


@pytest.mark.parametrize("epoch", [-1, 0], ids=["without-a-session", "with-a-session"])
@pytest.mark.parametrize("repeated", [3, STRAIGHT_MAX + 1], ids=["few", "many"])
def test_partition_named_repeatedly_is_returned_once_as_named_last(
    client: Client, lookups: Counter[int], epoch: int, repeated: int
) -> None:
    named = [("t", 0, 5)] * repeated + [("no", 7, 0)] * repeated + [("t", 0, 0), ("t", 1, 0)]
    response = client.ask(request(named, epoch=epoch), FetchResponse, 12)

    assert sorted(errors_in(response)) == [
        ("no", 7, UNKNOWN),
        ("t", 0, ErrorCode.NONE),
        ("t", 1, ErrorCode.NONE),
    ]
    assert max(lookups.values()) == 1


@pytest.mark.parametrize("repeated", [3, STRAIGHT_MAX + 1], ids=["few", "many"])
def test_partitions_may_be_added_and_removed_repeatedly(client: Client, repeated: int) -> None:
    session_id = client.ask(request([("t", 0, 0), ("no", 0, 0)], epoch=0), FetchResponse, 12).session_id
    response = client.ask(
        request(
            [("v", 0, 0)] * repeated + [("t", 0, 9)] * 2,
            session_id=session_id,
            epoch=1,
            removed=[("no", 0)] * repeated + [("never", 3)],
        ),
        FetchResponse,
        12,
    )
    both = client.ask(
        request([("w", 0, 0)] * repeated, session_id=session_id, epoch=2, removed=[("w", 0)]), FetchResponse, 12
    )

    assert sorted(errors_in(response)) == [("t", 0, ErrorCode.OFFSET_OUT_OF_RANGE), ("v", 0, UNKNOWN)]
    assert (both.session_id, both.responses) == (session_id, [])


def test_request_that_removes_all_partitions_ends_the_session(client: Client) -> None:
    session_id = client.ask(request([("t", 0, 0), ("t", 1, 0)], epoch=0), FetchResponse, 12).session_id
    response = client.ask(
        request([("t", 0, 0)], session_id=session_id, epoch=1, removed=[("t", 0), ("t", 1)]), FetchResponse, 12
    )

    assert (response.session_id, errors_in(response)) == (0, [("t", 0, ErrorCode.NONE)])


# --- in slices


@pytest.mark.parametrize("epoch", [-1, 0], ids=["without-a-session", "with-a-session"])
@pytest.mark.parametrize("topic", ["t", "no"], ids=["known", "unknown"])
def test_no_slice_checks_more_than_a_few_partitions(
    running: RunningNode, client: Client, lookups: Counter[int], epoch: int, topic: str
) -> None:
    steps = handle(running, request([(topic, index, 0) for index in range(MANY)], epoch=epoch))
    per_slice, before = [], 0
    for wait in steps:
        assert wait is None
        per_slice.append(lookups.total() - before)
        before = lookups.total()

    assert lookups.total() == MANY
    assert max(per_slice) == PER_SLICE


@pytest.mark.parametrize("empty", ["topics", "forgotten_topics_data"])
def test_topics_without_partitions_are_processed_in_slices(running: RunningNode, client: Client, empty: str) -> None:
    message = request([("t", 0, 0)], epoch=0)
    message.topics += [FetchTopic(topic=f"u{index}") for index in range(1_000 if empty == "topics" else 0)]
    if empty != "topics":
        message.forgotten_topics_data.extend(ForgottenTopic(topic="u") for _ in range(1_000))

    assert len(list(handle(running, message))) > 1_000 // 32


@pytest.mark.parametrize("epoch", [-1, 0], ids=["without-a-session", "with-a-session"])
def test_records_of_many_partitions_equal_the_produced_ones(client: Client, epoch: int) -> None:
    produced = {index: b"%d" % index for index in range(0, MANY, 7)}
    for index, value in produced.items():
        produce(client, "t", batch_of(client, [value]), partition=index)
    response = client.ask(request([("t", index, 0) for index in range(MANY)], epoch=epoch), FetchResponse, 12)

    assert values_in(response) == produced
    assert len(errors_in(response)) == MANY


@pytest.mark.parametrize("epoch", [-1, 0], ids=["without-a-session", "with-a-session"])
def test_waiting_fetch_of_many_partitions_is_woken_by_an_append(
    running: RunningNode, client: Client, lookups: Counter[int], epoch: int
) -> None:
    reader = running.connect()
    message = request([("t", index, 0) for index in range(MANY)], epoch=epoch, wait_ms=5_000)
    reader.send(message, 12)
    running.run(100)
    early, first_lookups = reader.take_frame(), lookups.total()
    produce(client, "t", batch_of(client, [b"a"]), partition=70)
    running.run(10)
    response = reader.response_to(message, 12)

    assert early is None
    assert isinstance(response, FetchResponse)
    assert values_in(response) == {70: b"a"}
    assert lookups.total() - first_lookups <= 3


@pytest.mark.parametrize("epoch", [-1, 0], ids=["without-a-session", "with-a-session"])
def test_waiting_fetch_of_many_partitions_completes_after_max_wait(
    running: RunningNode, client: Client, epoch: int
) -> None:
    started_ms = running.clock.monotonic_ms()
    message = request([("t", index, 0) for index in range(MANY)], epoch=epoch, wait_ms=500)
    response = client.ask(message, FetchResponse, 12)

    assert len(errors_in(response)) == MANY
    assert 500 <= running.clock.monotonic_ms() - started_ms <= 520


def test_changes_of_many_partitions_are_read_in_slices(
    running: RunningNode, client: Client, lookups: Counter[int]
) -> None:
    session_id = client.ask(request([("t", index, 0) for index in range(MANY)], epoch=0), FetchResponse, 12).session_id
    waiting = handle(running, request(session_id=session_id, epoch=1, wait_ms=60_000))
    assert isinstance(waiting, Delayed)
    (session,) = running.node.services.fetch_sessions._sessions.values()
    session.pending.update(dict.fromkeys(session.partitions))
    lookups.clear()
    running.node.services.replicas.fetch_purgatory.check(session_id)

    assert waiting.is_complete
    assert lookups.total() <= PER_SLICE
    assert isinstance(waiting.value, GeneratorType)


@pytest.mark.parametrize("end", ["completed", "abandoned", "never-continued"])
def test_fetch_of_many_partitions_without_a_session_leaves_nothing_behind(
    running: RunningNode, client: Client, end: str
) -> None:
    replicas = running.node.services.replicas
    message = request([("t", index, 0) for index in range(MANY)], wait_ms=500)
    steps = handle(running, message)
    waiting = None
    while waiting is None:
        try:
            next(steps)
        except StopIteration as stop:
            waiting = stop.value
    watched = len(replicas.watchers)
    if end == "abandoned":
        waiting.abandon()
    else:
        running.run(600)
    if end == "completed":
        assert len(errors_in(_run(waiting.value))) == MANY
    del waiting, steps
    for index in range(MANY):
        replicas.watchers.note_change(next(p.topic_partition for p in replicas if p.topic_partition[1] == index))

    assert watched == MANY
    assert len(replicas.watchers) == 0


def _run(steps: Any) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


def test_later_request_supersedes_the_one_in_progress(running: RunningNode, client: Client) -> None:
    session_id = client.ask(request([("t", index, 0) for index in range(MANY)], epoch=0), FetchResponse, 12).session_id
    named = [("t", index, 0) for index in range(MANY)]
    steps = handle(running, request(named, session_id=session_id, epoch=1))
    (session,) = running.node.services.fetch_sessions._sessions.values()
    while session.epoch != 2:
        next(steps)
    later = client.ask(request(session_id=session_id, epoch=2), FetchResponse, 12)
    response = _run(steps)

    assert later.error_code == ErrorCode.NONE
    assert (ErrorCode(response.error_code), response.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])


@pytest.mark.parametrize("count", [STRAIGHT_MAX // 2, MANY], ids=["few", "many"])
def test_followers_fetch_creates_one_log_per_slice(running: RunningNode, count: int) -> None:
    client = running.connect()
    create_topic(client, "new", partitions=count)
    replicas = running.node.services.replicas
    message = request([("new", index, 0) for index in range(count)], epoch=0)
    message.replica_id = 7

    partitions = [len(replicas.metadata_publisher.partitions)]
    for _ in handle(running, message):
        partitions.append(len(replicas.metadata_publisher.partitions))

    assert partitions[0] < partitions[-1] == count
    assert all(now - before <= 1 for before, now in pairwise(partitions))
