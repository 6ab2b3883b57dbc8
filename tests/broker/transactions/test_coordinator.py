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
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from ottla.wire.records import NO_PRODUCER_EPOCH, Record, build_batch
from transaction_node import ID, T0, T1, TIMEOUT_MS, Sent, TransactionNode


@pytest.fixture
def node() -> TransactionNode:
    return TransactionNode()


def markers_of(sent: Sent) -> list[tuple[int, int, bool, list[tuple[str, list[int]]]]]:
    """Return producer epoch, coordinator epoch, result and partitions of each marker."""
    assert isinstance(sent.request, WriteTxnMarkersRequest)
    return [
        (
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            [(topic.name, topic.partition_indexes) for topic in marker.topics],
        )
        for marker in sent.request.markers
    ]


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
    assert (first.endpoint.port, markers_of(first)) == (1, [(1, 0, True, [("t", [0])])])
    assert (second.endpoint.port, markers_of(second)) == (2, [(1, 0, True, [("t", [1])])])


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
    assert [len(partitions) for *_, ((_, partitions),) in markers_of(first)] == [PARTITIONS_PER_REQUEST]
    node.respond(first)
    (second,) = node.peers.take()
    assert [len(partitions) for *_, ((_, partitions),) in markers_of(second)] == [1, 1]
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


# Elections


def test_new_coordinator_writes_decisions_again_and_then_sends_their_markers(node: TransactionNode) -> None:
    """They may be above the high watermark, and the next coordinator may then not have them."""
    node.begin(T0)
    node.end()
    node.peers.take()
    node.log.is_held = True

    node.restart(leader_epoch=5)

    assert node.written_states()[-2:] == ["PrepareCommit", "PrepareCommit"]
    assert node.peers.take() == []
    node.log.commit()
    (sent,) = node.peers.take()
    assert markers_of(sent) == [(1, 5, True, [("t", [0])])]


def test_new_coordinator_writes_many_decisions_in_slices(node: TransactionNode) -> None:
    for number in range(120):
        node.initialize(f"id{number}")
        node.add(T0, producer_id=7_000 + number, transactional_id=f"id{number}")
        node.end(producer_id=7_000 + number, transactional_id=f"id{number}")
    written = len(node.written())

    node.restart(leader_epoch=1)
    assert len(node.written()) == written + 50
    node.advance(1)
    assert len(node.written()) == written + 60
    node.advance(10)
    assert len(node.written()) == written + 120


def test_new_coordinator_confirms_no_partition_before_it_is_committed(node: TransactionNode) -> None:
    """The next coordinator may not have it: no marker would ever end the transaction there."""
    node.begin(T0)
    node.log.is_held = True
    node.restart(leader_epoch=1)

    verified = node.verify(T0)
    added = node.add(T0)
    assert not verified.is_complete
    assert not added.is_complete

    node.log.commit()
    assert verified.value == frozenset()
    assert added.value is ErrorCode.NONE


def test_coordinator_that_has_resigned_sends_and_writes_nothing(node: TransactionNode) -> None:
    node.begin(T0, T1)
    node.end()
    first, second = node.peers.take()
    second.result.complete(PeerFailure.DISCONNECTED)

    node.coordinator.on_resigned(0, 1)
    node.respond(first)
    node.advance(60_000)

    assert node.peers.take() == []
    assert node.written_states()[-1] == "PrepareCommit"
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        node.coordinator.describe(ID)


@pytest.mark.parametrize(
    ("state", "markers_again"),
    [
        (TransactionState.EMPTY, 0),
        (TransactionState.ONGOING, 0),
        (TransactionState.PREPARE_COMMIT, 1),
        (TransactionState.PREPARE_ABORT, 1),
        (TransactionState.COMPLETE_COMMIT, 0),
        (TransactionState.COMPLETE_ABORT, 0),
    ],
)
def test_resigned_coordinator_leaves_an_id_in_every_state_to_the_next_one(
    node: TransactionNode, state: TransactionState, markers_again: int
) -> None:
    """Neither time-out nor expiry of the id is its business any more."""
    node.initialize()
    if state is not TransactionState.EMPTY:
        node.add(T0)
    if state.is_prepared or state.is_complete:
        node.end(is_commit=state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT))
    sent = node.peers.take()
    if state.is_complete:
        node.respond(sent[0])
    assert node.state() is state
    before, written = node.coordinator.describe(ID), node.written()

    node.coordinator.on_resigned(0, 1)
    if state.is_prepared:
        sent[0].result.complete(PeerFailure.DISCONNECTED)
    node.advance(8 * 24 * 60 * 60 * 1000)
    assert node.initialize().value.error_code == ErrorCode.NOT_COORDINATOR
    assert (node.peers.take(), node.written()) == ([], written)

    node.elect(2)
    # No record has the epoch before the current one, in JVM Kafka either.
    assert node.coordinator.describe(ID) == replace(before, last_producer_epoch=NO_PRODUCER_EPOCH)
    assert len(node.peers.take()) == markers_again


