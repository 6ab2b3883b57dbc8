"""Requests of members of the share group ``g``, which reads the partition 0 of the topic ``t``."""

from typing import Any

from ottla.errors import ErrorCode
from ottla.simulator.world.single_node import Client
from ottla.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from ottla.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest, ShareFetchResponse
from share_driver import ShareDriver


def fetch_request(driver: ShareDriver, member_id: str, epoch: int = 0, wait_ms: int = 60_000) -> ShareFetchRequest:
    topics = [FetchTopic(topic_id=driver.names.topic_ids["t"], partitions=[FetchPartition()])] if epoch == 0 else []
    return ShareFetchRequest(
        group_id="g",
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        max_records=100,
        batch_size=100,
        topics=topics,
    )


def acquired_by(client: Client, request: ShareFetchRequest) -> list[tuple[int, int, int]]:
    return ranges(client.ask(request, ShareFetchResponse, 2))


def ranges(response: Any) -> list[tuple[int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in response.responses
        for partition in topic.partitions
        for each in partition.acquired_records
    ]


def acknowledge(driver: ShareDriver, client: Client, epoch: int, first: int, last: int, kind: int) -> ErrorCode:
    batch = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
    topic = AcknowledgeTopic(
        topic_id=driver.names.topic_ids["t"], partitions=[AcknowledgePartition(acknowledgement_batches=[batch])]
    )
    request = ShareAcknowledgeRequest(group_id="g", member_id="a", share_session_epoch=epoch, topics=[topic])
    response = client.ask(request, ShareAcknowledgeResponse, 2)
    return ErrorCode(response.responses[0].partitions[0].error_code)
