"""Groups, their members and their offsets, as an administrator handles them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.client.admin_base import AdminBase
from ottla.client.errors import UnsupportedApiError, kafka_error, raise_for
from ottla.client.group_descriptions import classic_group, consumer_group, share_group, streams_group
from ottla.client.results import CommittedOffset, GroupDescription, GroupListing, ShareOffset
from ottla.errors import ErrorCode
from ottla.types import Endpoint, NodeId, Offset, TopicPartition
from ottla.wire.codec import Message
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse

DEAD = "Dead"

# Later versions of these name topics by id, which a client without metadata of the topic cannot.
OFFSET_COMMIT_VERSION_MAX = 9
OFFSET_FETCH_VERSION_MAX = 7


class GroupAdmin(AdminBase):
    """Calls about groups."""

    async def list_groups(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
        """Return the groups of every broker, sorted by id, filtered by ``states`` and ``types``."""
        await self._retry(self.cluster.metadata)
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        listed = await asyncio.gather(*(self._list_groups_of(node_id, request) for node_id in self.cluster.nodes))
        by_id = {group.group_id: group for groups in listed for group in groups}
        return [by_id[group_id] for group_id in sorted(by_id)]

    async def _list_groups_of(self, node_id: NodeId, request: ListGroupsRequest) -> list[GroupListing]:
        async def attempt() -> list[GroupListing]:
            response = await self.cluster.send_to_node(node_id, request, ListGroupsResponse)
            raise_for(response.error_code)
            return [
                GroupListing(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    state=group.group_state,
                    type=group.group_type,
                )
                for group in response.groups
            ]

        return await self._retry(attempt)

    async def describe_groups(self, group_ids: Sequence[str]) -> dict[str, GroupDescription]:
        """Return the groups that exist, by id, of every type.

        Raises:
            KafkaError: any error but GROUP_ID_NOT_FOUND.
        """
        described = await asyncio.gather(*(self._describe_group(group_id) for group_id in group_ids))
        return {group.group_id: group for group in described if group is not None}

    async def _describe_group(self, group_id: str) -> GroupDescription | None:
        async def attempt() -> GroupDescription | None:
            return (
                await self._describe_as(
                    group_id, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, consumer_group
                )
                or await self._describe_classic_group(group_id)
                or await self._describe_as(group_id, ShareGroupDescribeRequest, ShareGroupDescribeResponse, share_group)
                or await self._describe_as(
                    group_id, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, streams_group
                )
            )

        return await self.cluster.retry(attempt, group_id=group_id)

    async def _describe_as(
        self,
        group_id: str,
        request_type: Callable[..., Message],
        response_type: type[Message],
        description: Callable[[Any, Endpoint], GroupDescription],
    ) -> GroupDescription | None:
        """Return a group of one kind, or None if it is of another, or the broker does not serve that kind."""
        request = request_type(group_ids=[group_id])
        try:
            response: Any = await self.cluster.send_to_coordinator(group_id, request, response_type)
        except UnsupportedApiError:
            return None
        group = response.groups[0]
        if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        raise_for(group.error_code, group.error_message)
        return description(group, await self.cluster.coordinator(group_id))

    async def _describe_classic_group(self, group_id: str) -> GroupDescription | None:
        request = DescribeGroupsRequest(groups=[group_id])
        response = await self.cluster.send_to_coordinator(group_id, request, DescribeGroupsResponse)
        group = response.groups[0]
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not group.error_code and group.group_state == DEAD):
            return None
        raise_for(group.error_code, group.error_message)
        return classic_group(group, await self.cluster.coordinator(group_id))

    async def share_group_offsets(self, group_id: str) -> dict[TopicPartition, ShareOffset]:
        """Return start offset and lag of each partition that a share group has the state of.

        Raises:
            KafkaError: the error of the group or of the first partition that has one.
        """
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)]
        )

        async def attempt() -> dict[TopicPartition, ShareOffset]:
            response = await self.cluster.send_to_coordinator(group_id, request, DescribeShareGroupOffsetsResponse)
            (group,) = response.groups
            raise_for(group.error_code, group.error_message)
            offsets = {}
            for topic in group.topics:
                for entry in topic.partitions:
                    raise_for(entry.error_code, f"partition {topic.topic_name}-{entry.partition_index}")
                    offsets[TopicPartition(topic.topic_name, entry.partition_index)] = ShareOffset(
                        start_offset=None if entry.start_offset < 0 else entry.start_offset,
                        leader_epoch=entry.leader_epoch,
                        lag=None if entry.lag < 0 else entry.lag,
                    )
            return offsets

        return await self.cluster.retry(attempt, group_id=group_id)

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Set the start offsets of a share group without members; it is created if it does not exist.

        The group delivers all records from there on, also those that it has accepted before.

        Raises:
            KafkaError: NON_EMPTY_GROUP while the group has members, or the first partition's error.
        """
        topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
        for partition, start_offset in offsets.items():
            topic = topics.setdefault(partition.topic, AlterShareGroupOffsetsRequestTopic(topic_name=partition.topic))
            topic.partitions.append(
                AlterShareGroupOffsetsRequestPartition(partition_index=partition.partition, start_offset=start_offset)
            )
        request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=list(topics.values()))

        async def attempt() -> None:
            response = await self.cluster.send_to_coordinator(group_id, request, AlterShareGroupOffsetsResponse)
            raise_for(response.error_code, response.error_message)
            for result in response.responses:
                for entry in result.partitions:
                    raise_for(entry.error_code, f"partition {result.topic_name}-{entry.partition_index}")

        await self.cluster.retry(attempt, group_id=group_id)

    async def delete_share_group_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Delete what a share group without members has of topics: start offsets and states of records.

        Raises:
            KafkaError: NON_EMPTY_GROUP while the group has members, GROUP_ID_NOT_FOUND, or the first topic's error.
        """
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
        )

        async def attempt() -> None:
            response = await self.cluster.send_to_coordinator(group_id, request, DeleteShareGroupOffsetsResponse)
            raise_for(response.error_code, response.error_message)
            for result in response.responses:
                raise_for(result.error_code, f"topic {result.topic_name}")

        await self.cluster.retry(attempt, group_id=group_id)

    async def group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return a group's committed offsets, of ``partitions`` or of all.

        Partitions without a committed offset are absent. With ``require_stable``, return once no open transaction has
        offsets of ``partitions``.

        Raises:
            KafkaError: the error of the group or of the first partition that has one.
        """
        topics: dict[str, OffsetFetchRequestTopic] = {}
        for partition in partitions or ():
            topic = topics.setdefault(partition.topic, OffsetFetchRequestTopic(name=partition.topic))
            topic.partition_indexes.append(partition.partition)
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=None if partitions is None else list(topics.values()),
            require_stable=require_stable,
        )

        async def attempt() -> dict[TopicPartition, CommittedOffset]:
            response = await self.cluster.send_to_coordinator(
                group_id, request, OffsetFetchResponse, highest=OFFSET_FETCH_VERSION_MAX
            )
            raise_for(response.error_code)
            offsets = {}
            for result in response.topics:
                for entry in result.partitions:
                    raise_for(entry.error_code, f"partition {result.name}-{entry.partition_index}")
                    if entry.committed_offset >= 0:
                        offsets[TopicPartition(result.name, entry.partition_index)] = CommittedOffset(
                            offset=entry.committed_offset,
                            leader_epoch=entry.committed_leader_epoch,
                            metadata=entry.metadata or "",
                        )
            return offsets

        return await self.cluster.retry(attempt, group_id=group_id)

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Set the committed offsets of a group without members.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID while the group has members, or the first partition's error.
        """
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for partition, committed in offsets.items():
            topic = topics.setdefault(partition.topic, OffsetCommitRequestTopic(name=partition.topic))
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        request = OffsetCommitRequest(group_id=group_id, topics=list(topics.values()))

        async def attempt() -> None:
            response = await self.cluster.send_to_coordinator(
                group_id, request, OffsetCommitResponse, highest=OFFSET_COMMIT_VERSION_MAX
            )
            for result in response.topics:
                for entry in result.partitions:
                    raise_for(
                        entry.error_code,
                        f"the offset of {result.name}-{entry.partition_index} was rejected; a group's offsets can "
                        "only be set while it has no members",
                    )

        await self.cluster.retry(attempt, group_id=group_id)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete a group's committed offsets.

        Raises:
            KafkaError: GROUP_SUBSCRIBED_TO_TOPIC while members read it, GROUP_ID_NOT_FOUND, ...
        """
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for partition in partitions:
            topic = topics.setdefault(partition.topic, OffsetDeleteRequestTopic(name=partition.topic))
            topic.partitions.append(OffsetDeleteRequestPartition(partition_index=partition.partition))
        request = OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))

        async def attempt() -> None:
            response = await self.cluster.send_to_coordinator(group_id, request, OffsetDeleteResponse)
            raise_for(response.error_code)
            for result in response.topics:
                for entry in result.partitions:
                    raise_for(entry.error_code, f"partition {result.name}-{entry.partition_index}")

        await self.cluster.retry(attempt, group_id=group_id)

    async def delete_groups(self, group_ids: Sequence[str]) -> None:
        """Delete groups without members, and their offsets.

        Raises:
            KafkaError: the first error: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, ...
        """
        for group_id in group_ids:
            await self._delete_group(group_id)

    async def _delete_group(self, group_id: str) -> None:
        async def attempt() -> None:
            request = DeleteGroupsRequest(groups_names=[group_id])
            response = await self.cluster.send_to_coordinator(group_id, request, DeleteGroupsResponse)
            for result in response.results:
                if result.error_code:
                    raise kafka_error(result.error_code, f"group {result.group_id}")

        await self.cluster.retry(attempt, group_id=group_id)
