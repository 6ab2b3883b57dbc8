"""Fetch sessions (KIP-227): creation, continuation, end and eviction."""

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.replication.sessions.fetch_session import NO_SESSION, FetchContext
from ottla.replication.sessions.fetch_session_cache import FetchSessionCache
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.session_epochs import FINAL_EPOCH, INITIAL_EPOCH

IDLE_MS = 120_000


def request(
    session_id: int, epoch: int, *, add: dict[int, int] | None = None, remove: list[int] | None = None
) -> FetchRequest:
    """Return a fetch of partitions of topic t; ``add`` has fetch offsets by partition."""
    partitions = [FetchPartition(partition=index, fetch_offset=offset) for index, offset in (add or {}).items()]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=remove)] if remove else [],
    )


def new_sessions(slots: int = 1_000) -> FetchSessionCache:
    return FetchSessionCache(random=SeededRandom(7), slots_max=slots)


def open_context(
    sessions: FetchSessionCache, message: FetchRequest, now_ms: int = 0, *, ids: bool = False
) -> FetchContext:
    return sessions.open_context(message, uses_topic_ids=ids, now_ms=now_ms)


def offsets(context: FetchContext) -> dict[int, int]:
    return {key[2]: fetched.fetch_offset for key, fetched in context.partitions.items()}


def error_of(sessions: FetchSessionCache, message: FetchRequest, *, ids: bool = False) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        open_context(sessions, message, ids=ids)
    return caught.value.code


def test_first_full_fetch_creates_a_session() -> None:
    sessions = new_sessions()

    context = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 10, 1: 20}))

    assert context.session_id > 0
    assert not context.is_incremental
    assert offsets(context) == {0: 10, 1: 20}
    assert (len(sessions), sessions.partition_count) == (1, 2)


def test_sessionless_fetch_creates_no_session() -> None:
    sessions = new_sessions()

    context = open_context(sessions, request(NO_SESSION, FINAL_EPOCH, add={0: 10}))

    assert (context.session_id, context.is_incremental) == (NO_SESSION, False)
    assert offsets(context) == {0: 10}
    assert len(sessions) == 0


def test_full_fetch_without_partitions_creates_no_session() -> None:
    assert open_context(new_sessions(), request(NO_SESSION, INITIAL_EPOCH)).session_id == NO_SESSION


def test_incremental_fetch_has_only_changed_partitions() -> None:
    sessions = new_sessions()
    session_id = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 10, 1: 20, 2: 30})).session_id

    context = open_context(sessions, request(session_id, 1, add={1: 25, 3: 40}, remove=[2]))

    assert (context.session_id, context.is_incremental) == (session_id, True)
    assert offsets(context) == {0: 10, 1: 25, 3: 40}


def test_data_of_the_last_response_is_kept_for_a_changed_partition() -> None:
    sessions = new_sessions()
    first = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 10}))
    next(iter(first.partitions.values())).last_high_watermark = 99

    second = open_context(sessions, request(first.session_id, 1, add={0: 11}))

    assert next(iter(second.partitions.values())).last_high_watermark == 99


@pytest.mark.parametrize("epoch", [2, 3, 2**31 - 1, -2])
def test_unexpected_epoch_is_rejected_and_changes_nothing(epoch: int) -> None:
    sessions = new_sessions()
    session_id = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 10})).session_id

    assert error_of(sessions, request(session_id, epoch, add={0: 11, 5: 0})) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert offsets(open_context(sessions, request(session_id, 1))) == {0: 10}


def test_epoch_is_not_accepted_twice() -> None:
    sessions = new_sessions()
    session_id = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 10})).session_id
    open_context(sessions, request(session_id, 1))

    assert error_of(sessions, request(session_id, 1)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert open_context(sessions, request(session_id, 2)).is_incremental


def test_session_epoch_wraps_from_the_largest_to_one() -> None:
    sessions = new_sessions()
    session_id = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 10})).session_id
    sessions._sessions[session_id].epoch = 2**31 - 1

    open_context(sessions, request(session_id, 2**31 - 1))

    assert open_context(sessions, request(session_id, 1)).is_incremental


