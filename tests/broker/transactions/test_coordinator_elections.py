"""A new coordinator continues what the one before it has written, and a resigned or fenced one does nothing."""

from dataclasses import replace

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.peers.channel import PeerFailure
from ottla.transactions.state import TransactionState
from ottla.wire.records import NO_PRODUCER_EPOCH
from transaction_node import ID, T0, T1, TIMEOUT_MS, TransactionNode, describe_markers


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
    assert describe_markers(sent) == [(1, 5, True, [("t", [0])])]


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
