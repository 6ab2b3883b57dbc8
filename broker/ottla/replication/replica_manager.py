"""`ReplicaManager`: all partitions with a replica on this node: appends, reads, and requests that wait for them.

The manager owns the purgatories of the data path: produces that wait for the high watermark, and fetches that wait for
records. `ReplicaMetadataPublisher` creates and removes partitions and assigns their roles; `IsrManager` manages the
ISRs of partitions that this node leads, `ReplicaFetcherManager` copies those it follows.

Source: kafka.server.ReplicaManager of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from ottla.errors import ErrorCode, KafkaError, StorageError
from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.log.partition_log import AppendOrigin, AppendResult, CheckedBatch
from ottla.log.verifications import VerificationGuard
from ottla.metadata.cluster import DIRECTORY_LOST
from ottla.metrics.traffic import TopicTraffic, Traffic
from ottla.ports import Background, Buffer, Clock
from ottla.purgatory import Delayed, Purgatory
from ottla.replication.awaited_followers import AwaitedFollowers
from ottla.replication.config import ReplicationConfig
from ottla.replication.directory_assignments import DirectoryAssignments
from ottla.replication.directory_moves import DirectoryMoves
from ottla.replication.disconnected_leaders import DisconnectedLeaders
from ottla.replication.isr_manager import IsrManager
from ottla.replication.leader_syncs import LeaderSyncs
from ottla.replication.metadata_publisher import ReplicaMetadataPublisher
from ottla.replication.partition import Partition
from ottla.replication.partition_opener import PartitionOpener
from ottla.replication.partition_roles import PartitionRoles
from ottla.replication.peer_brokers import Brokers, PeerBrokers
from ottla.replication.quota import new_quotas
from ottla.replication.replica_fetcher import ReplicaFetcher
from ottla.replication.replica_fetcher_manager import ReplicaFetcherManager
from ottla.replication.sessions.partition_watchers import PartitionWatchers
from ottla.types import NEVER_MS, NodeId, TopicPartition
from ottla.wire.codec import Message
from ottla.wire.messages.delete_records import DeleteRecordsPartitionResult

logger = logging.getLogger(__name__)

_Waits: TypeAlias = Purgatory[Any] | DirectoryAssignments | DirectoryMoves | LeaderSyncs

COMMIT_TIMEOUT_MS = 5_000
"""How long a coordinator waits for its records to be committed (offsets.commit.timeout.ms)."""


class ReplicaManager:
    """See the module.

    Attributes:
        metadata_publisher: creates, changes and removes partitions to match the metadata.
        watchers: fetch sessions by the partitions of which they watch changes.
        isr_manager: manages the ISRs of partitions that this node leads.
        awaited_followers: followers that have yet to fetch partitions which it has just started to lead.
        fetchers: copy the partitions that it follows.
        moves: moves replicas between the log directories.
        disconnected_leaders: lost leaders of those, and the responses that wait for their successors.
        leader_quota, follower_quota: replication throttles.
        replication_bytes_out: record bytes sent to followers.
        is_isolated: set by `node.isolation`: neither the quorum nor a follower responds to this node.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        logs: LogManager,
        clock: Clock,
        config_of_topic: Callable[[str], LogConfig],
        peer_brokers: PeerBrokers,
        background: Background,
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
        self.is_isolated = False
        self._logs = logs
        self._clock = clock
        self._appended: dict[TopicPartition, None] = {}
        self._syncs = LeaderSyncs(clock, self._on_synced)
        self.leader_quota, self.follower_quota = new_quotas(self.config)
        logs.maintenance.on_log_start_raised = self.on_log_start_raised
        self._create_managers(peer_brokers, background)
        self.metadata_publisher = self._new_publisher(config_of_topic)
        self._partitions = self.metadata_publisher.partitions
        self.moves.report = self.metadata_publisher.compare_directory

    def _create_managers(self, peer_brokers: PeerBrokers, background: Background) -> None:
        """Create the managers of the partitions' roles."""
        self._directories = DirectoryAssignments(node_id=self.node_id, peer_brokers=peer_brokers, clock=self._clock)
        self.moves = DirectoryMoves(
            logs=self._logs,
            clock=self._clock,
            background=background,
            assignments=self._directories,
            config=lambda: self.config,
        )
        self._with_deadlines: tuple[_Waits, ...] = (*self._purgatories, self._directories, self.moves, self._syncs)
        self.awaited_followers = AwaitedFollowers(self.fetch_purgatory.check)
        self.isr_manager = IsrManager(
            node_id=self.node_id,
            peer_brokers=peer_brokers,
            clock=self._clock,
            config=lambda: self.config,
            changed=self._on_isrs_changed,
        )

        def new_fetcher(leader: NodeId, connection: str) -> ReplicaFetcher:
            return ReplicaFetcher(
                node_id=self.node_id,
                leader=leader,
                connection=connection,
                peer_brokers=peer_brokers,
                clock=self._clock,
                config=lambda: self.config,
                quota=self.follower_quota,
                progressed=lambda partition: self._wake_fetches((partition.topic_partition,)),
            )

        self.fetchers = ReplicaFetcherManager(config=lambda: self.config, new_fetcher=new_fetcher)
        self.disconnected_leaders = DisconnectedLeaders(clock=self._clock, fetchers=self.fetchers, brokers=self.brokers)

    def _new_publisher(self, config_of_topic: Callable[[str], LogConfig]) -> ReplicaMetadataPublisher:
        return ReplicaMetadataPublisher(
            node_id=self.node_id,
            logs=self._logs,
            clock=self._clock,
            config_of_topic=config_of_topic,
            brokers=self.brokers,
            opener=PartitionOpener(
                node_id=self.node_id,
                logs=self._logs,
                brokers=self.brokers,
                directories=self._directories,
                config=lambda: self.config,
                config_of_topic=config_of_topic,
                is_reported_by_move=self.moves.is_reported,
            ),
            roles=PartitionRoles(
                clock=self._clock,
                isr_manager=self.isr_manager,
                awaited_followers=self.awaited_followers,
                fetchers=self.fetchers,
                syncs=self._syncs,
                directories=self._directories,
                moves=self.moves,
            ),
            leader_quota=self.leader_quota,
            follower_quota=self.follower_quota,
            traffic=self.traffic,
            on_config=self._on_topic_config,
            on_changed=self.wake,
            on_published=self._on_published,
        )

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def find(self, topic: str, partition: int) -> Partition | None:
        return self.metadata_publisher.find(TopicPartition(topic, partition))

    def get(self, topic: str, partition: int) -> Partition:
        """Return the partition.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER when it is on other nodes, KAFKA_STORAGE_ERROR when its disk failed,
                UNKNOWN_TOPIC_OR_PARTITION when the cluster has no such partition.
        """
        found = self._partitions.get((topic, partition))  # type: ignore[call-overload]
        if found is not None:
            assert isinstance(found, Partition)
            return found
        found = self.find(topic, partition)
        if found is not None:
            return found
        wanted = TopicPartition(topic, partition)
        registration = self.metadata_publisher.image.topics.partition(wanted)
        if registration is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self.node_id in registration.replicas:
            raise StorageError(f"{wanted} is on a log directory that failed")
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @property
    def has_logs_to_create(self) -> bool:
        """Whether partitions of this node have no log yet; `get` and `find` create one, which takes a millisecond."""
        return self.metadata_publisher.has_logs_to_create

    def is_yet_to_be_created(self, topic_partition: TopicPartition) -> bool:
        """Return whether a partition that the metadata assigns to this node has no log yet: it is empty."""
        return self.metadata_publisher.is_yet_to_be_created(topic_partition)

    def holds(self, partition: Partition) -> bool:
        """Return whether ``partition`` is still this node's partition of that name."""
        return self._partitions.get(partition.topic_partition) is partition

    def update_config(self, config: ReplicationConfig) -> None:
        """Apply settings that were changed while the node runs: fetcher_count and the throttled rates."""
        before, self.config = self.config, config
        self.leader_quota.rate = config.leader_throttled_rate
        self.follower_quota.rate = config.follower_throttled_rate
        if config.fetcher_count != before.fetcher_count:
            self.fetchers.respread_all()

    def traffic_of(self, topic: str) -> TopicTraffic:
        """Return the topic's counters, created on first use."""
        return self.traffic.for_topic(topic)

    # --- append

    def append(
        self,
        partition: Partition,
        records: Buffer | CheckedBatch,
        *,
        origin: AppendOrigin,
        required_acks: int,
        transaction_version: int = 0,
        requires_verification: bool = False,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """Append one batch to a partition that this node leads; `announce_appends` then wakes waiting fetches.

        Raises:
            KafkaError: the errors of `Partition.append_as_leader`; NOT_LEADER_OR_FOLLOWER with acks=all while nothing
                could confirm the batch: another node may lead, and this one would not know.
        """
        if required_acks == -1 and self.is_isolated and len(partition.isr.maximal) > 1:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"neither the quorum nor a follower of {partition.topic_partition} responds to node {self.node_id}",
            )
        clock = self._clock
        result = partition.append_as_leader(
            records,
            origin=origin,
            required_acks=required_acks,
            wall_ms=clock.wall_ms(),
            now_ms=clock.monotonic_ms(),
            transaction_version=transaction_version,
            requires_verification=requires_verification,
            guard=guard,
        )
        self._appended[partition.topic_partition] = None
        if partition.log.config.awaits_syncs:
            self._syncs.start_if_due(partition)
        return result

    def announce_appends(self) -> None:
        """Wake the fetches that wait for appended records: once for all appends of a request."""
        if self._appended:
            appended, self._appended = self._appended, {}
            self._wake_fetches(appended)

    def _on_synced(self, partition: Partition) -> None:
        """Complete requests that waited for the sync of a partition that this node still leads."""
        if not self.holds(partition) or not partition.is_leader:
            return
        topic_partition = partition.topic_partition
        if partition.on_synced(self._clock.monotonic_ms()):
            self.on_committed((topic_partition,))
        else:
            self.produce_purgatory.check(topic_partition)  # acks=1 waits for this disk alone
        with suppress(StorageError):  # the log directory is offline then, and the waiting requests have failed
            self._syncs.start_if_due(partition)

    def append_committed(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        transaction_version: int = 0,
        requires_verification: bool = False,
        guard: VerificationGuard | None = None,
    ) -> Delayed[ErrorCode]:
        """Append a coordinator's batch with acks=all; complete with NONE once it is committed."""
        try:
            partition = self.get(*topic_partition)
            result = self.append(
                partition,
                bytearray(batch),
                origin=AppendOrigin.COORDINATOR,
                required_acks=-1,
                transaction_version=transaction_version,
                requires_verification=requires_verification,
                guard=guard,
            )
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

    def is_leadership_confirmed(self, topic_partition: TopicPartition) -> bool:
        """Return whether this node leads the partition, and its in-sync followers have confirmed that lately.

        A node that was paused, or that nothing but a client can reach, still believes that it leads. If it returns
        False although this node leads, the followers are requested to confirm: the next call may be more successful.
        """
        partition = self._partitions.get(topic_partition)
        if partition is None or not partition.is_leader:
            return False
        now_ms = self._clock.monotonic_ms()
        if now_ms - partition.isr.leadership_confirmed_ms(now_ms) <= self.config.confirmation_age_max_ms:
            return True
        self.awaited_followers.await_followers(partition, now_ms)
        return False

    def awaits_followers(self) -> bool:
        """Return whether this node leads a partition whose records other replicas have to confirm."""
        return any(partition.is_leader and len(partition.isr.maximal) > 1 for partition in self._partitions.values())

    # --- waiting requests

    def wake(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Check all requests that wait for these partitions: more is committed, or their leader has changed."""
        for topic_partition in topic_partitions:
            self.produce_purgatory.check(topic_partition)
            self.commit_purgatory.check(topic_partition)
            self.delete_purgatory.check(topic_partition)
        self._wake_fetches(topic_partitions)

    def on_committed(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Check waiting produces and consumers: more is committed. Followers learn it with their next response."""
        for topic_partition in topic_partitions:
            self.produce_purgatory.check(topic_partition)
            self.commit_purgatory.check(topic_partition)
        self._wake_fetches(topic_partitions, followers_too=False)

    def _wake_fetches(self, topic_partitions: Collection[TopicPartition], *, followers_too: bool = True) -> None:
        """Check waiting fetches; each one once, however many of its partitions have changed."""
        sessions: dict[int, None] = {}
        for topic_partition in topic_partitions:
            for session in self.watchers.note_change(topic_partition):
                if followers_too or not session.is_followers:
                    sessions[session.session_id] = None
        for session_id in sessions:
            self.fetch_purgatory.check(session_id)
        for topic_partition in topic_partitions:
            self.fetch_purgatory.check(topic_partition)

    def on_follower_progress(self, partition: Partition, broker_id: NodeId) -> None:
        """Note that a follower has fetched a led partition: it may have caught up with the in-sync set now."""
        self.awaited_followers.on_fetched(broker_id, partition.topic_partition)
        if not partition.isr.is_complete:
            self.isr_manager.consider_expansion(partition)

    def on_log_start_raised(self, topic_partition: TopicPartition) -> None:
        """Let waiting fetches report it: the followers then delete as well, and report their log start."""
        self._wake_fetches((topic_partition,))

    def _on_isrs_changed(self, partitions: Collection[Partition]) -> None:
        now_ms = self._clock.monotonic_ms()
        for partition in partitions:
            partition.advance_high_watermark(now_ms)
        self.on_committed([partition.topic_partition for partition in partitions])

    def on_corruption(self, partition: Partition) -> None:
        """Hand over a partition that this node leads and cannot read any more, if another replica has everything."""
        if len(partition.isr.in_sync) > 1:
            index = partition.topic_partition.partition
            self._directories.assign(partition.topic_id, index, DIRECTORY_LOST)

    # --- metadata

    def _on_topic_config(self, partition: Partition) -> None:
        """Apply another configuration: records may now need a sync before they are confirmed, or need none any more."""
        if partition.is_leader:
            self._on_synced(partition)
        else:
            self.fetchers.respread(partition)

    def _on_published(self, are_brokers_changed: bool) -> None:
        if are_brokers_changed:
            self.isr_manager.check_incomplete()
            self.fetchers.retry_now()
        self.awaited_followers.complete_held_fetches()
        self.fetchers.tick(self._clock.monotonic_ms())
        self.disconnected_leaders.check_waiting()

    # --- time

    def tick(self, now_ms: int) -> int | None:
        """Expire waiting requests; fetch, and check the in-sync sets."""
        due_ms = self._due_ms()
        if now_ms < due_ms and not self.disconnected_leaders.is_awaited:
            return due_ms
        for purgatory in self._purgatories:
            if purgatory.due_ms <= now_ms:
                purgatory.expire(now_ms)
        if self.metadata_publisher.has_changes_left:
            self.metadata_publisher.apply_some()
        if self.awaited_followers.has_held_fetches:
            self.awaited_followers.complete_held_fetches()
        self.fetchers.tick(now_ms)
        self.disconnected_leaders.tick(now_ms)
        self.isr_manager.tick(now_ms)
        self.moves.tick(now_ms)
        self._directories.tick(now_ms)
        self._syncs.tick(now_ms)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        due_ms = self._due_ms()
        if self.disconnected_leaders.is_awaited:
            due_ms = min(due_ms, self.disconnected_leaders.next_deadline_ms() or due_ms)
        return None if due_ms == NEVER_MS else due_ms

    def _due_ms(self) -> int:
        """Return the next deadline, except for that of lost leaders."""
        if self.metadata_publisher.has_changes_left or self.awaited_followers.has_held_fetches:
            return self._clock.monotonic_ms()
        earliest_ms = self.fetchers.due_ms
        isr_due_ms = self.isr_manager.due_ms
        earliest_ms = isr_due_ms if isr_due_ms < earliest_ms else earliest_ms
        for waits in self._with_deadlines:
            earliest_ms = waits.due_ms if waits.due_ms < earliest_ms else earliest_ms
        return earliest_ms
