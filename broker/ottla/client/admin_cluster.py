"""The cluster itself: its nodes, their disks, its features."""

import asyncio

from ottla.client.admin_base import AdminBase
from ottla.client.connection import versions_request
from ottla.client.errors import UnsupportedApiError, kafka_error, raise_for
from ottla.client.results import (
    BrokerDescription,
    ClusterDescription,
    LogDirDescription,
    ReplicaInfo,
)
from ottla.errors import ErrorCode
from ottla.types import Endpoint, NodeId, Offset, TopicPartition
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


class ClusterAdmin(AdminBase):
    """Calls about the cluster."""

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Return the cluster's id, controller and brokers, sorted by id."""

        async def attempt() -> ClusterDescription:
            try:
                request = DescribeClusterRequest(include_fenced_brokers=include_fenced)
                response = await self._send_to_any(request, DescribeClusterResponse)
            except (UnsupportedApiError, ValueError):
                # Kafka before 2.8 has no DescribeCluster; before 4.0 it cannot list fenced brokers.
                return await self._cluster_from_metadata()
            raise_for(response.error_code, response.error_message)
            brokers = (
                BrokerDescription(
                    node_id=broker.broker_id,
                    host=broker.host,
                    port=broker.port,
                    rack=broker.rack,
                    is_fenced=broker.is_fenced,
                )
                for broker in response.brokers
            )
            return ClusterDescription(
                cluster_id=response.cluster_id,
                controller_id=response.controller_id,
                brokers=tuple(sorted(brokers, key=lambda broker: broker.node_id)),
            )

        return await self._retry(attempt)

    async def _cluster_from_metadata(self) -> ClusterDescription:
        response = await self.cluster.metadata()
        return ClusterDescription(
            cluster_id=response.cluster_id or "",
            controller_id=response.controller_id,
            brokers=tuple(
                BrokerDescription(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
                for broker in sorted(response.brokers, key=lambda broker: broker.node_id)
            ),
        )

    async def wait_for_metadata(self, offset: Offset) -> Endpoint:
        """Return the node that responds, once its metadata has everything up to ``offset`` of the metadata log.

        A broker describes topics and brokers by its own copy of the metadata, which may lag behind.

        Raises:
            KafkaError: REQUEST_TIMED_OUT if it lags behind for too long.
        """
        request = versions_request()

        async def attempt() -> Endpoint:
            # In KRaft the epoch of the finalized features is the offset of the broker's metadata.
            known = (await self._send_to_any(request, ApiVersionsResponse)).finalized_features_epoch
            endpoint = self.cluster.last_responder
            assert endpoint is not None, "a broker has responded"
            if known < offset:
                message = f"{endpoint} has the metadata up to offset {known}, and {offset} is committed"
                raise kafka_error(ErrorCode.REQUEST_TIMED_OUT, message)
            return endpoint

        return await self._retry(attempt)

    async def unregister_broker(self, node_id: NodeId) -> None:
        """Unregister a broker that will not come back.

        Raises:
            KafkaError: BROKER_ID_NOT_REGISTERED if no broker has that id.
        """
        request = UnregisterBrokerRequest(broker_id=node_id)

        async def attempt() -> None:
            response = await self._send_to_any(request, UnregisterBrokerResponse)
            raise_for(response.error_code, response.error_message)

        await self._retry(attempt)

    async def describe_log_dirs(self) -> dict[NodeId, list[LogDirDescription]]:
        """Return per broker its log directories and the replicas in them."""
        await self._retry(self.cluster.metadata)
        nodes = sorted(self.cluster.nodes)
        described = await asyncio.gather(*(self._log_dirs_of(node_id) for node_id in nodes))
        return dict(zip(nodes, described, strict=True))

    async def _log_dirs_of(self, node_id: NodeId) -> list[LogDirDescription]:
        async def attempt() -> list[LogDirDescription]:
            response = await self.cluster.send_to_node(
                node_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
            )
            raise_for(response.error_code)
            return [_log_dir(result) for result in response.results]

        return await self._retry(attempt)


def _log_dir(result: DescribeLogDirsResult) -> LogDirDescription:
    error = None if result.error_code == ErrorCode.NONE else kafka_error(result.error_code).code.name
    return LogDirDescription(
        path=result.log_dir,
        error=error,
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
        replicas={
            TopicPartition(topic.name, partition.partition_index): ReplicaInfo(
                size_bytes=partition.partition_size,
                offset_lag=partition.offset_lag,
                is_future=partition.is_future_key,
            )
            for topic in result.topics
            for partition in topic.partitions
        },
    )
