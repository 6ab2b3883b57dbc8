"""The quorum's requests and responses: all of them are about one topic with one partition, ``__cluster_metadata-0``.

Source: RaftUtil of Apache Kafka.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.raft.records import LeaderAndEpoch, ReplicaKey
from ottla.types import (
    CLUSTER_METADATA_TOPIC,
    CLUSTER_METADATA_TOPIC_ID,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
)
from ottla.wire.messages import begin_quorum_epoch as begin
from ottla.wire.messages import end_quorum_epoch as end
from ottla.wire.messages import fetch, fetch_snapshot, vote

NO_NODE: Final = -1
EPOCH_MAX: Final = 2**31 - 1 - 2**20
"""A later epoch is rejected: it would leave none for elections. With one a second, this one is reached in 68 years."""
FETCH_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
FETCH_WAIT_MS: Final = 500

PartitionT_co = TypeVar("PartitionT_co", covariant=True)
NodeEndpointT = TypeVar("NodeEndpointT")


class Learned(NamedTuple):
    """The quorum as a request or response reports it: the leader of an epoch, and its address if that is known."""

    leader_id: NodeId | None
    epoch: LeaderEpoch
    endpoint: Endpoint | None

    @classmethod
    def of(cls, leader_id: NodeId, epoch: LeaderEpoch, endpoints: "Sequence[NodeEndpoint]") -> "Learned":
        """Build it from a response's fields; ``leader_id`` -1 means no leader."""
        endpoint = next((Endpoint(each.host, each.port) for each in endpoints if each.node_id == leader_id), None)
        return cls(None if leader_id < 0 else leader_id, epoch, endpoint)


class NodeEndpoint(Protocol):
    """A node's address, as in responses."""

    node_id: int
    host: str
    port: int


class ListenerEndpoint(Protocol):
    """The address of one of a leader's listeners, as in its requests."""

    name: str
    host: str
    port: int


class _Topic(Protocol[PartitionT_co]):
    topic_name: str

    @property
    def partitions(self) -> Sequence[PartitionT_co]: ...


def wire_node_id(node_id: NodeId | None) -> NodeId:
    return NO_NODE if node_id is None else node_id


def only_partition(topics: Sequence[_Topic[PartitionT_co]]) -> PartitionT_co | None:
    """Return a request's data of the quorum's partition; None when it is about any other partition as well."""
    if len(topics) != 1 or topics[0].topic_name != CLUSTER_METADATA_TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition_index == 0 else None  # type: ignore[attr-defined]


def _leader_endpoints(node_endpoint: Callable[..., NodeEndpointT], leader: Learned) -> list[NodeEndpointT]:
    """Return the leader's address, as the responses of one API carry it; empty when it is unknown."""
    if leader.endpoint is None or leader.leader_id is None:
        return []
    host, port = leader.endpoint
    return [node_endpoint(node_id=leader.leader_id, host=host, port=port)]


# --- Vote


def vote_request(
    *,
    cluster_id: str,
    voter: ReplicaKey,
    candidate: ReplicaKey,
    epoch: LeaderEpoch,
    log_end: OffsetAndEpoch,
    is_pre_vote: bool,
) -> vote.VoteRequest:
    """Return the request for a vote or a pre-vote."""
    partition = vote.VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=candidate.node_id,
        replica_directory_id=candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=log_end.epoch,
        last_offset=log_end.offset,
        pre_vote=is_pre_vote,
    )
    topic = vote.VoteRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter.node_id, topics=[topic])


def vote_response(error: int, leader: Learned, *, is_granted: bool) -> vote.VoteResponse:
    partition = vote.VoteResponsePartitionData(
        partition_index=0,
        error_code=error,
        leader_id=wire_node_id(leader.leader_id),
        leader_epoch=leader.epoch,
        vote_granted=is_granted,
    )
    topic = vote.VoteResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteResponse(topics=[topic], node_endpoints=_leader_endpoints(vote.NodeEndpoint, leader))


# --- BeginQuorumEpoch


def begin_quorum_epoch_request(
    *, cluster_id: str, voter: ReplicaKey, leader: LeaderAndEpoch, listeners: Mapping[str, Endpoint]
) -> begin.BeginQuorumEpochRequest:
    partition = begin.BeginQuorumEpochRequestPartitionData(
        partition_index=0,
        voter_directory_id=voter.directory_id,
        leader_id=wire_node_id(leader.leader_id),
        leader_epoch=leader.epoch,
    )
    topic = begin.BeginQuorumEpochRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return begin.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.node_id,
        topics=[topic],
        leader_endpoints=[
            begin.LeaderEndpoint(name=name, host=host, port=port) for name, (host, port) in listeners.items()
        ],
    )


def begin_quorum_epoch_response(error: int, leader: Learned) -> begin.BeginQuorumEpochResponse:
    partition = begin.BeginQuorumEpochResponsePartitionData(
        partition_index=0, error_code=error, leader_id=wire_node_id(leader.leader_id), leader_epoch=leader.epoch
    )
    topic = begin.BeginQuorumEpochResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return begin.BeginQuorumEpochResponse(topics=[topic], node_endpoints=_leader_endpoints(begin.NodeEndpoint, leader))


