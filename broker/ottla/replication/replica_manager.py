"""All partitions that have a replica on this node: made and removed as the metadata says, appended to and read from.

The manager owns the waiting rooms of the data path: produces that wait for the high watermark, and fetches that wait
for records. It leads and follows by what the metadata says; `IsrManager` keeps the in-sync sets of what it leads,
`ReplicaFetcherManager` copy what it follows. Source: kafka.server.ReplicaManager of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode, KafkaError, ShortageError, StorageError
from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.log.partition_log import AppendOrigin, AppendResult, CheckedBatch, PartitionLog
from ottla.log.recovery import DamagedLogError
from ottla.log.unknown_epochs import cut_unknown_epochs
from ottla.log_lines import LineLimit
from ottla.metadata.cluster import DIRECTORY_LOST, RESERVED_DIRECTORIES_END
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.topics import LocalReplica
from ottla.metrics.traffic import TopicTraffic, Traffic
from ottla.ports import Buffer, Clock
from ottla.purgatory import Delayed, Purgatory
from ottla.replication.config import ReplicationConfig
from ottla.replication.directory_assignments import DirectoryAssignments
from ottla.replication.disconnected_leaders import DisconnectedLeaders
from ottla.replication.isr_manager import IsrManager
from ottla.replication.leader_syncs import LeaderSyncs
from ottla.replication.partition import NO_LEADER, Partition
from ottla.replication.peer_brokers import Brokers, PeerBrokers
from ottla.replication.quota import ReplicationQuota
from ottla.replication.replica_fetcher import ReplicaFetcher
from ottla.replication.replica_fetcher_manager import ReplicaFetcherManager
from ottla.replication.sessions.fetch_session import FetchSession
from ottla.replication.sessions.partition_watchers import PartitionWatchers
from ottla.types import NEVER_MS, NodeId, TopicPartition
from ottla.wire.codec import Message
from ottla.wire.messages.delete_records import DeleteRecordsPartitionResult

logger = logging.getLogger(__name__)

_ASSIGNED_PER_TICK = 5
_ASSIGNING_MS_MAX = 1
"""A log takes a third of a millisecond to make; ten where the file system is busy."""
COMMIT_TIMEOUT_MS = 5_000
"""How long a coordinator waits for its records to be committed (offsets.commit.timeout.ms)."""
AWAITED_MS_MAX = 5_000
"""How long the leader of a new epoch keeps its followers' fetches short."""
LEADER_THROTTLED_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS = "follower.replication.throttled.replicas"


