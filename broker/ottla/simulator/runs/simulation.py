"""`Simulation`: the run of one seed, from empty disks to its outcome: a cluster, its clients, faults and invariants.

First faults strike while the clients work, and after every event the invariants are checked. Then the faults stop, and
within bounded time everything must be well again: each partition has a leader and its full in-sync set, every producer
gets rid of what it has, and every consumer reads all that is committed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ottla.metadata.metadata_version import TRANSACTION_VERSION
from ottla.simulator.clients.administrator import Administrator
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.consumer import Consumer
from ottla.simulator.clients.group_member import GroupMember
from ottla.simulator.clients.keyed_clients import KeyedProducer, KeyedReader
from ottla.simulator.clients.producer import Producer
from ottla.simulator.clients.voter_reconciler import VoterReconciler
from ottla.simulator.faults.nemesis import Nemesis
from ottla.simulator.faults.network_chaos import NetworkChaos
from ottla.simulator.invariants.cluster_invariants import INVARIANTS
from ottla.simulator.invariants.compaction_invariants import CompactionKeepsTheLastOfEachKey
from ottla.simulator.invariants.group_invariants import GroupInvariants
from ottla.simulator.invariants.ledger import InvariantViolation, PartitionKey
from ottla.simulator.invariants.log_start_invariants import FollowersKnowLess, OnlyUnwantedRecordsAreDeleted
from ottla.simulator.invariants.permission_invariants import PermissionInvariants, denial, everything_allowed
from ottla.simulator.invariants.quorum_invariants import QuorumCommitsItsOwnEpoch
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.invariants.sync_invariants import CommittedRecordsAreSynced
from ottla.simulator.invariants.transaction_invariants import LastStableOffset
from ottla.simulator.runs.consumer_group_workload import ConsumerGroupWorkload
from ottla.simulator.runs.plan import COMPACTED, KEYED_DELETE_RETENTION_MS, Plan, TopicPlan, draw_plan
from ottla.simulator.runs.share_group_workload import ShareGroupWorkload
from ottla.simulator.runs.streams_group_workload import StreamsGroupWorkload
from ottla.simulator.runs.trace import Trace
from ottla.simulator.runs.transactional_workload import TransactionalWorkload
from ottla.simulator.world.clock import HostClock
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.random_source import SeededRandom
from ottla.wire.acl_codes import Operation

FORM_LIMIT_MS = 60_000
RECOVERY_LIMIT_MS = 120_000
"""How long the cluster may take to be well again: several sessions, elections and rebalances, one after the other."""
CHECK_INTERVAL_MS = 500
OPERATOR_INTERVAL_MS = 15_000
BACKGROUND_MS_MAX = 50
BACKGROUND_FAILS_ONE_IN = 20
ADMINISTRATION_PAUSE_MS = 4_000
EVERY_INVARIANT = (
    *INVARIANTS,
    QuorumCommitsItsOwnEpoch,
    FollowersKnowLess,
    OnlyUnwantedRecordsAreDeleted,
    CompactionKeepsTheLastOfEachKey,
    CommittedRecordsAreSynced,
    LastStableOffset,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. ``failure`` is None when every invariant held."""

    seed: int
    plan: Plan
    failure: str | None
    simulated_ms: int
    digest: int
    events: int
    acknowledged: int
    committed: int
    read: int
    faults: dict[str, int]
    last_events: list[str]


