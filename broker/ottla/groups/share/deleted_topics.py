"""The removal of deleted topics from the records of share groups, a few groups at a time.

The share coordinators remove the states of a deleted topic themselves.

Source: GroupMetadataManager.maybeCleanupShareGroupState of Apache Kafka 4.3.
"""

from typing import Final

from ottla.groups.log import GroupRecord
from ottla.groups.modern.jobs import GroupJob
from ottla.groups.share.groups import ShareGroups
from ottla.groups.share.records import state_partitions_record
from ottla.groups.share.state_partitions import StatePartitions

_JOB: Final = "share-deleted-topics"
_ALL_GROUPS: Final = ""
_WORK_PER_STEP: Final = 256
"""Topics and groups that are checked in one step."""
_PARTITIONS_PER_TOPIC: Final = 16
"""A topic of a record takes as long as so many of its partitions."""
_PARTITIONS_PER_STEP: Final = 2_000
"""In the records of one append, which stays far below a megabyte."""


def remove_deleted_topics(groups: ShareGroups) -> None:
    """Write the records of all groups without topics that do not exist."""
    if not groups.jobs.is_waiting(_JOB, _ALL_GROUPS):
        groups.jobs.start_after_others(_JOB, _ALL_GROUPS, _remove_in_slices(groups))


def _remove_in_slices(groups: ShareGroups) -> GroupJob:
    records: list[GroupRecord] = []
    work = size = 0
    for group_id in list(groups.groups):
        group = groups.groups.get(group_id)
        state = None if group is None else group.state_partitions
        work += 1
        if state is not None:
            ids = state.topic_ids()
            work += len(ids)
            deleted = frozenset(topic_id for topic_id in ids if groups.topics.name_of(topic_id) is None)
            if deleted:
                left = state.without_topics(deleted)
                records.append(state_partitions_record(group_id, left))
                size += _size(left)
        if work >= _WORK_PER_STEP or size >= _PARTITIONS_PER_STEP:
            # Written before anything else changes the groups.
            yield records
            records = []
            work = size = 0
    yield records


def _size(state: StatePartitions) -> int:
    topics = [*state.initializing.values(), *state.initialized.values()]
    partitions = sum(len(topic.partitions) for topic in topics)
    return partitions + _PARTITIONS_PER_TOPIC * (1 + len(topics) + len(state.deleting))
