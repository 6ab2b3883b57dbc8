"""Elections that a client requests: preferred and unclean ones, and those that are not needed."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.metadata_log import PartitionChangeRecord

PREFERRED, UNCLEAN = 0, 1


def elect(kind: int, *partitions: int, topic: str = "t") -> ElectLeadersRequest:
    named = [TopicPartitions(topic=topic, partitions=list(partitions))] if partitions else None
    return ElectLeadersRequest(election_type=kind, topic_partitions=named)


def results(response: Any) -> list[tuple[int, int, str | None]]:
    return [
        (each.partition_id, each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    ]


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_election_of_the_current_leader_is_not_needed(node: Any, kind: int) -> None:
    node.create_topic("t")

    assert results(node.ask(elect(kind, 0, 9))) == [
        (0, ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-9"),
    ]


def test_unknown_topic_is_named_in_the_error(node: Any) -> None:
    response = results(node.ask(elect(PREFERRED, 0, topic="nope")))

    assert response == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as nope")]


def test_request_without_partitions_reports_only_changes(node: Any) -> None:
    node.create_topic("t", 3)

    assert results(node.ask(elect(PREFERRED))) == []


def test_unknown_election_type_is_rejected(node: Any) -> None:
    assert node.ask(elect(5)).error_code == ErrorCode.INVALID_REQUEST


def test_preferred_replica_is_elected_on_request(node: Any) -> None:
    node.add_brokers(2, 3)
    node.create_topic("t", 1, 3)
    first = node.image.topics.by_name["t"].partitions[0].replicas[0]
    node.ask(node.heartbeat(first, want_fence=True))
    node.ask(node.heartbeat(first))
    moved = node.image.topics.by_name["t"].partitions[0]
    assert moved.leader != first
    topic_id = node.image.topics.by_name["t"].topic_id
    back_in_sync = PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=list(moved.replicas))

    assert results(node.ask(elect(PREFERRED, 0)))[0][1] == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert moved.merge(back_in_sync).isr == moved.replicas
