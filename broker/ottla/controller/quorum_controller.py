"""`QuorumController`: decides changes of the cluster's metadata, while this node leads the quorum.

Requests are *decided* against the newest state and yield records and a response; the records are *replayed*, which
alone changes the state, and appended to the quorum; the response is sent when they are committed. A standby replays the
active controller's records and is ready to take over.

Source: QuorumController of Apache Kafka 4.3.
"""

import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import chain

from ottla.controller.config import ControllerConfig
from ottla.controller.controls import Controls
from ottla.controller.decision_queue import DecisionQueue
from ottla.controller.features import min_isr_records
from ottla.controller.metrics import ControllerCounters, ControllerMetrics, controller_metrics
from ottla.controller.pings import PingBroker
from ottla.controller.probes import ProbeBroker
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState, Position
from ottla.errors import ErrorCode, KafkaError, StorageError
from ottla.metadata.cluster import BrokerRegistration, ControllerRegistration
from ottla.metadata.image import MetadataImage, Provenance
from ottla.metadata.metadata_version import (
    CONTROLLER_REGISTRATION_LEVEL,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTIONS_LEVEL,
)
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER
from ottla.ports import Clock, Random
from ottla.purgatory import Delayed
from ottla.quoting import one_line
from ottla.raft.client import RaftClient
from ottla.raft.records import Batch, LeaderAndEpoch
from ottla.raft.snapshot import SnapshotReader
from ottla.security.delegation_tokens import DelegationTokens
from ottla.security.quotas.mutations import Mutations
from ottla.types import LeaderEpoch, NodeId, Offset, TopicIdPartition, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages import metadata_log

logger = logging.getLogger(__name__)


