"""Records of ``__share_group_state``, as objects and as bytes.

Key: int16 type (0 snapshot, 1 update), then group id, topic id and partition. Value: int16 version 0, then
ShareSnapshotValue or ShareUpdateValue; a null value of a snapshot is a tombstone. An update changes what the last
snapshot and the updates since say.

Source: ShareCoordinatorRecordSerde, ShareCoordinatorRecordHelpers of Apache Kafka 4.3.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ottla.coordinator.serde import RecordSerde
from ottla.errors import ProtocolError
from ottla.purgatory.steps import Steps, run_to_end
from ottla.share_state.batches import Batches, combine_in_steps
from ottla.share_state.persister import SharePartitionKey, StateBatch
from ottla.types import LeaderEpoch, Offset
from ottla.wire.messages.share_state_log import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue

_INT16: Final = Struct(">h")
_SNAPSHOT: Final = 0
_UPDATE: Final = 1
_VALUE_VERSION: Final = 0
_ENCODED_VALUE_VERSION: Final = _INT16.pack(_VALUE_VERSION)
_KEY_VERSION: Final = 0
_LARGE_VALUE_BYTES: Final = 4096

_ValueT = TypeVar("_ValueT", ShareSnapshotValue, ShareUpdateValue)


class ShareState(NamedTuple):
    """The state of a share-partition, as a snapshot stores it.

    ``create_ms`` and ``write_ms`` are when it was last changed by a request, and when the snapshot was written: they
    differ once the partition is cold. Updates change neither.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: LeaderEpoch
    start_offset: Offset
    delivery_complete_count: int
    create_ms: int
    write_ms: int
    batches: Batches = ()


class ShareSnapshot(NamedTuple):
    """The whole state, which replaces what records before it say; None is a tombstone."""

    key: SharePartitionKey
    state: ShareState | None


class ShareUpdate(NamedTuple):
    """Changes since a snapshot; -1 as leader epoch or start offset leaves the one before."""

    key: SharePartitionKey
    snapshot_epoch: int
    leader_epoch: LeaderEpoch
    start_offset: Offset
    delivery_complete_count: int
    batches: Batches


ShareRecord: TypeAlias = ShareSnapshot | ShareUpdate


def encode(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Return the bytes of key and value."""
    group_id, topic_id, partition = record.key
    if isinstance(record, ShareUpdate):
        key = ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition)
        value = ShareUpdateValue(
            snapshot_epoch=record.snapshot_epoch,
            leader_epoch=record.leader_epoch,
            start_offset=record.start_offset,
            delivery_complete_count=record.delivery_complete_count,
            state_batches=encodable(record.batches),
        )
        return _INT16.pack(_UPDATE) + key.encode(_KEY_VERSION), _ENCODED_VALUE_VERSION + value.encode(_VALUE_VERSION)
    snapshot_key = ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition)
    encoded_key = _INT16.pack(_SNAPSHOT) + snapshot_key.encode(_KEY_VERSION)
    state = record.state
    if state is None:
        return encoded_key, None
    snapshot = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=encodable(state.batches),
    )
    return encoded_key, _ENCODED_VALUE_VERSION + snapshot.encode(_VALUE_VERSION)


def encodable(batches: Batches) -> Any:  # noqa: ANN401 - a list of structs to the type checker
    """Return batches for a field of a message whose structs have the same four fields.

    The codec reads the fields by name: to copy thousands of batches to structs would take longer than to encode them.
    """
    return batches


def decode(key: bytes, value: bytes | None) -> ShareRecord | None:
    """Return the record; None for a type that this release does not know.

    Raises:
        ProtocolError: the bytes are not such a record, the value has an unknown version, or an update has no value.
    """
    return run_to_end(decode_in_steps(key, value))


def decode_in_steps(key: bytes, value: bytes | None) -> Steps[ShareRecord | None]:
    """Decode as `decode` does; yield after some state batches each: a snapshot may have more than 10,000."""
    if len(key) < _INT16.size:
        raise ProtocolError(f"the key of a record of share state has {len(key)} bytes; its type alone takes 2")
    (kind,) = _INT16.unpack_from(key)
    if kind == _SNAPSHOT:
        snapshot_key = ShareSnapshotKey.decode(key, _KEY_VERSION, _INT16.size)
        partition_key = SharePartitionKey(snapshot_key.group_id, snapshot_key.topic_id, snapshot_key.partition)
        state = None if value is None else (yield from _to_state(partition_key, value))
        return ShareSnapshot(partition_key, state)
    if kind != _UPDATE:
        return None
    update_key = ShareUpdateKey.decode(key, _KEY_VERSION, _INT16.size)
    partition_key = SharePartitionKey(update_key.group_id, update_key.topic_id, update_key.partition)
    if value is None:
        raise ProtocolError(f"the update of {partition_key} has no value")
    update = yield from _decode_value(ShareUpdateValue, partition_key, value)
    return ShareUpdate(
        partition_key,
        update.snapshot_epoch,
        update.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        (yield from _to_batches(update.state_batches)),
    )


def _to_state(key: SharePartitionKey, value: bytes) -> Steps[ShareState]:
    decoded = yield from _decode_value(ShareSnapshotValue, key, value)
    return ShareState(
        decoded.snapshot_epoch,
        decoded.state_epoch,
        decoded.leader_epoch,
        decoded.start_offset,
        decoded.delivery_complete_count,
        decoded.create_timestamp,
        decoded.write_timestamp,
        (yield from _to_batches(decoded.state_batches)),
    )


def _decode_value(value_type: type[_ValueT], key: SharePartitionKey, value: bytes) -> Steps[_ValueT]:
    _check_version(key, value)
    if len(value) < _LARGE_VALUE_BYTES:
        # Nearly all are small, and take two thirds of the time this way.
        return value_type.decode(value, _VALUE_VERSION, _INT16.size)
    decoded, end = yield from value_type.decode_in_steps(value, _VALUE_VERSION, _INT16.size)
    if end != len(value):
        raise ProtocolError(f"the value of {key} is followed by {len(value) - end} bytes too many")
    return decoded


def _check_version(key: SharePartitionKey, value: bytes) -> None:
    if len(value) < _INT16.size:
        raise ProtocolError(f"the value of {key} has {len(value)} bytes; its version alone takes 2")
    (version,) = _INT16.unpack_from(value)
    if version != _VALUE_VERSION:
        raise ProtocolError(f"the value of {key} has version {version}; known is {_VALUE_VERSION}")


def _to_batches(batches: Iterable[Any]) -> Steps[Batches]:
    """Return the batches of a record; another coordinator may have written them in another order, or overlapping."""
    return combine_in_steps(
        StateBatch(it.first_offset, it.last_offset, it.delivery_state, it.delivery_count) for it in batches
    )


SHARE_RECORD_SERDE: Final[RecordSerde[ShareRecord]] = RecordSerde(
    encode=encode, decode=decode, decode_in_steps=decode_in_steps
)
"""`ShareRecord` for `coordinator.runtime`."""
