"""Vote (api key 52, v0-v2): a raft candidate requests a vote or a pre-vote.

Source: VoteRequest.json, VoteResponse.json (Kafka 4.3).
"""

from ottla.types import Uuid
from ottla.wire.codec import Message, Struct, array, boolean, int16, int32, int64, string, uint16, uuid


class VoteRequestPartitionData(Struct):
    partition_index: int = int32("0+")
    replica_epoch: int = int32("0+")
    replica_id: int = int32("0+")
    replica_directory_id: Uuid = uuid("1+", ignorable=True)
    voter_directory_id: Uuid = uuid("1+", ignorable=True)
    last_offset_epoch: int = int32("0+")
    last_offset: int = int64("0+")
    pre_vote: bool = boolean("2+")


class VoteRequestTopicData(Struct):
    topic_name: str = string("0+")
    partitions: list[VoteRequestPartitionData] = array(VoteRequestPartitionData, "0+")


class VoteRequest(Message, api_key=52, versions="0-2", flexible="0+", served_on="controller"):
    cluster_id: str | None = string("0+", nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[VoteRequestTopicData] = array(VoteRequestTopicData, "0+")


class VoteResponsePartitionData(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    vote_granted: bool = boolean("0+")


class VoteResponseTopicData(Struct):
    topic_name: str = string("0+")
    partitions: list[VoteResponsePartitionData] = array(VoteResponsePartitionData, "0+")


class NodeEndpoint(Struct):
    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class VoteResponse(Message, api_key=52, versions="0-2", flexible="0+"):
    error_code: int = int16("0+")
    topics: list[VoteResponseTopicData] = array(VoteResponseTopicData, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, tagged="1+")
