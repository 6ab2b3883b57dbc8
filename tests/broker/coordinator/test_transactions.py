"""Transactions on a toy coordinator: pending writes, the marker that ends them, and verification before a write."""

from typing import Any

import pytest

from ottla.coordinator.transactions import TransactionalProducer, Verification
from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.wire.records import NO_SEQUENCE, ControlRecordType, parse_control_key, read_records

PRODUCER_ID = 9


def batches(node: Any) -> Any:
    return node.log.batches[node.partition_of("a")]


def test_batch_of_a_transaction_has_the_producer_and_no_sequence(node: Any) -> None:
    assert node.increment_in_transaction(PRODUCER_ID).value == "a=1"

    (batch,) = batches(node)
    assert batch.is_transactional
    assert not batch.is_control
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (PRODUCER_ID, 3, NO_SEQUENCE)


@pytest.mark.parametrize(("is_commit", "seen"), [(True, "a=1"), (False, "a=0")])
def test_write_of_a_transaction_is_visible_after_its_commit_only(node: Any, is_commit: bool, seen: str) -> None:
    node.increment_in_transaction(PRODUCER_ID)
    assert node.read().value == "a=0"

    assert node.end_transaction(PRODUCER_ID, is_commit=is_commit).value is ErrorCode.NONE

    assert node.read().value == seen
    node.resign()
    node.elect()
    assert node.read().value == seen


def test_marker_names_the_coordinator_and_its_decision(node: Any) -> None:
    node.end_transaction(PRODUCER_ID, is_commit=False)

    (batch,) = batches(node)
    assert batch.is_control
    assert (batch.producer_id, batch.producer_epoch) == (PRODUCER_ID, 4)
    (record,) = read_records(batch, size_bytes_max=1_000)
    assert parse_control_key(record.key) is ControlRecordType.ABORT
    assert record.timestamp_ms == node.clock.wall_ms()
    assert node.log.transaction_versions == [2]


def test_write_is_visible_once_the_marker_is_committed(node: Any) -> None:
    node.increment_in_transaction(PRODUCER_ID)
    node.log.is_held = True
    ended, seen = node.end_transaction(PRODUCER_ID), node.read()

    assert not ended.is_complete
    assert not seen.is_complete
    node.log.commit()
    assert ended.value is ErrorCode.NONE
    assert seen.value == "a=1"


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_rejected_marker_leaves_the_transaction_open(node: Any, error: ErrorCode) -> None:
    node.increment_in_transaction(PRODUCER_ID)
    node.log.append_error = error

    assert node.end_transaction(PRODUCER_ID).value is error
    assert node.read().value == "a=0"
    node.log.append_error = ErrorCode.NONE
    assert node.end_transaction(PRODUCER_ID).value is ErrorCode.NONE
    assert node.read().value == "a=1"


def test_lost_marker_reloads_the_partition_with_the_transaction_open(node: Any) -> None:
    node.increment_in_transaction(PRODUCER_ID)
    node.log.is_held = True
    ended, seen = node.end_transaction(PRODUCER_ID), node.read()
    del batches(node)[-1]

    node.log.commit(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert ended.value is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert seen.value == "NOT_COORDINATOR"
    node.log.is_held = False
    node.advance(1_000)
    assert node.read().value == "a=0"
    assert node.end_transaction(PRODUCER_ID).value is ErrorCode.NONE
    assert node.read().value == "a=1"


def test_marker_that_is_not_committed_in_time_has_timed_out(node: Any) -> None:
    node.log.is_held = True
    ended = node.end_transaction(PRODUCER_ID)

    node.advance(node.WRITE_TIMEOUT_MS)

    assert ended.value is ErrorCode.REQUEST_TIMED_OUT


def test_marker_without_a_transaction_is_written(node: Any) -> None:
    assert node.end_transaction(PRODUCER_ID).value is ErrorCode.NONE
    assert len(batches(node)) == 1


def test_marker_for_a_partition_that_is_not_served_is_rejected(idle_node: Any) -> None:
    assert idle_node.end_transaction(PRODUCER_ID).value is ErrorCode.NOT_COORDINATOR
    batch = idle_node.batch(("a", 1))
    idle_node.write_log(*[batch] * 501)
    idle_node.start_election()

    assert idle_node.end_transaction(PRODUCER_ID).value is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(batches(idle_node)) == 501


def test_resignation_completes_a_marker_that_waits_for_its_commit(node: Any) -> None:
    node.log.is_held = True
    ended = node.end_transaction(PRODUCER_ID)

    node.resign()

    assert ended.value is ErrorCode.NOT_COORDINATOR


# Verification


def test_write_waits_for_the_verification_and_hands_its_guard_in(node: Any) -> None:
    node.log.verification = Delayed()
    written = node.increment_in_transaction(PRODUCER_ID)

    assert not written.is_complete
    assert node.log.verified == [(node.partition_of("a"), TransactionalProducer("payments", PRODUCER_ID, 3), 5)]
    guard = object()
    node.log.verification.complete(Verification(guard=guard))
    assert written.value == "a=1"
    assert node.log.guards == [guard]


@pytest.mark.parametrize(
    ("error", "response"),
    [
        pytest.param(ErrorCode.INVALID_TXN_STATE, "INVALID_TXN_STATE", id="not-in-the-transaction"),
        pytest.param(ErrorCode.INVALID_PRODUCER_EPOCH, "INVALID_PRODUCER_EPOCH", id="fenced"),
        pytest.param(ErrorCode.NETWORK_EXCEPTION, "COORDINATOR_LOAD_IN_PROGRESS", id="coordinator-not-reached"),
        pytest.param(ErrorCode.NOT_LEADER_OR_FOLLOWER, "NOT_COORDINATOR", id="lost-leadership"),
        pytest.param(ErrorCode.CONCURRENT_TRANSACTIONS, "CONCURRENT_TRANSACTIONS", id="ending"),
    ],
)
def test_write_is_rejected_with_the_error_of_its_verification(node: Any, error: ErrorCode, response: str) -> None:
    node.log.verification = Delayed.of(Verification(error))

    assert node.increment_in_transaction(PRODUCER_ID).value == response
    assert node.partition_of("a") not in node.log.batches


def test_resignation_during_the_verification_rejects_the_write(node: Any) -> None:
    node.log.verification = Delayed()
    written = node.increment_in_transaction(PRODUCER_ID)

    node.resign()
    node.log.verification.complete(Verification())

    assert written.value == "NOT_COORDINATOR"
    assert node.partition_of("a") not in node.log.batches


def test_partition_that_is_not_served_is_not_verified(idle_node: Any) -> None:
    assert idle_node.increment_in_transaction(PRODUCER_ID).value == "NOT_COORDINATOR"
    assert idle_node.log.verified == []


def test_rejected_operation_of_a_transaction_writes_nothing(node: Any) -> None:
    assert node.increment_in_transaction(PRODUCER_ID, by=0).value == "INVALID_REQUEST"
    assert node.partition_of("a") not in node.log.batches
