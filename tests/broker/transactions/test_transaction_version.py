"""Transactions of `transaction.version` 2 after the level was changed to 0."""

import pytest

from ottla.errors import ErrorCode
from ottla.transactions.state import TransactionState
from transaction_node import T0, TIMEOUT_MS, TransactionNode


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
