"""A simulated transactional producer: one batch to each of some partitions, then a commit or an abort.

It crashes now and then in the middle, returns as a new instance with the same transactional id, and an old instance
sends what it had left. It works by ``transaction.version`` 2: each transaction has an epoch of its own.

Source: TransactionManager and Sender of Apache Kafka's client.
"""

from collections.abc import Callable
from typing import Final

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.invariants.transaction_invariants import Ending, Transaction, TransactionInvariants
from ottla.types import Endpoint, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records import Record, build_batch

RETRY_BACKOFF_MS: Final = 100
TRANSACTION_TIMEOUT_MS: Final = 5_000
PRODUCE_TIMEOUT_MS: Final = 2_000
LATE_MS_MAX: Final = 4_000
CRASHES_ONE_IN: Final = 8
ABORTS_ONE_IN: Final = 3
_TRANSACTION_KEY: Final = 1
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_OF_COORDINATOR: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


class TransactionalProducer:
    """See the module. ``pace_ms`` from transaction to transaction, on average."""

    def __init__(
        self, host: ClientHost, invariants: TransactionInvariants, name: str, topic: str, *, pace_ms: int
    ) -> None:
        self.name = name
        self.topic = topic
        self.committed_count = 0
        self._host = host
        self._invariants = invariants
        self._pace_ms = pace_ms
        self._is_producing = True
        self._is_idle = False
        self._instance = 0
        self._count = 0
        self._coordinator: Endpoint | None = None
        self._producer_id = -1
        self._producer_epoch = -1

    def start(self) -> None:
        """Start an instance: find the coordinator and fence the instance before."""
        self._instance += 1
        self._is_idle = False
        if self._host.partition_count(self.topic) == 0:
            self._host.refresh()
            self._later(self.start)
            return
        self._find(self._initialize)

    def finish(self) -> None:
        """Begin no new transaction."""
        self._is_producing = False

    @property
    def is_done(self) -> bool:
        return self._is_idle and not self._is_producing

    # --- coordinator

    def _find(self, then: Callable[[], object]) -> None:
        instance = self._instance

        def on_found(response: PeerResult) -> None:
            if instance != self._instance:
                return
            if isinstance(response, FindCoordinatorResponse) and response.coordinators:
                found = response.coordinators[0]
                if found.error_code == ErrorCode.NONE:
                    self._coordinator = Endpoint(found.host, found.port)
                    then()
                    return
            self._later(lambda: self._find(then))

        request = FindCoordinatorRequest(key_type=_TRANSACTION_KEY, coordinator_keys=[self.name])
        self._host.ask(self._host.any_node(), request, f"{self.name}-find", on_found)

    def _ask_coordinator(self, request: Message, then: Callable[[PeerResult], object]) -> None:
        instance = self._instance
        assert self._coordinator is not None, "it was found"
        self._host.ask(
            self._coordinator, request, self.name, lambda response: instance == self._instance and then(response)
        )

    def _initialize(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        self._ask_coordinator(request, self._on_initialized)

    def _on_initialized(self, response: PeerResult) -> None:
        if isinstance(response, InitProducerIdResponse) and response.error_code == ErrorCode.NONE:
            self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
            self._begin_later()
        elif isinstance(response, InitProducerIdResponse) and response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            self._later(self._initialize)
        else:
            self._later(lambda: self._find(self._initialize))

    # --- one transaction

    def _begin_later(self) -> None:
        self._is_idle = True
        if self._is_producing:
            self._later(self._begin, 1 + self._host.random.randrange(2 * self._pace_ms))

    def _begin(self) -> None:
        if not self._is_producing:
            return
        self._is_idle = False
        random = self._host.random
        count = self._host.partition_count(self.topic)
        self._count += 1
        name = f"{self.name}-{self._count}"
        partitions = {random.randrange(count) for _ in range(1 + random.randrange(count))}
        values = {partition: f"{name}-{partition}".encode() for partition in sorted(partitions)}
        transaction = self._invariants.begin(name, values)
        waiting = set(values)
        for partition in values:
            self._produce(transaction, partition, waiting)
        if random.randrange(CRASHES_ONE_IN) == 0:
            self._later(self._crash, random.randrange(500))

    def _crash(self) -> None:
        """Lose all state, but for one batch that the network delivers late."""
        producer_id, epoch = self._producer_id, self._producer_epoch
        self.start()
        self._host.after(self._host.random.randrange(LATE_MS_MAX), lambda: self._produce_late(producer_id, epoch))

    def _produce_late(self, producer_id: int, epoch: int) -> None:
        """Append in an old epoch; if the new instance is initialized by now, no leader may accept it."""
        target = self._host.target(self.topic, 0)
        if target is None or (self._producer_id == producer_id and self._producer_epoch == epoch):
            return
        value = f"{self.name}-late-{self._instance}-{epoch}".encode()
        self._invariants.begin("a late batch", {0: value})
        self._invariants.on_fenced_append(value)
        # A sequence that the epoch has not reached, so that it is no duplicate.
        request = self._request(target.key.topic_id, 0, value, producer_id, epoch, sequence=1)
        self._host.ask(target.endpoint, request, f"{self.name}-late", lambda response: self._on_late(value, response))

    def _on_late(self, value: bytes, response: PeerResult) -> None:
        if not isinstance(response, ProduceResponse):
            return
        if response.responses[0].partition_responses[0].error_code == ErrorCode.NONE:
            self._invariants.on_appended(value)

    def _produce(self, transaction: Transaction, partition: int, waiting: set[int]) -> None:
        instance = self._instance
        target = self._host.target(self.topic, partition)
        if target is None:
            self._later(lambda: self._produce(transaction, partition, waiting))
            return

        def on_response(response: PeerResult) -> None:
            if instance != self._instance:
                return
            code: int = ErrorCode.NETWORK_EXCEPTION
            if isinstance(response, ProduceResponse):
                code = response.responses[0].partition_responses[0].error_code
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                waiting.discard(partition)
                if not waiting:
                    self._end(transaction, is_commit=self._host.random.randrange(ABORTS_ONE_IN) > 0)
            elif code in _RETRIABLE:
                self._host.refresh()
                self._later(lambda: self._produce(transaction, partition, waiting))
            else:
                self._later(self.start)  # fenced, or timed out: the transaction is aborted

        request = self._request(
            target.key.topic_id,
            partition,
            transaction.values[partition],
            self._producer_id,
            self._producer_epoch,
            sequence=0,
        )
        self._host.ask(target.endpoint, request, f"{self.name}-{partition}", on_response)

    def _request(
        self, topic_id: Uuid, partition: int, value: bytes, producer_id: int, epoch: int, *, sequence: int
    ) -> ProduceRequest:
        records = build_batch(
            [Record(0, self._host.cluster.clock.wall_ms(), None, value)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = PartitionProduceData(index=partition, records=records)
        topic = TopicProduceData(name=self.topic, topic_id=topic_id, partition_data=[data])
        return ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[topic])

    # --- its end

    def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        if is_commit:
            transaction.ending = Ending.UNKNOWN
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            committed=is_commit,
        )
        self._ask_coordinator(request, lambda response: self._on_ended(transaction, is_commit, response))

    def _on_ended(self, transaction: Transaction, is_commit: bool, response: PeerResult) -> None:
        code = response.error_code if isinstance(response, EndTxnResponse) else ErrorCode.NETWORK_EXCEPTION
        if code == ErrorCode.NONE and isinstance(response, EndTxnResponse):
            if is_commit:
                transaction.ending = Ending.COMMITTED
                self.committed_count += 1
            self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
            self._begin_later()
        elif code == ErrorCode.CONCURRENT_TRANSACTIONS:
            self._later(lambda: self._end(transaction, is_commit=is_commit))
        elif code in _OF_COORDINATOR or code == ErrorCode.NETWORK_EXCEPTION:
            self._later(lambda: self._find(lambda: self._end(transaction, is_commit=is_commit)))
        else:
            self._later(self.start)

    def _later(self, action: Callable[[], object], delay_ms: int = RETRY_BACKOFF_MS) -> None:
        """Do something later, unless this instance has crashed by then."""
        instance = self._instance
        self._host.after(delay_ms, lambda: instance == self._instance and action())
