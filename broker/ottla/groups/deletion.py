"""The records that delete a group of any protocol, without its offsets.

Source: Group.createGroupTombstoneRecords of Apache Kafka 4.3.
"""

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.records import group_tombstones
from ottla.groups.log import GroupRecord, group_metadata_record
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.records import group_tombstones as share_group_tombstones
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.records import group_tombstones as streams_group_tombstones


def deletion_records(group: ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup) -> list[GroupRecord]:
    """Return the tombstones of a group without members."""
    if isinstance(group, ConsumerGroup):
        return group_tombstones(group)
    if isinstance(group, ShareGroup):
        return share_group_tombstones(group)
    if isinstance(group, StreamsGroup):
        return streams_group_tombstones(group)
    return [group_metadata_record(group.group_id, None)]
