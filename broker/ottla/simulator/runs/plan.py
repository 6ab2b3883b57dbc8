"""`Plan`: the configuration that one seed draws: the cluster's shape and settings, its clients, and its faults."""

from dataclasses import dataclass, field, replace

from ottla.simulator.invariants.consumer_group_invariants import SESSION_TIMEOUT_MS
from ottla.simulator.invariants.permission_invariants import OVERRIDES
from ottla.simulator.invariants.share_locks import LOCK_DURATION_MS
from ottla.simulator.invariants.streams_group_invariants import SESSION_TIMEOUT_MS as STREAMS_SESSION_TIMEOUT_MS
from ottla.simulator.world.random_source import SeededRandom


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic that exists for the whole run, and its clients."""

    name: str
    partitions: int
    replicas: int
    min_in_sync: int
    producers: tuple[tuple[int, bool], ...]
    """Acks of each, and whether it is idempotent."""
    consumers: int
    members: int
    """Of a consumer group."""
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Clients that copy the committed records of transactional producers, and their output."""

    output: TopicPlan
    copiers: int
    is_group: bool
    """Whether they are members of a group; else each has fixed partitions."""


@dataclass(frozen=True, slots=True)
class Plan:
    """See the module. ``pause_ms`` is the average time from fault to fault, ``pace_ms`` that from batch to batch."""

    seed: int
    brokers: int
    controllers: int
    combined: bool
    fastest_ms: int
    slowest_ms: int
    drift_ppm_max: int
    skew_ms_max: int
    pause_ms: int
    pace_ms: int
    topics: tuple[TopicPlan, ...]
    transactions: TopicPlan | None = None
    """The topic of transactional producers."""
    copies: CopyPlan | None = None
    keyed: TopicPlan | None = None
    """A compacted topic whose records have few keys, which are also deleted."""
    transaction_versions: tuple[int, ...] = (2,)
    """The levels of transaction.version: the first one is that of the new cluster, the others follow while clients
    work."""
    denies: bool = False
    """Whether clients are denied topics now and then."""
    consumer_group_members: int = 0
    """Members of a group of the consumer protocol (KIP-848), which read the first topic."""
    has_migrating_members: bool = False
    """Whether the members of that group change their protocol now and then, and the group with them."""
    share_group_members: int = 0
    """Members of a share group (KIP-932), which share the records of the first topic."""
    streams_group_processes: tuple[int, ...] = ()
    """Members in each process of a streams group (KIP-1071), which process the first topic."""
    overrides: dict[str, str] = field(default_factory=dict)

    @property
    def all_topics(self) -> list[TopicPlan]:
        """All topics that are created."""
        others = (self.transactions, self.copies.output if self.copies is not None else None, self.keyed)
        return [*self.topics, *(topic for topic in others if topic is not None)]

    def __str__(self) -> str:
        nodes = f"{self.controllers} controllers and {self.brokers} brokers" + (", combined" if self.combined else "")
        topics = ", ".join(
            f"{each.name} {each.partitions}x{each.replicas} min {each.min_in_sync}" for each in self.topics
        )
        return f"{nodes}; topics {topics}; a fault each {self.pause_ms} ms"


_SHAPES = (
    (3, 3, True),
    (3, 3, True),
    (3, 3, True),
    (5, 3, True),
    (2, 3, True),
    (1, 1, True),
    (3, 1, True),
    (3, 3, False),
)
"""Brokers, controllers, combined: three of both is what most people run."""

_IDEMPOTENT = (-1, True)
_KINDS = (_IDEMPOTENT, _IDEMPOTENT, (-1, False), (1, False), (0, False))


