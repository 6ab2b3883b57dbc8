"""A transaction coordinator without a node around it: its log, its peers and the cluster's leaders are scripted."""

from dataclasses import dataclass, field

from memory_coordinator_log import MemoryCoordinatorLog
from ottla.errors import ErrorCode
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.purgatory import Delayed
from ottla.simulator.world.clock import SimulatedClock
from ottla.transactions.config import TransactionConfig
from ottla.transactions.coordinator import TransactionCoordinator
from ottla.transactions.end import End
from ottla.transactions.enlist import Enlistment
from ottla.transactions.initialize import Initialization
from ottla.transactions.log import TransactionRecord, decode
from ottla.transactions.producer_ids import ProducerIds
from ottla.transactions.state import TransactionState
from ottla.types import Endpoint, NodeId, TopicPartition
from ottla.wire.codec import Message
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse
from ottla.wire.messages.end_txn import EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ID = "payments"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TIMEOUT_MS = 60_000


@dataclass
class Sent:
    """A request to another node."""

    endpoint: Endpoint
    request: Message
    result: Delayed[PeerResult]
    purpose: str


def describe_markers(sent: Sent) -> list[tuple[int, int, bool, list[tuple[str, list[int]]]]]:
    """Return producer epoch, coordinator epoch, result and partitions of each marker of a request."""
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


@dataclass
class ScriptedPeers:
    """`PeerChannel` whose requests wait for the test to respond, and the cluster's metadata: node i leads at port i."""

    sent: list[Sent] = field(default_factory=list)
    leaders: dict[TopicPartition, NodeId] = field(default_factory=lambda: {T0: 1, T1: 2})
    alive: set[NodeId] = field(default_factory=lambda: {1, 2, 3})

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, purpose: str = ""
    ) -> Delayed[PeerResult]:
        self.sent.append(Sent(endpoint, request, Delayed(), purpose))
        return self.sent[-1].result

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        raise AssertionError("coordinators do not probe")

    def leader_id(self, topic_partition: TopicPartition) -> NodeId | None:
        return self.leaders.get(topic_partition)

    def broker_endpoint(self, broker_id: NodeId, listener: str) -> Endpoint | None:
        return Endpoint("node", broker_id) if broker_id in self.alive else None

    def take(self) -> list[Sent]:
        """Return the requests since the last call."""
        sent, self.sent = self.sent, []
        return sent


class TransactionNode:
    """One node that leads the only partition of ``__transaction_state``."""

    def __init__(self, transaction_version: int = 2, config: TransactionConfig | None = None) -> None:
        self.clock = SimulatedClock()
        self.log = MemoryCoordinatorLog()
        self.peers = ScriptedPeers()
        self.transaction_version = transaction_version
        self.client_transaction_version = 2 if transaction_version >= 2 else 0
        """Of the requests; a client does not notice at once that the level has changed."""
        self.config = config or TransactionConfig()
        self.producer_id_error = ErrorCode.NONE
        self.coordinator = self._create()
        self.elect(0)

    def _create(self) -> TransactionCoordinator:
        def allocate() -> Delayed[AllocateProducerIdsResponse]:
            return Delayed.of(
                AllocateProducerIdsResponse(
                    error_code=self.producer_id_error, producer_id_start=7_000, producer_id_len=1_000
                )
            )

        return TransactionCoordinator(
            config=self.config,
            clock=self.clock,
            log=self.log,
            channel=self.peers,
            leaders=self.peers,
            listener="PLAINTEXT",
            request_timeout_ms=30_000,
            producer_ids=ProducerIds(allocate_block=allocate),
            partition_count=lambda: 1,
            transaction_version=lambda: self.transaction_version,
        )

    def elect(self, leader_epoch: int) -> None:
        """Lead the partition, and load it to its end."""
        self.coordinator.on_elected(0, leader_epoch, self.log.read_again(0))
        while self.coordinator.is_loading:
            self.coordinator.tick(self.clock.monotonic_ms())

    def restart(self, leader_epoch: int) -> None:
        """End the process; a new one leads in ``leader_epoch``."""
        self.coordinator = self._create()
        self.elect(leader_epoch)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with every deadline met to the millisecond."""
        end_ms = self.clock.monotonic_ms() + milliseconds
        while (deadline_ms := self.coordinator.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.clock.advance(max(deadline_ms - self.clock.monotonic_ms(), 0))
            self.coordinator.tick(self.clock.monotonic_ms())
        self.clock.advance(end_ms - self.clock.monotonic_ms())

    # Requests

    def initialize(
        self, transactional_id: str = ID, expected: tuple[int, int] | None = None
    ) -> Delayed[InitProducerIdResponse]:
        return self.coordinator.initialize(
            Initialization(
                transactional_id=transactional_id,
                timeout_ms=TIMEOUT_MS,
                expected=expected,
                now_ms=self.clock.wall_ms(),
            )
        )

    def add(
        self,
        *partitions: TopicPartition,
        producer_id: int = 7_000,
        producer_epoch: int = 0,
        transactional_id: str = ID,
    ) -> Delayed[ErrorCode]:
        return self.coordinator.add_partitions(
            Enlistment(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                partitions=frozenset(partitions),
                client_transaction_version=self.client_transaction_version,
            )
        )

    def verify(self, *partitions: TopicPartition) -> Delayed[ErrorCode | frozenset[TopicPartition]]:
        """Return the partitions that are not in the transaction of producer 7000 in epoch 0."""
        return self.coordinator.verify_partitions(
            Enlistment(transactional_id=ID, producer_id=7_000, producer_epoch=0, partitions=frozenset(partitions))
        )

    def end(
        self, *, is_commit: bool = True, producer_id: int = 7_000, producer_epoch: int = 0, transactional_id: str = ID
    ) -> Delayed[EndTxnResponse]:
        return self.coordinator.end_transaction(
            End(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                is_commit=is_commit,
                client_transaction_version=self.client_transaction_version,
                now_ms=self.clock.wall_ms(),
            )
        )

    def begin(self, *partitions: TopicPartition) -> None:
        """Initialize `ID` as producer 7000 in epoch 0, and add partitions."""
        assert self.initialize().value.error_code == ErrorCode.NONE
        assert self.add(*partitions).value is ErrorCode.NONE

    # Markers

    @staticmethod
    def respond(sent: Sent, error: ErrorCode = ErrorCode.NONE) -> None:
        """Respond to a request for markers with one error for all partitions."""
        request = sent.request
        assert isinstance(request, WriteTxnMarkersRequest)
        sent.result.complete(
            WriteTxnMarkersResponse(
                markers=[
                    WritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=[
                            WritableTxnMarkerTopicResult(
                                name=topic.name,
                                partitions=[
                                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in marker.topics
                        ],
                    )
                    for marker in request.markers
                ]
            )
        )

    # State

    def state(self, transactional_id: str = ID) -> TransactionState:
        return self.coordinator.describe(transactional_id).state

    def written(self) -> list[TransactionRecord]:
        """Return the records of the log."""
        decoded = [decode(record.key or b"", record.value) for record in self.log.records()]
        return [record for record in decoded if record is not None]

    def value_versions(self) -> list[int]:
        """Return the version of each value in the log."""
        return [int.from_bytes((record.value or b"")[:2], "big") for record in self.log.records()]

    def written_states(self) -> list[str]:
        return ["tombstone" if it.metadata is None else it.metadata.state.label for it in self.written()]