@pytest.mark.parametrize("session_id", [NO_SESSION, 12_345])
def test_unknown_session_is_rejected(session_id: int) -> None:
    assert error_of(new_sessions(), request(session_id, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_cannot_switch_between_topic_names_and_ids() -> None:
    sessions = new_sessions()
    session_id = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 10})).session_id

    assert error_of(sessions, request(session_id, 1), ids=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert open_context(sessions, request(session_id, 1)).is_incremental


def test_topics_are_distinguished_by_their_id() -> None:
    sessions = new_sessions()
    topics = [
        FetchTopic(topic_id=Uuid(bytes([number]) * 16), partitions=[FetchPartition(partition=0)]) for number in (1, 2)
    ]
    full = FetchRequest(session_id=NO_SESSION, session_epoch=INITIAL_EPOCH, topics=topics)

    context = open_context(sessions, full, ids=True)

    assert {key[1] for key in context.partitions} == {topic.topic_id for topic in topics}
    assert ZERO_UUID not in {key[1] for key in context.partitions}


def test_final_epoch_closes_a_session_and_still_fetches() -> None:
    sessions = new_sessions()
    session_id = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 10})).session_id

    context = open_context(sessions, request(session_id, FINAL_EPOCH, add={0: 12}))

    assert (context.session_id, offsets(context)) == (NO_SESSION, {0: 12})
    assert error_of(sessions, request(session_id, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_initial_epoch_replaces_the_named_session() -> None:
    sessions = new_sessions()
    old = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 10})).session_id

    new = open_context(sessions, request(old, INITIAL_EPOCH, add={1: 10})).session_id

    assert new != old
    assert len(sessions) == 1
    assert error_of(sessions, request(old, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_without_partitions_is_closed() -> None:
    sessions = new_sessions()
    session_id = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 10})).session_id

    context = open_context(sessions, request(session_id, 1, remove=[0]))

    assert (context.session_id, len(sessions)) == (NO_SESSION, 0)


@pytest.mark.parametrize(("idle_ms", "is_evicted"), [(IDLE_MS, False), (IDLE_MS + 1, True)])
def test_only_a_session_idle_for_two_minutes_is_evicted(idle_ms: int, is_evicted: bool) -> None:
    sessions = new_sessions(slots=2)
    first = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 1}), now_ms=0).session_id
    second = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 2}), now_ms=1).session_id

    third = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 3}), now_ms=idle_ms).session_id

    assert (third != NO_SESSION) == is_evicted
    assert sessions.evictions == int(is_evicted)
    assert set(sessions._sessions) == ({second, third} if is_evicted else {first, second})


def test_use_keeps_a_session_from_being_evicted() -> None:
    sessions = new_sessions(slots=2)
    first = open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 1}), now_ms=0).session_id
    open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 2}), now_ms=1)
    open_context(sessions, request(first, 1), now_ms=IDLE_MS)

    open_context(sessions, request(NO_SESSION, INITIAL_EPOCH, add={0: 3}), now_ms=IDLE_MS + 2)

    assert first in sessions._sessions


def test_without_slots_every_fetch_is_full() -> None:
    context = open_context(new_sessions(slots=0), request(NO_SESSION, INITIAL_EPOCH, add={0: 1}))

    assert (context.session_id, offsets(context)) == (NO_SESSION, {0: 1})


def test_largest_consumers_session_can_be_closed() -> None:
    sessions = FetchSessionCache(random=SeededRandom(1))
    small, large = (sessions.open_context(fetch_of(count), uses_topic_ids=True, now_ms=0).session for count in (2, 5))
    followers = sessions.open_context(fetch_of(9), uses_topic_ids=True, now_ms=0, is_follower=True).session
    assert small is not None
    assert large is not None
    assert followers is not None

    assert [sessions.close_largest(partitions_min=3) for _ in range(2)] == [5, 0]
    assert [small.is_open, large.is_open, followers.is_open] == [True, False, True]


def fetch_of(count: int) -> FetchRequest:
    """Return a full fetch of so many partitions that opens a session."""
    partitions = [FetchPartition(partition=index) for index in range(count)]
    return FetchRequest(session_epoch=0, topics=[FetchTopic(topic_id=Uuid(b"t" * 16), partitions=partitions)])
