"""`TransactionVerifier`: a partition leader's requests to the coordinators of transactions.

Before the first batch of a producer's transaction is appended to a partition, its coordinator must have the partition
in the transaction; otherwise no marker would ever end it there. Older clients have added it (the leader verifies that),
newer ones leave it to the leader.

To each coordinator goes one request at a time, with all transactions that wait for it.

Source: AddPartitionsToTxnManager of Apache Kafka 4.3; KIP-890.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerChannel, PeerFailure, PeerResult
from ottla.peers.request_queues import LeaderLookup, RequestQueues
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.types import TRANSACTION_STATE_TOPIC, NodeId, ProducerEpoch, ProducerId, TopicPartition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

PURPOSE: Final = "transaction-verification"
PARTITIONS_PER_REQUEST: Final = 500

PartitionErrors: TypeAlias = dict[TopicPartition, ErrorCode]


@dataclass(slots=True, eq=False, kw_only=True)
class Verification:
    """Partitions of one transaction that a leader is about to append to.

    Attributes:
        adds_partitions: whether the coordinator adds them; otherwise it only verifies that they were added.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TopicPartition, ...]
    adds_partitions: bool
    result: Delayed[PartitionErrors] = field(default_factory=Delayed, init=False)

    @property
    def key(self) -> tuple[object, ...]:
        """What verifications of one transactional id must share to be in one request."""
        return (self.producer_id, self.producer_epoch, self.adds_partitions)


class TransactionVerifier:
    """See the module; a part of a node.

    Args of the constructor:
        partition_for: returns the partition of ``__transaction_state`` that holds an id; None without that topic.
        listener: name of the listener between brokers.
        timeout_ms: of a request.
        retry_backoff_ms, retry_backoff_max_ms: how long and how often `back_off` waits.
    """

    def __init__(
        self,
        *,
        channel: PeerChannel,
        clock: Clock,
        metadata: LeaderLookup,
        partition_for: Callable[[str], int | None],
        listener: str,
        timeout_ms: int,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._partition_for = partition_for
        self._listener = listener
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_backoff_max_ms = retry_backoff_max_ms
        self._coordinators: RequestQueues[list[Verification], Verification] = RequestQueues(
            channel=channel,
            metadata=metadata,
            listener=listener,
            timeout_ms=timeout_ms,
            purpose=PURPOSE,
            new_queue=list,
            take=_take_for_one_request,
            to_request=_request,
            on_response=_finish_request,
            on_node_gone=_fail_without_coordinator,
        )
        self._backed_off: list[Delayed[None]] = []
        self._retry_ms: int | None = None

    def verify(self, verification: Verification) -> Delayed[PartitionErrors]:
        """Return the error of each partition, NONE where the batch may be appended."""
        coordinator_id = self._coordinator_of(verification.transactional_id)
        if coordinator_id is None:
            _fail(verification, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._coordinators.queue_for(coordinator_id).append(verification)
            self._coordinators.send_next(coordinator_id)
        return verification.result

    def back_off(self, first_tried_ms: int) -> Delayed[None] | None:
        """Return a wait before the next try; None if there have been enough since the monotonic ``first_tried_ms``.

        The coordinator may be about to end the producer's last transaction.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms + self._retry_backoff_ms > first_tried_ms + self._retry_backoff_max_ms:
            return None
        if self._retry_ms is None:
            self._retry_ms = now_ms + self._retry_backoff_ms
        backed_off: Delayed[None] = Delayed()
        self._backed_off.append(backed_off)
        return backed_off

    # Time

    def tick(self, now_ms: int) -> int | None:
        if self._retry_ms is None or now_ms < self._retry_ms:
            return self._retry_ms
        backed_off, self._backed_off, self._retry_ms = self._backed_off, [], None
        for each in backed_off:
            each.complete(None)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        return self._retry_ms

    # Requests

    def _coordinator_of(self, transactional_id: str) -> NodeId | None:
        number = self._partition_for(transactional_id)
        if number is None:
            return None
        leader_id = self._metadata.leader_id(TopicPartition(TRANSACTION_STATE_TOPIC, number))
        if leader_id is None or self._metadata.broker_endpoint(leader_id, self._listener) is None:
            return None
        return leader_id


def _take_for_one_request(waiting: list[Verification]) -> list[Verification]:
    """Remove and return what fits into a request; a response cannot tell two producers of one id apart."""
    taken: list[Verification] = []
    left: list[Verification] = []
    keys: dict[str, tuple[object, ...]] = {}
    partitions = 0
    for index, each in enumerate(waiting):
        if partitions >= PARTITIONS_PER_REQUEST:
            left += waiting[index:]
            break
        if keys.setdefault(each.transactional_id, each.key) == each.key:
            taken.append(each)
            partitions += len(each.partitions)
        else:
            left.append(each)
    waiting[:] = left
    return taken


def _request(verifications: list[Verification]) -> AddPartitionsToTxnRequest:
    """Return a request with one entry for each transactional id."""
    transactions: dict[str, AddPartitionsToTxnTransaction] = {}
    topics: dict[tuple[str, str], dict[int, None]] = {}
    for each in verifications:
        transactions.setdefault(
            each.transactional_id,
            AddPartitionsToTxnTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                verify_only=not each.adds_partitions,
            ),
        )
        for partition in each.partitions:
            topics.setdefault((each.transactional_id, partition.topic), {})[partition.partition] = None
    for (transactional_id, topic), indexes in topics.items():
        transactions[transactional_id].topics.append(AddPartitionsToTxnTopic(name=topic, partitions=list(indexes)))
    return AddPartitionsToTxnRequest(transactions=list(transactions.values()))


def _finish_request(sent: list[Verification], response: PeerResult) -> None:
    if not isinstance(response, AddPartitionsToTxnResponse):
        # An unsupported version is a coordinator that cannot verify: it is an old JVM Kafka, which did not either.
        is_old = response is PeerFailure.UNSUPPORTED_VERSION
        for each in sent:
            _fail(each, ErrorCode.NONE if is_old else ErrorCode.NETWORK_EXCEPTION)
    elif response.error_code != ErrorCode.NONE:
        is_unsupported = response.error_code == ErrorCode.UNSUPPORTED_VERSION
        for each in sent:
            _fail(each, ErrorCode.UNSUPPORTED_VERSION if is_unsupported else ErrorCode.INVALID_TXN_STATE)
    else:
        errors = {result.transactional_id: _errors(result) for result in response.results_by_transaction}
        for each in sent:
            found = errors.get(each.transactional_id, {})
            each.result.complete(
                {partition: found.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in each.partitions}
            )


def _errors(result: AddPartitionsToTxnResult) -> PartitionErrors:
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for topic in result.topic_results
        for each in topic.results_by_partition
    }


def _fail(verification: Verification, code: ErrorCode) -> None:
    verification.result.complete(dict.fromkeys(verification.partitions, code))


def _fail_without_coordinator(verifications: list[Verification]) -> None:
    for each in verifications:
        _fail(each, ErrorCode.COORDINATOR_NOT_AVAILABLE)