class QuorumController:
    """A `RaftListener`; see the module.

    Args of the constructor:
        bootstrap: the records of ``bootstrap.checkpoint``, which the cluster's first controller writes.
        tokens: the secrets of delegation tokens; None: there are none.
        has_broker: this process is also a broker (process.roles=broker,controller).
        probe: checks whether a broker's process still listens; None: only sessions detect a failed broker.
        ping: sends a broker a request to which it responds at once; None: only sessions detect one that hangs.
    """

    def __init__(
        self,
        *,
        raft: RaftClient[MetadataRecord],
        clock: Clock,
        random: Random,
        node_id: NodeId,
        cluster_id: str,
        bootstrap: Sequence[MetadataRecord],
        has_broker: bool,
        tokens: DelegationTokens | None = None,
        config: ControllerConfig | None = None,
        probe: ProbeBroker | None = None,
        ping: PingBroker | None = None,
    ) -> None:
        self._config = config or ControllerConfig()
        self._raft = raft
        self._clock = clock
        self._node_id = node_id
        self._bootstrap = bootstrap
        self._has_broker = has_broker
        self._incarnation_id = random.uuid()
        self._epoch: LeaderEpoch | None = None
        self._former_leader: NodeId | None = None
        """The last leader of the quorum besides this node."""
        self._committed = Position()
        self._uncommitted: deque[Position] = deque()
        self._queue = DecisionQueue(append=self._append, last_offset=lambda: _last_offset(self.state.image))
        self._next_idle_ms: int | None = None
        self._expected_tick_ms: int | None = None
        self.state = ControllerState()
        self._counters = ControllerCounters()
        controls = self._controls = Controls(
            state=self.state,
            raft=raft,
            clock=clock,
            random=random,
            node_id=node_id,
            cluster_id=cluster_id,
            config=self._config,
            probe=probe,
            ping=ping,
            upgrade_kraft_version=self._upgrade_kraft_version,
            tokens=tokens or DelegationTokens(None, clock, random),
        )
        self._brokers = controls.brokers
        self._heartbeats = controls.heartbeats
        self._probes, self._pings = controls.probes, controls.pings
        self._configs = controls.configs
        self._last_known_leaders = controls.last_known_leaders
        self._periodic = controls.periodic
        self._start_offset: Offset | None = None
        self._decisions = controls.by_request()

    def _upgrade_kraft_version(self, level: int, validate_only: bool) -> None:
        assert self._epoch is not None
        self._raft.upgrade_kraft_version(self._epoch, level, validate_only=validate_only)

    # --- requests

    @property
    def is_active(self) -> bool:
        """Whether this controller may decide: it leads, and has replayed every record before its epoch."""
        return self._epoch is not None

    @property
    def active_controller_id(self) -> NodeId | None:
        """Node id of the quorum's leader; None while there is none."""
        return self._raft.leader_and_epoch.leader_id

    def handle(
        self, request: Message, mutations: Mutations | None = None, *, requester: str | None = None
    ) -> Delayed[Message | KafkaError]:
        """Decide ``request``; complete the response when its records are committed.

        ``mutations`` bounds the changes of a request for topics; None for no bound. ``requester`` is the principal of
        a request for delegation tokens. The result is the API's response,
        or a KafkaError for every error field of the response: NOT_CONTROLLER when this controller is not active or
        ceases to be before the records are committed.
        """
        if self._epoch is None:
            return Delayed.of(_not_controller())
        decide = self._decisions[type(request)]
        more = [each for each in (mutations, requester) if each is not None]
        return self._queue.decide(partial(decide, request, *more))

    def _append(self, records: list[MetadataRecord]) -> Offset | KafkaError:
        """Replay and append one batch; return its last offset, or the error that prevented it."""
        if self._epoch is None:
            return _not_controller()
        before = self.state.position
        offset = self._raft.log_end_offset + len(records) - 1
        self._last_known_leaders.note_elections(records, offset)
        self.state.replay(records, Provenance(offset, self._epoch, self._clock.wall_ms()))
        self._uncommitted.append(self.state.position)
        self._restart_idle()
        try:
            appended_at = self._raft.append(self._epoch, records)
        except KafkaError as error:
            if error.code is not ErrorCode.RECORD_LIST_TOO_LARGE:
                self._resign(error)
                return _not_controller()
            # Nothing was appended, and this controller continues from its former state.
            self._revert_last(before)
            return error
        except ValueError as error:
            # A record that cannot be encoded. The decision should have rejected it; the node must not fail for it.
            logger.error("%d metadata records cannot be appended: %s", len(records), one_line(str(error)))
            self._revert_last(before)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        except StorageError as error:
            # The state is ahead of the log: it must not be used again.
            self._resign(error)
            return _not_controller()
        assert appended_at == offset, "the quorum appended elsewhere than at its end"
        return offset

    def _revert_last(self, before: Position) -> None:
        """Revert the records that were replayed and not appended."""
        self._uncommitted.pop()
        self.state.reset(before)

    # --- quorum

    def on_committed(self, batches: Sequence[Batch[MetadataRecord]]) -> None:
        """Replay another controller's records; complete the responses to this one's."""
        self._note_start()
        last = batches[-1]
        replayed_to = _last_offset(self.state.image)
        if last.last_offset > replayed_to:
            # In one step: a start has thousands of batches, each of which would create an image.
            records = chain.from_iterable(batch.records for batch in batches if batch.last_offset > replayed_to)
            self.state.replay(records, Provenance(last.last_offset, last.epoch, last.append_timestamp_ms))
            self._committed = self.state.position
        while self._uncommitted and _last_offset(self._uncommitted[0].image) <= last.last_offset:
            self._committed = self._uncommitted.popleft()
        self._queue.on_committed(last.last_offset)

    def on_snapshot(self, reader: SnapshotReader[MetadataRecord]) -> None:
        """Restart from the snapshot."""
        assert self._epoch is None, "a leader never loads a snapshot"
        self._note_start()
        self.state.reset(Position())
        provenance = Provenance(reader.last_contained_offset, reader.epoch, reader.last_contained_log_time_ms)
        self.state.replay((record for batch in reader.batches() for record in batch.records), provenance)
        self._committed = self.state.position
        self._queue.on_committed(reader.last_contained_offset)

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Become active or standby."""
        self._note_start()
        if self._epoch is not None:
            self._resign(_not_controller())
        if leader.leader_id == self._node_id:
            self._activate(leader.epoch)
        elif leader.leader_id is not None:
            self._former_leader = leader.leader_id

    def _note_start(self) -> None:
        """Record the log end at which this process started to follow the log."""
        if self._start_offset is None:
            self._start_offset = self._raft.log_end_offset

    def _activate(self, epoch: LeaderEpoch) -> None:
        logger.info("node %d is the active controller in epoch %d", self._node_id, epoch)
        self._epoch = epoch
        now_ms = self._clock.monotonic_ms()
        self._probes.start()
        self._pings.start(now_ms, self._former_leader)
        self._last_known_leaders.start()
        self._periodic.start(now_ms)
        self._heartbeats.start(list(self.state.image.cluster.brokers.values()), now_ms)
        if self.state.in_transaction:
            aborted = metadata_log.AbortTransactionRecord(reason="The controller that began it is gone.")
            self._write([MetadataRecord(aborted, 0)])
        if METADATA_VERSION not in self.state.image.features.levels:
            self._write(self._bootstrap_records())
        secret = self._controls.scram.missing_secret()
        if secret:
            self._write(secret)
        self._fence_previous_incarnation()
        self._queue.decide(self._register)
        self._queue.decide(self._elect_missing)
        self._restart_idle()
        for broker in sorted(self._other_brokers(), key=lambda each: each.broker_id):
            # The former controller's node may have ended with its broker, whose connection was to itself.
            self.on_broker_connection_lost(broker.broker_id, broker.epoch)

    def _fence_previous_incarnation(self) -> None:
        """Fence the former incarnation of this node's own broker: it has ended.

        This process holds the lock of its log directories. Kafka waits for the session to end.
        """
        broker = self.state.image.cluster.brokers.get(self._node_id)
        if not self._has_broker or broker is None or broker.is_fenced:
            return
        assert self._start_offset is not None
        if broker.epoch < self._start_offset:
            self._heartbeats.end_session(self._node_id)
            self._fence(broker, "it is the former process of this node")

    def _bootstrap_records(self) -> list[MetadataRecord]:
        """Return the first records of a cluster, in a transaction, as Kafka writes them."""
        records = list(self._bootstrap)
        for record in self._bootstrap:
            message = record.message
            if (
                isinstance(message, metadata_log.FeatureLevelRecord)
                and message.name == ELIGIBLE_LEADER_REPLICAS_VERSION
                and message.feature_level > 0
            ):
                records += min_isr_records(self.state, self._controls.default_min_isr)
        levels = [each.message for each in self._bootstrap if isinstance(each.message, metadata_log.FeatureLevelRecord)]
        if any(each.name == METADATA_VERSION and each.feature_level >= TRANSACTIONS_LEVEL for each in levels):
            begin = metadata_log.BeginTransactionRecord(name="Bootstrap records")
            end = metadata_log.EndTransactionRecord()
            records = [MetadataRecord(begin, 0), *records, MetadataRecord(end, 0)]
        return records

    @property
    def registration(self) -> ControllerRegistration:
        """This process's registration for the metadata."""
        return ControllerRegistration(
            controller_id=self._node_id,
            incarnation_id=self._incarnation_id,
            listeners=self._config.listeners,
            features=SUPPORTED_FEATURES,
        )

    def _register(self) -> ControllerResult[None] | None:
        image, mine = self.state.image, self.registration
        if image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
            return None
        if image.cluster.controllers.get(self._node_id) == mine:
            return None
        return ControllerResult(None, [mine.to_record()])

    def _elect_missing(self) -> ControllerResult[None]:
        return ControllerResult(None, self._controls.leader_and_isr.elect_missing(), is_atomic=False)

    def _write(self, records: list[MetadataRecord]) -> None:
        self._queue.decide(lambda: ControllerResult(None, records))

    def _resign(self, error: KafkaError) -> None:
        """Revert uncommitted records, and fail the requests that wait for them."""
        logger.info("node %d is not the active controller any more", self._node_id)
        self._epoch = None
        self._next_idle_ms = self._expected_tick_ms = None
        self._uncommitted.clear()
        self.state.reset(self._committed)
        self._queue.fail_all(error if error.code is ErrorCode.NOT_CONTROLLER else _not_controller())

    # --- failed brokers

    def on_broker_connection_lost(self, broker_id: NodeId, broker_epoch: Offset) -> None:
        """Probe whether the broker's process has ended, and fence it at once if so.

        To be called when a connection with heartbeats of ``broker_id`` in ``broker_epoch`` closes for any reason; it
        may be called for brokers that shut down in order, came back meanwhile or were never registered.
        """
        self._heartbeats.on_connection_lost(broker_id, broker_epoch)
        broker = self._unfenced_broker(broker_id, broker_epoch)
        if self._epoch is None or broker is None:
            return
        controller_epoch, heartbeats_before = self._epoch, self._heartbeats.count(broker_id, broker_epoch)

        def fence() -> bool:
            now = self._unfenced_broker(broker_id, broker_epoch)
            if self._epoch != controller_epoch or now is None:
                return False
            if self._heartbeats.count(broker_id, broker_epoch) != heartbeats_before:
                return False
            self._heartbeats.end_session(broker_id)
            self._counters.failed_probes += 1
            self._fence(now, "its process has ended: connection refused at its listener")
            return True

        self._probes.probe_broker(broker, self._clock.monotonic_ms(), fence)

    def _fence(self, broker: BrokerRegistration, reason: str) -> None:
        """Fence this incarnation of the broker, unless a decision before this one does."""

        def decide() -> ControllerResult[None] | None:
            now = self._unfenced_broker(broker.broker_id, broker.epoch)
            return None if now is None else self._brokers.fence(now, reason)

        self._queue.decide(decide)

    def _unfenced_broker(self, broker_id: NodeId, broker_epoch: Offset) -> BrokerRegistration | None:
        """Return this incarnation of the broker; None if it is fenced or another one is registered."""
        broker = self.state.image.cluster.brokers.get(broker_id)
        return None if broker is None or broker.is_fenced or broker.epoch != broker_epoch else broker

    def _other_brokers(self) -> list[BrokerRegistration]:
        """Return the brokers that are not fenced, without this process's own."""
        own = self._node_id if self._has_broker else None
        brokers = self.state.image.cluster.brokers.values()
        return [each for each in brokers if not each.is_fenced and each.broker_id != own]

    def last_seen_leader(self, topic_id: Uuid, partition_id: int) -> NodeId:
        """Return the partition's last leader that was seen alive, as far as this controller knows; -1 for none."""
        topic = self.state.image.topics.by_id.get(topic_id)
        registration = None if topic is None else topic.partitions.get(partition_id)
        if registration is None:
            return NO_LEADER
        return self._last_known_leaders.last_seen(TopicIdPartition(topic_id, partition_id), registration)

    def metrics(self) -> ControllerMetrics:
        """Return the metrics as of now."""
        return controller_metrics(
            self.state,
            self._configs,
            self._counters,
            is_active=self.is_active,
            unsteady_brokers=self._unsteady_count(),
            committed_offset=self._queue.committed_offset,
        )

    def _unsteady_count(self) -> int:
        """Count the unsteady brokers; a controller that is not active does not know them."""
        now_ms, brokers = self._clock.monotonic_ms(), self.state.image.cluster.brokers.values()
        return sum(self._probes.is_unsteady(broker, now_ms) for broker in brokers) if self.is_active else 0

    # --- schedule

    def tick(self, now_ms: int) -> int | None:
        """Fence brokers whose session timed out, run due elections, append a NoOpRecord as sign of life to followers.

        Return ``now_ms`` when something was due, else what `next_deadline_ms` would.
        """
        if self._epoch is None:
            return None
        if self._expected_tick_ms is not None and now_ms > self._expected_tick_ms:
            # This process was busy or paused and received no heartbeats meanwhile.
            self._heartbeats.extend(now_ms - self._expected_tick_ms)
            self._pings.extend(now_ms - self._expected_tick_ms)
        due_ms = self.next_deadline_ms()
        if self._queue.is_running:
            # What is due waits for the end of the decision, as requests do.
            self._queue.run_slice()
            self._expected_tick_ms = self.next_deadline_ms()
            return now_ms
        if due_ms is not None and now_ms >= due_ms:
            self._do_due(now_ms)
            self._expected_tick_ms = self.next_deadline_ms()
            return now_ms
        self._expected_tick_ms = due_ms
        return due_ms

    def _do_due(self, now_ms: int) -> None:
        for broker, silent_ms in self._pings.run_round(self._other_brokers(), now_ms):
            self._heartbeats.end_session(broker.broker_id)
            self._probes.note_fenced(broker)
            self._counters.failed_pings += 1
            self._fence(broker, f"it hangs: no response for {silent_ms} ms")
        for broker in self._brokers.end_stale(now_ms):
            self._counters.ended_sessions += 1
            self._fence(broker, "its session timed out")
        self._queue.decide(partial(self._periodic.run_round, now_ms))
        if self._next_idle_ms is not None and now_ms >= self._next_idle_ms and self._epoch is not None:
            self._write([MetadataRecord(metadata_log.NoOpRecord(), 0)])
            self._restart_idle()

    def next_deadline_ms(self) -> int | None:
        """The next session timeout, election or NoOpRecord; None while not active."""
        if self._epoch is None:
            return None
        if self._queue.is_running:
            return self._clock.monotonic_ms()
        earliest_ms = self._heartbeats.next_deadline_ms()
        for deadline_ms in (self._periodic.next_deadline_ms(), self._pings.next_deadline_ms(), self._next_idle_ms):
            if deadline_ms is not None and (earliest_ms is None or deadline_ms < earliest_ms):
                earliest_ms = deadline_ms
        return earliest_ms

    def _restart_idle(self) -> None:
        if self._config.idle_interval_ms > 0:
            self._next_idle_ms = self._clock.monotonic_ms() + self._config.idle_interval_ms


def _last_offset(image: MetadataImage) -> Offset:
    return image.provenance.last_contained_offset


def _not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")
