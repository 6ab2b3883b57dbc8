"""FetchSnapshot (api key 59, v0-v1): read a piece of a raft snapshot.

Source: FetchSnapshotRequest.json, FetchSnapshotResponse.json (Kafka 4.3).
"""

from ottla.types import Uuid
from ottla.wire.codec import Message, Struct, array, int16, int32, int64, records, string, struct, uint16, uuid
from ottla.wire.codec.message import Records


class FetchSnapshotRequestSnapshotId(Struct):
    end_offset: int = int64("0+")
    epoch: int = int32("0+")


class FetchSnapshotRequestPartitionSnapshot(Struct):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("0+")
    snapshot_id: FetchSnapshotRequestSnapshotId = struct(FetchSnapshotRequestSnapshotId, "0+")
    position: int = int64("0+")
    replica_directory_id: Uuid = uuid("1+", tag=0, tagged="1+", ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Struct):
    name: str = string("0+")
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = array(FetchSnapshotRequestPartitionSnapshot, "0+")


class FetchSnapshotRequest(Message, api_key=59, versions="0-1", flexible="0+", served_on="controller"):
    cluster_id: str | None = string("0+", nullable="0+", default=None, tag=0, tagged="0+")
    replica_id: int = int32("0+", default=-1)
    max_bytes: int = int32("0+", default=2**31 - 1)
    topics: list[FetchSnapshotRequestTopicSnapshot] = array(FetchSnapshotRequestTopicSnapshot, "0+")


class FetchSnapshotResponseSnapshotId(Struct):
    end_offset: int = int64("0+")
    epoch: int = int32("0+")


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: int = int32("0+")
    error_code: int = int16("0+")
    snapshot_id: FetchSnapshotResponseSnapshotId = struct(FetchSnapshotResponseSnapshotId, "0+")
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+", tag=0, tagged="0+")
    size: int = int64("0+")
    position: int = int64("0+")
    unaligned_records: Records | None = records("0+")


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: str = string("0+")
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = array(FetchSnapshotResponsePartitionSnapshot, "0+")


class NodeEndpoint(Struct):
    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class FetchSnapshotResponse(Message, api_key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    topics: list[FetchSnapshotResponseTopicSnapshot] = array(FetchSnapshotResponseTopicSnapshot, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, tagged="1+")