class ReplicaManager:
    """See the module.

    ``config_of_topic`` gives the resolved configuration of a topic's logs from the current metadata.

    Attributes:
        news: which fetch sessions look again when something about a partition changes.
        isr: the in-sync sets of what this node leads.
        fetchers: copy what it follows.
        disconnected_leaders: of what it follows, and who waits for their successors.
        leader_quota, follower_quota: replication throttles.
        replication_bytes_out: record bytes sent to followers.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        logs: LogManager,
        clock: Clock,
        config_of_topic: Callable[[str], LogConfig],
        peer_brokers: PeerBrokers,
        config: ReplicationConfig | None = None,
    ) -> None:
        self.node_id = node_id
        self.config = config or ReplicationConfig()
        self.brokers = Brokers()
        self.produce_purgatory: Purgatory[Message] = Purgatory()
        self.fetch_purgatory: Purgatory[Any] = Purgatory()
        self.commit_purgatory: Purgatory[ErrorCode] = Purgatory()
        self.delete_purgatory: Purgatory[DeleteRecordsPartitionResult] = Purgatory()
        self._purgatories: tuple[Purgatory[Any], ...] = (
            self.produce_purgatory,
            self.fetch_purgatory,
            self.commit_purgatory,
            self.delete_purgatory,
        )
        self.watchers = PartitionWatchers()
        self.traffic = Traffic()
        self.replication_bytes_out = 0
        self._logs = logs
        self._clock = clock
        self._config_of_topic = config_of_topic
        self._partitions: dict[TopicPartition, Partition] = {}
        self._unassigned: dict[TopicPartition, LocalReplica] = {}
        self._shortage_lines = LineLimit(clock)
        self._awaited: dict[NodeId, dict[TopicPartition, int]] = {}
        self._unhurried: dict[NodeId, None] = {}
        self._follower_sessions: dict[NodeId, list[FetchSession]] = {}
        self._appended: dict[TopicPartition, None] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._syncs = LeaderSyncs(clock, self._on_synced)
        self._image = EMPTY_IMAGE
        self._make_quotas()
        logs.on_log_start_raised = self.on_log_start_raised
        self._join(peer_brokers)

    def _make_quotas(self) -> None:
        config = self.config
        self.leader_quota, self.follower_quota = (
            ReplicationQuota(
                window_count=config.quota_window_count, window_size_seconds=config.quota_window_size_seconds
            )
            for _ in range(2)
        )
        self.leader_quota.rate = config.leader_throttled_rate
        self.follower_quota.rate = config.follower_throttled_rate

    def _join(self, peer_brokers: PeerBrokers) -> None:
        self._directories = DirectoryAssignments(node_id=self.node_id, peer_brokers=peer_brokers, clock=self._clock)
        self._with_deadlines: tuple[Purgatory[Any] | DirectoryAssignments | LeaderSyncs, ...] = (
            *self._purgatories,
            self._directories,
            self._syncs,
        )
        self.isr = IsrManager(
            node_id=self.node_id,
            peer_brokers=peer_brokers,
            clock=self._clock,
            config=lambda: self.config,
            changed=self._on_isrs_changed,
        )

        def new_fetcher(leader: NodeId, lane: str) -> ReplicaFetcher:
            return ReplicaFetcher(
                node_id=self.node_id,
                leader=leader,
                lane=lane,
                peer_brokers=peer_brokers,
                clock=self._clock,
                config=lambda: self.config,
                quota=self.follower_quota,
                progressed=lambda partition: self._wake_fetches((partition.topic_partition,)),
            )

        self.fetchers = ReplicaFetcherManager(config=lambda: self.config, new_fetcher=new_fetcher)
        self.disconnected_leaders = DisconnectedLeaders(clock=self._clock, fetchers=self.fetchers, brokers=self.brokers)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def find(self, topic: str, partition: int) -> Partition | None:
        wanted = TopicPartition(topic, partition)
        unassigned = self._unassigned.pop(wanted, None)
        if unassigned is not None:
            self._assign(wanted, unassigned)
            self._tell_changed()
        return self._partitions.get(wanted)

    def get(self, topic: str, partition: int) -> Partition:
        """Return the partition.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER when it lives on other nodes, KAFKA_STORAGE_ERROR when its disk failed,
                UNKNOWN_TOPIC_OR_PARTITION when the cluster has none such.
        """
        found = self._partitions.get((topic, partition))  # type: ignore[call-overload]
        if found is not None:
            assert isinstance(found, Partition)
            return found
        found = self.find(topic, partition)
        if found is not None:
            return found
        wanted = TopicPartition(topic, partition)
        registration = self._image.topics.partition(wanted)
        if registration is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self.node_id in registration.replicas:
            raise StorageError(f"{wanted} is on a log directory that failed")
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def is_yet_to_be_made(self, topic_partition: TopicPartition) -> bool:
        """Return whether there is no log yet of a partition that the metadata gives to this node: nothing is in it."""
        return topic_partition in self._unassigned and not self._logs.has_any_of(topic_partition)

    def holds(self, partition: Partition) -> bool:
        """Return whether ``partition`` is still what this node has under its name."""
        return self._partitions.get(partition.topic_partition) is partition

    def update_config(self, config: ReplicationConfig) -> None:
        """Take settings that were changed while the node runs: fetcher_count and the throttled rates."""
        before, self.config = self.config, config
        self.leader_quota.rate = config.leader_throttled_rate
        self.follower_quota.rate = config.follower_throttled_rate
        if config.fetcher_count != before.fetcher_count:
            self.fetchers.spread_anew()

    def traffic_of(self, topic: str) -> TopicTraffic:
        """Return the topic's counters, made on first use."""
        return self.traffic.of(topic)

    # --- appending

    def append(
        self, partition: Partition, records: Buffer | CheckedBatch, *, origin: AppendOrigin, required_acks: int
    ) -> AppendResult:
        """Append one batch to a partition that this node leads; `announce_appends` then wakes who waits for it.

        Raises:
            KafkaError: what `Partition.append_as_leader` raises.
        """
        clock = self._clock
        result = partition.append_as_leader(
            records,
            origin=origin,
            required_acks=required_acks,
            wall_ms=clock.wall_ms(),
            now_ms=clock.monotonic_ms(),
        )
        self._appended[partition.topic_partition] = None
        self._syncs.start_if_due(partition)
        return result

    def announce_appends(self) -> None:
        """Wake the fetches that wait for what was appended: once for all appends of a request."""
        if self._appended:
            appended, self._appended = self._appended, {}
            self._wake_fetches(appended)

    def _on_synced(self, partition: Partition) -> None:
        """Complete what waited for the disk of a partition that this node still leads."""
        if not self.holds(partition) or not partition.is_leader:
            return
        topic_partition = partition.topic_partition
        if partition.on_synced(self._clock.monotonic_ms()):
            self.on_committed((topic_partition,))
        else:
            self.produce_purgatory.check(topic_partition)  # acks=1 waits for this disk alone
        with suppress(StorageError):  # the log directory is offline then, and the waiting requests have failed
            self._syncs.start_if_due(partition)

    def append_committed(self, topic_partition: TopicPartition, batch: bytes) -> Delayed[ErrorCode]:
        """Append a coordinator's batch with acks=all; complete with NONE once it is committed."""
        try:
            partition = self.get(*topic_partition)
            result = self.append(partition, bytearray(batch), origin=AppendOrigin.COORDINATOR, required_acks=-1)
        except KafkaError as error:
            return Delayed.of(error.code)
        self.announce_appends()

        def outcome() -> ErrorCode | None:
            if not partition.is_leader:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            return partition.committed_error() if partition.is_committed(result.last_offset) else None

        return self.commit_purgatory.watch(
            (topic_partition,),
            deadline_ms=self._clock.monotonic_ms() + COMMIT_TIMEOUT_MS,
            try_complete=outcome,
            on_deadline=lambda: ErrorCode.REQUEST_TIMED_OUT,
        )

    # --- who waits

    def wake(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Let everybody look again who waits for these: more is committed, or somebody else leads them."""
        for topic_partition in topic_partitions:
            self.produce_purgatory.check(topic_partition)
            self.commit_purgatory.check(topic_partition)
            self.delete_purgatory.check(topic_partition)
        self._wake_fetches(topic_partitions)

    def on_committed(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Let producers and consumers look again: more is committed. Followers hear of that with their next answer."""
        for topic_partition in topic_partitions:
            self.produce_purgatory.check(topic_partition)
            self.commit_purgatory.check(topic_partition)
        self._wake_fetches(topic_partitions, followers_too=False)

    def _wake_fetches(self, topic_partitions: Collection[TopicPartition], *, followers_too: bool = True) -> None:
        """Let fetches look again; each one once, however many of its partitions have news."""
        sessions: dict[int, None] = {}
        for topic_partition in topic_partitions:
            for session in self.watchers.note(topic_partition):
                if followers_too or not session.is_followers:
                    sessions[session.session_id] = None
        for session_id in sessions:
            self.fetch_purgatory.check(session_id)
        for topic_partition in topic_partitions:
            self.fetch_purgatory.check(topic_partition)

    def on_follower_progress(self, partition: Partition, broker_id: NodeId) -> None:
        """Note that a follower has asked for a led partition: it may belong into the in-sync set now."""
        awaited = self._awaited.get(broker_id)
        if awaited:
            awaited.pop(partition.topic_partition, None)
        if len(partition.in_sync) < len(partition.replicas):
            self.isr.consider_expansion(partition)

    def on_log_start_raised(self, topic_partition: TopicPartition) -> None:
        """Let fetches tell of it: the followers delete as well, and say so."""
        self._wake_fetches((topic_partition,))

    def awaits(self, broker_id: NodeId, now_ms: int) -> bool:
        """Return whether a follower has yet to ask for a partition that this node has just begun to lead.

        Its fetch must not be held then: it could not name the partition before it has been answered.
        """
        awaited = self._awaited.get(broker_id)
        while awaited:
            topic_partition, until_ms = next(iter(awaited.items()))
            if until_ms > now_ms:
                return True
            del awaited[topic_partition]
        return False

    def note_follower_session(self, broker_id: NodeId, session: FetchSession) -> None:
        """Remember a session that a follower has begun: `awaits` may become true while its fetch is held."""
        known = [other for other in self._follower_sessions.get(broker_id, ()) if other.is_open]
        self._follower_sessions[broker_id] = [*known, session]

    def _await_followers(self, partition: Partition, now_ms: int) -> None:
        for broker_id in partition.remote:
            self._awaited.setdefault(broker_id, {})[partition.topic_partition] = now_ms + AWAITED_MS_MAX
            self._unhurried[broker_id] = None

    def _hurry_followers(self) -> None:
        """Answer the waiting fetches of followers that this node waits for."""
        unhurried, self._unhurried = self._unhurried, {}
        for broker_id in unhurried:
            for session in self._follower_sessions.get(broker_id, ()):
                self.fetch_purgatory.check(session.session_id)

    def _on_isrs_changed(self, partitions: Collection[Partition]) -> None:
        now_ms = self._clock.monotonic_ms()
        for partition in partitions:
            partition.advance_high_watermark(now_ms)
        self.on_committed([partition.topic_partition for partition in partitions])

    def on_damage(self, partition: Partition) -> None:
        """Hand over what this node leads and cannot read any more, where somebody else has everything."""
        if len(partition.in_sync) > 1:
            index = partition.topic_partition.partition
            self._directories.assign(partition.topic_id, index, DIRECTORY_LOST)

    # --- what the metadata says ----------------------------------------------------------------------------------

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Make, change and remove this node's partitions as the next image has them; a publisher of the loader."""
        self._image = image
        self.brokers.image = image.cluster
        # First: a log was opened without its topic's configuration, by which its partition leads and follows.
        self._publish_configs(delta, image)
        changes = delta.topics.local_changes(self.node_id)
        for topic_partition in changes.deletes:
            self._remove(topic_partition)
        for local_changes in (changes.leaders, changes.followers):
            for topic_partition, local in local_changes.items():
                if topic_partition in self._partitions or self._logs.get(topic_partition) is not None:
                    self._assign(topic_partition, local)
                else:
                    # Making a log takes a dozen system calls: thousands at once would stop the loop for seconds.
                    self._unassigned[topic_partition] = local
        self._assign_some()
        self._tell_changed()
        if delta.cluster.changed_brokers:
            self.isr.look_again()
            self.fetchers.retry_now()
        self._hurry_followers()
        self.fetchers.tick(self._clock.monotonic_ms())
        self.disconnected_leaders.look_again()

    def _publish_configs(self, delta: MetadataDelta, image: MetadataImage) -> None:
        topics: dict[str, None] = {}
        for resource in delta.configs.changes:
            if resource.type is ConfigResourceType.TOPIC:
                values = image.configs.of_topic(resource.name)
                self.leader_quota.throttle(resource.name, values.get(LEADER_THROTTLED_REPLICAS), self.node_id)
                self.follower_quota.throttle(resource.name, values.get(FOLLOWER_THROTTLED_REPLICAS), self.node_id)
                if resource.name in image.topics.by_name:
                    topics[resource.name] = None
            elif resource.type is ConfigResourceType.BROKER and resource.name in ("", str(self.node_id)):
                topics |= dict.fromkeys(sorted({topic_partition.topic for topic_partition in self._partitions}))
        for topic in topics:
            self._logs.update_config(topic, self._config_of_topic(topic))
        for partition in [each for each in self if each.topic_partition.topic in topics] if topics else ():
            # Its records may have to be on the disk now before they are confirmed, or no longer.
            if partition.is_leader:
                self._on_synced(partition)
            else:
                self.fetchers.respread(partition)

    def remove_strays(self) -> list[TopicPartition]:
        """Move aside the logs that the metadata gives to nobody here; to be called once, after the first image."""
        return self._logs.move_aside_strays(self._is_stray)

    def _is_stray(self, log: PartitionLog) -> bool:
        return log.topic_partition not in self._partitions and log.topic_partition not in self._unassigned

    def _assign_some(self) -> None:
        """Make the logs of the next few new partitions; the others come with the next ticks, or when asked for."""
        started_ms = self._clock.monotonic_ms()
        for topic_partition in list(islice(self._unassigned, _ASSIGNED_PER_TICK)):
            self._assign(topic_partition, self._unassigned.pop(topic_partition))
            if self._clock.monotonic_ms() > started_ms + _ASSIGNING_MS_MAX:
                return

    def _tell_changed(self) -> None:
        """Let look again who waits for what was assigned or let go: each fetch once, however much it is."""
        if self._changed:
            changed, self._changed = self._changed, {}
            self.wake(changed)

    def _assign(self, topic_partition: TopicPartition, local: LocalReplica) -> None:
        partition = self._partitions.get(topic_partition)
        is_new = partition is None or partition.topic_id != local.topic_id
        if partition is None or is_new:
            self._let_go(topic_partition)
            partition = self._make(topic_partition, local)
            if partition is None:
                return
        if local.partition.leader == self.node_id:
            self._lead(partition, local)
        else:
            self._follow(partition, local, is_new=is_new)
        self._compare_directory(partition, local)
        self._changed[topic_partition] = None
        if partition.is_leader:
            # What recovery found may be in the page cache only: it is committed once it is on the disk.
            with suppress(StorageError):
                self._syncs.start_if_due(partition)

    def _make(self, topic_partition: TopicPartition, local: LocalReplica) -> Partition | None:
        """Return the partition with its log opened; None when the disk refuses."""
        directory_id = local.partition.directory_of(self.node_id)
        log = self._logs.get(topic_partition)
        if log is not None and log.topic_id not in (None, local.topic_id):
            # The topic was deleted and made anew while this node was away.
            self._logs.move_aside_strays(lambda other: other is log)
        try:
            if local.partition.leader not in (NO_LEADER, self.node_id) and self._logs.drop_damaged(topic_partition):
                logger.warning(
                    "%s: dropped the damaged log; copying it anew from node %d", topic_partition, local.partition.leader
                )
            log = self._logs.get_or_create(
                topic_partition,
                topic_id=local.topic_id,
                config=self._config_of_topic(topic_partition.topic),
                directory_id=directory_id if directory_id >= RESERVED_DIRECTORIES_END else None,
            )
            cut_unknown_epochs(log, local.partition.leader_epoch)
        except DamagedLogError as error:
            logger.error("cannot serve %s: %s; asking for another leader", topic_partition, error)
            self._directories.assign(local.topic_id, topic_partition.partition, DIRECTORY_LOST)
            return None
        except ShortageError as error:
            if self._shortage_lines.take():
                logger.warning("cannot open %s for now: %s; retrying", topic_partition, error)
            self._unassigned[topic_partition] = local
            return None
        except StorageError as error:
            logger.error("cannot open %s: %s; its clients get KAFKA_STORAGE_ERROR", topic_partition, error)
            return None
        partition = self._partitions[topic_partition] = Partition(
            topic_partition=topic_partition,
            topic_id=local.topic_id,
            node_id=self.node_id,
            log=log,
            brokers=self.brokers,
            lag_time_max_ms=self.config.lag_time_max_ms,
        )
        return partition

    def _compare_directory(self, partition: Partition, local: LocalReplica) -> None:
        """Tell the controller where the log is when it believes otherwise."""
        path = partition.log.directory.rpartition("/")[0]
        directory_id = self._logs.directory_ids().get(path)
        index = partition.topic_partition.partition
        if partition.damaged_offset is not None and partition.is_leader:
            return  # the controller is to believe that it is lost until somebody else leads
        if directory_id is None or directory_id == local.partition.directory_of(self.node_id):
            self._directories.forget(local.topic_id, index)
        else:
            self._directories.assign(local.topic_id, index, directory_id)

    def _lead(self, partition: Partition, local: LocalReplica) -> None:
        now_ms = self._clock.monotonic_ms()
        self.fetchers.forget(partition.topic_partition)
        if partition.lead(local.partition, now_ms=now_ms):
            self._await_followers(partition, now_ms)
        partition.advance_high_watermark(now_ms)
        self.isr.lead(partition)

    def _follow(self, partition: Partition, local: LocalReplica, *, is_new: bool) -> None:
        is_news = partition.follow(local.partition) or is_new
        if partition.damaged_offset is not None and partition.leader != NO_LEADER:
            self._drop_damage(partition)
        self.isr.forget(partition.topic_partition)
        if partition.leader == NO_LEADER:
            self.fetchers.forget(partition.topic_partition)
        elif is_news:
            self.fetchers.follow(partition)

    def _drop_damage(self, partition: Partition) -> None:
        """Cut the log where its damage begins: the leader has the rest."""
        offset, partition.damaged_offset = partition.damaged_offset, None
        assert offset is not None
        logger.warning(
            "%s: dropping the damaged log from offset %d on; node %d, which leads it now, has it",
            partition.topic_partition,
            offset,
            partition.leader,
        )
        with suppress(StorageError):  # the log directory is offline then
            partition.log.truncate_to(offset)

    def _remove(self, topic_partition: TopicPartition) -> None:
        self._unassigned.pop(topic_partition, None)
        if not self._let_go(topic_partition):
            return
        self._logs.delete(topic_partition)
        if topic_partition.topic not in self._image.topics.by_name:
            self.traffic.forget(topic_partition.topic)

    def on_directory_failure(self, lost: Iterable[TopicPartition]) -> None:
        """Stop serving partitions whose log directory failed."""
        for topic_partition in lost:
            self._let_go(topic_partition, is_lost=True)
        self._tell_changed()

    def _let_go(self, topic_partition: TopicPartition, *, is_lost: bool = False) -> bool:
        """Neither lead nor follow it any more, and tell who waits for it; return whether it was here."""
        partition = self._partitions.pop(topic_partition, None)
        if partition is None:
            return False
        partition.leader = NO_LEADER
        partition.pending = None
        if not is_lost:  # else the controller has to hear which directory took the replica along
            self._directories.forget(partition.topic_id, topic_partition.partition)
        self.isr.forget(topic_partition)
        self.fetchers.forget(topic_partition)
        self._changed[topic_partition] = None
        return True

    # --- time ----------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> int | None:
        """Give up on what has waited long enough; fetch, and look after the in-sync sets."""
        due_ms = self._due_ms()
        if now_ms < due_ms and not self.disconnected_leaders.is_awaited:
            return due_ms
        for purgatory in self._purgatories:
            if purgatory.due_ms <= now_ms:
                purgatory.expire(now_ms)
        if self._unassigned:
            self._assign_some()
            self._tell_changed()
        if self._unhurried:
            self._hurry_followers()
        self.fetchers.tick(now_ms)
        self.disconnected_leaders.tick(now_ms)
        self.isr.tick(now_ms)
        self._directories.tick(now_ms)
        self._syncs.tick(now_ms)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        due_ms = self._due_ms()
        if self.disconnected_leaders.is_awaited:
            due_ms = min(due_ms, self.disconnected_leaders.next_deadline_ms() or due_ms)
        return None if due_ms == NEVER_MS else due_ms

    def _due_ms(self) -> int:
        """Return when anything is due but another look at the leaders that were lost."""
        if self._unassigned or self._unhurried:
            return self._clock.monotonic_ms()
        earliest_ms = self.fetchers.due_ms
        isr_due_ms = self.isr.due_ms
        earliest_ms = isr_due_ms if isr_due_ms < earliest_ms else earliest_ms
        for waits in self._with_deadlines:
            earliest_ms = waits.due_ms if waits.due_ms < earliest_ms else earliest_ms
        return earliest_ms
