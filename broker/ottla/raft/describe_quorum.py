"""The answer to DescribeQuorum: who leads the quorum, its voters, and how far each is.

Source: KIP-595, KIP-836, KIP-853; KafkaRaftClient.handleDescribeQuorumRequest and DescribeQuorumRequest of Kafka.
"""

from typing import Any

from ottla.errors import ErrorCode
from ottla.raft.client import RaftClient
from ottla.types import CLUSTER_METADATA_TOPIC, ZERO_UUID
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)


def describe_quorum(
    raft: RaftClient[Any], request: DescribeQuorumRequest, *, wall_ms: int, with_directories: bool = True
) -> DescribeQuorumResponse:
    """Answer for the only quorum there is; NOT_LEADER_OR_FOLLOWER where this replica does not lead it.

    ``with_directories``: from version 2 on the answer has room for directory ids and listeners.
    """
    topics = []
    described = False
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            if topic.topic_name == CLUSTER_METADATA_TOPIC and partition.partition_index == 0:
                partitions.append(_describe(raft, wall_ms, with_directories))
                described = raft.is_leader
            else:
                partitions.append(
                    DescribeQuorumResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message="This server does not host this topic-partition.",
                    )
                )
        topics.append(DescribeQuorumResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
    return DescribeQuorumResponse(
        topics=topics, error_message="", nodes=_nodes(raft) if described and with_directories else []
    )


def _describe(raft: RaftClient[Any], wall_ms: int, with_directories: bool) -> DescribeQuorumResponsePartitionData:
    leader_id, epoch = raft.leader_and_epoch
    if not raft.is_leader:
        return DescribeQuorumResponsePartitionData(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            error_message="For requests intended only for the leader, this error indicates that the broker is not the "
            "current leader. For requests intended for any replica, this error indicates that the broker is not a "
            "replica of the topic partition.",
            leader_id=-1 if leader_id is None else leader_id,
            leader_epoch=epoch,
        )
    return DescribeQuorumResponsePartitionData(
        leader_id=raft.node_id,
        leader_epoch=epoch,
        high_watermark=-1 if raft.high_watermark is None else raft.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=voter.node_id,
                replica_directory_id=voter.directory_id if with_directories else ZERO_UUID,
                log_end_offset=raft.log_end_offset,
                last_fetch_timestamp=wall_ms,
                last_caught_up_timestamp=wall_ms,
            )
            for voter in raft.voters.voters.values()
        ],
        error_message="",
    )


def _nodes(raft: RaftClient[Any]) -> list[Node]:
    return [
        Node(
            node_id=voter.node_id,
            listeners=[Listener(name=name, host=host, port=port) for name, (host, port) in voter.listeners.items()],
        )
        for voter in raft.voters.voters.values()
    ]
