"""How decisions become batches: atomic ones whole, large others in pieces, and what is too large not at all."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.controller import quorum_controller as controller_module
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest


def test_a_broker_of_many_partitions_is_fenced_in_several_batches(
    new_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster(1, 2)
    cluster.assign("t", *([1, 2] for _ in range(25)))
    monkeypatch.setattr(controller_module, "RECORDS_PER_BATCH_MAX", 10)
    before = len(cluster.log.batches)
    cluster.log.commits_at_once = False

    answer = cluster.send(cluster.heartbeat(1, want_fence=True))
    sizes = [len(batch.records) for batch in cluster.log.batches[before:]]
    was_early = answer.is_complete
    cluster.commit()

    assert sizes == [10, 10, 6]
    assert not was_early
    assert answer.value.is_fenced
    assert {cluster.partition("t", number).leader for number in range(25)} == {2}


def test_a_request_stays_one_batch(new_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = new_cluster(1, 2)
    monkeypatch.setattr(controller_module, "RECORDS_PER_BATCH_MAX", 10)
    before = len(cluster.log.batches)

    cluster.assign("t", *([1, 2] for _ in range(25)))

    assert [len(batch.records) for batch in cluster.log.batches[before:]] == [26]


def test_more_records_than_a_request_may_make_are_refused(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, 2)
    for name in ("a", "b"):
        cluster.assign(name, *([1] for _ in range(5_001)))
    topics = [
        ReassignableTopic(
            name=name, partitions=[ReassignablePartition(partition_index=each, replicas=[2]) for each in range(5_001)]
        )
        for name in ("a", "b")
    ]

    answer = cluster.ask(AlterPartitionReassignmentsRequest(topics=topics))
    fewer = cluster.ask(AlterPartitionReassignmentsRequest(topics=topics[:1]))

    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert answer.responses[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION
    assert fewer.error_code == ErrorCode.NONE
    assert cluster.active.metrics().reassigning_partitions == 5_001


def test_a_batch_that_the_quorum_finds_too_large_costs_only_its_own_request(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1)
    before = cluster.image
    cluster.log.refuses = KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "too large")
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])

    refused = cluster.ask(request).topics[0].error_code
    still_active, unchanged = cluster.active.is_active, cluster.image is before
    cluster.log.refuses = None

    assert (refused, still_active, unchanged) == (ErrorCode.RECORD_LIST_TOO_LARGE, True, True)
    assert cluster.ask(request).topics[0].error_code == ErrorCode.NONE


def test_who_loses_the_quorum_while_appending_promises_nothing(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, controllers=2)
    cluster.log.commits_at_once = False
    replica = cluster.replicas[101]
    append = replica.append

    def append_and_lose(epoch: int, records: Any) -> int:
        last: int = append(epoch, records)
        cluster.elect(102)
        return last

    replica.append = append_and_lose
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])

    answer = cluster.send(request)

    assert isinstance(answer.value, KafkaError)
    assert answer.value.code is ErrorCode.NOT_CONTROLLER
    assert cluster.controllers[101].state.image.topics.by_name == {}
