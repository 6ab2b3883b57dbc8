"""The transaction coordinator: the order of decisions, markers and ends, and what happens when one of them fails."""

from dataclasses import replace

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.peers.channel import PeerFailure
from ottla.transactions.config import TransactionConfig
from ottla.transactions.enlist import PARTITIONS_MAX
from ottla.transactions.log import TransactionRecord, encode
from ottla.transactions.markers import PARTITIONS_PER_REQUEST, RETRY_BACKOFF_MS
from ottla.transactions.metrics import TransactionSample
from ottla.transactions.shard import RETRY_INTERVAL_MS
from ottla.transactions.state import TRANSITIONS, TransactionState, may_follow
from ottla.types import TopicPartition
from ottla.wire.records import Record, build_batch
from transaction_node import ID, T0, T1, TIMEOUT_MS, TransactionNode, describe_markers

# Decision, markers, end


def test_markers_go_to_the_leaders_when_the_decision_is_committed(node: TransactionNode) -> None:
    node.begin(T0, T1)
    node.log.is_held = True

    ended = node.end()

    assert node.state() is TransactionState.PREPARE_COMMIT
    assert not ended.is_complete
    assert node.peers.take() == []

    node.log.commit()

    assert ended.value.producer_epoch == 1
    first, second = sorted(node.peers.take(), key=lambda sent: sent.endpoint.port)
    assert (first.endpoint.port, describe_markers(first)) == (1, [(1, 0, True, [("t", [0])])])
    assert (second.endpoint.port, describe_markers(second)) == (2, [(1, 0, True, [("t", [1])])])


def test_end_is_written_when_the_last_marker_is(node: TransactionNode) -> None:
    node.begin(T0, T1)
    node.end(is_commit=False)
    first, second = node.peers.take()

    node.respond(first)
    assert node.state() is TransactionState.PREPARE_ABORT

    node.respond(second)
    assert node.state() is TransactionState.COMPLETE_ABORT
    assert node.coordinator.describe(ID).partitions == frozenset()


