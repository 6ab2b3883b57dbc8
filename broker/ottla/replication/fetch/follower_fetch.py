"""Fetch of a follower: up to the log end; it also reports the follower's own log end.

Source: ReplicaManager.fetchMessages, Partition.updateFollowerFetchState of Apache Kafka 4.3; KIP-903 (broker epochs).
"""

from collections.abc import Iterable

from ottla.errors import CorruptRecordError, KafkaError
from ottla.purgatory.steps import Steps, batches
from ottla.replication.fetch.fetch_origin import FetchOrigin, NameLeader
from ottla.replication.fetch.fetch_round import PER_SLICE, FetchRound
from ottla.replication.isr.remote_replica import RemoteReplica
from ottla.replication.partition import Partition
from ottla.replication.sessions.fetch_session import FetchContext, FetchedPartition, FetchSession, PartitionKey
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

_AWAITED_WAIT_MS_MAX = 10


class FollowerFetch(FetchRound):
    """See the module."""

    def __init__(
        self,
        origin: FetchOrigin,
        request: FetchRequest,
        session: FetchContext,
        name_leader: NameLeader,
        *,
        replica_id: int,
    ) -> None:
        super().__init__(origin, request, session, name_leader)
        self._replica_id = replica_id
        self._replica_epoch = request.replica_state.replica_epoch
        self._read_before: set[PartitionKey] = set()
        self._listed_session = session.session if session.session_id else None
        self._was_awaited = False
        self._throttled_bytes = 0
        if self._listed_session is not None and not session.is_incremental:
            self.replicas.awaited_followers.note_session(replica_id, self._listed_session)

    def _prepare_in_slices(self, session: FetchSession) -> Steps[None]:
        removed, self.session.removed = self.session.removed, []
        for keys in batches(removed, PER_SLICE):
            self._end_sessions(keys)
            yield None
        yield from super()._prepare_in_slices(session)

    def _end_sessions(self, removed: Iterable[PartitionKey]) -> None:
        for key in removed:
            topic = self._topic_of(key)
            partition = None if topic is None else self.replicas.find(topic, key[2])
            if partition is not None and self._replica_id in partition.isr.remote:
                partition.isr.remote[self._replica_id].session = None

    def _prepare(self, keys: Iterable[PartitionKey]) -> None:
        """Record the follower's log end in the partitions that it names; then wake waiting requests, once for all."""
        self._end_sessions(self.session.removed)
        committed = []
        for key in keys:
            wanted = self.session.partitions.get(key)
            if wanted is not None and self._note_progress(key, wanted):
                assert wanted.partition is not None
                committed.append(wanted.partition.topic_partition)
        if committed:
            self.replicas.on_committed(committed)

    def _note_progress(self, key: PartitionKey, wanted: FetchedPartition) -> bool:
        """Record the log end of one partition; return whether more is committed now."""
        try:
            partition = self._partition_of(key, wanted)
            remote = self._remote(partition, wanted)
            log = partition.log
            is_known = log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset
            if not is_known or self._has_diverged(partition, wanted):
                return False
        except KafkaError:
            return False  # reading will report the error
        log_start_before = remote.log_start_offset
        is_further = partition.on_follower_fetch(
            remote,
            offset=wanted.fetch_offset,
            log_start_offset=wanted.log_start_offset,
            broker_epoch=self._replica_epoch,
            session=self._listed_session,
            now_ms=self.origin.received_at_ms,
        )
        self.replicas.on_follower_progress(partition, self._replica_id)
        if wanted.log_start_offset != log_start_before:
            self.replicas.delete_purgatory.check(partition.topic_partition)
        return is_further

    def _finish_preparing(self) -> None:
        self.replicas.isr_manager.followers.on_fetch(self._replica_id, self.origin.received_at_ms, self.wait_ms_max)
        self._was_awaited = self.replicas.awaited_followers.awaits(self._replica_id, self.origin.received_at_ms)
        is_new_session = self._listed_session is not None and not self.session.is_incremental
        if self._was_awaited or is_new_session:
            # It has yet to fetch a partition: its fetch must not wait when it learns of that. And only the fetch after
            # a session's first response confirms that it follows this leader.
            self.wait_ms_max = min(self.wait_ms_max, _AWAITED_WAIT_MS_MAX)

    def _must_hurry(self) -> bool:
        now_ms = self.origin.services.clock.monotonic_ms()
        return not self._was_awaited and self.replicas.awaited_followers.awaits(self._replica_id, now_ms)

    def _remote(self, partition: Partition, wanted: FetchedPartition) -> RemoteReplica:
        partition.require_leadership(wanted.current_leader_epoch)
        return partition.remote_replica(self._replica_id, self._replica_epoch, wanted.current_leader_epoch)

    @staticmethod
    def _has_diverged(partition: Partition, wanted: FetchedPartition) -> bool:
        return (
            wanted.last_fetched_epoch >= 0
            and partition.divergence(wanted.fetch_offset, wanted.last_fetched_epoch) is not None
        )

    def _has_new_data(self, partition: Partition, wanted: FetchedPartition) -> bool:
        return (
            not partition.is_leader
            or partition.leader_epoch != wanted.current_leader_epoch
            or partition.log.log_end_offset > wanted.fetch_offset
            or partition.log.log_start_offset > wanted.log_start_offset
        )

    def _read_partition(self, key: PartitionKey, wanted: FetchedPartition, data: PartitionData) -> bool:
        partition = self._partition_of(key, wanted)
        remote = self._remote(partition, wanted)
        self._fill_watermarks(partition, data)
        if 0 <= wanted.last_log_start_offset < data.log_start_offset:
            self._is_urgent = True  # a client may wait for all replicas to delete records
        if self._diverges(partition, wanted, data):
            return False
        remaining_bytes = self._remaining_bytes(wanted)
        is_first = self._size_bytes == 0
        if (remaining_bytes <= 0 and not is_first) or self._is_throttled(partition, remote):
            return False
        found = partition.read_for_follower(
            wanted.fetch_offset, size_bytes_max=max(remaining_bytes, 0), at_least_one=is_first
        )
        if found.records is None:
            return True
        if remote.served_offset == wanted.fetch_offset and key not in self._read_before:
            # The same records were sent before; the follower may have rejected them for their CRC.
            self._read_before.add(key)
            if partition.find_corruption(found, wanted.fetch_offset):
                self.replicas.on_corruption(partition)
                raise CorruptRecordError(f"{partition.topic_partition}: corrupt on the leader's disk")
        data.records = found.records
        self._size_bytes += found.size_bytes
        return False

    def _is_throttled(self, partition: Partition, remote: RemoteReplica) -> bool:
        """Return whether the follower is throttled now; in-sync followers never are."""
        quota = self.replicas.leader_quota
        return (
            quota.is_limited
            and remote.broker_id not in partition.isr.in_sync
            and quota.is_throttled(partition.topic_partition)
            and quota.is_exceeded(self.origin.services.clock.monotonic_ms())
        )

    def _collect(self, keys: Iterable[PartitionKey]) -> None:
        keys = list(keys)
        for key in keys:
            data, fetched = self._partition_data[key], self.session.partitions.get(key)
            if not data.records or fetched is None or fetched.partition is None:
                continue
            remote = fetched.partition.isr.remote.get(self._replica_id)
            if remote is not None:
                remote.served_offset = fetched.fetch_offset
            quota = self.replicas.leader_quota
            if quota.is_limited and quota.is_throttled(fetched.partition.topic_partition):
                self._throttled_bytes += len(data.records)
        super()._collect(keys)

    def _complete(self) -> FetchResponse:
        self.replicas.replication_bytes_out += self._size_bytes
        if self._throttled_bytes:
            self.replicas.leader_quota.record(self._throttled_bytes, self.origin.services.clock.monotonic_ms())
        if self._listed_session is not None:
            self._listed_session.responded_ms = self.origin.services.clock.monotonic_ms()
        return super()._complete()
