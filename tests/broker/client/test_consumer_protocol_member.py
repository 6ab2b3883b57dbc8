"""One member of a group of the consumer protocol: join, reconcile, read, commit, leave."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client import group_reader
from ottla.client.consumer_protocol_member import ConsumerProtocolMember
from ottla.client.errors import UnsupportedApiError
from ottla.errors import KafkaError
from ottla.types import TopicPartition, Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
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
from ottla.wire.messages.registry import ApiKey
from ottla.wire.records import Record, build_batch

ID = Uuid(b"t" * 16)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Coordinator:
    """Scripts of a coordinator that assigns ``partitions`` to the only member."""

    def __init__(self, broker: Any, partitions: list[int] | None = None) -> None:
        self.broker = broker
        self.partitions = [0, 1] if partitions is None else partitions
        self.epoch = 1
        self.codes: list[int] = []
        """Errors of the next heartbeats."""
        self.commit_codes: list[int] = []
        self.nameless: Uuid | None = None
        """A topic that is assigned, too, and that the metadata lacks."""
        self.deleted: set[int] = set()
        """Partitions that commits name in vain."""
        self.committed: dict[int, int] = {}
        broker.serve_topic("t", [1, 1])
        metadata = broker.scripts[MetadataRequest]
        broker.scripts |= {
            FindCoordinatorRequest: lambda _: FindCoordinatorResponse(
                node_id=1, host=broker.endpoint.host, port=broker.endpoint.port
            ),
            MetadataRequest: lambda request: self.describe(request, metadata),
            ConsumerGroupHeartbeatRequest: self.heartbeat,
            OffsetFetchRequest: self.fetch_offsets,
            OffsetCommitRequest: self.commit,
            ListOffsetsRequest: self.list_offsets,
            FetchRequest: self.fetch,
        }

    def describe(
        self, request: MetadataRequest, by_name: Callable[[MetadataRequest], MetadataResponse]
    ) -> MetadataResponse:
        """Respond with the topic ``t``, whether it is requested by its name or its id."""
        unknown = [each.topic_id for each in request.topics or () if each.name is None and each.topic_id != ID]
        known = [each for each in request.topics or () if each.topic_id not in unknown]
        for each in known:
            each.name = each.name or "t"
        response = by_name(MetadataRequest(topics=known))
        for topic in response.topics:
            topic.topic_id = ID
        response.topics += [MetadataResponseTopic(name=None, topic_id=each, error_code=100) for each in unknown]
        return response

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        if request.member_epoch >= 0 and self.codes:
            return ConsumerGroupHeartbeatResponse(error_code=self.codes.pop(0))
        if request.member_epoch == 0 and request.topic_partitions:
            message = "TopicPartitions must be empty when (re-)joining."
            return ConsumerGroupHeartbeatResponse(error_code=42, error_message=message)
        topics = [ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=ID, partitions=self.partitions)]
        if self.nameless is not None:
            topics.append(ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=self.nameless, partitions=[0]))
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch if request.member_epoch >= 0 else -1,
            heartbeat_interval_ms=5,
            assignment=Assignment(topic_partitions=topics if self.partitions else []),
        )

    def fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        partitions = [
            OffsetFetchResponsePartition(partition_index=index, committed_offset=self.committed.get(index, -1))
            for topic in request.topics or []
            for index in topic.partition_indexes
        ]
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=partitions)])

    def commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        code = self.commit_codes.pop(0) if self.commit_codes else 0
        entries = [entry for topic in request.topics for entry in topic.partitions]
        codes = {entry.partition_index: 3 if entry.partition_index in self.deleted else code for entry in entries}
        self.committed |= {
            entry.partition_index: entry.committed_offset for entry in entries if not codes[entry.partition_index]
        }
        partitions = [
            OffsetCommitResponsePartition(partition_index=index, error_code=each) for index, each in codes.items()
        ]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=partitions)])

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        partitions = [
            ListOffsetsPartitionResponse(partition_index=entry.partition_index, offset=50)
            for entry in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])

    def fetch(self, request: FetchRequest) -> FetchResponse:
        entries = [
            PartitionData(
                partition_index=each.partition,
                high_watermark=100,
                records=build_batch([Record(each.fetch_offset, 0, None, b"v")], base_offset=each.fetch_offset),
            )
            for each in request.topics[0].partitions
        ]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=entries)])


def member_of(broker: Any, **options: Any) -> ConsumerProtocolMember:
    return ConsumerProtocolMember([broker.endpoint], group_id="g", **{"topics": ["t"]} | options)


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not check():  # noqa: ASYNC110 - the member has no event for a test
            await asyncio.sleep(0.001)


async def until_reported(broker: Any, owned: list[int]) -> None:
    """Wait for a heartbeat with these partitions."""

    def last() -> list[int] | None:
        reported = [beat.topic_partitions for beat in broker.sent(ConsumerGroupHeartbeatRequest)]
        full = [each for each in reported if each is not None]
        return [number for topic in full[-1] for number in topic.partitions] if full else None

    await until(lambda: last() == owned)


def test_member_reads_its_partitions_and_reports_them(broker: Any) -> None:
    Coordinator(broker)

    async def run() -> list[tuple[int, int]]:
        async with broker, member_of(broker) as member:
            records = await member.poll()
            await until_reported(broker, [0, 1])
            return [(record.partition, record.offset) for record in records]

    assert asyncio.run(run()) == [(0, 50), (1, 50)]


def test_member_starts_at_committed_offsets(broker: Any) -> None:
    Coordinator(broker).committed = {1: 7}

    async def run() -> list[tuple[int, int]]:
        async with broker, member_of(broker) as member:
            return [(record.partition, record.offset) for record in await member.poll()]

    assert asyncio.run(run()) == [(0, 50), (1, 7)]


def test_revoked_partition_is_committed_before_it_is_reported(broker: Any) -> None:
    coordinator = Coordinator(broker)

    async def run() -> list[TopicPartition]:
        async with broker, member_of(broker) as member:
            await member.poll()
            coordinator.partitions, coordinator.epoch = [1], 2
            await until(lambda: member.generation == 2)
            await member.poll()
            committed = dict(coordinator.committed)
            await until_reported(broker, [1])
            assert committed == {0: 51, 1: 51}
            return member.assignment

    assert asyncio.run(run()) == [T1]


def test_partition_of_a_deleted_topic_is_revoked_although_its_commit_fails(broker: Any) -> None:
    coordinator = Coordinator(broker)

    async def run() -> list[TopicPartition]:
        async with broker, member_of(broker) as member:
            await member.poll()
            coordinator.deleted, coordinator.partitions, coordinator.epoch = {0}, [1], 2
            await until(lambda: member.generation == 2)
            await member.poll()
            await until_reported(broker, [1])
            return member.assignment

    assert asyncio.run(run()) == [T1]
    assert coordinator.committed == {1: 52}


def test_commit_with_an_old_epoch_is_repeated_when_it_names_a_deleted_topic(broker: Any) -> None:
    coordinator = Coordinator(broker)

    async def run() -> None:
        async with broker, member_of(broker) as member:
            await member.poll()
            coordinator.deleted = {0}
            coordinator.commit_codes.append(113)
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await member.commit()

    asyncio.run(run())

    assert coordinator.committed == {1: 51}


def test_partition_that_stays_is_read_on_without_a_gap(broker: Any) -> None:
    coordinator = Coordinator(broker, [0])

    async def run() -> list[tuple[int, int]]:
        async with broker, member_of(broker) as member:
            await member.poll()
            coordinator.partitions, coordinator.epoch = [0, 1], 2
            await until(lambda: member.generation == 2)
            return [(record.partition, record.offset) for record in await member.poll()]

    assert asyncio.run(run()) == [(0, 51), (1, 50)]


@pytest.mark.parametrize("code", [pytest.param(110, id="fenced"), pytest.param(25, id="unknown-member")])
def test_fenced_member_joins_again(broker: Any, code: int) -> None:
    coordinator = Coordinator(broker)

    async def run() -> list[TopicPartition]:
        async with broker, member_of(broker) as member:
            await member.poll()
            coordinator.codes.append(code)
            await until(lambda: member.generation == -1)
            await member.poll()
            return member.assignment

    assert asyncio.run(run()) == [T0, T1]
    joins = [beat for beat in broker.sent(ConsumerGroupHeartbeatRequest) if beat.member_epoch == 0]
    assert len(joins) == 2
    assert joins[0].member_id == joins[1].member_id
    assert joins[1].topic_partitions == []


@pytest.mark.parametrize("code", [pytest.param(110, id="fenced"), pytest.param(25, id="unknown-member")])
def test_member_that_is_fenced_while_it_fetches_offsets_joins_again(broker: Any, code: int) -> None:
    coordinator = Coordinator(broker)
    coordinator.committed = {0: 7, 1: 8}
    fences = [code]

    def fetch_offsets(request: OffsetFetchRequest) -> OffsetFetchResponse:
        # The offsets are unstable until a heartbeat has received the error.
        coordinator.codes += fences
        fences.clear()
        return OffsetFetchResponse(error_code=88) if coordinator.codes else coordinator.fetch_offsets(request)

    broker.scripts[OffsetFetchRequest] = fetch_offsets

    async def run() -> list[TopicPartition]:
        async with broker, member_of(broker) as member:
            await member.poll()
            await until(lambda: member.generation == -1)
            await member.poll()
            await until_reported(broker, [0, 1])
            return member.assignment

    assert asyncio.run(run()) == [T0, T1]


def test_commit_with_an_old_epoch_is_repeated(broker: Any) -> None:
    coordinator = Coordinator(broker)

    async def run() -> None:
        async with broker, member_of(broker) as member:
            await member.poll()
            coordinator.commit_codes.append(113)
            await member.commit()

    asyncio.run(run())

    assert coordinator.committed == {0: 51, 1: 51}


def test_heartbeat_is_retried_while_the_coordinator_loads(broker: Any) -> None:
    Coordinator(broker).codes = [14, 15]

    async def run() -> list[TopicPartition]:
        async with broker, member_of(broker) as member:
            await member.poll()
            return member.assignment

    assert asyncio.run(run()) == [T0, T1]


@pytest.mark.parametrize("code", [pytest.param(5, id="leader-not-available"), pytest.param(None, id="connection-lost")])
def test_names_of_assigned_topics_are_requested_again_after_a_failure(broker: Any, code: int | None) -> None:
    Coordinator(broker)
    metadata = broker.scripts[MetadataRequest]
    failures = [code]

    def fail_once(request: MetadataRequest) -> MetadataResponse:
        response: MetadataResponse = metadata(request)
        if response.topics and failures:
            failed = failures.pop()
            if failed is None:
                raise ConnectionError
            response.topics[0].error_code = failed
        return response

    broker.scripts[MetadataRequest] = fail_once

    async def run() -> list[TopicPartition]:
        async with broker, member_of(broker) as member:
            await member.poll()
            return member.assignment

    assert asyncio.run(run()) == [T0, T1]
    assert failures == []


def test_positions_are_committed_while_the_name_of_an_assigned_topic_is_missing(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_reader, "COMMIT_INTERVAL_S", 0.2)
    coordinator = Coordinator(broker)
    coordinator.nameless = Uuid(b"n" * 16)

    async def run() -> None:
        async with broker, member_of(broker) as member:
            async with asyncio.timeout(10):
                while not coordinator.committed:
                    await member.poll()

    asyncio.run(run())


def test_fatal_heartbeat_error_is_raised_by_the_next_poll(broker: Any) -> None:
    coordinator = Coordinator(broker)

    async def run() -> None:
        async with broker, member_of(broker) as member:
            await member.poll()
            coordinator.codes.append(30)
            assert member._sender._task is not None
            await member._sender._task
            await member.poll()

    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        asyncio.run(run())


def test_closing_commits_and_leaves(broker: Any) -> None:
    coordinator = Coordinator(broker)

    async def run() -> None:
        async with broker, member_of(broker) as member:
            await member.poll()

    asyncio.run(run())

    assert coordinator.committed == {0: 51, 1: 51}
    assert broker.sent(ConsumerGroupHeartbeatRequest)[-1].member_epoch == -1


def test_static_member_keeps_its_partitions_when_it_leaves(broker: Any) -> None:
    Coordinator(broker)

    async def run() -> None:
        async with broker, member_of(broker, instance_id="i") as member:
            await member.poll()

    asyncio.run(run())

    heartbeats = broker.sent(ConsumerGroupHeartbeatRequest)
    assert {each.instance_id for each in heartbeats} == {"i"}
    assert heartbeats[-1].member_epoch == -2


def test_topics_of_an_expression_are_read_by_the_ids_that_are_assigned(broker: Any) -> None:
    Coordinator(broker)

    async def run() -> list[TopicPartition]:
        async with broker, member_of(broker, topics=[], topic_regex="t.*", server_assignor="range") as member:
            await member.poll()
            return member.assignment

    assert asyncio.run(run()) == [T0, T1]
    join = broker.sent(ConsumerGroupHeartbeatRequest)[0]
    assert (join.subscribed_topic_names, join.subscribed_topic_regex, join.server_assignor) == ([], "t.*", "range")


def test_broker_without_the_consumer_protocol_is_an_error(broker: Any) -> None:
    Coordinator(broker)
    del broker.versions[ApiKey.CONSUMER_GROUP_HEARTBEAT]

    async def run() -> None:
        async with broker, member_of(broker) as member:
            await member.poll()

    with pytest.raises(UnsupportedApiError):
        asyncio.run(run())