class Simulation:
    """See the module."""

    def __init__(self, seed: int, *, plan: Plan | None = None, faulty: bool = True) -> None:
        self.plan = plan or draw_plan(seed)
        self._is_faulty = faulty
        chaos_random, self._random = SeededRandom(seed * 4 + 1), SeededRandom(seed * 4 + 2)
        self.network_chaos = NetworkChaos(
            chaos_random, fastest_ms=self.plan.fastest_ms, slowest_ms=self.plan.slowest_ms
        )
        self.cluster = Cluster(
            seed * 4,
            brokers=self.plan.brokers,
            controllers=self.plan.controllers,
            combined=self.plan.combined,
            conditions=self.network_chaos,
            overrides=self.plan.overrides,
            features={TRANSACTION_VERSION: self.plan.transaction_versions[0]},
        )
        self.trace = Trace(self.cluster.clock)
        self.cluster.fabric.on_bytes = self.trace.on_bytes
        self.state_observer = StateObserver(self.cluster)
        self.state_observer.invariants = [invariant(self.state_observer) for invariant in EVERY_INVARIANT]
        self.cluster.before_start = self.state_observer.before_start
        self.cluster.on_event = self.state_observer.observe_node
        self._set_clocks()
        self._make_clients()
        self.nemesis = Nemesis(
            self.cluster,
            self.state_observer,
            self.network_chaos,
            SeededRandom(seed * 4 + 3),
            voter_reconciler=self._voter_reconciler,
            hosts=[*self.cluster.by_host, self._host.name],
            pause_ms=self.plan.pause_ms,
            note=lambda what: self.trace.note("nemesis", what),
        )
        self.cluster.on_stopped = self.nemesis.on_stopped

    def _set_clocks(self) -> None:
        for place in self.cluster.nodes.values():
            drift, skew = self.plan.drift_ppm_max, self.plan.skew_ms_max
            place.clock = HostClock(
                self.cluster.clock,
                started_ms=self._random.randrange(1_000_000),
                drift_ppm=self._random.randrange(2 * drift + 1) - drift,
                skew_ms=self._random.randrange(2 * skew + 1) - skew,
            )
            place.sync_ms = 1
            place.background_ms_max = BACKGROUND_MS_MAX
            place.background.fails_one_in = BACKGROUND_FAILS_ONE_IN if self._is_faulty else 0

    def _make_clients(self) -> None:
        self._host = ClientHost(self.cluster, "clients", self._random)
        brokers = [place.node_id for place in self.cluster.nodes.values() if "broker" in place.roles]
        self._administrator = Administrator(self._host, brokers, lambda what: self.trace.note("admin", what))
        self._voter_reconciler = VoterReconciler(self.cluster, self._host, self._administrator)
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.members: list[GroupMember] = []
        self._groups = GroupInvariants(self.state_observer)
        self._passing: list[tuple[str, Producer, Consumer]] = []
        self._passing_count = 0
        self._permissions = PermissionInvariants(self.cluster)
        self._permissions_random = SeededRandom(-1 - self.plan.seed)
        if self.plan.denies:
            self._host.permissions = self._permissions
        for topic in self.plan.topics:
            self._make_users(topic)
        self.keyed_readers: list[KeyedReader] = []
        if self.plan.keyed is not None:
            self._make_keyed_users(self.plan.keyed)
        self.consumer_group = ConsumerGroupWorkload(self.cluster, self.state_observer, self._groups, self.plan)
        self.share_group = ShareGroupWorkload(self.cluster, self.state_observer, self.plan)
        self.streams_group = StreamsGroupWorkload(self.cluster, self.state_observer, self._groups, self.plan)
        self.transactional = TransactionalWorkload(self.cluster, self.state_observer, self._groups, self.plan)

    def _make_keyed_users(self, topic: TopicPlan) -> None:
        self.state_observer.ledger.keyed_topics = frozenset({topic.name})
        # Their own host, and random source, keep the rest of the run as it was.
        host = ClientHost(self.cluster, "keyed-clients", SeededRandom(-2 - self.plan.seed))
        for index, (acks, is_idempotent) in enumerate(topic.producers):
            producer = KeyedProducer(
                host,
                self.state_observer,
                f"{topic.name}p{index}",
                topic.name,
                acks=acks,
                is_idempotent=is_idempotent,
                pace_ms=self.plan.pace_ms,
            )
            self.producers.append(producer)
        for index in range(topic.consumers):
            name = f"{topic.name}c{index}"
            reader = KeyedReader(
                host, self.state_observer, name, topic.name, delete_retention_ms=KEYED_DELETE_RETENTION_MS
            )
            self.keyed_readers.append(reader)
            self.consumers.append(reader)

    def _make_users(self, topic: TopicPlan) -> None:
        for index, (acks, is_idempotent) in enumerate(topic.producers):
            name = f"{topic.name}p{index}"
            self.producers.append(self._producer(name, topic.name, acks=acks, is_idempotent=is_idempotent))
        for index in range(topic.consumers):
            self.consumers.append(Consumer(self._host, self.state_observer, f"{topic.name}c{index}", topic.name))
        for index in range(topic.members):
            group = f"{topic.name}-group"
            self.members.append(GroupMember(self._host, self._groups, f"{topic.name}m{index}", group, topic.name))

    def _producer(self, name: str, topic: str, *, acks: int, is_idempotent: bool) -> Producer:
        is_compacted = any(each.configs is COMPACTED for each in self.plan.topics)
        return Producer(
            self._host,
            self.state_observer,
            name,
            topic,
            acks=acks,
            is_idempotent=is_idempotent,
            pace_ms=self.plan.pace_ms,
            has_keys=is_compacted,
        )

    # --- running

    def run(self, milliseconds: int) -> Outcome:
        """Run for so long with faults, then until all is well; return how it ended."""
        failure: str | None = None
        with self.trace.of_logs(lambda: self.cluster.now_at or "simulator"):
            try:
                self.form()
                self.work(milliseconds)
                self._recover()
            except InvariantViolation as violation:
                failure = str(violation)
            except Exception as error:  # whatever a node raises would have ended its process
                failure = f"NodesNeverRaise: {self.cluster.now_at}: {type(error).__name__}: {error}"
                self.trace.note_error(self.cluster.now_at, error)
        return Outcome(
            seed=self.plan.seed,
            plan=self.plan,
            failure=failure,
            simulated_ms=self.cluster.clock.monotonic_ms(),
            digest=self.trace.digest,
            events=self.state_observer.observation_count,
            acknowledged=sum(producer.acknowledged_count for producer in self.producers),
            committed=self.transactional.committed_count,
            read=sum(consumer.read_count for consumer in (*self.consumers, *self.transactional.readers)),
            faults=self.nemesis.counts,
            last_events=self.trace.last(),
        )

    def form(self) -> None:
        """Start every node, wait until all serve, and create the topics."""
        self.cluster.start()
        self._until("the cluster has formed", self._is_formed, FORM_LIMIT_MS)
        for topic in self.plan.all_topics:
            self._create(topic)

    def _is_formed(self) -> bool:
        return all(place.is_ready for place in self.cluster.nodes.values())

    def _create(self, topic: TopicPlan) -> None:
        def again() -> None:
            if topic.name not in self.state_observer.image.topics.by_name:
                self._administrator.create_topic(
                    topic.name,
                    partitions=topic.partitions,
                    replicas=topic.replicas,
                    configs={"min.insync.replicas": str(topic.min_in_sync), **topic.configs},
                )
                self._host.after(2_000, again)

        again()

    def work(self, milliseconds: int) -> None:
        """Start the clients, and the faults if the plan has any; run for that time."""
        for producer in self.producers:
            producer.start()
        for consumer in self.consumers:
            consumer.start()
        for member in self.members:
            member.start()
        self.consumer_group.start()
        self.share_group.start()
        self.streams_group.start()
        self.transactional.start()
        self._change_transaction_version(milliseconds)
        if self._is_faulty:
            self.nemesis.start()
            self._voter_reconciler.start()
            self._host.after(ADMINISTRATION_PAUSE_MS, self._administer)
            if self.plan.denies:
                self._host.after(ADMINISTRATION_PAUSE_MS, self._deny)
        self.cluster.run(milliseconds)

    def _change_transaction_version(self, milliseconds: int) -> None:
        """Set one level after the other, at even intervals; a request that fails is repeated."""
        before, later = self.plan.transaction_versions[0], self.plan.transaction_versions[1:]
        for number, level in enumerate(later, 1):
            delay_ms = milliseconds * number // (len(later) + 1)
            self._host.after(delay_ms, partial(self._set_transaction_version, level, is_upgrade=level > before))
            before = level

    def _set_transaction_version(self, level: int, *, is_upgrade: bool) -> None:
        current = self.state_observer.image.features.levels.get(TRANSACTION_VERSION, 0)
        if (level > current) == is_upgrade and level != current:
            self._administrator.set_feature_level(TRANSACTION_VERSION, level, is_upgrade=is_upgrade)
            self._host.after(2_000, partial(self._set_transaction_version, level, is_upgrade=is_upgrade))

    def _administer(self) -> None:
        if self.nemesis.is_over:
            return
        topic = self.plan.topics[self._random.randrange(len(self.plan.topics))]
        administrator, random = self._administrator, self._random
        actions: list[Callable[[], object]] = [
            self._create_passing_topic,
            self._delete_passing_topic,
            lambda: administrator.reassign(topic.name, topic.replicas),
            administrator.elect_preferred,
            lambda: administrator.move_directory(topic.name, self.cluster.overrides["log.dirs"].split(",")),
            lambda: self._delete_records(topic.name),
            lambda: administrator.add_partition(topic.name),
            lambda: administrator.set_topic_config(topic.name, "segment.ms", str(1_000 + random.randrange(5_000))),
        ]
        actions[self._random.randrange(len(actions))]()
        self._host.after(1 + self._random.randrange(2 * ADMINISTRATION_PAUSE_MS), self._administer)

    def _deny(self) -> None:
        """Deny clients one topic, or remove all denials; its own random source keeps the rest of the run as it was."""
        if self.nemesis.is_over:
            return
        random = self._permissions_random
        if random.randrange(2):
            topic = self.plan.topics[random.randrange(len(self.plan.topics))]
            operation = (Operation.READ, Operation.WRITE)[random.randrange(2)]
            self._administrator.add_acls([everything_allowed(), denial(topic.name, operation)])
        else:
            self._administrator.remove_denials()
        self._host.after(1 + random.randrange(2 * ADMINISTRATION_PAUSE_MS), self._deny)

    def _is_all_permitted(self) -> bool:
        return not self._permissions.is_anything_denied()

    def _permit(self) -> None:
        """Remove every denial, until the end: one that was requested before the faults stopped may arrive late."""
        if not self._is_all_permitted():
            self._administrator.remove_denials()
        self._host.after(OPERATOR_INTERVAL_MS, self._permit)

    def _delete_records(self, name: str) -> None:
        """Delete some of the oldest records of a partition; the ledger notes it before the request is sent."""
        topic = self.state_observer.image.topics.by_name.get(name)
        if topic is None:
            return
        key = PartitionKey(name, topic.topic_id, self._random.randrange(len(topic.partitions)))
        ledger = self.state_observer.ledger.partition(key)
        offset = self._random.randrange(ledger.end + 1)
        ledger.deleted_to = max(ledger.deleted_to, offset)
        self._administrator.delete_records(name, key.partition, offset)

    def _create_passing_topic(self) -> None:
        self._passing_count += 1
        name = f"passing{self._passing_count}"
        replicas = 1 + self._random.randrange(min(3, self.plan.brokers))
        self._administrator.create_topic(name, partitions=1, replicas=replicas, configs={})
        producer = self._producer(name, name, acks=-1, is_idempotent=bool(self._random.randrange(2)))
        consumer = Consumer(self._host, self.state_observer, f"{name}c", name)
        self._passing.append((name, producer, consumer))
        producer.start()
        consumer.start()

    def _delete_passing_topic(self) -> None:
        if self._passing:
            name, producer, consumer = self._passing.pop(0)
            producer.abandon()
            consumer.abandon()
            self._administrator.delete_topic(name)

    # --- liveness

    def _recover(self) -> None:
        self.trace.note("simulator", "faults stop")
        self.nemesis.stop()
        while self._passing:
            self._delete_passing_topic()
        for producer in self.producers:
            producer.finish()
        self._until("every controller is a voter", lambda: self._voter_reconciler.is_settled, RECOVERY_LIMIT_MS)
        self._until("every node serves", self._is_formed, RECOVERY_LIMIT_MS)
        if self.plan.denies:
            self._permit()
            self._until("no client is denied anything", self._is_all_permitted, RECOVERY_LIMIT_MS)
        self._host.after(OPERATOR_INTERVAL_MS, self._elect_what_is_left)
        self._until("every partition has its leader and full in-sync set", self._is_in_sync, RECOVERY_LIMIT_MS)
        # Many faults leave few transactions: some begin when there are none any more.
        self.transactional.finish()
        for producer in self.producers:
            producer.send_to_all()
        for reader in self.keyed_readers:
            reader.finish()
        self.consumer_group.finish()
        self.share_group.finish()
        self.streams_group.finish()
        self._until("every producer is rid of what it had", self._are_producers_done, RECOVERY_LIMIT_MS)
        self._until("every consumer has read all", self._are_consumers_done, RECOVERY_LIMIT_MS)
        self._until("every group member takes part", self._are_members_settled, RECOVERY_LIMIT_MS)
        self._until("every partition has one consumer", self.consumer_group.is_settled, RECOVERY_LIMIT_MS)
        self._until("the share group has finished every record", self.share_group.is_settled, RECOVERY_LIMIT_MS)
        self._until("every task has its owners", self.streams_group.is_settled, RECOVERY_LIMIT_MS)
        if self.plan.transactions is not None:
            transactional = self.transactional
            self._until("every transaction has ended", transactional.are_transactions_done, RECOVERY_LIMIT_MS)
            self._until(
                "everything committed was copied",
                transactional.are_copiers_done,
                RECOVERY_LIMIT_MS,
                progress=transactional.copied_offsets,
            )
            self._until("no transaction is open", transactional.is_no_transaction_open, RECOVERY_LIMIT_MS)
            self._until("everything committed was read", transactional.are_readers_done, RECOVERY_LIMIT_MS)
            transactional.check()

    def _elect_what_is_left(self) -> None:
        """Elect any live replica of excused partitions without an eligible one, as an administrator must."""
        for ledger in self.state_observer.ledger.partitions():
            topic = self.state_observer.image.topics.by_id.get(ledger.key.topic_id)
            partition = None if topic is None else topic.partitions.get(ledger.key.partition)
            if partition is not None and ledger.is_excused and not partition.has_leader:
                self._administrator.elect_unclean(ledger.key.topic, ledger.key.partition)
        if not self._is_in_sync():
            self._host.after(OPERATOR_INTERVAL_MS, self._elect_what_is_left)

    def _is_in_sync(self) -> bool:
        topics = self.state_observer.image.topics.by_name.values()
        return all(
            partition.has_leader and len(partition.isr) == len(partition.replicas)
            for topic in topics
            for partition in topic.partitions.values()
        )

    def _are_producers_done(self) -> bool:
        return all(producer.is_done for producer in self.producers)

    def _are_consumers_done(self) -> bool:
        return all(consumer.is_done for consumer in self.consumers)

    def _are_members_settled(self) -> bool:
        return all(member.is_settled for member in self.members)

    def _until(
        self, what: str, condition: Callable[[], bool], limit_ms: int, progress: Callable[[], object] = lambda: None
    ) -> None:
        """Let time pass until ``condition`` holds; the limit restarts when ``progress`` returns another value.

        Raises:
            InvariantViolation: it does not in time.
        """
        last, end_ms = progress(), self.cluster.clock.monotonic_ms() + limit_ms
        while not condition():
            if last != (now := progress()):
                last, end_ms = now, self.cluster.clock.monotonic_ms() + limit_ms
            if self.cluster.clock.monotonic_ms() >= end_ms:
                raise InvariantViolation(
                    f"Liveness: not within {limit_ms} ms without faults: {what}; {self.cluster.describe()}"
                )
            self.cluster.run(CHECK_INTERVAL_MS)