def test_next_transaction_waits_for_the_end_of_the_last(node: TransactionNode) -> None:
    node.begin(T0)
    node.end()
    (sent,) = node.peers.take()

    assert node.add(T1, producer_epoch=1).value is ErrorCode.CONCURRENT_TRANSACTIONS
    assert node.initialize().value.error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    node.respond(sent)

    assert node.add(T1, producer_epoch=1).value is ErrorCode.NONE


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_abort_of_the_next_transaction_waits_for_the_end_of_the_last(node: TransactionNode, is_commit: bool) -> None:
    """Found by TestTxnEtl of franz-go: it was fenced, where the next transaction had no partition yet."""
    node.begin(T0)
    node.end(is_commit=is_commit)
    (sent,) = node.peers.take()

    assert node.end(is_commit=False, producer_epoch=1).value.error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    node.respond(sent)
    ended = node.end(is_commit=False, producer_epoch=1).value
    assert (ended.error_code, ended.producer_epoch) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize(
    "failure",
    [
        PeerFailure.DISCONNECTED,
        PeerFailure.TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
    ids=lambda failure: failure.name,
)
def test_failed_marker_is_requested_again_from_the_leader_of_that_moment(
    node: TransactionNode, failure: PeerFailure | ErrorCode
) -> None:
    node.begin(T0)
    node.end()
    (sent,) = node.peers.take()
    node.peers.leaders[T0] = 3
    if isinstance(failure, ErrorCode):
        node.respond(sent, failure)
    else:
        sent.result.complete(failure)

    node.advance(RETRY_BACKOFF_MS - 1)
    assert node.peers.take() == []
    node.advance(1)

    (again,) = node.peers.take()
    assert again.endpoint.port == 3
    node.respond(again)
    assert node.state() is TransactionState.COMPLETE_COMMIT


def test_lost_leader_with_thousands_of_waiting_markers_does_not_recurse(
    node: TransactionNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.transactions.markers.PARTITIONS_PER_REQUEST", 1)
    partitions = [TopicPartition("t", index) for index in range(1_500)]
    node.peers.leaders = dict.fromkeys(partitions, 1)
    node.begin(*partitions)
    node.end()
    (sent,) = node.peers.take()
    node.peers.alive.clear()

    sent.result.complete(PeerFailure.DISCONNECTED)
    node.peers.leaders.clear()
    node.advance(RETRY_BACKOFF_MS)

    assert node.state() is TransactionState.COMPLETE_COMMIT


def test_marker_waits_for_a_leader_that_is_alive(node: TransactionNode) -> None:
    node.begin(T0)
    node.peers.alive.clear()
    node.end()
    node.advance(10_000)
    assert node.peers.take() == []

    node.peers.alive.add(1)
    node.advance(RETRY_BACKOFF_MS)

    (sent,) = node.peers.take()
    node.respond(sent)
    assert node.state() is TransactionState.COMPLETE_COMMIT


def test_deleted_partition_needs_no_marker(node: TransactionNode) -> None:
    node.begin(T0, T1)
    del node.peers.leaders[T0]
    node.end()
    (sent,) = node.peers.take()

    node.respond(sent)

    assert node.state() is TransactionState.COMPLETE_COMMIT


def test_transaction_without_partitions_ends_at_once(node: TransactionNode) -> None:
    node.initialize()

    assert node.end(is_commit=False).value.producer_epoch == 1

    assert node.written_states() == ["Empty", "PrepareAbort", "CompleteAbort"]


def test_markers_of_many_transactions_share_requests_of_bounded_size(node: TransactionNode) -> None:
    """One at a time to a leader."""
    node.peers.leaders = {TopicPartition("t", number): 1 for number in range(PARTITIONS_PER_REQUEST + 1)}
    node.begin(*node.peers.leaders)
    node.initialize("other")
    node.add(T0, producer_id=7_001, transactional_id="other")
    node.end()
    node.end(producer_id=7_001, transactional_id="other")

    (first,) = node.peers.take()
    assert [len(partitions) for *_, ((_, partitions),) in describe_markers(first)] == [PARTITIONS_PER_REQUEST]
    node.respond(first)
    (second,) = node.peers.take()
    assert [len(partitions) for *_, ((_, partitions),) in describe_markers(second)] == [1, 1]
    node.respond(second)

    assert node.state() is node.state("other") is TransactionState.COMPLETE_COMMIT


# Failed writes


def test_rejected_decision_changes_nothing(node: TransactionNode) -> None:
    node.begin(T0)
    node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    assert node.end().value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.state() is TransactionState.ONGOING

    node.log.append_error = ErrorCode.NONE
    assert node.end().value.error_code == ErrorCode.NONE


def test_decision_that_is_not_committed_in_time_is_written_again_before_its_markers(node: TransactionNode) -> None:
    node.begin(T0)
    node.log.is_held = True
    ended = node.end()
    node.log.commit(ErrorCode.REQUEST_TIMED_OUT)
    assert ended.value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.peers.take() == []

    node.log.is_held = False
    node.advance(RETRY_INTERVAL_MS)

    assert len(node.peers.take()) == 1
    assert node.written_states()[-2:] == ["PrepareCommit", "PrepareCommit"]


def test_rejected_end_is_written_again(node: TransactionNode) -> None:
    node.begin(T0)
    node.end()
    (sent,) = node.peers.take()
    node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.respond(sent)
    node.advance(3 * RETRY_INTERVAL_MS)
    assert node.state() is TransactionState.PREPARE_COMMIT
    assert node.peers.take() == []

    node.log.append_error = ErrorCode.NONE
    node.advance(RETRY_INTERVAL_MS)

    assert node.state() is TransactionState.COMPLETE_COMMIT


# Time-outs and expiry


def test_transaction_is_aborted_after_its_time_out(node: TransactionNode) -> None:
    node.begin(T0)
    node.advance(TIMEOUT_MS)

    (sent,) = node.peers.take()
    assert describe_markers(sent) == [(1, 0, False, [("t", [0])])]
    assert node.end().value.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    node.respond(sent)
    assert node.end().value.error_code == ErrorCode.INVALID_TXN_STATE


def test_producer_is_fenced_by_the_time_out_before_version_2() -> None:
    node = TransactionNode(transaction_version=1)
    node.begin(T0)
    node.advance(TIMEOUT_MS)
    node.respond(node.peers.take()[0])

    assert node.end().value.error_code == ErrorCode.PRODUCER_FENCED
    assert node.initialize(expected=(7_000, 0)).value.error_code == ErrorCode.PRODUCER_FENCED


def test_rejected_abort_is_tried_again(node: TransactionNode) -> None:
    node.begin(T0)
    node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.advance(TIMEOUT_MS)
    assert node.state() is TransactionState.ONGOING

    node.log.append_error = ErrorCode.NONE
    node.advance(RETRY_INTERVAL_MS)

    assert node.state() is TransactionState.PREPARE_ABORT


def test_clock_that_is_set_back_delays_a_time_out_by_the_time_out_at_most(node: TransactionNode) -> None:
    node.begin(T0)
    node.clock.step_wall(-86_400_000)
    node.restart(leader_epoch=1)

    node.advance(TIMEOUT_MS)

    assert node.state() is TransactionState.PREPARE_ABORT


def test_idle_ids_expire() -> None:
    node = TransactionNode(config=TransactionConfig(id_expiration_ms=1_000, expiry_check_interval_ms=500))
    node.begin(T0)
    for number in range(999):  # with the first, a whole block
        node.initialize(f"idle{number}")

    node.advance(1_600)

    assert node.written_states().count("tombstone") == 999
    assert node.state() is TransactionState.ONGOING
    with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_NOT_FOUND"):
        node.coordinator.describe("idle0")


def test_counts_are_those_of_the_metrics(node: TransactionNode) -> None:
    node.begin(T0)
    node.initialize("idle")
    assert node.coordinator.sample() == TransactionSample(ids=2, open=1, awaiting_markers=0)

    node.end()
    assert node.coordinator.sample() == TransactionSample(ids=2, open=0, awaiting_markers=1)


# Producer ids and epochs


def test_last_epoch_is_followed_by_another_producer_id(node: TransactionNode) -> None:
    node.begin(T0)
    last = replace(node.coordinator.describe(ID), producer_epoch=32_766)
    node.log.append(0, parse_record(TransactionRecord(ID, last, 1)))
    node.restart(leader_epoch=1)

    ended = node.end(producer_epoch=32_766).value

    assert (ended.producer_id, ended.producer_epoch) == (7_000, 0)  # the first id of the new process's block
    (sent,) = node.peers.take()
    assert [epoch for epoch, *_ in describe_markers(sent)] == [32_767]
    node.respond(sent)
    repeated = node.end(producer_epoch=32_766).value
    assert (repeated.error_code, repeated.producer_epoch) == (ErrorCode.NONE, 0)


def parse_record(record: TransactionRecord) -> bytes:
    key, value = encode(record)
    return build_batch([Record(0, 0, key, value)])


def test_without_a_producer_id_nothing_is_written(node: TransactionNode) -> None:
    node.producer_id_error = ErrorCode.NOT_CONTROLLER

    assert node.initialize().value.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert node.written() == []


def test_transaction_of_too_many_partitions_is_rejected(node: TransactionNode) -> None:
    """Each record lists all of them."""
    node.begin(*(TopicPartition("t", number) for number in range(PARTITIONS_MAX)))

    assert node.add(TopicPartition("u", 0)).value is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(node.coordinator.describe(ID).partitions) == PARTITIONS_MAX


def test_states_that_kafka_allows_are_allowed() -> None:
    """From TransactionState.validPreviousStates, without PREPARE_EPOCH_FENCE, which is not used."""
    allowed = {
        TransactionState.EMPTY: {"EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"},
        TransactionState.ONGOING: {"ONGOING", "EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"},
        TransactionState.PREPARE_COMMIT: {"ONGOING"},
        TransactionState.PREPARE_ABORT: {"ONGOING", "EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"},
        TransactionState.COMPLETE_COMMIT: {"PREPARE_COMMIT"},
        TransactionState.COMPLETE_ABORT: {"PREPARE_ABORT"},
        TransactionState.DEAD: {"EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"},
    }
    for before in TransactionState:
        for after in TransactionState:
            assert may_follow(before, after) is (before.name in allowed.get(after, ())), (before, after)
    assert len(TRANSITIONS) == sum(map(len, allowed.values()))
