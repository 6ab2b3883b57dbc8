"""The metrics of replicas: of the broker's partitions, of their fetchers, of fetch sessions and of waiting requests."""

from typing import Final, NamedTuple

from ottla.log.metrics import LogSample, sample_log
from ottla.metadata.image import MetadataImage
from ottla.metrics.registry import Rows, by_label, counter, gauge
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.replication.sessions.fetch_session_cache import FetchSessionCache
from ottla.types import NodeId

_MANAGER: Final = "kafka_server_replicamanager"
_SESSIONS: Final = "kafka_server_fetchsessioncache"


class PartitionSample(NamedTuple):
    """One replica on this node."""

    is_leader: bool
    replica_count: int
    in_sync_count: int
    min_in_sync: int
    log: LogSample


class ReplicasSample(NamedTuple):
    """All replicas of this node, with the metadata that assigns them."""

    node_id: NodeId
    image: MetadataImage
    partitions: list[PartitionSample]
    has_offline_directories: bool

    @property
    def led(self) -> list[PartitionSample]:
        return [each for each in self.partitions if each.is_leader]


class ReplicationSample(NamedTuple):
    """Counters of the replica manager."""

    isr_expansions: int
    isr_shrinks: int
    failed_isr_updates: int
    fetchers_max_lag: int
    failed_partitions: int
    silent_followers: int
    is_isolated: bool
    moves: int
    moves_max_lag: int
    failed_moves: int


class FetchSessionSample(NamedTuple):
    """Open fetch sessions, and evictions and rejections by their limits."""

    open_sessions: int
    partitions: int
    evictions: int
    size_bytes: int
    rejections: int


def sample_partition(partition: Partition) -> PartitionSample:
    return PartitionSample(
        partition.is_leader,
        len(partition.isr.replicas),
        len(partition.isr.in_sync),
        partition.log.config.min_insync_replicas,
        sample_log(partition.log),
    )


def sample_replication(replicas: ReplicaManager) -> ReplicationSample:
    isr, fetchers = replicas.isr_manager, replicas.fetchers
    return ReplicationSample(
        isr.expansions,
        isr.shrinks,
        isr.failed_updates,
        fetchers.max_lag,
        fetchers.failed_count,
        len(isr.followers.silent),
        replicas.is_isolated,
        len(replicas.moves),
        replicas.moves.max_lag,
        len(replicas.moves.failed),
    )


def sample_purgatories(replicas: ReplicaManager) -> dict[str, int]:
    """Return the number of waiting requests, by Kafka's name of the operation."""
    return {
        "Produce": len(replicas.produce_purgatory),
        "Fetch": len(replicas.fetch_purgatory),
        "Commit": len(replicas.commit_purgatory),
    }


def sample_fetch_sessions(sessions: FetchSessionCache) -> FetchSessionSample:
    return FetchSessionSample(
        len(sessions), sessions.partition_count, sessions.evictions, sessions.size_bytes, sessions.rejections
    )


def _offline_replicas(replicas: ReplicasSample) -> int:
    if not replicas.has_offline_directories:
        return 0
    assigned = sum(
        replicas.node_id in partition.replicas
        for topic in replicas.image.topics.by_name.values()
        for partition in topic.partitions.values()
    )
    return max(0, assigned - len(replicas.partitions))


REPLICA_ROWS: Final[Rows[ReplicasSample]] = (
    gauge(f"{_MANAGER}_partitioncount", "Partitions with a replica here.", lambda it: len(it.partitions)),
    gauge(f"{_MANAGER}_leadercount", "Partitions that this broker leads.", lambda it: len(it.led)),
    gauge(f"{_MANAGER}_offlinereplicacount", "Replicas on log directories that failed.", _offline_replicas),
    gauge(
        f"{_MANAGER}_underreplicatedpartitions",
        "Led partitions with a replica out of sync.",
        lambda it: sum(each.in_sync_count < each.replica_count for each in it.led),
    ),
    gauge(
        f"{_MANAGER}_underminisrpartitioncount",
        "Led partitions with fewer replicas in sync than min.insync.replicas.",
        lambda it: sum(each.in_sync_count < min(each.min_in_sync, each.replica_count) for each in it.led),
    ),
    gauge(
        f"{_MANAGER}_atminisrpartitioncount",
        "Led partitions with exactly min.insync.replicas in sync.",
        lambda it: sum(each.in_sync_count == min(each.min_in_sync, each.replica_count) for each in it.led),
    ),
)

REPLICATION_ROWS: Final[Rows[ReplicationSample]] = (
    counter(f"{_MANAGER}_isrexpands_total", "Replicas that joined the ISR again.", lambda it: it.isr_expansions),
    counter(f"{_MANAGER}_isrshrinks_total", "Replicas that fell out of the ISR.", lambda it: it.isr_shrinks),
    counter(
        f"{_MANAGER}_failedisrupdates_total",
        "Changes of an ISR that the controller rejected.",
        lambda it: it.failed_isr_updates,
    ),
    gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "Records by which the slowest follower here is behind its leader.",
        lambda it: it.fetchers_max_lag,
    ),
    gauge(
        "kafka_server_replicafetchermanager_failedpartitionscount",
        "Partitions that are not fetched any more until their leadership changes.",
        lambda it: it.failed_partitions,
    ),
    gauge(
        "kafka_server_replicaalterlogdirsmanager_maxlag",
        "Records that the slowest copy in another log directory here still lacks.",
        lambda it: it.moves_max_lag,
    ),
    gauge(
        "kafka_server_replicaalterlogdirsmanager_failedpartitionscount",
        "Replicas whose move to another log directory failed.",
        lambda it: it.failed_moves,
    ),
    gauge("ottla_log_directory_moves", "Replicas being moved to another log directory.", lambda it: it.moves),
    gauge(
        "ottla_silent_followers",
        "Brokers in sync with a partition of this one that do not fetch from it any more.",
        lambda it: it.silent_followers,
    ),
    gauge(
        "ottla_isolated",
        "1 while neither the quorum nor a follower responds to this node, and it rejects acks=all.",
        lambda it: int(it.is_isolated),
    ),
)

PURGATORY_ROWS: Final[Rows[dict[str, int]]] = (
    by_label(
        "gauge",
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Requests that wait.",
        "delayedOperation",
        lambda waiting: waiting,
    ),
)

FETCH_SESSION_ROWS: Final[Rows[FetchSessionSample]] = (
    gauge(f"{_SESSIONS}_numincrementalfetchsessions", "Fetch sessions.", lambda sessions: sessions.open_sessions),
    gauge(
        f"{_SESSIONS}_numincrementalfetchpartitionscached",
        "Partitions of all fetch sessions.",
        lambda sessions: sessions.partitions,
    ),
    counter(
        f"{_SESSIONS}_incrementalfetchsessionevictions_total",
        "Fetch sessions evicted for others.",
        lambda sessions: sessions.evictions,
    ),
    gauge(
        "ottla_fetch_session_bytes",
        "Bytes that fetch sessions take, estimated.",
        lambda sessions: sessions.size_bytes,
    ),
    counter(
        "ottla_fetch_sessions_rejected_total",
        "Fetch sessions that clients did not get, or lost as they grew, for want of capacity.",
        lambda sessions: sessions.rejections,
    ),
)
