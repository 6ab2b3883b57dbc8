"""OffsetFetch: the offsets of a group, for some topics.

Source: OffsetMetadataManager.fetchOffsets, fetchAllOffsets.
"""

from typing import Final

from ottla.errors import ErrorCode
from ottla.groups.offsets.store import OffsetKey, OffsetStore
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET: Final = -1


def fetch_offsets(
    store: OffsetStore, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Return the requested offsets, -1 for none.

    With ``require_stable``, an offset that an open transaction may change has the error UNSTABLE_OFFSET_COMMIT.
    """
    response = OffsetFetchResponseGroup(group_id=request.group_id)
    for topic in request.topics or ():
        keys = [OffsetKey(request.group_id, topic.name, partition) for partition in topic.partition_indexes]
        partitions = [_partition(store, key, require_stable) for key in keys]
        response.topics.append(
            OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        )
    return response


def _partition(store: OffsetStore, key: OffsetKey, require_stable: bool) -> OffsetFetchResponsePartitions:
    value = store.get(key)
    is_unstable = require_stable and store.is_pending(key)
    if value is None or is_unstable:
        error = ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else ErrorCode.NONE
        return OffsetFetchResponsePartitions(
            partition_index=key.partition, committed_offset=NO_OFFSET, metadata="", error_code=int(error)
        )
    return OffsetFetchResponsePartitions(
        partition_index=key.partition,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )
