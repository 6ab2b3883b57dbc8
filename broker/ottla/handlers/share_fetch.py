"""ShareFetch (api key 78, v1-v2): acquire records for a member of a share group (KIP-932).

v1 acknowledgements with the fetch; v2 acquire modes, and renewal of acquisition locks. Epoch 0 opens a share session,
-1 closes it.
Source: ShareFetchRequest.json; KafkaApis.handleShareFetchRequest of Apache Kafka 4.3.1.
"""

from typing import Any, Final, NamedTuple

from ottla.config.durations import parse_duration_ms
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.moved_leader import add_moved_leader
from ottla.handlers.share_acknowledgements import (
    LISTED_PER_STEP,
    MOVED,
    Acknowledged,
    acknowledge,
    find_partition,
    require_manager,
    require_member,
)
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, batches, values_in_steps
from ottla.replication.partition import Partition
from ottla.share_partitions.manager import SharePartitionManager
from ottla.share_partitions.share_fetch_round import FetchedShare, ShareFetchLimits, ShareFetchRound
from ottla.share_partitions.share_partition import SharePartition
from ottla.share_partitions.share_session_cache import (
    ShareSession,
    ShareSessionKey,
)
from ottla.share_state.persister import SharePartitionKey, StateResult
from ottla.types import Offset, TopicIdPartition
from ottla.wire.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.wire.session_epochs import FINAL_EPOCH, INITIAL_EPOCH

_PARTITIONS_PER_STEP: Final = 256
_CREATED_PER_STEP: Final = 8
_RECORD_LIMIT: Final = 1
_NOTHING: Final = FetchedShare()


@serves(api_key=78, versions=range(1, 3))
def share_fetch(context: RequestContext, request: ShareFetchRequest) -> Steps[HandlerResult]:
    """Apply the acknowledgements, then acquire; respond when both are done."""
    key = ShareSessionKey(request.group_id or "", request.member_id or "")
    try:
        manager = require_manager(context)
        require_member(context, request.group_id, request.member_id)
        _check_renewal(request)
        sent = yield from _sent_partitions(request)
        session = _find_session(context, manager, key, request, has_acknowledgements=sent.has_acknowledgements)
        yield from _update_session(manager, session, request, sent.partitions)
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            manager.close_session(key)
            return _after_wait(context, request, ShareFetchResponse(error_code=error.code))
        return ShareFetchResponse(error_code=error.code)
    if request.share_acquire_mode not in (0, _RECORD_LIMIT):
        return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    acknowledged: Acknowledged = {}
    if sent.has_acknowledgements:
        acknowledged = yield from acknowledge(context, *key, request.topics, is_renew=request.is_renew_ack)
    waiting: list[Delayed[Any]] = list(acknowledged.values())
    fetch = None
    if request.share_session_epoch == FINAL_EPOCH:
        manager.sessions.close(key)
        waiting += yield from manager.release(session)
    elif not request.is_renew_ack:
        known = yield from _create_missing(context, manager, key.group_id, session)
        fetch = _new_round(context, manager, request, session, known)
        yield from fetch.run(context.received_at_ms + request.max_wait_ms)
        if context.charge is not None:
            # Kafka's response has no records if the quota is exceeded; they stay acquired until their locks time out.
            context.charge.add_fetched_bytes(fetch.size_bytes)
    yield from values_in_steps(waiting)
    return (yield from _response(context, manager, request, session, acknowledged, fetch))


class _SentPartitions(NamedTuple):
    """The partitions of the request."""

    partitions: list[TopicIdPartition]
    has_acknowledgements: bool


def _sent_partitions(request: ShareFetchRequest) -> Steps[_SentPartitions]:
    partitions: list[TopicIdPartition] = []
    has_acknowledgements = False
    for topic in request.topics:
        for batch in batches(topic.partitions, _PARTITIONS_PER_STEP):
            partitions += [TopicIdPartition(topic.topic_id, part.partition_index) for part in batch]
            has_acknowledgements = has_acknowledgements or any(part.acknowledgement_batches for part in batch)
            yield None
    return _SentPartitions(partitions, has_acknowledgements)


def _check_renewal(request: ShareFetchRequest) -> None:
    """Reject a renewal that would also fetch."""
    wants_records = request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    if request.is_renew_ack and wants_records:
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _find_session(
    context: RequestContext,
    manager: SharePartitionManager,
    key: ShareSessionKey,
    request: ShareFetchRequest,
    *,
    has_acknowledgements: bool,
) -> ShareSession:
    """Return the session of the request: a new one for the initial epoch."""
    sessions, epoch = manager.sessions, request.share_session_epoch
    if epoch == FINAL_EPOCH:
        return sessions.require(key)
    if epoch == INITIAL_EPOCH:
        if has_acknowledgements:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return manager.open_session(key, context.connection.connection)
    return sessions.advance(key, epoch)


def _update_session(
    manager: SharePartitionManager,
    session: ShareSession,
    request: ShareFetchRequest,
    added: list[TopicIdPartition],
) -> Steps[None]:
    if request.share_session_epoch == FINAL_EPOCH:
        return
    for batch in batches(added, _PARTITIONS_PER_STEP):
        manager.sessions.update(session, batch)
        yield None
    if request.share_session_epoch == INITIAL_EPOCH:
        return
    for topic in request.forgotten_topics_data:
        for numbers in batches(topic.partitions, _PARTITIONS_PER_STEP):
            manager.sessions.update(session, (), [TopicIdPartition(topic.topic_id, number) for number in numbers])
            yield None


