"""The metadata quorum, as an administrator sees and changes it (KIP-595, KIP-853)."""

from collections.abc import Sequence

from ottla.client.admin_base import AdminBase
from ottla.client.errors import raise_for
from ottla.client.results import QuorumDescription, QuorumReplica
from ottla.types import CLUSTER_METADATA_TOPIC, Endpoint, NodeId, format_uuid, parse_uuid
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    ReplicaState,
)
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


class QuorumAdmin(AdminBase):
    """Calls about the quorum."""

    async def describe_quorum(self) -> QuorumDescription:
        """Return the metadata quorum as its leader sees it.

        Raises:
            KafkaError: for example while there is no leader.
        """
        request = DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequestTopicData(
                    topic_name=CLUSTER_METADATA_TOPIC,
                    partitions=[DescribeQuorumRequestPartitionData(partition_index=0)],
                )
            ]
        )

        async def attempt() -> QuorumDescription:
            response = await self._send_to_any(request, DescribeQuorumResponse)
            raise_for(response.error_code, response.error_message)
            endpoints = {
                node.node_id: tuple(
                    f"{listener.name}://{Endpoint(listener.host, listener.port)}" for listener in node.listeners
                )
                for node in response.nodes
            }
            partition = response.topics[0].partitions[0]
            raise_for(partition.error_code, partition.error_message)
            return QuorumDescription(
                leader_id=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                high_watermark=partition.high_watermark,
                voters=tuple(_quorum_replica(voter, endpoints) for voter in partition.current_voters),
                observers=tuple(_quorum_replica(observer, endpoints) for observer in partition.observers),
            )

        return await self._retry(attempt)

    async def add_raft_voter(
        self, node_id: NodeId, directory_id: str, listeners: Sequence[tuple[str, Endpoint]], *, cluster_id: str = ""
    ) -> None:
        """Add a controller that is an observer to the voters.

        Args:
            node_id: of the controller.
            directory_id: of its metadata log directory, base64url, as `describe_quorum` shows it.
            listeners: its addresses for controllers, by listener name.
            cluster_id: the request fails if the cluster has another id; empty: any.

        Raises:
            KafkaError: DUPLICATE_VOTER, REQUEST_TIMED_OUT while it has not caught up, INVALID_REQUEST, ...
        """
        request = AddRaftVoterRequest(
            cluster_id=cluster_id or None,
            timeout_ms=self._timeout_ms,
            voter_id=node_id,
            voter_directory_id=parse_uuid(directory_id),
            listeners=[Listener(name=name, host=at.host, port=at.port) for name, at in listeners],
        )

        async def attempt() -> None:
            response = await self._send_to_any(request, AddRaftVoterResponse)
            raise_for(response.error_code, response.error_message)

        await self._retry(attempt)

    async def remove_raft_voter(self, node_id: NodeId, directory_id: str, *, cluster_id: str = "") -> None:
        """Remove a voter from the quorum; arguments as for `add_raft_voter`.

        Raises:
            KafkaError: VOTER_NOT_FOUND, INVALID_REQUEST, ...
        """
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id or None, voter_id=node_id, voter_directory_id=parse_uuid(directory_id)
        )

        async def attempt() -> None:
            response = await self._send_to_any(request, RemoveRaftVoterResponse)
            raise_for(response.error_code, response.error_message)

        await self._retry(attempt)


def _quorum_replica(state: ReplicaState, endpoints: dict[NodeId, tuple[str, ...]]) -> QuorumReplica:
    return QuorumReplica(
        node_id=state.replica_id,
        directory_id=format_uuid(state.replica_directory_id),
        log_end_offset=state.log_end_offset,
        last_fetch_timestamp_ms=state.last_fetch_timestamp,
        last_caught_up_timestamp_ms=state.last_caught_up_timestamp,
        endpoints=endpoints.get(state.replica_id, ()),
    )
