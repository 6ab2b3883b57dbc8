"""Keys and values of records in ``__share_group_state``.

Source: share-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from ottla.types import Uuid
from ottla.wire.codec import Message, Struct, array, int8, int16, int32, int64, string, uuid


class ShareSnapshotKey(Message, api_key=0, versions="0", flexible="none"):
    group_id: str = string("0")
    topic_id: Uuid = uuid("0")
    partition: int = int32("0")


class ShareSnapshotValueStateBatch(Struct):
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_state: int = int8("0+")
    delivery_count: int = int16("0+")


class ShareSnapshotValue(Message, api_key=0, versions="0", flexible="0+"):
    snapshot_epoch: int = int32("0+")
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tag=0, tagged="0+")
    create_timestamp: int = int64("0+")
    write_timestamp: int = int64("0+")
    state_batches: list[ShareSnapshotValueStateBatch] = array(ShareSnapshotValueStateBatch, "0+")


class ShareUpdateKey(Message, api_key=1, versions="0", flexible="none"):
    group_id: str = string("0")
    topic_id: Uuid = uuid("0")
    partition: int = int32("0")


class ShareUpdateValueStateBatch(Struct):
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_state: int = int8("0+")
    delivery_count: int = int16("0+")


class ShareUpdateValue(Message, api_key=1, versions="0", flexible="0+"):
    snapshot_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tag=0, tagged="0+")
    state_batches: list[ShareUpdateValueStateBatch] = array(ShareUpdateValueStateBatch, "0+")
