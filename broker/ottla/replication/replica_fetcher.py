"""`ReplicaFetcher`: copies the partitions that one other node leads, over a connection of its own to it.

One fetch is in flight at a time, for all its partitions; its response is appended at once, with one write per
partition, and the next fetch is sent before anything else is done. The fetch session names only partitions that
changed, so a thousand idle ones cost one empty request per replica.fetch.wait.max.ms.

A fetch confirms to the leader that everything below its offset is on this replica. If records have to be on the disk
for that (ottla.acks.fsync, flush.messages), the next fetch is sent once they are: group commit, off the loop, one sync
of each partition for everything in a response (decision 0008).

A log that was truncated is not fetched for until its lower recovery point is on stable storage: the append would wait
for that on the loop (`LogState.awaited_checkpoint`).

A partition with an error backs off alone; at first for a moment, as after an election the leader may be the last node
to learn of it, then longer each time, up to replica.fetch.backoff.ms. A partition whose disk failed, whose leader epoch
is over, or whose data raised an unexpected exception has failed: it is not fetched until its metadata changes, and the
others continue.

Source: AbstractFetcherThread and ReplicaFetcherThread of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable

from ottla.errors import CorruptRecordError, ErrorCode, KafkaError, ShortageError, StorageError
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.quoting import describe_error
from ottla.replication.config import ReplicationConfig
from ottla.replication.fetch_session_handler import FetchSessionHandler, TopicKey
from ottla.replication.followed_partitions import Followed, FollowedPartitions
from ottla.replication.follower_syncs import FollowerSyncs
from ottla.replication.offset_reset import OffsetReset
from ottla.replication.partition import Partition
from ottla.replication.peer_brokers import PeerBrokers
from ottla.replication.quota import ReplicationQuota
from ottla.replication.truncation import truncation_offset
from ottla.types import NEVER_MS, Endpoint, NodeId, Offset, OffsetAndEpoch, TopicPartition
from ottla.wire.codec import Message
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData, ReplicaState

logger = logging.getLogger(__name__)

NAMED_MAX = 500
"""Partitions that a fetch names: after an election there are thousands, and the event loop needs 5 us for each. The
next fetch, which is sent at once, names further ones."""
_THROTTLED_RETRY_MS = 100
_CHECKPOINT_RETRY_MS = 20
_FIRST_BACKOFF_MS = 20
_DOUBLINGS_MAX = 16
_FAILURES_UNTIL_LOGGED = 2


class ReplicaFetcher:
    """See the module.

    Args of the constructor:
        leader: the node that is fetched from.
        connection: the peer channel's name of this fetcher's own connection.
        progressed: called with each partition of which consumers can read more, or less, than before.

    Attributes:
        unexpected_error: the last exception that no code expected; the simulator raises it again.
        lost_since_ms: when the connection to the leader broke, until it responds again; None while it responds, or is
            silent, which proves nothing.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        leader: NodeId,
        connection: str,
        peer_brokers: PeerBrokers,
        clock: Clock,
        config: Callable[[], ReplicationConfig],
        quota: ReplicationQuota,
        progressed: Callable[[Partition], object],
    ) -> None:
        self.leader = leader
        self.bytes_in = 0
        self.unexpected_error: Exception | None = None
        self.lost_since_ms: int | None = None
        self._node_id = node_id
        self._connection = connection
        self._peer_brokers = peer_brokers
        self._clock = clock
        self._config = config
        self._quota = quota
        self._progressed = progressed
        self._session = FetchSessionHandler()
        self._partitions = FollowedPartitions(clock)
        self._offset_reset = OffsetReset(
            node_id=node_id,
            leader=leader,
            partitions=self._partitions,
            send=self._send_to_leader,
            retry_ms=lambda: config().fetch_backoff_ms,
            truncate=self._truncate_to,
            fail=self._fail,
            progressed=progressed,
        )
        self._is_in_flight = False
        self._syncs = FollowerSyncs(
            partitions=self._partitions,
            on_done=lambda: self._fetch_or_retry(clock.monotonic_ms()),
            fail=self._fail,
            retry_later=self._retry_after_shortage,
        )
        self._retry_at_ms = 0
        self._failures = 0

    @property
    def failed(self) -> set[TopicPartition]:
        """The partitions that are not copied any more until their metadata changes."""
        return self._partitions.failed

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def max_lag(self) -> int:
        """Records that the slowest partition is behind its leader's high watermark."""
        return max((followed.lag or 0 for followed in self._partitions), default=0)

    # --- followed partitions

    def follow(self, partition: Partition) -> None:
        """Copy ``partition`` from now on, in its current leader epoch."""
        self._partitions.follow(partition)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop copying it; no error when it is not copied."""
        self._partitions.unfollow(topic_partition)

    def retry_now(self) -> None:
        """Fetch at once from a leader that could not be reached: it may have come back."""
        self._retry_at_ms = 0

    def _back_off(self, followed: Followed) -> None:
        followed.failures += 1
        self._partitions.delay(followed, self._backoff_ms(followed.failures))

    def _backoff_ms(self, failures: int) -> int:
        """Return the backoff after so many failures in a row: doubling up to replica.fetch.backoff.ms."""
        doublings = min(failures - 1, _DOUBLINGS_MAX)
        return min(_FIRST_BACKOFF_MS << doublings, self._config().fetch_backoff_ms)

    # --- schedule

    def tick(self, now_ms: int) -> None:
        """Resume partitions whose delay is over, and fetch."""
        self._partitions.resume_due(now_ms)
        if not self._is_busy and now_ms >= self._retry_at_ms:
            self._fetch_or_retry(now_ms)

    @property
    def _is_busy(self) -> bool:
        return self._is_in_flight or self._syncs.are_under_way

    @property
    def due_ms(self) -> int:
        """When `tick` has work."""
        partitions = self._partitions
        if not partitions.has_delayed:
            return NEVER_MS if self._is_busy or not len(partitions) else self._retry_at_ms
        due_ms = partitions.delayed_due_ms
        if not self._is_busy and partitions.has_fetchable:
            due_ms = min(due_ms, self._retry_at_ms)
        return due_ms

    def _send(self, endpoint: Endpoint, request: Message) -> Delayed[PeerResult]:
        config = self._config()
        return self._peer_brokers.channel.send(
            endpoint,
            config.inter_broker_listener,
            request,
            timeout_ms=config.socket_timeout_ms,
            purpose=self._connection,
        )

    def _send_to_leader(self, request: Message) -> Delayed[PeerResult] | None:
        endpoint = self._peer_brokers.endpoint_of(self.leader)
        return None if endpoint is None else self._send(endpoint, request)

    # --- fetching

    def _fetch_or_retry(self, now_ms: int) -> None:
        """Send a fetch; after an unexpected exception it is retried later, and other leaders' fetches continue."""
        try:
            self._fetch(now_ms)
        except Exception as error:
            self.unexpected_error = error
            self._is_in_flight = False
            self._session.on_error()
            self._failures += 1
            level = logging.DEBUG if self._failures > 1 else logging.ERROR
            logger.log(level, "fetch from node %d could not be sent: %s; retrying", self.leader, describe_error(error))
            self._retry_at_ms = now_ms + self._backoff_ms(self._failures)

    def _fetch(self, now_ms: int) -> None:
        endpoint = None
        if self._partitions.has_fetchable:
            endpoint = self._peer_brokers.endpoint_of(self.leader)
            if endpoint is None:
                self._retry_at_ms = now_ms + self._config().fetch_backoff_ms
        if endpoint is None:
            return
        if self._session.is_full:
            self._partitions.start_session()
        named = self._partitions.to_name(NAMED_MAX if self._session.is_granted else None)
        if self._syncs.start(named):
            return
        wanted = self._fetch_partitions(named, now_ms)
        if not self._partitions.has_fetchable:
            return  # the rest is throttled, or waits for a checkpoint
        config = self._config()
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=self._peer_brokers.broker_epoch()),
            max_wait_ms=0 if self._partitions.changed else config.fetch_wait_max_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_response_max_bytes,
        )
        self._session.fill(request, wanted, self._partitions.removed)
        self._partitions.removed.clear()
        self._is_in_flight = True
        self._send(endpoint, request).on_complete(self._on_response)

    def _fetch_partitions(self, named: list[Followed], now_ms: int) -> list[tuple[TopicKey, FetchPartition]]:
        """Return the request's entry of each partition that the next fetch names."""
        partitions = self._partitions
        size_bytes_max = self._config().fetch_max_bytes
        wanted = []
        for followed in named:
            partitions.changed.pop(followed.partition.topic_partition, None)
            if self._is_throttled(followed, now_ms):
                partitions.delay(followed, _THROTTLED_RETRY_MS)
                continue
            log = followed.partition.log
            if log.awaited_checkpoint is not None:
                partitions.delay(followed, _CHECKPOINT_RETRY_MS)
                continue
            followed.sent = (log.log_end_offset, followed.leader_epoch, log.latest_epoch, log.log_start_offset)
            followed.is_in_session = True
            index = followed.partition.topic_partition.partition
            partitions.removed.pop((followed.topic_key, index), None)
            entry = FetchPartition(
                partition=index,
                fetch_offset=log.log_end_offset,
                current_leader_epoch=followed.leader_epoch,
                last_fetched_epoch=log.latest_epoch,
                log_start_offset=log.log_start_offset,
                partition_max_bytes=size_bytes_max,
            )
            wanted.append((followed.topic_key, entry))
        return wanted

    def _is_throttled(self, followed: Followed, now_ms: int) -> bool:
        """Return whether the follower is throttled now; in-sync ones never are: they would delay produce requests."""
        quota = self._quota
        return (
            quota.is_limited
            and followed.lag != 0
            and quota.is_throttled(followed.partition.topic_partition)
            and quota.is_exceeded(now_ms)
        )

    def _on_response(self, response: PeerResult) -> None:
        self._is_in_flight = False
        if not isinstance(response, FetchResponse):
            assert isinstance(response, PeerFailure)
            self._on_unreachable(response)
            return
        if response.error_code != 0:
            self._on_rejected(ErrorCode(response.error_code))
            return
        if self._failures >= _FAILURES_UNTIL_LOGGED:
            logger.info("fetching from node %d again", self.leader)
        self._failures = 0
        self.lost_since_ms = None
        self._session.on_response(response.session_id)
        for topic in response.responses:
            for data in topic.partitions:
                followed = self._partitions.by_id.get((topic.topic_id, data.partition_index))
                if followed is not None and followed.sent is not None:
                    self._on_partition(followed, data)
        # At once: an append on the leader may wait for this very request.
        self._fetch_or_retry(self._clock.monotonic_ms())

    def _on_unreachable(self, failure: PeerFailure) -> None:
        """Start a new session; the first time at once, as a merely idle connection may have been closed."""
        self._session.on_error()
        self._failures += 1
        now_ms = self._clock.monotonic_ms()
        if self.lost_since_ms is None and failure in (PeerFailure.DISCONNECTED, PeerFailure.CONNECTION_REFUSED):
            self.lost_since_ms = now_ms
        if self._failures == 1 and failure is PeerFailure.DISCONNECTED:
            self._retry_at_ms = now_ms
            return
        if self._failures == _FAILURES_UNTIL_LOGGED:
            logger.info("fetch from node %d failed: %s; retrying", self.leader, failure.value)
        self._retry_at_ms = now_ms + self._backoff_ms(self._failures)

    def _on_rejected(self, code: ErrorCode) -> None:
        """Start a new session: the leader has lost this one, or never had it."""
        self._session.on_error(code)
        self._failures += 1
        now_ms = self._clock.monotonic_ms()
        self._retry_at_ms = now_ms if self._failures == 1 else now_ms + self._backoff_ms(self._failures)
        logger.debug("node %d rejected a fetch: %s", self.leader, code.name)

    # --- data of a response

    def _on_partition(self, followed: Followed, data: PartitionData) -> None:
        assert followed.sent is not None
        if followed.sent[0] != followed.partition.log.log_end_offset or data.preferred_read_replica >= 0:
            return  # the log has changed since the fetch was sent
        try:
            if data.error_code != 0:
                self._on_error(followed, ErrorCode(data.error_code))
            elif data.diverging_epoch.end_offset >= 0:
                self._truncate(followed, OffsetAndEpoch(data.diverging_epoch.end_offset, data.diverging_epoch.epoch))
            else:
                self._append(followed, data)
        except StorageError as error:
            self._on_failed_disk(followed, error)
        except ShortageError as error:
            self._retry_after_shortage(followed, error)
        except KafkaError as error:
            logger.log(
                logging.DEBUG if followed.failures else logging.ERROR,
                "%s: node %d sent a batch at or after offset %d that is rejected: %s; fetching it again",
                followed.partition.topic_partition,
                self.leader,
                followed.partition.log.log_end_offset,
                error,
            )
            self._back_off(followed)
        except Exception as error:
            self._on_unexpected_error(followed, error)

    def _retry_after_shortage(self, followed: Followed, error: ShortageError) -> None:
        level = logging.DEBUG if followed.failures else logging.WARNING
        logger.log(level, "%s: retrying: %s", followed.partition.topic_partition, error)
        self._back_off(followed)

    def _on_unexpected_error(self, followed: Followed, error: Exception) -> None:
        """Fail one partition, whatever the error: the others of this fetch, and the node, continue."""
        self.unexpected_error = error
        logger.error(
            "%s: replication failed until the leadership changes: %s",
            followed.partition.topic_partition,
            describe_error(error),
        )
        self._partitions.mark_failed(followed)

    def _on_failed_disk(self, followed: Followed, error: StorageError) -> None:
        logger.error("%s: not copied any more: %s", followed.partition.topic_partition, error)
        self._partitions.mark_failed(followed)

    def _fail(self, followed: Followed, error: Exception) -> None:
        if isinstance(error, StorageError):
            self._on_failed_disk(followed, error)
        else:
            self._on_unexpected_error(followed, error)

    def _append(self, followed: Followed, data: PartitionData) -> None:
        partition = followed.partition
        log = partition.log
        records = data.records
        assert records is None or isinstance(records, memoryview), "responses are decoded from one buffer"
        size_bytes = 0 if records is None else len(records)
        end_offset, start_offset = log.log_end_offset, log.log_start_offset
        is_changed = partition.append_as_follower(
            records or b"",
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
            wall_ms=self._clock.wall_ms(),
        )
        if size_bytes and log.log_end_offset == end_offset:
            # Fetched again at once, the leader would send the same again at once.
            raise CorruptRecordError(
                f"{size_bytes} bytes hold no whole batch of epoch {followed.leader_epoch} or before"
            )
        followed.failures = 0
        followed.lag = max(0, data.high_watermark - log.log_end_offset)
        if log.log_end_offset != end_offset or log.log_start_offset != start_offset:
            self._partitions.changed[partition.topic_partition] = None
        if size_bytes:
            self.bytes_in += size_bytes
            if self._quota.is_limited and self._quota.is_throttled(partition.topic_partition):
                self._quota.record(size_bytes, self._clock.monotonic_ms())
                if self._is_throttled(followed, self._clock.monotonic_ms()):
                    self._partitions.delay(followed, _THROTTLED_RETRY_MS)
        if is_changed:
            self._progressed(partition)

    def _truncate(self, followed: Followed, diverging: OffsetAndEpoch) -> None:
        log = followed.partition.log
        self._truncate_to(
            followed,
            truncation_offset(log, diverging),
            f"node {self.leader}, which leads epoch {followed.leader_epoch}, ended epoch {diverging.epoch} "
            f"at offset {diverging.offset}",
        )

    def _truncate_to(self, followed: Followed, offset: Offset, reason: str) -> None:
        log = followed.partition.log
        high_watermark = log.high_watermark
        logger.info(
            "%s: truncating the log from offset %d to %d: %s",
            followed.partition.topic_partition,
            log.log_end_offset,
            offset,
            reason,
        )
        log.truncate_to(offset)
        if log.log_end_offset < high_watermark:
            logger.warning(
                "%s: that is below the high watermark %d: an unclean election has lost records",
                followed.partition.topic_partition,
                high_watermark,
            )
        self._partitions.changed[followed.partition.topic_partition] = None
        self._progressed(followed.partition)

    def _on_error(self, followed: Followed, code: ErrorCode) -> None:
        topic_partition = followed.partition.topic_partition
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._offset_reset.start(followed)
        elif code is ErrorCode.FENCED_LEADER_EPOCH:
            logger.info("%s: leader epoch %d is over; waiting for the metadata", topic_partition, followed.leader_epoch)
            self._partitions.mark_failed(followed)
        else:
            is_usual = code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH)
            level = logging.DEBUG if is_usual or followed.failures else logging.WARNING
            logger.log(level, "%s: node %d rejects fetches with %s", topic_partition, self.leader, code.name)
            self._back_off(followed)
