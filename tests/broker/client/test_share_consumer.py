"""One member of a share group: join, fetch in sessions, acknowledge, leave."""

import asyncio
from typing import Any

import pytest

from ottla.client.consumer import ConsumedRecord
from ottla.client.share_consumer import ShareConsumer
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition, Uuid
from ottla.wire.acknowledge_type import AcknowledgeType
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ottla.wire.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.records import Record, build_batch

ID = Uuid(b"t" * 16)
T0 = TopicPartition("t", 0)


class Leader:
    """Scripts of a node that is coordinator and leader; each fetch acquires the next two offsets of ``t-0``."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.next_offset = 0
        self.codes: list[int] = []
        """Errors of the next fetches."""
        self.partition_codes: list[int] = []
        self.acknowledge_codes: list[int] = []
        self.other_partition_code = 0
        broker.serve_topic("t", [1])
        metadata = broker.scripts[MetadataRequest]

        def describe(request: MetadataRequest) -> MetadataResponse:
            for each in request.topics or ():
                each.name = "t"
            response: MetadataResponse = metadata(request)
            for topic in response.topics:
                topic.topic_id = ID
            return response

        broker.scripts |= {
            MetadataRequest: describe,
            FindCoordinatorRequest: lambda _: FindCoordinatorResponse(
                node_id=1, host=broker.endpoint.host, port=broker.endpoint.port
            ),
            ShareGroupHeartbeatRequest: self.heartbeat,
            ShareFetchRequest: self.fetch,
            ShareAcknowledgeRequest: lambda _: ShareAcknowledgeResponse(),
        }

    def heartbeat(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=max(request.member_epoch, 1) if request.member_epoch >= 0 else -1,
            heartbeat_interval_ms=5,
            assignment=Assignment(topic_partitions=[TopicPartitions(topic_id=ID, partitions=[0])]),
        )

    def fetch(self, _: ShareFetchRequest) -> ShareFetchResponse:
        if self.codes:
            return ShareFetchResponse(error_code=self.codes.pop(0))
        entry = PartitionData(partition_index=0, records=b"")
        if self.acknowledge_codes:
            entry.acknowledge_error_code = self.acknowledge_codes.pop(0)
        if self.partition_codes:
            entry.error_code = self.partition_codes.pop(0)
        else:
            first = self.next_offset
            self.next_offset += 2
            # The batch starts before the acquired records, and ends after them.
            records = [Record(first - 1 + number, 0, None, b"%d" % (first - 1 + number)) for number in range(4)]
            entry.records = build_batch([each for each in records if each.offset >= 0], base_offset=max(0, first - 1))
            entry.acquired_records = [AcquiredRecords(first_offset=first, last_offset=first + 1, delivery_count=1)]
        entries = [entry]
        if self.other_partition_code:
            entries.append(PartitionData(partition_index=1, error_code=self.other_partition_code, records=b""))
        return ShareFetchResponse(responses=[ShareFetchableTopicResponse(topic_id=ID, partitions=entries)])


def member_of(broker: Any) -> ShareConsumer:
    return ShareConsumer([broker.endpoint], group_id="g", topics=["t"])


def polled(broker: Any, count: int, *, decisions: dict[int, AcknowledgeType] | None = None) -> list[list[bytes | None]]:
    """Return the values of ``count`` polls."""

    async def run() -> list[list[bytes | None]]:
        values: list[list[bytes | None]] = []
        async with broker, member_of(broker) as member:
            for _ in range(count):
                records: list[ConsumedRecord] = await member.poll()
                for record in records:
                    if decisions and record.offset in decisions:
                        member.acknowledge(record, decisions[record.offset])
                values.append([record.value for record in records])
        return values

    return asyncio.run(run())


def acknowledged(request: ShareFetchRequest | ShareAcknowledgeRequest) -> list[tuple[int, int, list[int]]]:
    return [
        (batch.first_offset, batch.last_offset, batch.acknowledge_types)
        for topic in request.topics
        for partition in topic.partitions
        for batch in partition.acknowledgement_batches
    ]


def test_only_acquired_records_are_returned_and_the_next_poll_accepts_them(broker: Any) -> None:
    Leader(broker)

    assert polled(broker, 3) == [[b"0", b"1"], [b"2", b"3"], [b"4", b"5"]]

    fetches = broker.sent(ShareFetchRequest)
    assert [each.share_session_epoch for each in fetches] == [0, 1, 2]
    assert [acknowledged(each) for each in fetches] == [[], [(0, 1, [1])], [(2, 3, [1])]]
    (last,) = broker.sent(ShareAcknowledgeRequest)
    assert (last.share_session_epoch, acknowledged(last)) == (-1, [(4, 5, [1])])
    assert broker.sent(ShareGroupHeartbeatRequest)[-1].member_epoch == -1


def test_decisions_about_records_are_sent(broker: Any) -> None:
    Leader(broker)

    polled(broker, 2, decisions={0: AcknowledgeType.RELEASE, 3: AcknowledgeType.REJECT})

    assert acknowledged(broker.sent(ShareFetchRequest)[1]) == [(0, 1, [2, 1])]
    assert acknowledged(broker.sent(ShareAcknowledgeRequest)[0]) == [(2, 3, [1, 3])]


@pytest.mark.parametrize("code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH])
def test_lost_session_is_replaced_by_a_new_one(broker: Any, code: ErrorCode) -> None:
    leader = Leader(broker)

    async def run() -> None:
        async with broker, member_of(broker) as member:
            await member.poll()
            leader.codes.append(code)
            assert await member.poll() == []
            assert [record.value for record in await member.poll()] == [b"2", b"3"]

    asyncio.run(run())

    fetches = broker.sent(ShareFetchRequest)
    assert [each.share_session_epoch for each in fetches] == [0, 1, 0]
    # The records of the lost session are not this member's any more, and a new session names its partitions.
    assert acknowledged(fetches[2]) == []
    assert [each.partition_index for each in fetches[2].topics[0].partitions] == [0]


def test_leader_that_moved_is_searched_again(broker: Any) -> None:
    Leader(broker).partition_codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    assert polled(broker, 2) == [[], [b"0", b"1"]]


def test_rejected_acknowledgements_are_listed(broker: Any) -> None:
    leader = Leader(broker)

    async def run() -> None:
        async with broker, member_of(broker) as member:
            await member.poll()
            leader.acknowledge_codes.append(ErrorCode.INVALID_RECORD_STATE)
            await member.poll()
            assert member.rejected == {T0: ErrorCode.INVALID_RECORD_STATE}
            await member.poll()
            assert member.rejected == {}

    asyncio.run(run())


def test_records_that_no_poll_returned_are_released(broker: Any) -> None:
    leader = Leader(broker)

    async def run() -> None:
        async with broker, member_of(broker) as member:
            await member.poll()
            leader.other_partition_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            with pytest.raises(KafkaError):
                await member.poll()

    asyncio.run(run())

    # The first two were returned; the next two were acquired with a partition whose error was raised.
    assert acknowledged(broker.sent(ShareFetchRequest)[1]) == [(0, 1, [1])]
    assert acknowledged(broker.sent(ShareAcknowledgeRequest)[0]) == [(2, 3, [2])]


def test_fatal_error_of_a_partition_is_raised(broker: Any) -> None:
    Leader(broker).partition_codes = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    with pytest.raises(KafkaError, match="t-0"):
        polled(broker, 1)
