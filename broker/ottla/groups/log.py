"""Records of ``__consumer_offsets``, as messages and as bytes.

Key: int16 type, then the key's message (version 0). Value: int16 version, then the value's message; null is a
tombstone. Values are written in the versions that Kafka 4.3 writes.

Source: GroupCoordinatorRecordSerde, GroupCoordinatorRecordHelpers; CoordinatorRecordType.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from ottla.coordinator.serde import RecordSerde
from ottla.errors import ProtocolError
from ottla.wire.codec import Message
from ottla.wire.messages import share_group_log as share
from ottla.wire.messages import streams_group_log as streams
from ottla.wire.messages.group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

_INT16 = Struct(">h")
_KEY_VERSION: Final = 0
_VALUE_TYPES: dict[type[Message], type[Message]] = {
    LegacyOffsetCommitKey: LegacyOffsetCommitValue,
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
    ConsumerGroupMetadataKey: ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey: ConsumerGroupPartitionMetadataValue,
    ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionKey: ConsumerGroupRegularExpressionValue,
    share.ShareGroupMemberMetadataKey: share.ShareGroupMemberMetadataValue,
    share.ShareGroupMetadataKey: share.ShareGroupMetadataValue,
    share.ShareGroupTargetAssignmentMetadataKey: share.ShareGroupTargetAssignmentMetadataValue,
    share.ShareGroupTargetAssignmentMemberKey: share.ShareGroupTargetAssignmentMemberValue,
    share.ShareGroupCurrentMemberAssignmentKey: share.ShareGroupCurrentMemberAssignmentValue,
    share.ShareGroupStatePartitionMetadataKey: share.ShareGroupStatePartitionMetadataValue,
    streams.StreamsGroupMetadataKey: streams.StreamsGroupMetadataValue,
    streams.StreamsGroupMemberMetadataKey: streams.StreamsGroupMemberMetadataValue,
    streams.StreamsGroupTargetAssignmentMetadataKey: streams.StreamsGroupTargetAssignmentMetadataValue,
    streams.StreamsGroupTargetAssignmentMemberKey: streams.StreamsGroupTargetAssignmentMemberValue,
    streams.StreamsGroupCurrentMemberAssignmentKey: streams.StreamsGroupCurrentMemberAssignmentValue,
    streams.StreamsGroupTopologyKey: streams.StreamsGroupTopologyValue,
}
_KEY_TYPES = {key_type.api_key: key_type for key_type in _VALUE_TYPES}
OFFSET_COMMIT_VALUE_VERSION: Final = 4
EXPIRING_OFFSET_COMMIT_VALUE_VERSION: Final = 1
"""The only version that has ``expire_timestamp``: written for clients that request a retention time."""
GROUP_METADATA_VALUE_VERSION: Final = 3
_MODERN_GROUP_VALUE_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One record: its key and its value; None is a tombstone.

    Attributes:
        encoded: its bytes, if they were computed before.
    """

    key: Message
    value: Message | None
    encoded: tuple[bytes, bytes | None] | None = field(default=None, compare=False, repr=False)


def offset_commit_record(group_id: str, topic: str, partition: int, value: OffsetCommitValue | None) -> GroupRecord:
    """Return the record that stores an offset, or removes it."""
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value)


def group_metadata_record(group_id: str, value: GroupMetadataValue | None) -> GroupRecord:
    """Return the record that stores a classic group, or deletes it."""
    return GroupRecord(GroupMetadataKey(group=group_id), value)


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return the bytes of key and value."""
    if record.encoded is not None:
        return record.encoded
    key = _INT16.pack(record.key.api_key) + record.key.encode(_KEY_VERSION)
    if record.value is None:
        return key, None
    version = _value_version(record.value)
    return key, _INT16.pack(version) + record.value.encode(version)


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Return the record, or None when its type is one that this release does not know.

    Raises:
        ProtocolError: the bytes are not such a record, or of a version that Kafka 4.3 does not know.
    """
    if len(key) < _INT16.size:
        raise ProtocolError(f"the key of a group record has {len(key)} bytes; its type alone takes {_INT16.size}")
    key_type = _KEY_TYPES.get(_INT16.unpack_from(key)[0])
    if key_type is None:
        return None
    message = key_type.decode(key, _KEY_VERSION, _INT16.size)
    if isinstance(message, LegacyOffsetCommitKey):
        # Kafka reads the older type as the newer one; they have the same fields.
        message = OffsetCommitKey(group=message.group, topic=message.topic, partition=message.partition)
    return GroupRecord(message, None if value is None else _decode_value(_VALUE_TYPES[key_type], value))


def _decode_value(value_type: type[Message], data: bytes) -> Message:
    if len(data) < _INT16.size:
        raise ProtocolError(f"a {value_type.__name__} has {len(data)} bytes; its version alone takes {_INT16.size}")
    (version,) = _INT16.unpack_from(data)
    if version not in value_type.versions:
        raise ProtocolError(f"a {value_type.__name__} has version {version}; known are {value_type.versions}")
    value = value_type.decode(data, version, _INT16.size)
    if isinstance(value, LegacyOffsetCommitValue):
        value = OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp)
    return value


def _value_version(value: Message) -> int:
    if isinstance(value, OffsetCommitValue):
        is_expiring = value.expire_timestamp != -1
        return EXPIRING_OFFSET_COMMIT_VALUE_VERSION if is_expiring else OFFSET_COMMIT_VALUE_VERSION
    return GROUP_METADATA_VALUE_VERSION if isinstance(value, GroupMetadataValue) else _MODERN_GROUP_VALUE_VERSION


GROUP_RECORD_SERDE: Final = RecordSerde(encode=encode, decode=decode)
