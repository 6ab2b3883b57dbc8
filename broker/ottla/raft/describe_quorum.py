"""The response to DescribeQuorum: the leader, the voters, the observers, and the log end of each.

Source: KIP-595, KIP-836, KIP-853; KafkaRaftClient.handleDescribeQuorumRequest and DescribeQuorumRequest of Kafka.
"""

from typing import Any

from ottla.errors import ErrorCode
from ottla.ports import Clock
from ottla.raft.client import RaftClient
from ottla.raft.leader import LeaderState, ReplicaProgress
from ottla.raft.records import ReplicaKey
from ottla.raft.voter_set import Voter
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
    raft: RaftClient[Any], request: DescribeQuorumRequest, *, clock: Clock, with_directories: bool = True
) -> DescribeQuorumResponse:
    """Describe the metadata quorum; NOT_LEADER_OR_FOLLOWER when this replica does not lead it.

    ``with_directories``: responses from version 2 on have fields for directory ids and listeners.
    """
    topics = []
    described = False
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            if topic.topic_name == CLUSTER_METADATA_TOPIC and partition.partition_index == 0:
                partitions.append(_describe(raft, clock, with_directories))
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


def _describe(raft: RaftClient[Any], clock: Clock, with_directories: bool) -> DescribeQuorumResponsePartitionData:
    leader_id, epoch = raft.leader_and_epoch
    leader = raft.state
    if not isinstance(leader, LeaderState):
        return DescribeQuorumResponsePartitionData(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            error_message="For requests intended only for the leader, this error indicates that the broker is not the "
            "current leader. For requests intended for any replica, this error indicates that the broker is not a "
            "replica of the topic partition.",
            leader_id=-1 if leader_id is None else leader_id,
            leader_epoch=epoch,
        )
    now_ms = clock.monotonic_ms()
    monotonic_to_wall_ms = clock.wall_ms() - now_ms

    def described(key: ReplicaKey, progress: ReplicaProgress) -> ReplicaState:
        fetched_ms, caught_up_ms = progress.last_fetch_ms, progress.last_caught_up_ms
        return ReplicaState(
            replica_id=key.node_id,
            replica_directory_id=key.directory_id if with_directories else ZERO_UUID,
            log_end_offset=progress.end_offset,
            last_fetch_timestamp=-1 if fetched_ms is None else fetched_ms + monotonic_to_wall_ms,
            last_caught_up_timestamp=-1 if caught_up_ms is None else caught_up_ms + monotonic_to_wall_ms,
        )

    def voter_state(voter: Voter) -> ReplicaState:
        progress = leader.progress.get(voter.key, ReplicaProgress())
        if voter.node_id == raft.node_id:
            progress = ReplicaProgress(raft.log_end_offset, now_ms, now_ms)
        return described(voter.key, progress)

    return DescribeQuorumResponsePartitionData(
        leader_id=raft.node_id,
        leader_epoch=epoch,
        high_watermark=-1 if leader.high_watermark is None else leader.high_watermark,
        current_voters=[voter_state(voter) for voter in raft.voters.voters.values()],
        observers=[described(key, progress) for key, progress in leader.observers(now_ms)],
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