def _after_wait(context: RequestContext, request: ShareFetchRequest, response: ShareFetchResponse) -> HandlerResult:
    """Delay an error that the client would provoke again at once."""
    return context.services.replicas.fetch_purgatory.watch(
        (),
        deadline_ms=context.received_at_ms + max(request.max_wait_ms, 0),
        try_complete=lambda: None,
        on_deadline=lambda: response,
        is_tried=True,
    )


def _create_missing(
    context: RequestContext, manager: SharePartitionManager, group_id: str, session: ShareSession
) -> Steps[dict[SharePartitionKey, SharePartition]]:
    """Create and return share-partitions that no member has fetched yet in this leader epoch."""
    created: dict[SharePartitionKey, SharePartition] = {}
    for number, wanted in enumerate(list(session.partitions), 1):
        try:
            partition, key = find_partition(context, group_id, wanted)
        except KafkaError:
            continue
        if partition.is_leader and manager.find(key, partition) is None:
            reset = manager.settings.auto_offset_reset(group_id)
            initial_offset = None
            if reset.startswith("by_duration"):
                initial_offset = yield from _offset_of_duration(context, partition, reset)
            if partition.is_leader and manager.find(key, partition) is None:
                created[key] = manager.create(key, partition, initial_offset)
        if number % _CREATED_PER_STEP == 0:
            yield None
    return created


def _offset_of_duration(context: RequestContext, partition: Partition, reset: str) -> Steps[Offset]:
    back_ms = parse_duration_ms(reset.partition(":")[2]) or 0
    found = yield from partition.log.offset_for_timestamp(
        context.services.clock.wall_ms() - back_ms, context.off_loop()
    )
    return partition.log.high_watermark if found is None else min(found.offset, partition.log.high_watermark)


def _new_round(
    context: RequestContext,
    manager: SharePartitionManager,
    request: ShareFetchRequest,
    session: ShareSession,
    known: dict[SharePartitionKey, SharePartition],
) -> ShareFetchRound:
    """Return the round; ``known`` are share-partitions whose failure it reports after they have been dropped."""
    group_id, member_id = session.key
    services = context.services

    def find(wanted: TopicIdPartition) -> tuple[Partition, SharePartition]:
        partition, key = find_partition(context, group_id, wanted)
        share_partition = manager.find(key, partition)
        if share_partition is None:
            seen = known.get(key)
            failed = seen.loaded.value if seen is not None and seen.loaded.is_complete else None
            if failed is not None and failed.error:
                raise KafkaError(ErrorCode(failed.error), failed.message)
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        known[key] = share_partition
        return partition, share_partition

    max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
    quota_bytes_max = None if context.charge is None else context.charge.fetch_bytes_max()
    if quota_bytes_max is not None:
        max_bytes = min(max_bytes, quota_bytes_max)
    partitions = list(session.partitions)
    first = request.share_session_epoch % len(partitions) if partitions else 0
    limits = ShareFetchLimits(
        member_id=member_id,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        records_max=request.max_records,
        batch_size=request.batch_size,
        is_record_limit=request.share_acquire_mode == _RECORD_LIMIT,
        reads_committed=manager.settings.reads_committed(group_id),
    )
    return ShareFetchRound(
        services.replicas,
        manager.waiters,
        limits,
        partitions[first:] + partitions[:first],
        find,
        services.clock.monotonic_ms,
    )


def _response(
    context: RequestContext,
    manager: SharePartitionManager,
    request: ShareFetchRequest,
    session: ShareSession,
    acknowledged: Acknowledged,
    fetch: ShareFetchRound | None,
) -> Steps[ShareFetchResponse]:
    response = ShareFetchResponse(
        acquisition_lock_timeout_ms=manager.settings.record_lock_duration_ms(session.key.group_id)
    )
    fetched = {} if fetch is None else fetch.fetched
    given = dict.fromkeys((*acknowledged, *fetched))
    listed = given
    if request.share_session_epoch == INITIAL_EPOCH and request.max_records > 0 and request.max_bytes > 0:
        # As in Kafka, the first response of a session also lists partitions that have been read in vain.
        listed = given | session.partitions
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for number, wanted in enumerate(listed, 1):
        if number % LISTED_PER_STEP == 0:
            yield None
        if wanted not in given:
            share_partition = manager.current(SharePartitionKey(session.key.group_id, *wanted))
            if share_partition is None or not share_partition.can_acquire():
                continue
        topic = topics.get(wanted.topic_id)
        if topic is None:
            topic = topics[wanted.topic_id] = ShareFetchableTopicResponse(topic_id=wanted.topic_id)
            response.responses.append(topic)
        result = acknowledged.get(wanted)
        data = _partition_data(
            wanted, fetched.get(wanted, _NOTHING), StateResult(ErrorCode.NONE) if result is None else result.value
        )
        name = context.services.metadata.topic_name(wanted.topic_id)
        if name is not None and (data.error_code in MOVED or data.acknowledge_error_code in MOVED):
            add_moved_leader(context, data.current_leader, response.node_endpoints, name, wanted.partition)
        topic.partitions.append(data)
    return response


def _partition_data(wanted: TopicIdPartition, found: FetchedShare, acknowledged: StateResult) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition,
        error_code=found.error,
        error_message=found.message,
        acknowledge_error_code=acknowledged.error,
        acknowledge_error_message=acknowledged.message,
        records=b"" if found.records is None else found.records,
        acquired_records=[
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in found.acquired
        ],
    )
