"""One member of a classic group: join, assign, read, commit, leave."""

import asyncio
from typing import Any

import pytest

from ottla.client.group_member import GroupConsumer
from ottla.errors import KafkaError
from ottla.types import TopicPartition
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.records import Record, build_batch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Coordinator:
    """Scripts of a coordinator of one group whose only member is this client."""

    def __init__(self, broker: Any, committed: dict[int, int] | None = None) -> None:
        self.broker = broker
        self.committed = dict(committed or {})
        self.heartbeat_codes: list[int] = []
        self.generation = 0
        broker.serve_topic("t", [1, 1])
        broker.scripts |= {
            FindCoordinatorRequest: lambda _: FindCoordinatorResponse(
                node_id=1, host=broker.endpoint.host, port=broker.endpoint.port
            ),
            JoinGroupRequest: self.join,
            SyncGroupRequest: self.sync,
            HeartbeatRequest: lambda _: HeartbeatResponse(
                error_code=self.heartbeat_codes.pop(0) if self.heartbeat_codes else 0
            ),
            LeaveGroupRequest: lambda _: LeaveGroupResponse(),
            OffsetFetchRequest: self.fetch_offsets,
            OffsetCommitRequest: self.commit,
            ListOffsetsRequest: self.list_offsets,
            FetchRequest: self.fetch,
        }

    def join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        if not request.member_id:
            return JoinGroupResponse(error_code=79, member_id="m-1", protocol_name="")
        self.generation += 1
        member = JoinGroupResponseMember(member_id=request.member_id, metadata=request.protocols[0].metadata)
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="range",
            leader=request.member_id,
            member_id=request.member_id,
            members=[member],
        )

    def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        return SyncGroupResponse(assignment=request.assignments[0].assignment)

    def fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        partitions = [
            OffsetFetchResponsePartition(
                partition_index=index, committed_offset=self.committed.get(index, -1), metadata=""
            )
            for topic in request.topics or []
            for index in topic.partition_indexes
        ]
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=partitions)])

    def commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        for topic in request.topics:
            self.committed |= {entry.partition_index: entry.committed_offset for entry in topic.partitions}
        return OffsetCommitResponse()

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        partitions = [
            ListOffsetsPartitionResponse(
                partition_index=entry.partition_index, offset=0 if entry.timestamp == -2 else 50
            )
            for entry in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])

    def fetch(self, request: FetchRequest) -> FetchResponse:
        entries = []
        for partition in request.topics[0].partitions:
            offset = partition.fetch_offset
            record = Record(offset, 0, None, b"%d@%d" % (partition.partition, offset))
            entries.append(
                PartitionData(
                    partition_index=partition.partition,
                    high_watermark=100,
                    records=build_batch([record], base_offset=offset),
                )
            )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=entries)])


def consumer(broker: Any, **options: Any) -> GroupConsumer:
    return GroupConsumer([broker.endpoint], group_id="g", topics=["t"], **options)


def test_lone_member_gets_all_partitions_and_starts_at_committed_offsets(broker: Any) -> None:
    Coordinator(broker, committed={1: 7})

    async def run() -> tuple[list[bytes | None], list[TopicPartition]]:
        async with broker, consumer(broker, offset_reset="earliest") as member:
            records = await member.poll()
            return [record.value for record in records], member.assignment

    assert asyncio.run(run()) == ([b"0@0", b"1@7"], [T0, T1])


def test_new_group_starts_at_the_end_by_default(broker: Any) -> None:
    Coordinator(broker)

    async def run() -> list[bytes | None]:
        async with broker, consumer(broker) as member:
            return [record.value for record in await member.poll()]

    assert asyncio.run(run()) == [b"0@50", b"1@50"]


def test_new_group_without_offset_reset_is_an_error(broker: Any) -> None:
    Coordinator(broker)

    async def run() -> None:
        async with broker, consumer(broker, offset_reset="none") as member:
            await member.poll()

    with pytest.raises(KafkaError, match="no committed offset for t-0"):
        asyncio.run(run())


def test_member_whose_offsets_could_not_be_fetched_joins_again(broker: Any) -> None:
    coordinator = Coordinator(broker)
    codes = [-1]

    def fetch_offsets(request: OffsetFetchRequest) -> OffsetFetchResponse:
        return OffsetFetchResponse(error_code=codes.pop()) if codes else coordinator.fetch_offsets(request)

    broker.scripts[OffsetFetchRequest] = fetch_offsets

    async def run() -> list[bytes | None]:
        async with broker, consumer(broker, offset_reset="earliest") as member:
            with pytest.raises(KafkaError):
                await member.poll()
            return [record.value for record in await member.poll()]

    assert asyncio.run(run()) == [b"0@0", b"1@0"]


