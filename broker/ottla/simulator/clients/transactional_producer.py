"""A simulated transactional producer: one batch to each of some partitions, then a commit or an abort.

It crashes now and then in the middle, returns as a new instance with the same transactional id, and an old instance
sends what it had left.
"""

from functools import partial
from typing import Final

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.transactional_client import TransactionalClient
from ottla.simulator.invariants.transaction_invariants import Ending, Transaction, TransactionInvariants
from ottla.wire.messages.produce import ProduceResponse

LATE_MS_MAX: Final = 4_000
CRASHES_ONE_IN: Final = 8
ABORTS_ONE_IN: Final = 3


class TransactionalProducer(TransactionalClient):
    """See the module. ``pace_ms`` from transaction to transaction, on average."""

    def __init__(
        self, host: ClientHost, invariants: TransactionInvariants, name: str, topic: str, *, pace_ms: int
    ) -> None:
        super().__init__(host, name)
        self.topic = topic
        self._invariants = invariants
        self._pace_ms = pace_ms
        self._is_producing = True
        self._is_idle = False
        self._count = 0

    def start(self) -> None:
        """Start an instance: find the coordinator and fence the instance before."""
        self._end_instance()
        self._is_idle = False
        if self._host.partition_count(self.topic) == 0:
            self._host.refresh()
            self._run_later(self.start)
            return
        self._find_own_coordinator(self._initialize)

    def finish(self) -> None:
        """Begin no new transaction."""
        self._is_producing = False

    @property
    def is_done(self) -> bool:
        return self._is_idle and not self._is_producing

    # --- one transaction

    def _on_initialized(self) -> None:
        self._is_idle = True
        if self._is_producing:
            self._run_later(self._begin, 1 + self._host.random.randrange(2 * self._pace_ms))

    def _begin(self) -> None:
        if not self._is_producing:
            return
        count = self._host.partition_count(self.topic)
        if count == 0:
            # It was known, but then a broker responded that is behind and does not have the new topic yet.
            self._host.refresh()
            self._run_later(self._begin)
            return
        self._is_idle = False
        random = self._host.random
        self._count += 1
        name = f"{self.name}-{self._count}"
        partitions = {random.randrange(count) for _ in range(1 + random.randrange(count))}
        values = {partition: f"{name}-{partition}".encode() for partition in sorted(partitions)}
        transaction = self._invariants.begin(name, values)
        self._enlist(self.topic, values, lambda: self._produce_all(transaction))
        if random.randrange(CRASHES_ONE_IN) == 0:
            self._run_later(self._crash, random.randrange(500))

    def _produce_all(self, transaction: Transaction) -> None:
        waiting = set(transaction.values)

        def on_appended(partition: int) -> None:
            waiting.discard(partition)
            if not waiting:
                self._decide(transaction, is_commit=self._host.random.randrange(ABORTS_ONE_IN) > 0)

        for partition, value in transaction.values.items():
            self._produce(self.topic, partition, [value], partial(on_appended, partition))

    def _decide(self, transaction: Transaction, *, is_commit: bool) -> None:
        if is_commit:
            transaction.ending = Ending.UNKNOWN

        def on_ended() -> None:
            if is_commit:
                transaction.ending = Ending.COMMITTED

        self._end(on_ended, is_commit=is_commit)

    # --- crashes

    def _crash(self) -> None:
        """Lose all state, but for one batch that the network delivers late."""
        producer_id, epoch = self._producer_id, self._producer_epoch
        # A sequence that the epoch has not reached, so that it is no duplicate.
        sequence = max(1, self._sequences.get((self.topic, 0), 0))
        self.start()
        delay_ms = self._host.random.randrange(LATE_MS_MAX)
        self._host.after(delay_ms, lambda: self._produce_late(producer_id, epoch, sequence))

    def _produce_late(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Append in an old epoch; if the new instance is initialized by now, no leader may accept it."""
        target = self._host.target(self.topic, 0)
        if target is None or (self._producer_id == producer_id and self._producer_epoch == epoch):
            return
        value = f"{self.name}-late-{self._instance}-{epoch}".encode()
        self._invariants.begin("a late batch", {0: value})
        self._invariants.on_fenced_append(value)
        request = self._batch_request(self.topic, target.key.topic_id, 0, [value], (producer_id, epoch), sequence)
        self._host.ask(
            target.endpoint,
            request,
            f"{self.name}-late",
            lambda response: self._on_late(value, response),
            is_before_version_2=not self._is_version_2,
        )

    def _on_late(self, value: bytes, response: PeerResult) -> None:
        if not isinstance(response, ProduceResponse):
            return
        if response.responses[0].partition_responses[0].error_code == ErrorCode.NONE:
            self._invariants.on_appended(value)
