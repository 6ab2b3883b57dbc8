"""Topics, partitions, offsets and records, as an administrator handles them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.client.admin_base import AdminBase
from ottla.client.errors import kafka_error, raise_for
from ottla.client.results import ListedOffset, TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.types import NodeId, Offset, TopicPartition
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
"""Timestamps with a meaning of their own in `TopicAdmin.list_offsets`."""

BROKERS_DEFAULT = -1

# Later versions may name topics by id, and change the layout of the request.
DELETE_TOPICS_VERSION_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation:
    """A topic that is to be created; see `TopicAdmin.create_topic`."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, Sequence[NodeId]] = field(default_factory=dict)

    def as_message(self) -> CreatableTopic:
        """Return the topic as the protocol's request has it."""
        return CreatableTopic(
            name=self.name,
            num_partitions=BROKERS_DEFAULT if self.partitions is None else self.partitions,
            replication_factor=BROKERS_DEFAULT if self.replication_factor is None else self.replication_factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
                for partition, replicas in self.assignment.items()
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in self.config.items()],
        )


class TopicAdmin(AdminBase):
    """Calls about topics."""

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicDescription]:
        """Return every topic that this client may see, sorted by name."""
        response = await self._retry(lambda: self.cluster.metadata(None))
        topics = [TopicDescription.of(topic) for topic in response.topics if not topic.error_code]
        return sorted(
            (topic for topic in topics if include_internal or not topic.is_internal), key=lambda topic: topic.name
        )

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        """Return the topics that exist, by name; a name without a topic is left out.

        Raises:
            KafkaError: any error but UNKNOWN_TOPIC_OR_PARTITION, such as TOPIC_AUTHORIZATION_FAILED.
        """
        if not names:
            return {}
        response = await self._retry(lambda: self.cluster.metadata(names))
        described = {}
        for topic in response.topics:
            if topic.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
                continue
            raise_for(topic.error_code, f"topic {topic.name}")
            described[topic.name or ""] = TopicDescription.of(topic)
        return described

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        assignment: Mapping[int, Sequence[NodeId]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic.

        Args:
            name: of the topic.
            partitions: how many; None is the brokers' ``num.partitions``.
            replication_factor: how many replicas; None is the brokers' ``default.replication.factor``.
            config: configs of its own.
            assignment: replicas by partition, instead of both numbers.
            validate_only: only check.

        Raises:
            KafkaError: TOPIC_ALREADY_EXISTS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG, ...
        """
        creation = TopicCreation(
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            config=config or {},
            assignment=assignment or {},
        )
        for error in (await self.create_topics([creation], validate_only=validate_only)).values():
            raise error

    async def create_topics(
        self, topics: Iterable[TopicCreation], *, validate_only: bool = False
    ) -> dict[str, KafkaError]:
        """Create topics by one request; return the errors by name. An error does not affect other topics."""
        wanted = {topic.name: topic.as_message() for topic in topics}

        async def attempt(names: Sequence[str]) -> dict[str, KafkaError]:
            request = CreateTopicsRequest(
                topics=[wanted[name] for name in names], timeout_ms=self._timeout_ms, validate_only=validate_only
            )
            response = await self._send_to_any(request, CreateTopicsResponse)
            return {it.name: kafka_error(it.error_code, it.error_message) for it in response.topics if it.error_code}

        errors = await self._retry_each(wanted, attempt)
        for name in wanted:
            self.cluster.invalidate_topic(name)
        return errors

    async def create_partitions(self, name: str, *, total: int, validate_only: bool = False) -> None:
        """Increase the number of a topic's partitions to ``total``.

        Raises:
            KafkaError: INVALID_PARTITIONS if it has as many or more, UNKNOWN_TOPIC_OR_PARTITION.
        """
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        async def attempt() -> None:
            response = await self._send_to_any(request, CreatePartitionsResponse)
            for result in response.results:
                raise_for(result.error_code, result.error_message)

        await self._retry(attempt)
        self.cluster.invalidate_topic(name)

    async def delete_topic(self, name: str) -> None:
        """Delete one topic; raises as `delete_topics`."""
        await self.delete_topics([name])

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics and their records.

        Raises:
            KafkaError: the first error, UNKNOWN_TOPIC_OR_PARTITION if there is no such topic.
        """
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=self._timeout_ms)

        async def attempt() -> None:
            response = await self._send_to_any(request, DeleteTopicsResponse, highest=DELETE_TOPICS_VERSION_MAX)
            for result in response.responses:
                raise_for(result.error_code, result.error_message or f"topic {result.name}")

        await self._retry(attempt)
        for name in names:
            self.cluster.invalidate_topic(name)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """Return the first offset at or after each partition's time.

        Args:
            timestamps: milliseconds since 1970, or `LATEST` (the end), `EARLIEST` (the start), `MAX_TIMESTAMP`.
            read_committed: with `LATEST`, the last stable offset.

        Returns:
            One entry per partition; offset -1 if no record is that new.

        Raises:
            KafkaError: the first partition's error.
        """
        found: dict[TopicPartition, ListedOffset] = {}

        async def attempt() -> None:
            wanted = {partition: timestamp for partition, timestamp in timestamps.items() if partition not in found}
            by_leader = await self._by_leader(wanted)
            await asyncio.gather(
                *(
                    self._list_offsets_of(
                        leader, {partition: wanted[partition] for partition in partitions}, found, read_committed
                    )
                    for leader, partitions in by_leader.items()
                )
            )

        await self._retry(attempt)
        return found

    async def _list_offsets_of(
        self,
        leader: NodeId,
        timestamps: Mapping[TopicPartition, int],
        found: dict[TopicPartition, ListedOffset],
        read_committed: bool,
    ) -> None:
        topics: dict[str, ListOffsetsTopic] = {}
        for partition, timestamp in timestamps.items():
            topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
            topic.partitions.append(ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp))
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=list(topics.values()),
            timeout_ms=self._timeout_ms,
        )
        response = await self.cluster.send_to_node(leader, request, ListOffsetsResponse)
        first_error: KafkaError | None = None
        for result in response.topics:
            for entry in result.partitions:
                partition = TopicPartition(result.name, entry.partition_index)
                if entry.error_code:
                    self.cluster.invalidate_topic(result.name)
                    first_error = first_error or kafka_error(entry.error_code, f"partition {partition}")
                else:
                    found[partition] = ListedOffset(
                        offset=entry.offset, timestamp_ms=entry.timestamp, leader_epoch=entry.leader_epoch
                    )
        if first_error is not None:
            raise first_error

    async def delete_records(self, before: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        """Delete records before an offset (-1: all up to the high watermark); return the new log start offsets.

        Raises:
            KafkaError: the first partition's error, such as OFFSET_OUT_OF_RANGE or POLICY_VIOLATION.
        """
        low_watermarks: dict[TopicPartition, Offset] = {}

        async def attempt() -> None:
            wanted = {partition: offset for partition, offset in before.items() if partition not in low_watermarks}
            for leader, partitions in (await self._by_leader(wanted)).items():
                await self._delete_records_of(
                    leader, {partition: wanted[partition] for partition in partitions}, low_watermarks
                )

        await self._retry(attempt)
        return low_watermarks

    async def _delete_records_of(
        self, leader: NodeId, before: Mapping[TopicPartition, Offset], low_watermarks: dict[TopicPartition, Offset]
    ) -> None:
        topics: dict[str, DeleteRecordsTopic] = {}
        for partition, offset in before.items():
            topic = topics.setdefault(partition.topic, DeleteRecordsTopic(name=partition.topic))
            topic.partitions.append(DeleteRecordsPartition(partition_index=partition.partition, offset=offset))
        request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=self._timeout_ms)
        response = await self.cluster.send_to_node(leader, request, DeleteRecordsResponse)
        for result in response.topics:
            for entry in result.partitions:
                partition = TopicPartition(result.name, entry.partition_index)
                if entry.error_code:
                    self.cluster.invalidate_topic(result.name)
                    raise kafka_error(entry.error_code, f"partition {partition}")
                low_watermarks[partition] = entry.low_watermark
