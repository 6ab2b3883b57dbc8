"""Partitions as an administrator moves them: reassignments, leader elections, eligible leader replicas."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from ottla.client.admin_base import AdminBase
from ottla.client.errors import kafka_error, raise_for
from ottla.client.results import Reassignment, TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.types import NodeId, TopicPartition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


class ElectionType(IntEnum):
    """The choice of `PartitionAdmin.elect_leaders`: the first assigned replica, or any live replica."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionAdmin(AdminBase):
    """Calls about replicas and leaders of partitions."""

    async def describe_topic_partitions(self, names: Sequence[str] | None = None) -> dict[str, TopicDescription]:
        """Return topics (None: all, Kafka's own too) with their eligible leader replicas, by name.

        A name without a topic is absent. Needs a broker with DescribeTopicPartitions (Kafka 3.8).

        Raises:
            UnsupportedApiError: the brokers are older.
            KafkaError: any error but UNKNOWN_TOPIC_OR_PARTITION.
        """
        if names is not None and not names:
            return {}
        found: dict[str, TopicDescription] = {}
        cursor: DescribeTopicPartitionsRequestCursor | None = None
        while True:
            page = await self._page(names, cursor)
            for topic in page.topics:
                if topic.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
                    continue
                raise_for(topic.error_code, f"topic {topic.name}")
                described = TopicDescription.of(topic)
                known = found.get(described.name)
                found[described.name] = described if known is None else known.with_more(described.partitions)
            if page.next_cursor is None:
                return found
            cursor = DescribeTopicPartitionsRequestCursor(
                topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index
            )

    async def _page(
        self, names: Sequence[str] | None, cursor: DescribeTopicPartitionsRequestCursor | None
    ) -> DescribeTopicPartitionsResponse:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in sorted(set(names or ()))], cursor=cursor
        )
        return await self._retry(lambda: self._send_to_any(request, DescribeTopicPartitionsResponse))

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[NodeId] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> dict[TopicPartition, KafkaError]:
        """Start reassignments of partitions to other replicas, or with None cancel them.

        Returns:
            The error of each rejected partition: INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION,
            NO_REASSIGNMENT_IN_PROGRESS (nothing to cancel), ...

        Raises:
            KafkaError: the request as a whole was rejected.
        """
        topics: dict[str, ReassignableTopic] = {}
        for partition, replicas in targets.items():
            topic = topics.setdefault(partition.topic, ReassignableTopic(name=partition.topic))
            wanted = None if replicas is None else list(replicas)
            topic.partitions.append(ReassignablePartition(partition_index=partition.partition, replicas=wanted))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=list(topics.values()),
        )

        async def attempt() -> dict[TopicPartition, KafkaError]:
            response = await self._send_to_any(request, AlterPartitionReassignmentsResponse)
            raise_for(response.error_code, response.error_message)
            return {
                TopicPartition(result.name, entry.partition_index): kafka_error(entry.error_code, entry.error_message)
                for result in response.responses
                for entry in result.partitions
                if entry.error_code
            }

        return await self._retry(attempt)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the reassignments in progress (None: all); a partition without one is absent."""
        topics: dict[str, ListPartitionReassignmentsTopics] | None = None
        if partitions is not None:
            topics = {}
            for partition in partitions:
                topic = topics.setdefault(partition.topic, ListPartitionReassignmentsTopics(name=partition.topic))
                topic.partition_indexes.append(partition.partition)
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms, topics=None if topics is None else list(topics.values())
        )

        async def attempt() -> dict[TopicPartition, Reassignment]:
            response = await self._send_to_any(request, ListPartitionReassignmentsResponse)
            raise_for(response.error_code, response.error_message)
            return {
                TopicPartition(result.name, entry.partition_index): Reassignment(
                    replicas=tuple(entry.replicas),
                    adding=tuple(entry.adding_replicas),
                    removing=tuple(entry.removing_replicas),
                )
                for result in response.topics
                for entry in result.partitions
            }

        return await self._retry(attempt)

    async def elect_leaders(
        self, kind: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders for partitions (None: all that an election would change).

        Returns:
            Per partition None if a leader was elected, else the error: ELECTION_NOT_NEEDED (it leads already),
            PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, ...

        Raises:
            KafkaError: the request as a whole was rejected.
        """
        topics: dict[str, TopicPartitions] | None = None
        if partitions is not None:
            topics = {}
            for partition in partitions:
                topic = topics.setdefault(partition.topic, TopicPartitions(topic=partition.topic))
                topic.partitions.append(partition.partition)
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=None if topics is None else list(topics.values()),
            timeout_ms=self._timeout_ms,
        )

        async def attempt() -> dict[TopicPartition, KafkaError | None]:
            response = await self._send_to_any(request, ElectLeadersResponse)
            raise_for(response.error_code)
            return {
                TopicPartition(result.topic, entry.partition_id): kafka_error(entry.error_code, entry.error_message)
                if entry.error_code
                else None
                for result in response.replica_election_results
                for entry in result.partition_result
            }

        elected = await self._retry(attempt)
        for partition in elected:
            self.cluster.invalidate_topic(partition.topic)
        return elected
