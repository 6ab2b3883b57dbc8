"""Fetch (api key 1, v4-v18): read record batches; the answer waits until there are min_bytes or max_wait_ms is over.

v7 incremental sessions (KIP-227); v11 rack, reads from followers (KIP-392); v12 flexible, last fetched epoch and
diverging epoch (KIP-595); v13 topic ids (KIP-516); v15 replica state (KIP-903); v16 node endpoints (KIP-951); v17
replica directory; v18 high watermark (KIP-1166). On a controller's listener replicas of the quorum fetch its log.
Source: FetchRequest.json; KafkaApis.handleFetchRequest, DelayedFetch, ReplicaManager.readFromLog of Apache Kafka 4.3.
"""

from collections.abc import Hashable

from ottla.config.validation import RACK_AWARE_SELECTOR
from ottla.errors import CorruptRecordError, ErrorCode, KafkaError
from ottla.handlers.api import Answer, ListenerRole, RequestContext, serves
from ottla.handlers.moved_leader import add_moved_leader
from ottla.log.partition_log import LogSlice
from ottla.purgatory import Delayed
from ottla.replication.fetch_session import NO_SESSION, FetchContext, FetchedPartition, FetchSession, PartitionKey
from ottla.replication.partition import Partition
from ottla.replication.remote_replica import RemoteReplica
from ottla.replication.replica_selector import preferred_read_replica
from ottla.types import TopicPartition
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

_FIRST_VERSION_WITH_RACK = 11
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_REPLICA_STATE = 15
_FIRST_VERSION_WITH_NODE_ENDPOINTS = 16
_FIRST_VERSION_OF_THE_QUORUM = 17
_BEFORE_READING = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)
"""Found before a log is looked at: of aborted transactions Kafka says [] then, and null where nobody asked for them."""
_READ_COMMITTED = 1
_CONSUMER = -1
_AWAITED_WAIT_MS_MAX = 10
_PARTITION_OVERHEAD_BYTES = 64
"""What an answer has around the records of a partition, about; counted for quotas."""
# Looked up in their classes for every fetch they would cost as much as calls.
_CONTROLLER, _CLUSTER_ACTION = ListenerRole.CONTROLLER, Operation.CLUSTER_ACTION


def _fetch_metadata_log(context: RequestContext, request: FetchRequest) -> Answer:
    """Ask the quorum; where its voters are is said from v17 on, as by Kafka's."""
    answer = context.services.raft.handle_fetch(request)
    if context.api_version >= _FIRST_VERSION_OF_THE_QUORUM:
        return answer

    def without_endpoints(response: FetchResponse) -> FetchResponse:
        response.node_endpoints = []
        return response

    return answer.then(without_endpoints) if isinstance(answer, Delayed) else without_endpoints(answer)


