"""Verification of transactions with their coordinators, and the errors of batches that were not verified."""

from itertools import count

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.produce_transaction import FIRST_VERSION_WITH_ABORTABLE, to_produce_error
from ottla.peers.channel import PeerFailure
from ottla.purgatory import Delayed
from ottla.simulator.world.clock import SimulatedClock
from ottla.transactions.known_errors import to_known_error
from ottla.transactions.verifier import PARTITIONS_PER_REQUEST, TransactionVerifier, Verification
from ottla.types import TRANSACTION_STATE_TOPIC, TopicPartition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from transaction_node import ScriptedPeers, Sent

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BACKOFF_MS, BACKOFF_MAX_MS = 20, 100


class Verifier:
    """A verifier of a cluster whose node 3 coordinates all transactions."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.peers = ScriptedPeers(leaders={TopicPartition(TRANSACTION_STATE_TOPIC, 0): 3})
        self.partition: int | None = 0
        self.verifier = TransactionVerifier(
            channel=self.peers,
            clock=self.clock,
            metadata=self.peers,
            partition_for=lambda _: self.partition,
            listener="PLAINTEXT",
            timeout_ms=30_000,
            retry_backoff_ms=BACKOFF_MS,
            retry_backoff_max_ms=BACKOFF_MAX_MS,
        )

    def verify(
        self,
        *partitions: TopicPartition,
        transactional_id: str = "a",
        producer_epoch: int = 0,
        adds_partitions: bool = True,
    ) -> Verification:
        verification = Verification(
            transactional_id=transactional_id,
            producer_id=7,
            producer_epoch=producer_epoch,
            partitions=partitions,
            adds_partitions=adds_partitions,
        )
        self.verifier.verify(verification)
        return verification


@pytest.fixture
def verifier() -> Verifier:
    return Verifier()


def asked(sent: Sent) -> list[tuple[str, int, bool, list[tuple[str, list[int]]]]]:
    assert isinstance(sent.request, AddPartitionsToTxnRequest)
    return [
        (
            it.transactional_id,
            it.producer_epoch,
            it.verify_only,
            [(topic.name, topic.partitions) for topic in it.topics],
        )
        for it in sent.request.transactions
    ]


def respond(sent: Sent, error: ErrorCode = ErrorCode.NONE) -> None:
    assert isinstance(sent.request, AddPartitionsToTxnRequest)
    sent.result.complete(
        AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=it.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                                for index in topic.partitions
                            ],
                        )
                        for topic in it.topics
                    ],
                )
                for it in sent.request.transactions
            ]
        )
    )


def test_request_goes_to_the_coordinator(verifier: Verifier) -> None:
    verification = verifier.verify(T0, T1, adds_partitions=False)

    (sent,) = verifier.peers.take()
    assert sent.endpoint.port == 3
    assert asked(sent) == [("a", 0, True, [("t", [0, 1])])]
    respond(sent, ErrorCode.TRANSACTION_ABORTABLE)
    assert verification.result.value == dict.fromkeys((T0, T1), ErrorCode.TRANSACTION_ABORTABLE)


def test_one_request_at_a_time_has_all_that_waits(verifier: Verifier) -> None:
    first = verifier.verify(T0)
    others = [verifier.verify(T0, transactional_id="b"), verifier.verify(T1), verifier.verify(T0)]
    (sent,) = verifier.peers.take()

    respond(sent)
    assert first.result.is_complete
    (sent,) = verifier.peers.take()

    assert asked(sent) == [("b", 0, False, [("t", [0])]), ("a", 0, False, [("t", [1, 0])])]
    respond(sent)
    assert all(set(other.result.value.values()) == {ErrorCode.NONE} for other in others)
    assert verifier.peers.take() == []


def test_two_epochs_of_an_id_are_in_two_requests(verifier: Verifier) -> None:
    """A response has one result for an id."""
    verifier.verify(T1, transactional_id="b")
    verifier.verify(T0)
    verifier.verify(T0, producer_epoch=1)
    verifier.verify(T0, adds_partitions=False)

    requests = []
    for _ in range(4):
        (sent,) = verifier.peers.take()
        requests.append(asked(sent))
        respond(sent)

    assert requests[1:] == [
        [("a", 0, False, [("t", [0])])],
        [("a", 1, False, [("t", [0])])],
        [("a", 0, True, [("t", [0])])],
    ]


def test_requests_are_bounded(verifier: Verifier) -> None:
    numbers = count()
    for _ in range(3):
        verifier.verify(*(TopicPartition("t", next(numbers)) for _ in range(PARTITIONS_PER_REQUEST)))

    sizes = []
    for _ in range(3):
        (sent,) = verifier.peers.take()
        sizes.append(sum(len(partitions) for *_, topics in asked(sent) for _, partitions in topics))
        respond(sent)

    assert sizes == [PARTITIONS_PER_REQUEST] * 3


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (PeerFailure.DISCONNECTED, ErrorCode.NETWORK_EXCEPTION),
        (PeerFailure.TIMED_OUT, ErrorCode.NETWORK_EXCEPTION),
        (PeerFailure.UNSUPPORTED_VERSION, ErrorCode.NONE),
        (AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ErrorCode.INVALID_TXN_STATE),
        (AddPartitionsToTxnResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), ErrorCode.UNSUPPORTED_VERSION),
        (AddPartitionsToTxnResponse(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=["disconnected", "timed-out", "old-coordinator", "denied", "transaction-version-0", "no-result"],
)
def test_failure_is_that_of_every_partition(
    verifier: Verifier, failure: PeerFailure | AddPartitionsToTxnResponse, error: ErrorCode
) -> None:
    verification = verifier.verify(T0, T1)
    (sent,) = verifier.peers.take()

    sent.result.complete(failure)

    assert verification.result.value == {T0: error, T1: error}


@pytest.mark.parametrize("is_alive", [True, False])
def test_failure_with_thousands_of_waiting_verifications_does_not_recurse(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch, *, is_alive: bool
) -> None:
    """One request for each epoch of an id: more than Python allows frames."""
    verifications = [verifier.verify(T0, producer_epoch=epoch) for epoch in range(1_200)]
    (sent,) = verifier.peers.take()
    if not is_alive:
        verifier.peers.alive.clear()
    failed = Delayed.of(PeerFailure.DISCONNECTED)
    monkeypatch.setattr(verifier.peers, "send", lambda *_, **__: failed)

    sent.result.complete(PeerFailure.DISCONNECTED)

    error = ErrorCode.NETWORK_EXCEPTION if is_alive else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [each.result.value for each in verifications[1:]] == [{T0: error}] * 1_199


def test_without_a_coordinator_nothing_is_sent(verifier: Verifier) -> None:
    verifier.peers.alive.clear()
    assert verifier.verify(T0).result.value == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}

    verifier.partition = None
    assert verifier.verify(T0).result.value == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert verifier.peers.take() == []


def test_back_off_ends_after_its_maximum(verifier: Verifier) -> None:
    started_ms = verifier.clock.monotonic_ms()
    tries = 0
    while (backed_off := verifier.verifier.back_off(started_ms)) is not None:
        verifier.clock.advance(BACKOFF_MS - 1)
        verifier.verifier.tick(verifier.clock.monotonic_ms())
        assert not backed_off.is_complete
        verifier.clock.advance(1)
        verifier.verifier.tick(verifier.clock.monotonic_ms())
        assert backed_off.is_complete
        tries += 1

    assert tries == BACKOFF_MAX_MS // BACKOFF_MS


@pytest.mark.parametrize(
    ("code", "version", "error"),
    [
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
    ids=str,
)
def test_producers_get_errors_that_their_version_knows(code: ErrorCode, version: int, error: ErrorCode) -> None:
    """The cases of AddPartitionsToTxnManager and ReplicaManager.handleProduceAppend."""
    known = to_known_error(code, knows_fenced=False, knows_abortable=version >= FIRST_VERSION_WITH_ABORTABLE)
    converted = to_produce_error(known, version)

    assert converted is not None
    assert converted.code is error


def test_verified_batch_has_no_error() -> None:
    assert to_produce_error(ErrorCode.NONE, 12) is None