# --- EndQuorumEpoch


def end_quorum_epoch_request(
    *,
    cluster_id: str,
    leader_id: NodeId,
    epoch: LeaderEpoch,
    preferred_successors: Sequence[ReplicaKey],
    listeners: Mapping[str, Endpoint],
) -> end.EndQuorumEpochRequest:
    partition = end.EndQuorumEpochRequestPartitionData(
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=[successor.node_id for successor in preferred_successors],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=successor.node_id, candidate_directory_id=successor.directory_id)
            for successor in preferred_successors
        ],
    )
    topic = end.EndQuorumEpochRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return end.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[topic],
        leader_endpoints=[
            end.LeaderEndpoint(name=name, host=host, port=port) for name, (host, port) in listeners.items()
        ],
    )


def end_quorum_epoch_response(error: int, leader: Learned) -> end.EndQuorumEpochResponse:
    partition = end.EndQuorumEpochResponsePartitionData(
        partition_index=0, error_code=error, leader_id=wire_node_id(leader.leader_id), leader_epoch=leader.epoch
    )
    topic = end.EndQuorumEpochResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return end.EndQuorumEpochResponse(topics=[topic], node_endpoints=_leader_endpoints(end.NodeEndpoint, leader))


# --- Fetch


def fetch_request(
    *,
    cluster_id: str,
    replica: ReplicaKey,
    epoch: LeaderEpoch,
    log_end: OffsetAndEpoch,
    log_start_offset: Offset,
    high_watermark: Offset | None,
    size_bytes_max: int = FETCH_SIZE_BYTES_MAX,
) -> fetch.FetchRequest:
    """Return the fetch of the records after ``log_end``; it waits for records or a higher ``high_watermark``."""
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=log_end.offset,
        last_fetched_epoch=log_end.epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=size_bytes_max,
        replica_directory_id=replica.directory_id,
        high_watermark=-1 if high_watermark is None else high_watermark,
    )
    topic = fetch.FetchTopic(topic=CLUSTER_METADATA_TOPIC, topic_id=CLUSTER_METADATA_TOPIC_ID, partitions=[partition])
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=replica.node_id),
        max_wait_ms=FETCH_WAIT_MS,
        max_bytes=size_bytes_max,
        topics=[topic],
    )


def fetched_partition(request: fetch.FetchRequest) -> fetch.FetchPartition | None:
    """Return the fetched partition of the metadata log; None when the request is about any other partition as well."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    # By its id, as in Kafka's quorum: requests before version 13 have only the name, and no replica sends those.
    is_metadata = topic.topic_id == CLUSTER_METADATA_TOPIC_ID
    return topic.partitions[0] if is_metadata and topic.partitions[0].partition == 0 else None


def fetch_response(partition: fetch.PartitionData, leader: Learned) -> fetch.FetchResponse:
    """Return the response, which always names the leader."""
    partition.current_leader.leader_id = wire_node_id(leader.leader_id)
    partition.current_leader.leader_epoch = leader.epoch
    topic = fetch.FetchableTopicResponse(
        topic=CLUSTER_METADATA_TOPIC, topic_id=CLUSTER_METADATA_TOPIC_ID, partitions=[partition]
    )
    return fetch.FetchResponse(responses=[topic], node_endpoints=_leader_endpoints(fetch.NodeEndpoint, leader))


# --- FetchSnapshot


def fetch_snapshot_request(
    *,
    cluster_id: str,
    replica: ReplicaKey,
    epoch: LeaderEpoch,
    snapshot_id: OffsetAndEpoch,
    position: int,
    size_bytes_max: int = FETCH_SIZE_BYTES_MAX,
) -> fetch_snapshot.FetchSnapshotRequest:
    """Return the request for the piece of a snapshot that starts at byte ``position``."""
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.FetchSnapshotRequestSnapshotId(
            end_offset=snapshot_id.offset, epoch=snapshot_id.epoch
        ),
        position=position,
        replica_directory_id=replica.directory_id,
    )
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=replica.node_id, max_bytes=size_bytes_max, topics=[topic]
    )


def fetched_snapshot(
    request: fetch_snapshot.FetchSnapshotRequest,
) -> fetch_snapshot.FetchSnapshotRequestPartitionSnapshot | None:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    return topic.partitions[0] if topic.name == CLUSTER_METADATA_TOPIC and topic.partitions[0].partition == 0 else None


def fetch_snapshot_response(
    partition: fetch_snapshot.FetchSnapshotResponsePartitionSnapshot, leader: Learned
) -> fetch_snapshot.FetchSnapshotResponse:
    partition.current_leader.leader_id = wire_node_id(leader.leader_id)
    partition.current_leader.leader_epoch = leader.epoch
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotResponse(
        topics=[topic], node_endpoints=_leader_endpoints(fetch_snapshot.NodeEndpoint, leader)
    )
