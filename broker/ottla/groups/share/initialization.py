"""The initialization of share-partitions: their state is created at the share coordinators before they are assigned.

A heartbeat records the partitions that have no state as initializing, in the batch of its own changes. When that is
committed, the persister creates the state; then they are recorded as initialized, and the next heartbeat assigns them.
After a failure they are no longer recorded, and the next heartbeat starts again. If the coordinator moves or fails in
between, the record stays: partitions are initialized again after ``group.share.initialize.retry.interval.ms``. That
resets a state which exists already; it is not done with partitions that are recorded as initialized, which members may
have.

Source: GroupMetadataManager.subscribedTopicsChangeMap, initializeShareGroupState, uninitializeShareGroupState,
GroupCoordinatorService.handlePersisterInitializeResponse of Apache Kafka 4.3.
"""

import logging
from collections.abc import Iterable

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode
from ottla.groups.log import GroupRecord
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.groups import ShareGroups
from ottla.groups.share.records import state_partitions_record
from ottla.groups.share.state_partitions import (
    PARTITIONS_MAX,
    TOPICS_MAX,
    StatePartitions,
    StateSize,
    StateTopic,
    TopicStates,
)
from ottla.quoting import quoted
from ottla.types import Uuid

log = logging.getLogger(__name__)


def topics_to_initialize(
    group: ShareGroup, names: Iterable[str], topics: ClusterTopics, *, now_ms: int, retry_ms: int
) -> TopicStates:
    """Return the partitions of the topics with these names that have no state, and for which none is being created."""
    state = group.state_partitions or StatePartitions()
    is_recent = now_ms - group.state_replayed_ms < retry_ms
    found: dict[Uuid, StateTopic] = {}
    size = StateSize(state)
    for name in names:
        topic_id = topics.id_of(name)
        if topic_id is None:
            continue
        known: frozenset[int] = frozenset()
        if topic_id in state.initialized:
            known |= state.initialized[topic_id].partitions
        if is_recent and topic_id in state.initializing:
            known |= state.initializing[topic_id].partitions
        count = topics.partition_count_of(topic_id)
        if len(known) >= count:
            continue
        missing = frozenset(range(count)) - known
        if not size.add(topic_id, missing):
            log.warning(
                "Group %s consumes more than %d topics or %d partitions; the others are not initialized",
                quoted(group.group_id),
                TOPICS_MAX,
                PARTITIONS_MAX,
            )
            break
        found[topic_id] = StateTopic(name, missing)
    return found


def initializing_record(group: ShareGroup, topics: TopicStates) -> GroupRecord:
    state = group.state_partitions or StatePartitions()
    return state_partitions_record(group.group_id, state.with_initializing(topics))


def finish_initialization(
    groups: ShareGroups, group_id: str, topics: TopicStates, error: ErrorCode
) -> CoordinatorResult[GroupRecord, None]:
    """Return the record with ``topics`` as initialized, or without them if ``error`` is not NONE."""
    group = groups.groups.get(group_id)
    # A topic may have been deleted meanwhile, the group too: what they had is removed, and must not come back.
    left = {topic_id: topic for topic_id, topic in topics.items() if groups.topics.name_of(topic_id) is not None}
    if group is None or not left:
        return CoordinatorResult(response=None)
    state = group.state_partitions or StatePartitions()
    if error is ErrorCode.NONE:
        changed = state.with_initialized(left)
    else:
        log.warning("Group %s: share-partitions cannot be initialized: %s", quoted(group_id), error.name)
        changed = state.without_initializing(left)
    if changed == state:
        return CoordinatorResult(response=None)
    return CoordinatorResult(records=[state_partitions_record(group_id, changed)], response=None)