@serves(api_key=1, versions=range(4, 19))
def fetch(context: RequestContext, request: FetchRequest) -> Answer:
    """Read now; wait for more unless there is enough, an error, or no time."""
    if context.connection.role is _CONTROLLER:
        context.require_on_cluster(Operation.CLUSTER_ACTION)
        return _fetch_metadata_log(context, request)
    has_state = context.api_version >= _FIRST_VERSION_WITH_REPLICA_STATE
    replica_id = request.replica_state.replica_id if has_state else request.replica_id
    is_follower = replica_id != _CONSUMER and context.may_on_cluster(_CLUSTER_ACTION)
    try:
        session = context.services.fetch_sessions.begin(
            request,
            uses_topic_ids=context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS,
            now_ms=context.received_at_ms,
            is_follower=is_follower,
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    round_: _Round
    if replica_id == _CONSUMER:
        round_ = _ConsumerRound(context, request, session)
    elif not is_follower:
        round_ = _RefusedRound(context, request, session)
    else:
        round_ = _FollowerRound(context, request, session, replica_id)
    if round_.read() or round_.wait_ms_max <= 0:
        return round_.respond()
    return context.services.replicas.fetch_purgatory.watch(
        round_.keys(),
        deadline_ms=context.received_at_ms + round_.wait_ms_max,
        try_complete=round_.retry,
        on_deadline=round_.read_and_respond,
    )


class _Round:
    """One fetch request being answered: may read several times, responds once.

    In a session only the pending partitions are looked at, again and again while they have something to say; what was
    found of the quiet ones is kept until something changes about them.
    """

    def __init__(self, context: RequestContext, request: FetchRequest, session: FetchContext) -> None:
        self.context = context
        self.request = request
        self.session = session
        self.replicas = context.services.replicas
        self.response = FetchResponse()
        self.wait_ms_max = request.max_wait_ms
        self._uses_topic_ids = context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
        size_bytes_max = context.services.config.fetch_max_bytes
        self._size_bytes_max = request.max_bytes if request.max_bytes < size_bytes_max else size_bytes_max
        self._min_bytes = request.min_bytes
        self._answers: dict[PartitionKey, PartitionData] = {}
        self._is_urgent = False
        self._size_bytes = 0
        if session.session is not None:
            self._watch(session.session, session.added)

    def _watch(self, session: FetchSession, added: list[PartitionKey]) -> None:
        """Have the session told of news; what this node does not know yet is tried again with each request.

        News of what does not exist must not be watched: any client may ask for it, and nobody would ever clean up.
        """
        session.unwatched.update(dict.fromkeys(added))
        metadata = self.context.services.metadata
        for key in list(session.unwatched):
            topic = self._topic_of(key)
            topic_partition = None if topic is None else TopicPartition(topic, key[2])
            if topic_partition is not None and metadata.partition(topic_partition) is not None:
                self.replicas.news.watch(topic_partition, session, key)
                session.pending[key] = None
                del session.unwatched[key]

    def keys(self) -> list[Hashable]:
        """Return what must change for another try to make sense."""
        if self.session.session is not None:
            return [self.session.session_id]
        return [
            TopicPartition(topic, key[2])
            for key in self.session.partitions
            if (topic := self._topic_of(key)) is not None
        ]

    def _pending(self) -> list[PartitionKey]:
        session = self.session.session
        return list(self.session.partitions if session is None else session.pending)

    def read(self) -> bool:
        """Read what is pending within the limits; return whether the client need not wait any longer."""
        self._is_urgent = False
        self._size_bytes = 0
        session = self.session.session
        for key in self._pending():
            answer = self._answers[key] = PartitionData(partition_index=key[2], records=b"", aborted_transactions=None)
            is_quiet = False
            try:
                is_quiet = self._read_partition(key, self.session.partitions[key].request, answer)
            except KafkaError as error:
                self._refuse(key, answer, error)
            if is_quiet and session is not None:
                session.pending.pop(key, None)
        return self._is_urgent or not self.session.partitions or self._size_bytes >= self._min_bytes

    def retry(self) -> FetchResponse | None:
        """Return the response if enough came in; cheap while nothing did."""
        if self._has_news() and self.read():
            return self.respond()
        return None

    def read_and_respond(self) -> FetchResponse:
        self.read()
        return self.respond()

    def respond(self) -> FetchResponse:
        """Put what was read into the response; in an incremental session only what changed."""
        topics: dict[object, FetchableTopicResponse] = {}
        with_data = []
        for key, answer in self._answers.items():
            fetched = self.session.partitions.get(key)
            if fetched is None:
                continue
            is_news = _note_what_is_told(fetched, answer)
            if self.session.is_incremental and not is_news:
                continue
            topic = topics.get(key[:2])
            if topic is None:
                topic = topics[key[:2]] = FetchableTopicResponse(topic=key[0], topic_id=key[1])
            topic.partitions.append(answer)
            if answer.records:
                with_data.append(key)
        self.response.session_id = self.session.session_id
        self.response.responses = list(topics.values())
        if self.session.session_id != NO_SESSION:
            self._send_to_the_end(with_data)
        return self.response

    def _send_to_the_end(self, served: list[PartitionKey]) -> None:
        """Let those that were served be the last next time, so that a small max_bytes starves nobody."""
        assert self.session.session is not None
        pending, partitions = self.session.session.pending, self.session.partitions
        for key in served:
            partitions[key] = partitions.pop(key)
            pending.pop(key, None)
            pending[key] = None

    def _topic_of(self, key: PartitionKey) -> str | None:
        return self.context.services.metadata.topic_name(key[1]) if self._uses_topic_ids else key[0]

    def _partition_of(self, key: PartitionKey) -> Partition:
        fetched = self.session.partitions[key]
        partition = fetched.partition
        if partition is not None and self.replicas.holds(partition):
            return partition
        topic = self._topic_of(key)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = fetched.partition = self.replicas.get(topic, key[2])
        return partition

    def _has_news(self) -> bool:
        """Return whether any partition has records beyond what is asked for, or cannot be read any more."""
        for key in self._pending():
            try:
                is_news = self._is_news(self._partition_of(key), self.session.partitions[key].request)
            except KafkaError:
                return True
            if is_news:
                return True
        return False

    def _is_news(self, partition: Partition, wanted: FetchPartition) -> bool:
        raise NotImplementedError

    def _read_partition(self, key: PartitionKey, wanted: FetchPartition, answer: PartitionData) -> bool:
        """Fill in ``answer``; return whether the partition has nothing more until something changes about it."""
        raise NotImplementedError

    def _fill_watermarks(self, partition: Partition, answer: PartitionData) -> None:
        log = partition.log
        answer.high_watermark = log.high_watermark
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.log_start_offset

    def _room_bytes(self, wanted: FetchPartition) -> int:
        left_bytes = self._size_bytes_max - self._size_bytes
        return wanted.partition_max_bytes if wanted.partition_max_bytes < left_bytes else left_bytes

    def _diverges(self, partition: Partition, wanted: FetchPartition, answer: PartitionData) -> bool:
        """Report where the reader's log parts from ours, if it does: it must truncate before it reads on."""
        if wanted.last_fetched_epoch < 0:
            return False
        end = partition.divergence(wanted.fetch_offset, wanted.last_fetched_epoch)
        if end is None:
            return False
        answer.diverging_epoch.epoch = end.epoch
        answer.diverging_epoch.end_offset = end.offset
        self._is_urgent = True
        return True

    def _refuse(self, key: PartitionKey, answer: PartitionData, error: KafkaError) -> None:
        self._is_urgent = True
        answer.error_code = error.code
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
        if error.code in _BEFORE_READING:
            answer.aborted_transactions = []
        topic = self._topic_of(key)
        if topic is None or self.context.services.metadata.topic(topic) is None:
            return
        self.replicas.traffic_of(topic).failed_fetch_requests += 1
        is_moved = error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        if is_moved and self.context.api_version >= _FIRST_VERSION_WITH_NODE_ENDPOINTS:
            add_moved_leader(self.context, answer.current_leader, self.response.node_endpoints, topic, key[2])


class _ConsumerRound(_Round):
    """A consumer reads up to the high watermark, from the leader or, from v11 on, from any replica."""

    def __init__(self, context: RequestContext, request: FetchRequest, session: FetchContext) -> None:
        super().__init__(context, request, session)
        if session.session is not None:
            self._ask_again_after_changes(session.session)
        self._may_read_followers = context.api_version >= _FIRST_VERSION_WITH_RACK
        self._read_committed = request.isolation_level == _READ_COMMITTED
        self._rack = ""
        if self._may_read_followers and self.replicas.config.selector_class == RACK_AWARE_SELECTOR:
            self._rack = request.rack_id
        bytes_max = None if context.charge is None else context.charge.fetch_bytes_max()
        if bytes_max is not None:
            # Of more nothing would ever be let through.
            self._size_bytes_max = min(self._size_bytes_max, bytes_max)
            self._min_bytes = min(self._min_bytes, self._size_bytes_max)

    def respond(self) -> FetchResponse:
        """Give out what was read, unless that is more than the client's quota: then nothing, and how long to wait."""
        charge = self.context.charge
        if charge is None:
            return super().respond()
        with_data = sum(1 for answer in self._answers.values() if answer.records)
        throttle_ms = charge.charge_fetch(self._size_bytes + with_data * _PARTITION_OVERHEAD_BYTES)
        if throttle_ms == 0:
            return super().respond()
        session = self.session.session
        if session is not None and not self.session.is_incremental:
            # It was to learn of the session with this answer, and asks for a new one.
            self.context.services.fetch_sessions.close(session)
            return FetchResponse(throttle_time_ms=throttle_ms)
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=self.session.session_id)

    def _ask_again_after_changes(self, session: FetchSession) -> None:
        """Look at quiet partitions, too, where the client may have lost its permission to read them."""
        changes = self.context.services.authorizer.changes
        if session.permissions != changes:
            session.permissions = changes
            session.pending.update(dict.fromkeys(session.partitions))

    def _partition_of(self, key: PartitionKey) -> Partition:
        topic = self._topic_of(key)
        if topic is not None:
            self.context.require_on_topic(Operation.READ, topic)
        return super()._partition_of(key)

    def _is_news(self, partition: Partition, wanted: FetchPartition) -> bool:
        if not partition.is_leader and not self._may_read_followers:
            return True
        is_other_epoch = 0 <= wanted.current_leader_epoch != partition.leader_epoch
        return is_other_epoch or partition.log.high_watermark > wanted.fetch_offset

    def _read_partition(self, key: PartitionKey, wanted: FetchPartition, answer: PartitionData) -> bool:
        partition = self._partition_of(key)
        if self._may_read_followers:
            partition.require_epoch(wanted.current_leader_epoch)
        else:
            partition.require_leadership(wanted.current_leader_epoch)
        self._fill_watermarks(partition, answer)
        if self._diverges(partition, wanted, answer) or self._is_sent_elsewhere(partition, wanted, answer):
            return False
        room_bytes = self._room_bytes(wanted)
        is_first = self._size_bytes == 0
        if room_bytes <= 0 and not is_first:
            return False
        found = partition.read_for_consumer(
            wanted.fetch_offset,
            size_bytes_max=max(room_bytes, 0),
            at_least_one=is_first,
            read_committed=self._read_committed,
        )
        self._add(partition, answer, found)
        return found.records is None

    def _is_sent_elsewhere(self, partition: Partition, wanted: FetchPartition, answer: PartitionData) -> bool:
        if not self._rack or not partition.is_leader:
            return False
        preferred = preferred_read_replica(
            partition, rack=self._rack, fetch_offset=wanted.fetch_offset, now_ms=self.context.received_at_ms
        )
        if preferred is None:
            return False
        answer.preferred_read_replica = preferred
        self._is_urgent = True
        return True

    def _add(self, partition: Partition, answer: PartitionData, found: LogSlice) -> None:
        if found.aborted_transactions is not None:
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in found.aborted_transactions
            ]
        if found.records is not None:
            answer.records = found.records
            self._size_bytes += found.size_bytes
            traffic = self.replicas.traffic_of(partition.topic_partition.topic)
            traffic.fetch_requests += 1
            traffic.bytes_out += found.size_bytes


