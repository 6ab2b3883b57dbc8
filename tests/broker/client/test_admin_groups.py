"""AdminClient: classic and consumer groups, and their offsets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ottla.client.admin import AdminClient
from ottla.client.group_descriptions import parse_assignment
from ottla.client.results import CommittedOffset, MemberTasks, ShareOffset
from ottla.errors import KafkaError
from ottla.types import TopicPartition
from ottla.wire.messages import share_group_describe, streams_group_describe
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
    TopicPartitions,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.wire.messages.registry import ApiKey

ResultT = TypeVar("ResultT")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
# version 0; one topic "t" with partitions 1 and 0; no user data
ASSIGNMENT = b"\0\0\0\0\0\1\0\1t\0\0\0\2\0\0\0\1\0\0\0\0\xff\xff\xff\xff"


def call_admin(broker: Any, call: Callable[[AdminClient], Awaitable[ResultT]]) -> ResultT:
    """Run one call of an AdminClient against ``broker``."""

    async def run() -> ResultT:
        async with broker, AdminClient([broker.endpoint]) as admin:
            return await call(admin)

    return asyncio.run(run())


def serve_group(broker: Any) -> None:
    broker.scripts[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
        node_id=1, host=broker.endpoint.host, port=broker.endpoint.port
    )


def serve_no_consumer_or_classic_group(broker: Any) -> None:
    broker.scripts |= {
        ConsumerGroupDescribeRequest: lambda _: ConsumerGroupDescribeResponse(
            groups=[DescribedConsumerGroup(group_id="g", error_code=69)]
        ),
        DescribeGroupsRequest: lambda _: DescribeGroupsResponse(
            groups=[DescribedGroup(group_id="g", error_code=69, group_state="Dead")]
        ),
    }


def serve_no_share_or_streams_group(broker: Any) -> None:
    broker.scripts |= {
        share_group_describe.ShareGroupDescribeRequest: lambda _: share_group_describe.ShareGroupDescribeResponse(
            groups=[share_group_describe.DescribedGroup(group_id="g", error_code=69)]
        ),
        streams_group_describe.StreamsGroupDescribeRequest: lambda _: (
            streams_group_describe.StreamsGroupDescribeResponse(
                groups=[streams_group_describe.DescribedGroup(group_id="g", error_code=69)]
            )
        ),
    }


class TestGroups:
    def test_groups_of_all_brokers_are_listed(self, make_broker: Callable[[int], Any]) -> None:
        first, second = make_broker(1), make_broker(2)
        for node, group_id in ((first, "b"), (second, "a")):
            node.scripts[ListGroupsRequest] = lambda _, group_id=group_id: ListGroupsResponse(
                groups=[ListedGroup(group_id=group_id, group_state="Stable", group_type="classic")]
            )

        async def run() -> list[str]:
            async with first, second, AdminClient([first.endpoint]) as admin:
                first.serve_topic("t", [1], [first, second])
                return [group.group_id for group in await admin.list_groups()]

        assert asyncio.run(run()) == ["a", "b"]

    def test_classic_group_is_described_with_assignments(self, broker: Any) -> None:
        serve_group(broker)
        del broker.versions[ApiKey.CONSUMER_GROUP_DESCRIBE]
        member = DescribedGroupMember(member_id="m", client_id="c", client_host="/h", member_assignment=ASSIGNMENT)
        broker.scripts[DescribeGroupsRequest] = lambda _: DescribeGroupsResponse(
            groups=[
                DescribedGroup(
                    group_id="g",
                    group_state="Stable",
                    protocol_type="consumer",
                    protocol_data="range",
                    members=[member],
                )
            ]
        )

        group = call_admin(broker, lambda admin: admin.describe_groups(["g"]))["g"]

        assert (group.type, group.state, group.assignor) == ("classic", "Stable", "range")
        assert group.members[0].assignment == (T0, T1)

    def test_consumer_group_is_described(self, broker: Any) -> None:
        serve_group(broker)
        assignment = Assignment(topic_partitions=[TopicPartitions(topic_name="t", partitions=[1, 0])])
        broker.scripts[ConsumerGroupDescribeRequest] = lambda _: ConsumerGroupDescribeResponse(
            groups=[
                DescribedConsumerGroup(
                    group_id="g",
                    group_state="Stable",
                    assignor_name="uniform",
                    members=[Member(member_id="m", assignment=assignment)],
                )
            ]
        )

        group = call_admin(broker, lambda admin: admin.describe_groups(["g"]))["g"]

        assert (group.type, group.assignor, group.members[0].assignment) == ("consumer", "uniform", (T0, T1))

    @pytest.mark.parametrize(
        "group",
        [
            pytest.param(DescribedGroup(group_id="g", group_state="Dead"), id="dead"),
            pytest.param(DescribedGroup(group_id="g", error_code=69, error_message="no"), id="not-found"),
        ],
    )
    def test_missing_group_is_absent(self, broker: Any, group: DescribedGroup) -> None:
        serve_group(broker)
        broker.scripts[ConsumerGroupDescribeRequest] = lambda _: ConsumerGroupDescribeResponse(
            groups=[DescribedConsumerGroup(group_id="g", error_code=69)]
        )
        broker.scripts[DescribeGroupsRequest] = lambda _: DescribeGroupsResponse(groups=[group])
        serve_no_share_or_streams_group(broker)

        assert call_admin(broker, lambda admin: admin.describe_groups(["g"])) == {}

    def test_share_group_is_described(self, broker: Any) -> None:
        serve_group(broker)
        serve_no_consumer_or_classic_group(broker)
        assignment = share_group_describe.Assignment(
            topic_partitions=[share_group_describe.TopicPartitions(topic_name="t", partitions=[1, 0])]
        )
        member = share_group_describe.Member(member_id="m", assignment=assignment)
        broker.scripts[share_group_describe.ShareGroupDescribeRequest] = lambda _: (
            share_group_describe.ShareGroupDescribeResponse(
                groups=[
                    share_group_describe.DescribedGroup(
                        group_id="g", group_state="Stable", assignor_name="simple", members=[member]
                    )
                ]
            )
        )

        group = call_admin(broker, lambda admin: admin.describe_groups(["g"]))["g"]

        assert (group.type, group.assignor, group.members[0].assignment) == ("share", "simple", (T0, T1))

    def test_member_of_streams_group_has_the_partitions_of_its_active_tasks(self, broker: Any) -> None:
        serve_group(broker)
        serve_no_consumer_or_classic_group(broker)
        serve_no_share_or_streams_group(broker)
        topology = streams_group_describe.Topology(
            subtopologies=[
                streams_group_describe.Subtopology(subtopology_id="0", source_topics=["t"]),
                streams_group_describe.Subtopology(
                    subtopology_id="1", repartition_source_topics=[streams_group_describe.TopicInfo(name="u")]
                ),
            ]
        )
        active = [
            streams_group_describe.TaskIds(subtopology_id="0", partitions=[1, 0]),
            streams_group_describe.TaskIds(subtopology_id="1", partitions=[2]),
        ]
        member = streams_group_describe.Member(
            member_id="m",
            member_epoch=4,
            process_id="p",
            assignment=streams_group_describe.Assignment(
                active_tasks=active,
                standby_tasks=[streams_group_describe.TaskIds(subtopology_id="1", partitions=[0])],
            ),
        )
        broker.scripts[streams_group_describe.StreamsGroupDescribeRequest] = lambda _: (
            streams_group_describe.StreamsGroupDescribeResponse(
                groups=[
                    streams_group_describe.DescribedGroup(
                        group_id="g", group_state="Stable", topology=topology, members=[member]
                    )
                ]
            )
        )

        group = call_admin(broker, lambda admin: admin.describe_groups(["g"]))["g"]

        assert (group.type, group.members[0].assignment) == ("streams", (T0, T1, TopicPartition("u", 2)))
        assert group.members[0].tasks == MemberTasks(
            member_epoch=4, topology_epoch=0, process_id="p", active=("0_0", "0_1", "1_2"), standby=("1_0",), warmup=()
        )
        assert group.streams is not None
        assert [each.repartition_source_topics for each in group.streams.subtopologies] == [(), ("u",)]

    def test_partition_that_a_share_group_has_not_read_has_no_start_offset(self, broker: Any) -> None:
        serve_group(broker)
        partitions = [
            DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=5, leader_epoch=2, lag=3),
            DescribeShareGroupOffsetsResponsePartition(partition_index=1, start_offset=-1),
        ]
        topic = DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=partitions)
        broker.scripts[DescribeShareGroupOffsetsRequest] = lambda _: DescribeShareGroupOffsetsResponse(
            groups=[DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[topic])]
        )

        offsets = call_admin(broker, lambda admin: admin.share_group_offsets("g"))

        assert offsets == {
            T0: ShareOffset(start_offset=5, leader_epoch=2, lag=3),
            T1: ShareOffset(start_offset=None, leader_epoch=0, lag=None),
        }

    def test_start_offsets_of_a_share_group_are_set(self, broker: Any) -> None:
        serve_group(broker)
        broker.scripts[AlterShareGroupOffsetsRequest] = lambda _: AlterShareGroupOffsetsResponse()

        call_admin(broker, lambda admin: admin.alter_share_group_offsets("g", {T0: 5, T1: 0}))

        (request,) = broker.sent(AlterShareGroupOffsetsRequest)
        (topic,) = request.topics
        assert (request.group_id, topic.topic_name) == ("g", "t")
        assert [(each.partition_index, each.start_offset) for each in topic.partitions] == [(0, 5), (1, 0)]

    def test_start_offset_that_is_rejected_is_an_error(self, broker: Any) -> None:
        serve_group(broker)
        rejected = AlterShareGroupOffsetsResponsePartition(partition_index=0, error_code=68)
        broker.scripts[AlterShareGroupOffsetsRequest] = lambda _: AlterShareGroupOffsetsResponse(
            responses=[AlterShareGroupOffsetsResponseTopic(topic_name="t", partitions=[rejected])]
        )

        with pytest.raises(KafkaError, match="t-0"):
            call_admin(broker, lambda admin: admin.alter_share_group_offsets("g", {T0: 5}))

    def test_states_of_topics_of_a_share_group_are_deleted(self, broker: Any) -> None:
        serve_group(broker)
        broker.scripts[DeleteShareGroupOffsetsRequest] = lambda _: DeleteShareGroupOffsetsResponse()

        call_admin(broker, lambda admin: admin.delete_share_group_offsets("g", ["t", "u"]))

        (request,) = broker.sent(DeleteShareGroupOffsetsRequest)
        assert [topic.topic_name for topic in request.topics] == ["t", "u"]

    def test_offsets_that_were_never_committed_are_absent(self, broker: Any) -> None:
        serve_group(broker)
        broker.scripts[OffsetFetchRequest] = lambda _: OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name="t",
                    partitions=[
                        OffsetFetchResponsePartition(partition_index=0, committed_offset=5, metadata="m"),
                        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, metadata=None),
                    ],
                )
            ]
        )

        offsets = call_admin(broker, lambda admin: admin.group_offsets("g"))

        assert offsets == {T0: CommittedOffset(offset=5, metadata="m")}
        assert broker.sent(OffsetFetchRequest)[0].topics is None

    def test_offsets_are_set(self, broker: Any) -> None:
        serve_group(broker)
        broker.scripts[OffsetCommitRequest] = lambda _: OffsetCommitResponse()

        call_admin(broker, lambda admin: admin.alter_group_offsets("g", {T1: CommittedOffset(offset=9)}))

        partition = broker.sent(OffsetCommitRequest)[0].topics[0].partitions[0]
        assert (partition.partition_index, partition.committed_offset) == (1, 9)

    def test_offsets_of_a_group_with_members_are_rejected_with_the_reason(self, broker: Any) -> None:
        serve_group(broker)
        broker.scripts[OffsetCommitRequest] = lambda _: OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name="t", partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=25)]
                )
            ]
        )

        with pytest.raises(KafkaError, match="while it has no members"):
            call_admin(broker, lambda admin: admin.alter_group_offsets("g", {T0: CommittedOffset(offset=9)}))

    def test_coordinator_that_moved_is_looked_up_again(self, broker: Any) -> None:
        serve_group(broker)
        codes = [16, 0]
        broker.scripts[OffsetDeleteRequest] = lambda _: OffsetDeleteResponse(error_code=codes.pop(0))

        call_admin(broker, lambda admin: admin.delete_group_offsets("g", [T0]))

        assert len(broker.sent(FindCoordinatorRequest)) == 2

    def test_group_with_members_is_not_deleted(self, broker: Any) -> None:
        serve_group(broker)
        broker.scripts[DeleteGroupsRequest] = lambda _: DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id="g", error_code=68)]
        )

        with pytest.raises(KafkaError, match="NON_EMPTY_GROUP: group g"):
            call_admin(broker, lambda admin: admin.delete_groups(["g"]))

    @pytest.mark.parametrize("data", [b"", b"\0\1"], ids=["nothing", "version-only"])
    def test_empty_assignment_has_no_partitions(self, data: bytes) -> None:
        assert parse_assignment(data) == ()

    def test_assignment_of_a_newer_client_is_read(self) -> None:
        assert parse_assignment(b"\0\7" + ASSIGNMENT[2:] + b"something new") == (T0, T1)
