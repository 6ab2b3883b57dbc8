"""Batches of decisions: atomic ones are whole, large others are split, and too large ones are rejected."""

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


def test_broker_with_many_partitions_is_fenced_in_several_batches(
    new_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster(1, 2)
    cluster.assign("t", *([1, 2] for _ in range(25)))
    monkeypatch.setattr(controller_module, "RECORDS_PER_BATCH_MAX", 10)
    before = len(cluster.log.batches)
    cluster.log.commits_at_once = False

    response = cluster.send(cluster.heartbeat(1, want_fence=True))
    sizes = [len(batch.records) for batch in cluster.log.batches[before:]]
    was_early = response.is_complete
    cluster.commit()

    assert sizes == [10, 10, 6]
    assert not was_early
    assert response.value.is_fenced
    assert {cluster.partition("t", number).leader for number in range(25)} == {2}


def test_atomic_request_is_one_batch(new_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = new_cluster(1, 2)
    monkeypatch.setattr(controller_module, "RECORDS_PER_BATCH_MAX", 10)
    before = len(cluster.log.batches)

    cluster.assign("t", *([1, 2] for _ in range(25)))

    assert [len(batch.records) for batch in cluster.log.batches[before:]] == [26]


def test_request_with_too_many_records_is_rejected(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, 2)
    for name in ("a", "b"):
        cluster.assign(name, *([1] for _ in range(5_001)))
    topics = [
        ReassignableTopic(
            name=name, partitions=[ReassignablePartition(partition_index=each, replicas=[2]) for each in range(5_001)]
        )
        for name in ("a", "b")
    ]

    response = cluster.ask(AlterPartitionReassignmentsRequest(topics=topics))
    fewer = cluster.ask(AlterPartitionReassignmentsRequest(topics=topics[:1]))

    assert response.error_code == ErrorCode.POLICY_VIOLATION
    assert response.responses[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION
    assert fewer.error_code == ErrorCode.NONE
    assert cluster.active.metrics().reassigning_partitions == 5_001


def test_batch_too_large_for_the_quorum_fails_only_its_request(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1)
    before = cluster.image
    cluster.log.rejects_with = KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "too large")
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])

    rejected = cluster.ask(request).topics[0].error_code
    still_active, unchanged = cluster.active.is_active, cluster.image is before
    cluster.log.rejects_with = None

    assert (rejected, still_active, unchanged) == (ErrorCode.RECORD_LIST_TOO_LARGE, True, True)
    assert cluster.ask(request).topics[0].error_code == ErrorCode.NONE


def test_leadership_lost_during_an_append_fails_the_request(new_cluster: Callable[..., Any]) -> None:
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

    response = cluster.send(request)

    assert isinstance(response.value, KafkaError)
    assert response.value.code is ErrorCode.NOT_CONTROLLER
    assert cluster.controllers[101].state.image.topics.by_name == {}