_RETENTIONS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"retention.bytes": "2000", "segment.ms": "1000"},
    {"retention.ms": "4000", "segment.ms": "1000"},
)
ACKS_FSYNC = {"ottla.acks.fsync": "true"}
_SYNCED_NODES, _SYNCED_TOPICS, _COMPACTED_TOPICS, _KEYED_TOPIC, _TRANSACTIONS, _COPIES = 5, 13, 9, 10, 6, 14
"""What these seeds leave when divided by 16: every topic is fsynced, those of the plan are, these are compacted, there
is one more from which compaction removes records, transactions run beside them, or transactions and copiers of their
records."""
_CONSUMER_GROUP = 12
"""As above: a group of the consumer protocol."""
_SHARE_GROUP = 4
"""As above: a share group."""
_STREAMS_GROUP, _MIGRATING_GROUP = 8, 24
"""What seeds leave when divided by 32: a streams group, or a group of members that change between the classic and the
consumer protocol."""
_STREAMS_PROCESSES = ((2, 1), (1, 1, 1), (2, 2))
_FSYNCED = (_SYNCED_NODES, _COPIES, _CONSUMER_GROUP, _SHARE_GROUP, _STREAMS_GROUP % 16)
_SHORT_LOCKS = {
    "group.share.min.session.timeout.ms": "6000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_DURATION_MS),
}
_SHORT_SESSIONS = {
    "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}
_SHORT_STREAMS_SESSIONS = {
    "group.streams.min.session.timeout.ms": str(STREAMS_SESSION_TIMEOUT_MS),
    "group.streams.session.timeout.ms": str(STREAMS_SESSION_TIMEOUT_MS),
    "group.streams.min.heartbeat.interval.ms": "300",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.assignment.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.num.standby.replicas": "1",
}
COMPACTED = {"cleanup.policy": "compact,delete", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.0"}
"""Every record has a key of its own: segments are rewritten and merged all the time, and no record may be missing."""
KEYED_DELETE_RETENTION_MS = 3_000
_KEYED = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": str(KEYED_DELETE_RETENTION_MS),
}
_EAGER_CLEANER = {"log.cleaner.backoff.ms": "200", "log.cleaner.io.buffer.size": "128"}
_LOG_DIRECTORIES = ("/data", "/data", "/data,/data2", "/data,/data2,/data3")


_TRANSACTION_VERSIONS = ((2,), (0, 2), (1,), (2, 1, 0), (0,), (1, 2, 1))


def draw_plan(seed: int) -> Plan:
    """Return the plan that ``seed`` stands for."""
    random = SeededRandom(seed)
    denies = seed % 4 == 3
    brokers, controllers, combined = _SHAPES[random.randrange(len(_SHAPES))]
    fastest_ms = 1 + random.randrange(3)
    topics = tuple(_draw_topic(random, f"t{index}", brokers) for index in range(1 + random.randrange(2)))
    if seed % 16 == _SYNCED_TOPICS:
        topics = tuple(replace(topic, configs={**topic.configs, **ACKS_FSYNC}) for topic in topics)
    if seed % 16 == _COMPACTED_TOPICS:
        topics = tuple(replace(topic, configs=COMPACTED) for topic in topics)
    return Plan(
        seed=seed,
        brokers=brokers,
        controllers=controllers,
        combined=combined,
        fastest_ms=fastest_ms,
        slowest_ms=fastest_ms + random.randrange(20),
        drift_ppm_max=random.randrange(2) * 2_000,
        skew_ms_max=random.randrange(2) * 60_000,
        pause_ms=max((500, 2_000, 5_000)[random.randrange(3)], _pause_ms_min(seed)),
        pace_ms=(20, 100, 300)[random.randrange(3)],
        topics=topics,
        transactions=_transactions(brokers) if seed % 16 in (_TRANSACTIONS, _COPIES) else None,
        copies=_copies(seed, brokers) if seed % 16 == _COPIES else None,
        keyed=_keyed_topic(brokers) if seed % 16 == _KEYED_TOPIC else None,
        transaction_versions=_TRANSACTION_VERSIONS[seed // 16 % 6] if seed % 16 == _COPIES else (2,),
        denies=denies,
        consumer_group_members=_consumer_group_members(seed),
        has_migrating_members=seed % 32 == _MIGRATING_GROUP,
        share_group_members=2 + seed // 16 % 3 if seed % 16 == _SHARE_GROUP else 0,
        streams_group_processes=_STREAMS_PROCESSES[seed // 16 % 3] if seed % 32 == _STREAMS_GROUP else (),
        overrides={
            **_draw_overrides(random, brokers),
            **(OVERRIDES if denies else {}),
            # Lost data would excuse the offsets, the copies and the decisions about both in most runs.
            **(ACKS_FSYNC if seed % 16 in _FSYNCED else {}),
            **(_SHORT_SESSIONS if seed % 16 == _CONSUMER_GROUP or seed % 32 == _MIGRATING_GROUP else {}),
            **(_SHORT_LOCKS if seed % 16 == _SHARE_GROUP else {}),
            **(_SHORT_STREAMS_SESSIONS if seed % 32 == _STREAMS_GROUP else {}),
            **(_EAGER_CLEANER if seed % 16 in (_COMPACTED_TOPICS, _KEYED_TOPIC) else {}),
        },
    )


def _consumer_group_members(seed: int) -> int:
    if seed % 32 == _MIGRATING_GROUP:
        # Of many members, some are always of the other protocol, and the group is never converted.
        return 2 + seed // 32 % 2
    return 2 + seed // 16 % 3 if seed % 16 == _CONSUMER_GROUP else 0


def _pause_ms_min(seed: int) -> int:
    # A group that rarely has a coordinator is rarely converted.
    return 5_000 if seed % 32 == _MIGRATING_GROUP else 0


def _transactions(brokers: int) -> TopicPlan:
    replicas = min(brokers, 3)
    return TopicPlan(
        name="transactions",
        partitions=3,
        replicas=replicas,
        min_in_sync=max(1, replicas - 1),
        producers=(_IDEMPOTENT,) * 2,
        consumers=1,
        members=0,
    )


def _keyed_topic(brokers: int) -> TopicPlan:
    return replace(_transactions(brokers), name="keyed", partitions=1, producers=(_IDEMPOTENT,), configs=_KEYED)


def _copies(seed: int, brokers: int) -> CopyPlan:
    output = replace(_transactions(brokers), name="copies", producers=())
    return CopyPlan(output, copiers=2, is_group=seed // 16 % 4 > 0)


def _draw_topic(random: SeededRandom, name: str, brokers: int) -> TopicPlan:
    replicas = min(brokers, (3, 3, 2, 1)[random.randrange(4)])
    return TopicPlan(
        name=name,
        partitions=1 + random.randrange(3),
        replicas=replicas,
        min_in_sync=1 + random.randrange(replicas),
        producers=tuple(_KINDS[random.randrange(len(_KINDS))] for _ in range(1 + random.randrange(2))),
        consumers=random.randrange(2),
        members=(0, 0, 1, 2)[random.randrange(4)],
        configs=_RETENTIONS[random.randrange(len(_RETENTIONS))],
    )


def _draw_overrides(random: SeededRandom, brokers: int) -> dict[str, str]:
    """Return properties of every node: short timeouts, so that much happens in little time."""
    return {
        "offsets.topic.replication.factor": str(min(brokers, 3)),
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.replication.factor": str(min(brokers, 3)),
        "transaction.state.log.min.isr": str(max(1, min(brokers, 3) - 1)),
        "transaction.state.log.num.partitions": "2",
        "share.coordinator.state.topic.replication.factor": str(min(brokers, 3)),
        "share.coordinator.state.topic.min.isr": str(max(1, min(brokers, 3) - 1)),
        "share.coordinator.state.topic.num.partitions": "2",
        "replica.lag.time.max.ms": str((2_000, 10_000)[random.randrange(2)]),
        "broker.session.timeout.ms": str((3_000, 9_000)[random.randrange(2)]),
        "broker.heartbeat.interval.ms": "1000",
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.fetch.timeout.ms": str((1_000, 2_000)[random.randrange(2)]),
        "metadata.log.max.record.bytes.between.snapshots": str((20_971_520, 20_000)[random.randrange(2)]),
        "metadata.max.idle.interval.ms": str((500, 5_000)[random.randrange(2)]),
        "auto.leader.rebalance.enable": ("true", "false")[random.randrange(2)],
        "leader.imbalance.check.interval.seconds": "10",
        "log.dirs": _LOG_DIRECTORIES[random.randrange(len(_LOG_DIRECTORIES))],
        "log.retention.check.interval.ms": "1000",
        "log.flush.offset.checkpoint.interval.ms": str((60_000, 2_000)[random.randrange(2)]),
        "log.flush.start.offset.checkpoint.interval.ms": str((60_000, 2_000)[random.randrange(2)]),
        "controller.quorum.auto.join.enable": ("false", "true")[random.randrange(2)],
    }
