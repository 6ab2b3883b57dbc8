"""Groups, their members and their offsets, as an administrator handles them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin_base import AdminBase
from ottla.client.errors import UnsupportedApiError, kafka_error, raise_for
from ottla.client.results import CommittedOffset, GroupDescription, GroupListing, MemberDescription
from ottla.errors import ErrorCode
from ottla.types import Endpoint, NodeId, TopicPartition
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
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

CONSUMER_PROTOCOL_TYPE = "consumer"
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
        """Return the groups that exist, by id; classic groups and those of KIP-848.

        Raises:
            KafkaError: any error but GROUP_ID_NOT_FOUND.
        """
        described = await asyncio.gather(*(self._describe_group(group_id) for group_id in group_ids))
        return {group.group_id: group for group in described if group is not None}

    async def _describe_group(self, group_id: str) -> GroupDescription | None:
        async def attempt() -> GroupDescription | None:
            return await self._describe_consumer_group(group_id) or await self._describe_classic_group(group_id)

        return await self.cluster.retry(attempt, group_id=group_id)

    async def _describe_consumer_group(self, group_id: str) -> GroupDescription | None:
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        try:
            response = await self.cluster.send_to_coordinator(group_id, request, ConsumerGroupDescribeResponse)
        except UnsupportedApiError:
            return None
        group = response.groups[0]
        if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        raise_for(group.error_code, group.error_message)
        return _consumer_group(group, await self.cluster.coordinator(group_id))

    async def _describe_classic_group(self, group_id: str) -> GroupDescription | None:
        request = DescribeGroupsRequest(groups=[group_id])
        response = await self.cluster.send_to_coordinator(group_id, request, DescribeGroupsResponse)
        group = response.groups[0]
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not group.error_code and group.group_state == DEAD):
            return None
        raise_for(group.error_code, group.error_message)
        return _classic_group(group, await self.cluster.coordinator(group_id))

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


def parse_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a classic consumer's assignment, sorted; of other protocol types none.

    Raises:
        ProtocolError: the bytes are no assignment.
    """
    if len(data) <= 2:
        return ()
    version = int.from_bytes(data[:2], "big", signed=True)
    newest = ConsumerProtocolAssignment.versions.last
    # A later version may add fields at the end; the known ones are at the start.
    assignment, _ = ConsumerProtocolAssignment.decode_from(data, min(version, newest), 2)
    return tuple(
        sorted(
            TopicPartition(topic.topic, partition)
            for topic in assignment.assigned_partitions
            for partition in topic.partitions
        )
    )


def _classic_group(group: DescribedGroup, coordinator: Endpoint) -> GroupDescription:
    is_consumer = group.protocol_type in (CONSUMER_PROTOCOL_TYPE, "")
    return GroupDescription(
        group_id=group.group_id,
        type="classic",
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                assignment=parse_assignment(member.member_assignment) if is_consumer else (),
            )
            for member in group.members
        ),
    )


def _consumer_group(group: DescribedConsumerGroup, coordinator: Endpoint) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type="consumer",
        state=group.group_state,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                assignment=_flat(member.assignment),
            )
            for member in group.members
        ),
    )


def _flat(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )
