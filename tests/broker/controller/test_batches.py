"""Batches of decisions: atomic ones are whole, long others are made in slices, and too large ones are rejected."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.controller import decision_queue
from ottla.controller.leader_and_isr import LeaderAndIsrControl
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.codec import Message
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionRequestTopicData
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.metadata_log import BrokerRegistrationChangeRecord


@pytest.fixture
def cluster(new_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two brokers with 25 partitions, of which broker 1 leads each; ten are decided per slice."""
    cluster = new_cluster(1, 2, controllers=2)
    cluster.assign("t", *([1, 2] for _ in range(25)))
    monkeypatch.setattr(decision_queue, "DECIDED_PER_SLICE", 10)
    return cluster


def sizes_since(cluster: Any, before: int) -> list[int]:
    return [len(batch.records) for batch in cluster.log.batches[before:]]


def finish(cluster: Any, request: Message) -> int:
    """Send ``request``, and let its slices run; return their number after the first."""
    response = cluster.send(request)
    slices = 0
    while not response.is_complete:
        cluster.tick()
        slices += 1
    return slices


def leaders(cluster: Any) -> list[int]:
    return [cluster.partition("t", number).leader for number in range(25)]


def test_broker_with_many_partitions_is_fenced_in_slices(cluster: Any) -> None:
    before = len(cluster.log.batches)
    cluster.log.commits_at_once = False

    response = cluster.send(cluster.heartbeat(1, want_fence=True))
    sizes, due_ms = [sizes_since(cluster, before)], [cluster.active.next_deadline_ms()]
    for _ in range(2):
        cluster.tick()
        sizes.append(sizes_since(cluster, before))
        due_ms.append(cluster.active.next_deadline_ms())
    was_early = response.is_complete
    cluster.commit()

    now_ms = cluster.clock.monotonic_ms()
    assert sizes == [[10], [10, 10], [10, 10, 6]]
    assert due_ms[:2] == [now_ms, now_ms]
    assert due_ms[2] != now_ms
    assert not was_early
    assert response.value.is_fenced
    assert leaders(cluster) == [2] * 25
    assert isinstance(cluster.records[-1].message, BrokerRegistrationChangeRecord)


def test_partitions_that_do_not_change_count_for_a_slice(cluster: Any) -> None:
    cluster.assign("u", *([2] for _ in range(25)))
    for broker_id in (1, 2):
        finish(cluster, cluster.heartbeat(broker_id, want_fence=True))
    before = len(cluster.log.batches)

    slices = finish(cluster, cluster.heartbeat(1))

    assert slices == 50 // 10
    assert sum(sizes_since(cluster, before)) < 50


def test_many_isrs_are_changed_in_slices(cluster: Any) -> None:
    topic_id = cluster.image.topics.by_name["t"].topic_id
    before = len(cluster.log.batches)

    # The last one is of a partition that does not exist.
    proposals = [cluster.isr_proposal("t", [2, 1], number) for number in range(26)]
    response = cluster.send(
        AlterPartitionRequest(
            broker_id=1,
            broker_epoch=cluster.epoch_of(1),
            topics=[AlterPartitionRequestTopicData(topic_id=topic_id, partitions=proposals)],
        )
    )
    sizes = [sizes_since(cluster, before)]
    while not response.is_complete:
        cluster.tick()
        sizes.append(sizes_since(cluster, before))

    (outcomes,) = response.value.topics
    assert sizes == [[10], [10, 10], [10, 10, 5]]
    assert [each.partition_index for each in outcomes.partitions] == list(range(26))
    assert [each.isr for each in outcomes.partitions[:25]] == [[2, 1]] * 25
    assert outcomes.partitions[25].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [cluster.partition("t", number).isr for number in range(25)] == [(2, 1)] * 25


def test_requests_wait_for_the_end_of_a_decision_in_slices(cluster: Any) -> None:
    fenced = cluster.send(cluster.heartbeat(1, want_fence=True))
    back = cluster.send(cluster.heartbeat(1))
    created = cluster.send(
        CreateTopicsRequest(topics=[CreatableTopic(name="u", num_partitions=1, replication_factor=2)])
    )

    assert [each.is_complete for each in (fenced, back, created)] == [False] * 3
    while not created.is_complete:
        cluster.tick()
    assert (fenced.value.is_fenced, back.value.is_fenced) == (True, False)
    assert created.value.topics[0].error_code == ErrorCode.NONE


def test_sessions_end_one_decision_after_the_other(new_cluster: Callable[..., Any], monkeypatch: Any) -> None:
    cluster = new_cluster(1, 2, 3)
    cluster.assign("t", *([1, 2, 3] for _ in range(25)))
    monkeypatch.setattr(decision_queue, "DECIDED_PER_SLICE", 10)
    cluster.wait(5_000)
    cluster.unfence(3)
    cluster.clock.advance(4_000)

    for _ in range(10):
        cluster.tick()

    assert leaders(cluster) == [3] * 25
    assert [cluster.broker_of(each).is_fenced for each in (1, 2, 3)] == [True, True, False]
    assert cluster.active.metrics().ended_sessions == 2


@pytest.mark.parametrize("event", ["fenced", "unfenced", "controlled shutdown", "registered"])
def test_next_controller_completes_a_decision_of_which_slices_are_lost(cluster: Any, event: str) -> None:
    if event == "unfenced":
        for broker_id in (2, 1):
            finish(cluster, cluster.heartbeat(broker_id, want_fence=True))
    wants = {"want_shut_down": True} if event == "controlled shutdown" else {"want_fence": event == "fenced"}
    request = cluster.registration(1) if event == "registered" else cluster.heartbeat(1, **wants)
    if event == "registered":
        cluster.clock.advance(9_000)
    before = leaders(cluster)
    response = cluster.send(request)
    after_one_slice = leaders(cluster)
    cluster.elect(102)
    again = cluster.send(request)
    for _ in range(3):
        cluster.tick()

    assert response.value.code is ErrorCode.NOT_CONTROLLER
    assert sum(one != other for one, other in zip(before, after_one_slice, strict=True)) in (9, 10)
    assert again.is_complete
    assert sum(one != other for one, other in zip(before, leaders(cluster), strict=True)) == 25


def test_error_of_the_code_does_not_end_all_decisions(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(LeaderAndIsrControl, "change", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            cluster.send(cluster.heartbeat(1, want_fence=True))

    assert not cluster.ask(cluster.heartbeat(2)).is_fenced


def test_error_of_the_code_in_a_later_slice_completes_the_request_and_those_after_it(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fenced, created = cluster.send(cluster.heartbeat(1, want_fence=True)), cluster.send(cluster.heartbeat(2))
    with monkeypatch.context() as patch:
        patch.setattr(LeaderAndIsrControl, "change", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            cluster.tick()
    cluster.tick()

    assert fenced.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not created.value.is_fenced


def test_atomic_request_is_one_batch(new_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = new_cluster(1, 2)
    monkeypatch.setattr(decision_queue, "DECIDED_PER_SLICE", 10)
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
