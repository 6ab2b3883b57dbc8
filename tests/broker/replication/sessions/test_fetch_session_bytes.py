"""Fetch sessions are bounded in bytes, and creating, changing and closing a large one is done in slices."""

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.purgatory.steps import run_to_end
from ottla.replication.sessions.fetch_session import NO_SESSION, SESSION_BYTES, FetchContext
from ottla.replication.sessions.fetch_session_cache import (
    PARTITION_BYTES,
    FetchSessionCache,
)
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import ZERO_UUID
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.session_epochs import FINAL_EPOCH, INITIAL_EPOCH

ONE = SESSION_BYTES + PARTITION_BYTES + len("t")
IDLE_MS = 120_001


def request(
    count: int, session_id: int = NO_SESSION, epoch: int = INITIAL_EPOCH, *, first: int = 0, remove: int = 0
) -> FetchRequest:
    """Return a fetch of partitions of topic t from ``first`` on that removes those from 0 on."""
    named = [FetchPartition(partition=index) for index in range(first, first + count)]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=named)],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(range(remove)))],
    )


def open_context(
    sessions: FetchSessionCache, message: FetchRequest, *, now_ms: int = 0, is_follower: bool = False
) -> FetchContext:
    return sessions.open_context(message, uses_topic_ids=False, now_ms=now_ms, is_follower=is_follower)


def new_sessions(bytes_max: int) -> FetchSessionCache:
    return FetchSessionCache(random=SeededRandom(7), bytes_max=bytes_max)


@pytest.mark.parametrize(("spare_bytes", "gets_session"), [(0, True), (-1, False)], ids=["just-fits", "a-byte-less"])
def test_consumer_beyond_the_bytes_is_served_without_a_session(spare_bytes: int, gets_session: bool) -> None:
    sessions = new_sessions(2 * ONE + spare_bytes)
    open_context(sessions, request(1))

    context = open_context(sessions, request(1))

    assert (context.session_id != NO_SESSION) is gets_session
    assert len(context.partitions) == 1
    assert sessions.rejections == int(not gets_session)
    assert sessions.size_bytes == ONE * (1 + gets_session)


def test_long_topic_names_count() -> None:
    sessions = new_sessions(1_000_000)
    message = request(1)
    message.topics[0].topic = "x" * 30_000

    open_context(sessions, message)

    assert sessions.size_bytes >= 30_000


@pytest.mark.parametrize(
    ("held_by_follower", "idle_ms", "is_evicted"),
    [
        pytest.param(False, IDLE_MS - 1, False, id="in-use"),
        pytest.param(False, IDLE_MS, True, id="idle"),
        pytest.param(True, IDLE_MS, False, id="a-followers"),
    ],
)
def test_consumer_evicts_only_idle_consumer_sessions(held_by_follower: bool, idle_ms: int, is_evicted: bool) -> None:
    sessions = new_sessions(2 * ONE)
    for _ in range(2):
        open_context(sessions, request(1), is_follower=held_by_follower)

    context = open_context(sessions, request(2), now_ms=idle_ms)

    assert (context.session_id != NO_SESSION) is is_evicted
    assert sessions.evictions == 2 * is_evicted
    assert sessions.size_bytes == (ONE + PARTITION_BYTES + 1 if is_evicted else 2 * ONE)


def test_follower_evicts_consumer_sessions_and_always_gets_a_session() -> None:
    sessions = new_sessions(2 * ONE)
    for _ in range(2):
        open_context(sessions, request(1))

    context = open_context(sessions, request(100), is_follower=True)

    assert context.session_id != NO_SESSION
    assert (len(sessions), sessions.evictions) == (1, 2)


def test_session_that_outgrows_the_limit_is_closed_as_if_evicted() -> None:
    sessions = new_sessions(3 * ONE)
    session_id = open_context(sessions, request(1)).session_id

    with pytest.raises(KafkaError) as rejected:
        open_context(sessions, request(10, session_id, 1, first=1))

    assert rejected.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.size_bytes, sessions.rejections) == (0, 0, 1)


def test_bytes_are_freed_when_partitions_are_removed_and_sessions_close() -> None:
    sessions = new_sessions(1_000_000)
    session_id = open_context(sessions, request(10)).session_id
    full_bytes = sessions.size_bytes
    open_context(sessions, request(0, session_id, 1, remove=9))
    reduced_bytes = sessions.size_bytes
    open_context(sessions, request(0, session_id, FINAL_EPOCH))

    assert (full_bytes, reduced_bytes, sessions.size_bytes) == (ONE + 9 * (PARTITION_BYTES + 1), ONE, 0)


def test_rejected_sessions_are_logged_at_most_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    sessions = new_sessions(ONE)
    for now_ms in (0, 1, 59_999, 60_000):
        open_context(sessions, request(2), now_ms=now_ms)

    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "no fetch session for 2 partitions, of 1 rejected so far",
        "no fetch session for 2 partitions, of 4 rejected so far",
    ]


def test_large_request_is_freed_while_its_partitions_are_added() -> None:
    sessions, message = new_sessions(1_000_000), request(1_000)
    steps = sessions.open_in_slices(message, uses_topic_ids=False, now_ms=0)
    for _ in range(10):
        next(steps)
    left = len(message.topics[0].partitions) if message.topics else 0
    context = run_to_end(steps)

    assert left < 1_000
    assert message.topics == []
    assert list(context.partitions) == [("t", ZERO_UUID, index) for index in range(1_000)]


def test_abandoned_request_closes_its_session() -> None:
    sessions = new_sessions(1_000_000)
    session_id = open_context(sessions, request(1)).session_id
    steps = sessions.open_in_slices(request(1_000, session_id, 1), uses_topic_ids=False, now_ms=0)
    next(steps)
    with pytest.raises(KafkaError) as meanwhile:
        open_context(sessions, request(1, session_id, 1))
    steps.close()

    assert meanwhile.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (len(sessions), sessions.size_bytes) == (0, 0)


def test_large_closed_session_is_freed_in_slices() -> None:
    sessions = new_sessions(1_000_000)
    context = open_context(sessions, request(1_000))
    open_context(sessions, request(0, context.session_id, FINAL_EPOCH))
    left = []
    while context.partitions:
        open_context(sessions, request(1, NO_SESSION, FINAL_EPOCH))
        left.append(len(context.partitions))

    assert left == [744, 488, 232, 0]
