"""`TransactionalWorkload`: the transactional clients of a run, the readers of their records, and their invariants."""

from collections.abc import Iterable

from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.committed_reader import CommittedReader
from ottla.simulator.clients.copier import Copier
from ottla.simulator.clients.transactional_client import TransactionalClient
from ottla.simulator.clients.transactional_producer import TransactionalProducer
from ottla.simulator.invariants.copy_invariants import CopyInvariants, Required
from ottla.simulator.invariants.group_invariants import GroupInvariants
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.invariants.transaction_invariants import TransactionInvariants
from ottla.simulator.runs.plan import CopyPlan, Plan, TopicPlan
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import CONSUMER_OFFSETS_TOPIC


class TransactionalWorkload:
    """See the module. A plan without transactions has no clients, and nothing to wait for."""

    def __init__(self, cluster: Cluster, state_observer: StateObserver, groups: GroupInvariants, plan: Plan) -> None:
        self.readers: list[CommittedReader] = []
        self._producers: list[TransactionalProducer] = []
        self._copiers: list[Copier] = []
        self._invariants: TransactionInvariants | None = None
        self._copies: CopyInvariants | None = None
        self._partitions: set[int] = set()
        self._state_observer = state_observer
        self._groups = groups
        if plan.transactions is not None:
            # Their own host, and random source, keep the rest of the run as it was.
            host = ClientHost(cluster, "transactional-clients", SeededRandom(-2 - plan.seed))
            self._invariants = TransactionInvariants(state_observer, plan.transactions.name)
            self._make_producers(host, self._invariants, plan.transactions, plan.pace_ms)
            if plan.copies is not None:
                self._make_copiers(host, self._invariants, plan.copies)

    def _make_producers(
        self, host: ClientHost, invariants: TransactionInvariants, topic: TopicPlan, pace_ms: int
    ) -> None:
        self._partitions = set(range(topic.partitions))
        for index in range(len(topic.producers)):
            producer = TransactionalProducer(host, invariants, f"txn{index}", topic.name, pace_ms=pace_ms)
            self._producers.append(producer)
        for index in range(topic.consumers):
            reader = CommittedReader(host, self._state_observer, invariants.on_read, f"reader{index}", topic.name)
            self.readers.append(reader)

    def _make_copiers(self, host: ClientHost, inputs: TransactionInvariants, plan: CopyPlan) -> None:
        self._copies = CopyInvariants(inputs, plan.output.name)
        for index in range(plan.output.consumers):
            name = f"copy-reader{index}"
            reader = CommittedReader(host, self._state_observer, self._copies.on_read, name, plan.output.name)
            self.readers.append(reader)
        for index in range(plan.copiers):
            fixed = tuple(sorted(self._partitions)[index :: plan.copiers])
            copier = Copier(
                host,
                self._copies,
                self._groups,
                f"copier{index}",
                inputs.topic,
                fixed=None if plan.is_group else fixed,
            )
            self._copiers.append(copier)

    @property
    def committed_count(self) -> int:
        """Number of committed transactions."""
        return sum(client.committed_count for client in self._clients())

    def _clients(self) -> Iterable[TransactionalClient]:
        return (*self._producers, *self._copiers)

    def start(self) -> None:
        for client in self._clients():
            client.start()
        for reader in self.readers:
            reader.start()

    def finish(self) -> None:
        """Begin no new transaction, except for copies of what was produced."""
        for producer in self._producers:
            producer.finish()

    def are_transactions_done(self) -> bool:
        """Return whether each producer has ended its last transaction."""
        return self._is_excused or all(producer.is_done for producer in self._producers)

    def are_copiers_done(self) -> bool:
        """Return whether all records are copied."""
        if self._copies is None or self._copies.is_excused:
            return True
        return set().union(*(copier.copied_partitions() for copier in self._copiers)) == self._partitions

    def copied_offsets(self) -> Required:
        """Return the offset below which each partition's records are copied; many records take minutes."""
        return {} if self._copies is None else self._copies.required_offsets()

    def is_no_transaction_open(self) -> bool:
        """Return whether last stable offsets have reached the high watermarks, also behind crashed clients."""
        if self._invariants is None or self._is_excused:
            return True
        topics = [self._invariants.topic]
        if self._copies is not None:
            if self._copies.is_excused:
                return True
            topics += [self._copies.topic, CONSUMER_OFFSETS_TOPIC]
        return not self._invariants.open_partitions(topics)

    def are_readers_done(self) -> bool:
        is_excused = self._is_excused or (self._copies is not None and self._copies.is_excused)
        return is_excused or all(reader.is_done for reader in self.readers)

    def check(self) -> None:
        """Check what only a complete read shows.

        Raises:
            InvariantViolation: an invariant does not hold.
        """
        if self._invariants is not None:
            self._invariants.check_all_or_nothing()
        if self._copies is not None:
            self._copies.check_all_copied()

    @property
    def _is_excused(self) -> bool:
        return self._invariants is not None and self._invariants.is_excused