class _RefusedRound(_Round):
    """Whoever calls itself a follower must be allowed to act for the cluster."""

    def _partition_of(self, key: PartitionKey) -> Partition:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _read_partition(self, key: PartitionKey, wanted: FetchPartition, answer: PartitionData) -> bool:
        self._partition_of(key)
        return False


class _FollowerRound(_Round):
    """A follower reads up to the log end, and thereby tells how far its own log goes."""

    def __init__(self, context: RequestContext, request: FetchRequest, session: FetchContext, replica_id: int) -> None:
        super().__init__(context, request, session)
        self._replica_id = context.connection.follower_id = replica_id
        if context.charge is not None:
            context.charge.is_exempt = True
        self._replica_epoch = request.replica_state.replica_epoch
        self._read_before: set[PartitionKey] = set()
        for key in session.forgotten:
            topic = self._topic_of(key)
            partition = None if topic is None else self.replicas.find(topic, key[2])
            if partition is not None and replica_id in partition.remote:
                partition.remote[replica_id].session = None
        if session.session is not None and not session.is_incremental:
            self.replicas.note_follower_session(replica_id, session.session)
        self._note_progress()
        self._was_awaited = self.replicas.awaits(replica_id, context.received_at_ms)
        if self._was_awaited:
            # It has not asked yet for a partition that it should: it must not sleep when it learns of that.
            self.wait_ms_max = min(self.wait_ms_max, _AWAITED_WAIT_MS_MAX)

    def retry(self) -> FetchResponse | None:
        if not self._was_awaited and self.replicas.awaits(self._replica_id, self.context.services.clock.monotonic_ms()):
            return self.read_and_respond()
        return super().retry()

    def _note_progress(self) -> None:
        """Take note of how far the follower is in what it names; then wake who waited for that, once for all."""
        committed = []
        for key in self._pending():
            wanted = self.session.partitions[key].request
            try:
                partition = self._partition_of(key)
                remote = self._remote(partition, wanted)
                log = partition.log
                is_known = log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset
                if not is_known or self._parts(partition, wanted):
                    continue
            except KafkaError:
                continue  # the answer will say so
            log_start_before = remote.log_start_offset
            is_further = partition.on_follower_fetch(
                remote,
                offset=wanted.fetch_offset,
                log_start_offset=wanted.log_start_offset,
                broker_epoch=self._replica_epoch,
                session=self.session.session,
                now_ms=self.context.received_at_ms,
            )
            self.replicas.on_follower_progress(partition, self._replica_id)
            if wanted.log_start_offset != log_start_before:
                self.replicas.delete_purgatory.check(partition.topic_partition)
            if is_further:
                committed.append(partition.topic_partition)
        if committed:
            self.replicas.on_committed(committed)

    def _remote(self, partition: Partition, wanted: FetchPartition) -> RemoteReplica:
        partition.require_leadership(wanted.current_leader_epoch)
        return partition.remote_replica(self._replica_id, self._replica_epoch, wanted.current_leader_epoch)

    @staticmethod
    def _parts(partition: Partition, wanted: FetchPartition) -> bool:
        return (
            wanted.last_fetched_epoch >= 0
            and partition.divergence(wanted.fetch_offset, wanted.last_fetched_epoch) is not None
        )

    def _is_news(self, partition: Partition, wanted: FetchPartition) -> bool:
        return (
            not partition.is_leader
            or partition.leader_epoch != wanted.current_leader_epoch
            or partition.log.log_end_offset > wanted.fetch_offset
            or partition.log.log_start_offset > wanted.log_start_offset
        )

    def _read_partition(self, key: PartitionKey, wanted: FetchPartition, answer: PartitionData) -> bool:
        partition = self._partition_of(key)
        remote = self._remote(partition, wanted)
        self._fill_watermarks(partition, answer)
        if 0 <= self.session.partitions[key].last_log_start_offset < answer.log_start_offset:
            self._is_urgent = True  # somebody may wait for all replicas to delete records
        if self._diverges(partition, wanted, answer):
            return False
        room_bytes = self._room_bytes(wanted)
        is_first = self._size_bytes == 0
        if (room_bytes <= 0 and not is_first) or self._is_throttled(partition, remote):
            return False
        found = partition.read_for_follower(
            wanted.fetch_offset, size_bytes_max=max(room_bytes, 0), at_least_one=is_first
        )
        if found.records is None:
            return True
        if remote.served_offset == wanted.fetch_offset and key not in self._read_before:
            # It was sent these before, and may have refused them for their CRC.
            self._read_before.add(key)
            if partition.find_damage(found, wanted.fetch_offset):
                self.replicas.on_damage(partition)
                raise CorruptRecordError(f"{partition.topic_partition}: damaged on the leader's disk")
        answer.records = found.records
        self._size_bytes += found.size_bytes
        return False

    def _note_served(self) -> None:
        for key, answer in self._answers.items():
            fetched = self.session.partitions.get(key)
            if answer.records and fetched is not None and fetched.partition is not None:
                remote = fetched.partition.remote.get(self._replica_id)
                if remote is not None:
                    remote.served_offset = fetched.request.fetch_offset

    def _is_throttled(self, partition: Partition, remote: RemoteReplica) -> bool:
        """Who is in sync is never held back."""
        quota = self.replicas.leader_quota
        return (
            quota.is_limited
            and remote.broker_id not in partition.in_sync
            and quota.is_throttled(partition.topic_partition)
            and quota.is_exceeded(self.context.services.clock.monotonic_ms())
        )

    def respond(self) -> FetchResponse:
        self.replicas.replication_bytes_out += self._size_bytes
        self._note_served()
        quota = self.replicas.leader_quota
        if quota.is_limited:
            throttled_bytes = sum(
                len(answer.records or b"")
                for key, answer in self._answers.items()
                if (topic := self._topic_of(key)) is not None and quota.is_throttled(TopicPartition(topic, key[2]))
            )
            if throttled_bytes:
                quota.record(throttled_bytes, self.context.services.clock.monotonic_ms())
        return super().respond()


def _note_what_is_told(fetched: FetchedPartition, answer: PartitionData) -> bool:
    """Remember what the response says of a partition; return whether an incremental response must list it."""
    is_news = (
        bool(answer.records)
        or answer.error_code != 0
        or fetched.had_error
        or answer.high_watermark != fetched.last_high_watermark
        or answer.log_start_offset != fetched.last_log_start_offset
        or answer.diverging_epoch.epoch >= 0
        or answer.preferred_read_replica >= 0
    )
    fetched.had_error = answer.error_code != 0
    fetched.last_high_watermark = answer.high_watermark
    fetched.last_log_start_offset = answer.log_start_offset
    return is_news