def test_fenced_coordinator_stops_sending(node: TransactionNode) -> None:
    node.begin(T0, T1)
    node.end()
    first, second = node.peers.take()
    node.respond(first, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    node.respond(second)
    node.advance(60_000)

    assert node.peers.take() == []
    assert node.state() is TransactionState.PREPARE_COMMIT


def test_time_outs_continue_after_an_election(node: TransactionNode) -> None:
    node.begin(T0)
    node.advance(TIMEOUT_MS - 10_000)

    node.restart(leader_epoch=1)
    node.advance(9_999)
    assert node.state() is TransactionState.ONGOING
    node.advance(1)

    assert node.state() is TransactionState.PREPARE_ABORT


# Time-outs and expiry


def test_transaction_is_aborted_after_its_time_out(node: TransactionNode) -> None:
    node.begin(T0)
    node.advance(TIMEOUT_MS)

    (sent,) = node.peers.take()
    assert markers_of(sent) == [(1, 0, False, [("t", [0])])]
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


# A lower level


@pytest.mark.parametrize("is_commit", [True, False])
def test_transaction_of_version_2_ends_after_a_change_to_0(node: TransactionNode, is_commit: bool) -> None:
    """Records of version 0 cannot say that the client uses 2: in JVM Kafka such a transaction does not end."""
    node.begin(T0)
    node.transaction_version = 0

    assert node.end(is_commit=is_commit).value.error_code == ErrorCode.NONE
    (sent,) = node.peers.take()
    node.respond(sent)

    assert node.state() is (TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT)
    assert node.value_versions() == [1, 1, 1, 1]


def test_decision_of_version_2_is_carried_out_by_a_coordinator_of_0(node: TransactionNode) -> None:
    node.begin(T0)
    node.end()
    node.peers.take()
    node.transaction_version = 0

    node.restart(leader_epoch=1)
    (sent,) = node.peers.take()
    node.respond(sent)

    assert node.state() is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("restarts", [False, True])
def test_time_out_ends_a_transaction_of_version_2_after_a_change_to_0(node: TransactionNode, restarts: bool) -> None:
    node.begin(T0)
    node.transaction_version = 0
    if restarts:
        node.restart(leader_epoch=1)
    assert node.state() is TransactionState.ONGOING
    node.advance(TIMEOUT_MS)
    (sent,) = node.peers.take()
    node.respond(sent)

    assert node.state() is TransactionState.COMPLETE_ABORT


def test_next_transaction_after_a_change_to_0_is_one_of_version_0(node: TransactionNode) -> None:
    node.begin(T0)
    node.end()
    node.respond(node.peers.take()[0])
    node.transaction_version = 0

    assert node.add(T0, producer_epoch=1).value is ErrorCode.UNSUPPORTED_VERSION
    initialized = node.initialize().value
    node.client_transaction_version = 0
    assert initialized.error_code == ErrorCode.NONE
    assert node.add(T0, producer_epoch=initialized.producer_epoch).value is ErrorCode.NONE

    assert node.value_versions()[-2:] == [1, 0]


# Producer ids and epochs


def test_last_epoch_is_followed_by_another_producer_id(node: TransactionNode) -> None:
    node.begin(T0)
    last = replace(node.coordinator.describe(ID), producer_epoch=32_766)
    node.log.append(0, parse_record(TransactionRecord(ID, last, 1)))
    node.restart(leader_epoch=1)

    ended = node.end(producer_epoch=32_766).value

    assert (ended.producer_id, ended.producer_epoch) == (7_000, 0)  # the first id of the new process's block
    (sent,) = node.peers.take()
    assert [epoch for epoch, *_ in markers_of(sent)] == [32_767]
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