def test_rejected_commit_at_close_still_leaves_the_group_and_closes(broker: Any) -> None:
    Coordinator(broker)
    broker.scripts[OffsetCommitRequest] = lambda _: OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name="t", partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=12)]
            )
        ]
    )

    async def run() -> bool:
        async with broker:
            member = consumer(broker)
            await member.poll()
            connection = await member.cluster.node_connection(1)
            with pytest.raises(KafkaError):
                await member.close()
            return connection.is_open

    assert asyncio.run(run()) is False
    assert len(broker.sent(LeaveGroupRequest)) == 1


def test_new_member_joins_under_the_id_that_it_is_given(broker: Any) -> None:
    Coordinator(broker)

    async def run() -> str:
        async with broker, consumer(broker) as member:
            await member.poll()
            return member.member_id

    assert asyncio.run(run()) == "m-1"
    assert [request.member_id for request in broker.sent(JoinGroupRequest)] == ["", "m-1"]


def test_leaving_commits_what_was_read(broker: Any) -> None:
    coordinator = Coordinator(broker)

    async def run() -> None:
        async with broker, consumer(broker) as member:
            await member.poll()

    asyncio.run(run())

    assert coordinator.committed == {0: 51, 1: 51}
    assert [identity.member_id for identity in broker.sent(LeaveGroupRequest)[0].members] == ["m-1"]


def test_unchanged_positions_are_not_committed_twice(broker: Any) -> None:
    Coordinator(broker)

    async def run() -> None:
        async with broker, consumer(broker) as member:
            await member.poll()
            await member.commit()
            await member.commit()

    asyncio.run(run())

    assert len(broker.sent(OffsetCommitRequest)) == 1


@pytest.mark.parametrize(
    ("code", "member_ids"),
    [
        pytest.param(27, ["", "m-1", "m-1"], id="rebalance"),
        pytest.param(22, ["", "m-1", "m-1"], id="generation-over"),
        pytest.param(25, ["", "m-1", "", "m-1"], id="member-forgotten"),
    ],
)
def test_rejected_heartbeat_makes_the_next_poll_join_again(broker: Any, code: int, member_ids: list[str]) -> None:
    coordinator = Coordinator(broker)

    async def run() -> int:
        async with broker, consumer(broker) as member:
            await member.poll()
            coordinator.heartbeat_codes.append(code)
            assert member._heartbeats is not None
            await member._heartbeats
            await member.poll()
            return member.generation

    assert asyncio.run(run()) == 2
    assert [request.member_id for request in broker.sent(JoinGroupRequest)] == member_ids


def test_member_joins_again_although_the_commit_names_a_deleted_topic(broker: Any) -> None:
    coordinator = Coordinator(broker)
    deleted = [OffsetCommitResponsePartition(partition_index=index, error_code=3) for index in (0, 1)]
    broker.scripts[OffsetCommitRequest] = lambda _: OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(name="t", partitions=deleted)]
    )

    async def run() -> int:
        async with broker, consumer(broker) as member:
            await member.poll()
            coordinator.heartbeat_codes.append(27)
            assert member._heartbeats is not None
            await member._heartbeats
            await member.poll()
            return member.generation

    assert asyncio.run(run()) == 2


def test_fatal_heartbeat_error_is_raised_by_the_next_poll(broker: Any) -> None:
    coordinator = Coordinator(broker)

    async def run() -> None:
        async with broker, consumer(broker) as member:
            await member.poll()
            coordinator.heartbeat_codes.append(30)
            assert member._heartbeats is not None
            await member._heartbeats
            await member.poll()

    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        asyncio.run(run())


def test_group_without_a_common_assignor_is_explained(broker: Any) -> None:
    Coordinator(broker)
    broker.scripts[JoinGroupRequest] = lambda _: JoinGroupResponse(error_code=23, protocol_name="")

    async def run() -> None:
        async with broker, consumer(broker) as member:
            await member.poll()

    with pytest.raises(KafkaError, match="share no assignor with this one, which has 'range'"):
        asyncio.run(run())
