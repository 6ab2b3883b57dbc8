"""Expiry of offsets and groups.

An offset expires ``offsets.retention.minutes`` after its group became empty; if the group never had members, or now
subscribes to other topics, or is not a classic group, after its own commit. A group without members and offsets is
removed too.

Source: OffsetMetadataManager.cleanupExpiredOffsets; ClassicGroup.offsetExpirationCondition; KIP-211.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.deletion import deletion_records
from ottla.groups.log import GroupRecord
from ottla.groups.offsets.delete import tombstone
from ottla.groups.offsets.member_check import EpochGroup
from ottla.groups.offsets.store import OffsetKey, OffsetStore
from ottla.wire.messages.group_log import OffsetCommitValue

NOT_SET: Final = -1

RetentionStart: TypeAlias = Callable[[OffsetCommitValue], int]
"""Returns the wall clock time at which an offset's retention starts."""


def expire_offsets(
    store: OffsetStore, group: ClassicGroup | EpochGroup, *, now_ms: int, retention_ms: int
) -> list[GroupRecord]:
    """Return the tombstones of all that has expired at ``now_ms`` (wall clock), including the group's own."""
    retention_start = _retention_start(group)
    expired: list[GroupRecord] = []
    are_all_expired = not store.has_open_transaction(group.group_id)
    for topic, partitions in store.of_group(group.group_id).items():
        keys = [
            key
            for partition, value in partitions.items()
            if retention_start is not None and _is_expired(value, retention_start, now_ms, retention_ms)
            if not store.is_pending(key := OffsetKey(group.group_id, topic, partition))
        ]
        # Last: to find out which topics a group subscribes to may take milliseconds.
        if keys and group.is_subscribed_to(topic):
            keys = []
        expired += map(tombstone, keys)
        are_all_expired = are_all_expired and len(keys) == len(partitions)
    if are_all_expired and group.is_empty:
        expired += deletion_records(group)
    return expired


def _retention_start(group: ClassicGroup | EpochGroup) -> RetentionStart | None:
    """Return the start of retention; None if no offset expires because members may return."""
    if not isinstance(group, ClassicGroup):
        return _commit_time
    if group.protocol_type is not None and group.is_empty:
        emptied_ms = group.state_timestamp_ms
        return _commit_time if emptied_ms is None else lambda _: emptied_ms
    is_simple = group.protocol_type is None
    if is_simple or (group.uses_consumer_protocol and group.state is ClassicGroupState.STABLE):
        return _commit_time
    return None


def _commit_time(value: OffsetCommitValue) -> int:
    return value.commit_timestamp


def _is_expired(value: OffsetCommitValue, retention_start: RetentionStart, now_ms: int, retention_ms: int) -> bool:
    if value.expire_timestamp != NOT_SET:
        return now_ms >= value.expire_timestamp
    return now_ms - retention_start(value) >= retention_ms
