"""OffsetCommit in every version: existing partitions are stored, others have errors."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.groups.log import decode
from ottla.replication.partition import Partition
from ottla.simulator.clients.requests import create_topic
from ottla.simulator.world.single_node import RunningNode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.group_log import OffsetCommitValue
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

UNKNOWN_ID = bytes(15) + b"\x7f"


def commit(node: Any, version: int, topics: dict[str | bytes, list[int]], **said: Any) -> dict[Any, ErrorCode]:
    """Commit offset 5 for partitions of topics, by name or id; return the errors by topic and partition."""
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else bytes(16),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=5, committed_metadata=said.get("metadata", "")
                    )
                    for index in partitions
                ],
            )
            for topic, partitions in topics.items()
        ],
        retention_time_ms=said.get("retention_time_ms", -1),
    )
    response = node.call(request, version).value
    keys = [topic.name or topic.topic_id for topic in response.topics]
    assert len(set(keys)) == len(keys), "a topic has two results"
    return {
        (topic.name or topic.topic_id, partition.partition_index): ErrorCode(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_are_stored_by_name(group_node: Any, version: int) -> None:
    errors = commit(group_node, version, {"t": [0, 1, 99, -1], "nothere": [0]})

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.NONE,
        ("t", 99): unknown,
        ("t", -1): unknown,
        ("nothere", 0): unknown,
    }
    assert group_node.offsets() == {("t", 0): 5, ("t", 1): 5}


def test_offsets_are_stored_by_id(group_node: Any) -> None:
    topic_id = group_node.metadata.topic_id("t")

    errors = commit(group_node, 10, {topic_id: [0, 99], UNKNOWN_ID: [0]})

    assert errors == {
        (topic_id, 0): ErrorCode.NONE,
        (topic_id, 99): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (UNKNOWN_ID, 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }
    assert group_node.offsets() == {("t", 0): 5}


@pytest.mark.parametrize("version", [2, 9])
def test_log_record_has_name_and_id_of_the_topic(group_node: Any, version: int) -> None:
    commit(group_node, version, {"t": [1]})

    (record,) = group_node.log.records()
    stored = decode(record.key, record.value)
    assert stored is not None
    assert isinstance(stored.value, OffsetCommitValue)
    assert record.value[:2] == b"\0\4"
    assert stored.value.topic_id == group_node.metadata.topic_id("t")
    assert stored.value.commit_timestamp == group_node.clock.wall_ms()


def test_retention_time_is_stored_as_the_time_of_expiry(group_node: Any) -> None:
    commit(group_node, 4, {"t": [1]}, retention_time_ms=1_000)

    (record,) = group_node.log.records()
    stored = decode(record.key, record.value)
    assert stored is not None
    assert isinstance(stored.value, OffsetCommitValue)
    assert record.value[:2] == b"\0\1"
    assert stored.value.expire_timestamp == group_node.clock.wall_ms() + 1_000


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        pytest.param(None, ErrorCode.NONE, id="null"),
        pytest.param("x" * 4096, ErrorCode.NONE, id="at-the-limit"),
        pytest.param("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE, id="above-the-limit"),
        pytest.param("\u00e4" * 4096, ErrorCode.NONE, id="characters-count-not-bytes"),
        pytest.param("\U0001f600" * 2048, ErrorCode.NONE, id="astral-characters-count-twice"),
        pytest.param("\U0001f600" * 2048 + "x", ErrorCode.OFFSET_METADATA_TOO_LARGE, id="astral-above-the-limit"),
    ],
)
def test_metadata_length_is_counted_as_in_java(group_node: Any, metadata: str | None, error: ErrorCode) -> None:
    assert commit(group_node, 8, {"t": [0]}, metadata=metadata) == {("t", 0): error}


def test_without_known_topics_the_coordinator_is_not_called(group_node: Any) -> None:
    assert commit(group_node, 9, {"nothere": [0]}) == {("nothere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert commit(group_node, 9, {}) == {}
    assert commit(group_node, 9, {"t": []}) == {}
    assert group_node.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_error_of_the_group_is_that_of_every_partition(group_node: Any) -> None:
    group_node.stable_group()

    assert commit(group_node, 9, {"t": [0, 9], "u": [0]}) == {
        ("t", 0): ErrorCode.UNKNOWN_MEMBER_ID,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 0): ErrorCode.UNKNOWN_MEMBER_ID,
    }


def test_pieces_that_are_not_committed_in_time_have_the_error_in_their_own_partitions(running: RunningNode) -> None:
    client = running.connect()
    create_topic(client, "t", partitions=300)
    coordinator = FindCoordinatorRequest(key="g")
    while client.ask(coordinator, FindCoordinatorResponse, 2).error_code:
        running.run(100)
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in range(300)]
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Partition, "advance_high_watermark", lambda *_: False)

        (topic,) = client.ask(request, OffsetCommitResponse, 9).topics

    assert [partition.partition_index for partition in topic.partitions] == list(range(300))
    assert {partition.error_code for partition in topic.partitions} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
