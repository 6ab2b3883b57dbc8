"""Fetch of a consumer: up to the high watermark, from the leader or, from v11 on, from any replica.

Source: ReplicaManager.readFromLog, ClientQuotaManager.maybeRecordAndGetThrottleTimeMs of Apache Kafka 4.3; KIP-392.
"""

from collections.abc import Iterable

from ottla.config.validation import RACK_AWARE_SELECTOR
from ottla.errors import ErrorCode, KafkaError
from ottla.log.partition_log import LogSlice
from ottla.purgatory.steps import Steps, batches
from ottla.replication.fetch.fetch_origin import FetchOrigin, NameLeader
from ottla.replication.fetch.fetch_round import PER_SLICE, STRAIGHT_MAX, FetchRound
from ottla.replication.fetch.replica_selector import preferred_read_replica
from ottla.replication.partition import Partition
from ottla.replication.sessions.fetch_session import FetchContext, FetchedPartition, FetchSession, PartitionKey
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse, PartitionData

_FIRST_VERSION_WITH_RACK = 11
_READ_COMMITTED = 1
_PARTITION_OVERHEAD_BYTES = 64
"""Approximate overhead of a partition's records in a response; counted for quotas."""


class ConsumerFetch(FetchRound):
    """See the module."""

    def __init__(
        self, origin: FetchOrigin, request: FetchRequest, session: FetchContext, name_leader: NameLeader
    ) -> None:
        super().__init__(origin, request, session, name_leader)
        self._permissions = origin.services.authorizer.changes
        if session.session is not None and not session.is_incremental:
            session.session.permissions = self._permissions  # all partitions are checked in this round
        self._may_read_followers = origin.api_version >= _FIRST_VERSION_WITH_RACK
        self._read_committed = request.isolation_level == _READ_COMMITTED
        self._rack = ""
        if self._may_read_followers and self.replicas.config.selector_class == RACK_AWARE_SELECTOR:
            self._rack = request.rack_id
        bytes_max = None if origin.charge is None else origin.charge.fetch_bytes_max()
        if bytes_max is not None:
            # A larger response would always exceed the quota.
            self._size_bytes_max = min(self._size_bytes_max, bytes_max)
            self._min_bytes = min(self._min_bytes, self._size_bytes_max)

    def _takes_slices(self, session: FetchSession) -> bool:
        is_changed = session.permissions != self._permissions
        return len(session.partitions if is_changed else session.pending) > STRAIGHT_MAX

    def _prepare(self, keys: Iterable[PartitionKey]) -> None:
        """Check quiet partitions, too, when the client may have lost its permission to read them."""
        session = self.session.session
        if session is not None and session.permissions != self._permissions:
            session.permissions = self._permissions
            session.pending.update(dict.fromkeys(key for key in session.partitions if key not in session.failed))

    def _prepare_in_slices(self, session: FetchSession) -> Steps[None]:
        """Do the same for many; those with errors are checked again when they are due (`FetchSession.retry_failed`)."""
        if session.permissions == self._permissions:
            return
        for keys in batches(list(session.partitions), 8 * PER_SLICE):
            session.pending.update(dict.fromkeys(key for key in keys if key not in session.failed))
            yield None
        session.permissions = self._permissions

    def _throttle(self, with_records: int) -> FetchResponse | None:
        """Return None for a response within the client's quota; else one without records, with the throttle time."""
        charge = self.origin.charge
        if charge is None:
            return None
        throttle_ms = charge.charge_fetch(self._size_bytes + with_records * _PARTITION_OVERHEAD_BYTES)
        if throttle_ms == 0:
            return None
        session = self.session.session
        if session is not None and not self.session.is_incremental:
            # The client has not learned the session id, which this response would have carried, and creates a new
            # session.
            self.origin.services.fetch_sessions.close(session)
            return FetchResponse(throttle_time_ms=throttle_ms)
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=self.session.session_id)

    def _partition_of(self, key: PartitionKey, fetched: FetchedPartition) -> Partition:
        topic = self._topic_of(key)
        if topic is not None:
            self.origin.require_on_topic(Operation.READ, topic)
        return super()._partition_of(key, fetched)

    def _has_new_data(self, partition: Partition, wanted: FetchedPartition) -> bool:
        if not partition.is_leader and not self._may_read_followers:
            return True
        is_other_epoch = 0 <= wanted.current_leader_epoch != partition.leader_epoch
        return is_other_epoch or partition.log.high_watermark > wanted.fetch_offset

    def _read_partition(self, key: PartitionKey, wanted: FetchedPartition, data: PartitionData) -> bool:
        partition = self._partition_of(key, wanted)
        if self._may_read_followers:
            partition.require_epoch(wanted.current_leader_epoch)
        else:
            partition.require_leadership(wanted.current_leader_epoch)
        self._fill_watermarks(partition, data)
        if self._diverges(partition, wanted, data) or self._is_redirected(partition, wanted, data):
            return False
        remaining_bytes = self._remaining_bytes(wanted)
        is_first = self._size_bytes == 0
        if remaining_bytes <= 0 and not is_first:
            return False
        found = partition.read_for_consumer(
            wanted.fetch_offset,
            size_bytes_max=max(remaining_bytes, 0),
            at_least_one=is_first,
            read_committed=self._read_committed,
        )
        self._add(partition, data, found)
        return found.records is None

    def _is_redirected(self, partition: Partition, wanted: FetchedPartition, data: PartitionData) -> bool:
        if not self._rack or not partition.is_leader:
            return False
        preferred = preferred_read_replica(
            partition, rack=self._rack, fetch_offset=wanted.fetch_offset, now_ms=self.origin.received_at_ms
        )
        if preferred is None:
            return False
        data.preferred_read_replica = preferred
        self._is_urgent = True
        return True

    def _add(self, partition: Partition, data: PartitionData, found: LogSlice) -> None:
        if found.aborted_transactions is not None:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in found.aborted_transactions
            ]
        if found.records is not None:
            data.records = found.records
            self._size_bytes += found.size_bytes
            traffic = self.replicas.traffic_of(partition.topic_partition.topic)
            traffic.fetch_requests += 1
            traffic.bytes_out += found.size_bytes


class RejectedFetch(FetchRound):
    """The Fetch of a client with a replica id but without permission to act for the cluster."""

    def _partition_of(self, key: PartitionKey, fetched: FetchedPartition) -> Partition:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _read_partition(self, key: PartitionKey, wanted: FetchedPartition, data: PartitionData) -> bool:
        self._partition_of(key, wanted)
        return False
