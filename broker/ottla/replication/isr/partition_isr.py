"""`PartitionIsr`: the in-sync replicas of one partition as its leader sees them: a state machine.

Facts arrive by ``on_...`` calls: metadata, fetches of followers, responses of the controller, and the time. Effects are
return values: a change to propose to the controller (`IsrChange`), or what to do after its response (`IsrOutcome`). The
machine does nothing by itself; `IsrManager` checks, proposes, and retries.

While a change is pending the leader counts with the larger of the two sets (the maximal ISR): a replica that is about
to join must have a record before it is committed, and so must one that is about to leave.

`TRANSITIONS` is the machine's table; `docs/states.md` has its diagram.

Source: kafka.cluster.Partition, CommittedPartitionState, PendingExpandIsr and PendingShrinkIsr of Apache Kafka 4.3;
KIP-497 (AlterPartition), KIP-903 (broker epochs), KIP-966 (minimum in-sync replicas).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ottla.errors import ErrorCode
from ottla.metadata.topics import PartitionRegistration
from ottla.replication.isr.isr_change import IsrChange, IsrOutcome
from ottla.replication.isr.remote_replica import LONG_AGO_MS, RemoteReplica
from ottla.replication.peer_brokers import ANY_BROKER_EPOCH, Brokers
from ottla.types import LeaderEpoch, NodeId, Offset, TopicPartition, Uuid
from ottla.wire.messages.alter_partition import AlterPartitionResponsePartitionData

logger = logging.getLogger(__name__)


class IsrState(Enum):
    """Whether this node leads and manages the ISR, and the change that it has proposed."""

    NOT_LEADING = "not leading"
    COMMITTED = "committed"
    EXPANDING = "expanding"
    SHRINKING = "shrinking"


class IsrEvent(Enum):
    """Causes of transitions."""

    LEADS = "this node leads (metadata)"
    FOLLOWS = "another node leads, or none (metadata)"
    STOPPED = "replica removed, or disk failed"
    CAUGHT_UP = "a follower has caught up"
    LAGGED = "a member lags for replica.lag.time.max.ms, or is silent"
    ACCEPTED = "changed (controller)"
    REJECTED = "rejected (controller)"
    UNDECIDED = "unknown yet (controller)"


_PENDING: Final = (IsrState.EXPANDING, IsrState.SHRINKING)

TRANSITIONS: Final[Mapping[tuple[IsrState, IsrEvent], IsrState]] = {
    **{(state, IsrEvent.LEADS): IsrState.COMMITTED for state in IsrState},
    **{(state, IsrEvent.FOLLOWS): IsrState.NOT_LEADING for state in IsrState},
    **{(state, IsrEvent.STOPPED): IsrState.NOT_LEADING for state in IsrState},
    (IsrState.COMMITTED, IsrEvent.CAUGHT_UP): IsrState.EXPANDING,
    (IsrState.COMMITTED, IsrEvent.LAGGED): IsrState.SHRINKING,
    **{(state, IsrEvent.ACCEPTED): IsrState.COMMITTED for state in _PENDING},
    **{(state, IsrEvent.REJECTED): IsrState.COMMITTED for state in _PENDING},
    **{(state, IsrEvent.UNDECIDED): state for state in _PENDING},
}

_NOT_APPLIED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
_AWAITS_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


@dataclass(slots=True, kw_only=True)
class PartitionIsr:
    """See the module. Times are monotonic.

    Attributes:
        brokers: the registered brokers, alive or fenced.
        lag_time_max_ms: replica.lag.time.max.ms.
        fetch_age_max_ms: a follower outside the set whose last fetch is older is away: it neither joins nor delays the
            HW, lest one that does not return join and leave repeatedly, or delay commits for the lag time.
        partition_epoch: counts the controller's changes to this partition.
        replicas, in_sync: broker ids as of the last registration or response of the controller.
        remote: on the leader, the progress of every other replica.
        pending: the change of ``in_sync`` that was proposed to the controller.
        epoch_start_offset: start of this leader's epoch; the log itself learns of the epoch with its first batch, so
            that an election of thousands of partitions writes no file for each.
    """

    topic_partition: TopicPartition
    topic_id: Uuid
    node_id: NodeId
    brokers: Brokers = field(default_factory=Brokers)
    lag_time_max_ms: int = 30_000
    fetch_age_max_ms: int = 1_000
    state: IsrState = IsrState.NOT_LEADING
    leader_epoch: LeaderEpoch = -1
    partition_epoch: int = -1
    replicas: tuple[NodeId, ...] = ()
    in_sync: tuple[NodeId, ...] = ()
    remote: dict[NodeId, RemoteReplica] = field(default_factory=dict)
    pending: IsrChange | None = None
    epoch_start_offset: Offset = 0

    @property
    def is_complete(self) -> bool:
        """Whether every replica is in sync."""
        return len(self.in_sync) >= len(self.replicas)

    @property
    def maximal(self) -> tuple[NodeId, ...]:
        """Replicas that must have a record before it is committed: `in_sync`, and the one that is about to join."""
        return self.in_sync if self.pending is None else self.pending.maximal

    def is_old(self, registration: PartitionRegistration) -> bool:
        """Return whether newer metadata is known: a proposal's response may arrive before the metadata log has it."""
        return registration.partition_epoch < self.partition_epoch

    # --- facts

    def on_leading(
        self,
        registration: PartitionRegistration,
        *,
        is_new_epoch: bool,
        is_new_leader: bool,
        end_offset: Offset,
        now_ms: int,
    ) -> None:
        """Note that this node leads; a new epoch starts at ``end_offset``.

        Args:
            registration: must not be old (`is_old`).
            is_new_epoch: followers have to fetch in another epoch from now on.
            is_new_leader: the progress of the followers in the epoch before is unknown.
            end_offset: the log end offset.
            now_ms: members have the full lag time from then on.
        """
        if self.state is IsrState.NOT_LEADING or registration.partition_epoch > self.partition_epoch:
            self._enter(IsrEvent.LEADS)
        self._take(registration)
        others = [replica for replica in self.replicas if replica != self.node_id]
        self.remote = {replica: self.remote.get(replica) or RemoteReplica(broker_id=replica) for replica in others}
        if is_new_epoch:
            self.epoch_start_offset = end_offset
            for replica in self.remote.values():
                replica.start_epoch(
                    is_new_leader=is_new_leader,
                    is_in_sync=replica.broker_id in self.in_sync,
                    leader_end_offset=end_offset,
                    now_ms=now_ms,
                )

    def on_following(self, registration: PartitionRegistration) -> None:
        """Note that another node leads, or none; ``registration`` must not be old."""
        self._enter(IsrEvent.FOLLOWS)
        self._take(registration)
        self.remote = {}

    def on_stopped(self) -> None:
        """Note that this node has no replica any more."""
        self._enter(IsrEvent.STOPPED)

    def on_leader_append(self, end_offset_before: Offset) -> None:
        """Note that the log has grown beyond ``end_offset_before``."""
        for replica in self.remote.values():
            replica.on_leader_append(end_offset_before)

    def on_expansion_check(self, *, high_watermark: Offset, now_ms: int, own_broker_epoch: int) -> IsrChange | None:
        """Return the change that adds the first follower that has caught up; None without one, or while one is pending.

        It has caught up when it has everything that is committed and everything from before this leader's epoch.
        """
        if self.state is not IsrState.COMMITTED or self.is_complete:
            return None
        enough = max(high_watermark, self.epoch_start_offset)
        for replica in self.remote.values():
            if (
                replica.broker_id not in self.in_sync
                and replica.log_end_offset >= enough
                and self._may_join(replica, now_ms)
            ):
                isr = (*self.in_sync, replica.broker_id)
                logger.info("%s: expanding the ISR from %s to %s", self.topic_partition, self.in_sync, isr)
                self._enter(IsrEvent.CAUGHT_UP)
                return self._propose(isr, maximal=isr, own_broker_epoch=own_broker_epoch)
        return None

    def on_lag_check(
        self,
        *,
        end_offset: Offset,
        now_ms: int,
        own_broker_epoch: int,
        silent: Iterable[NodeId] = (),
        enough: int = 2,
    ) -> IsrChange | None:
        """Return the change that removes followers that were behind for too long; None as for `on_expansion_check`.

        Members that are ``silent`` and behind are removed at once if ``enough`` members are left without them.
        """
        if self.state is not IsrState.COMMITTED or len(self.in_sync) < 2:
            return None
        kept = tuple(
            broker_id
            for broker_id in self.in_sync
            if broker_id == self.node_id or self._is_caught_up(broker_id, end_offset, now_ms)
        )
        delaying = {
            broker_id
            for broker_id in silent
            if broker_id in self.remote and self.remote[broker_id].log_end_offset < end_offset
        }.intersection(kept)
        if delaying and len(kept) - len(delaying) >= enough:
            kept = tuple(broker_id for broker_id in kept if broker_id not in delaying)
            for broker_id in delaying:
                self.remote[broker_id].exclude(now_ms)
        if kept == self.in_sync:
            return None
        behind = ", ".join(
            f"{replica.broker_id} at offset {replica.log_end_offset}"
            for replica in self.remote.values()
            if replica.broker_id in self.in_sync and replica.broker_id not in kept
        )
        logger.info(
            "%s: shrinking the ISR from %s to %s; silent, or behind the end offset %d for more than %d ms: %s",
            self.topic_partition,
            self.in_sync,
            kept,
            end_offset,
            self.lag_time_max_ms,
            behind,
        )
        self._enter(IsrEvent.LAGGED)
        return self._propose(kept, maximal=self.in_sync, own_broker_epoch=own_broker_epoch)

    def on_response(
        self, change: IsrChange, response: AlterPartitionResponsePartitionData, *, now_ms: int
    ) -> IsrOutcome:
        """Apply the controller's response to ``change``; return what to do: advance the high watermark, or retry."""
        if self.pending is not change:
            return IsrOutcome.IGNORED
        if response.error_code != ErrorCode.NONE:
            return self._on_rejected(change, ErrorCode(response.error_code), now_ms)
        if response.leader_epoch != self.leader_epoch or response.partition_epoch < self.partition_epoch:
            self._enter(IsrEvent.UNDECIDED)
            return IsrOutcome.AWAITS_METADATA
        self._enter(IsrEvent.ACCEPTED)
        self.in_sync = tuple(response.isr)
        for broker_id in self.in_sync:
            if broker_id in self.remote:
                self.remote[broker_id].rejections = 0
        self.partition_epoch = response.partition_epoch
        return IsrOutcome.COMMITTED

    def _on_rejected(self, change: IsrChange, code: ErrorCode, now_ms: int) -> IsrOutcome:
        if code is ErrorCode.INELIGIBLE_REPLICA:
            for broker_id in set(change.isr).intersection(self.remote).difference(self.in_sync):
                self.remote[broker_id].exclude(now_ms)
        if code in _NOT_APPLIED:
            self._enter(IsrEvent.REJECTED)
            logger.debug("%s: the controller rejected the ISR %s: %s", self.topic_partition, change.isr, code.name)
            return IsrOutcome.REJECTED
        self._enter(IsrEvent.UNDECIDED)
        if code in _AWAITS_METADATA:
            return IsrOutcome.AWAITS_METADATA
        logger.warning("%s: proposing the ISR %s again: %s", self.topic_partition, change.isr, code.name)
        return IsrOutcome.RETRY

    # --- derived values

    def committable_offset(
        self, own_offset: Offset, *, end_offset: Offset, min_in_sync: int, now_ms: int
    ) -> Offset | None:
        """Return the smallest confirmed offset of the maximal ISR; ``own_offset`` is this replica's.

        A replica outside that set that is about to join it counts as well, so that it does not fall behind just when it
        has caught up. None below the minimum of in-sync replicas: nothing is committed then (KIP-966).
        """
        if len(self.in_sync) < min_in_sync:
            return None
        offset = own_offset
        maximal = self.in_sync if self.pending is None else self.pending.maximal
        for replica in self.remote.values():
            if replica.log_end_offset < offset and (
                replica.broker_id in maximal
                or (
                    replica.is_caught_up(end_offset, now_ms=now_ms, lag_time_max_ms=self.lag_time_max_ms)
                    and self._may_join(replica, now_ms)
                )
            ):
                offset = replica.log_end_offset
        return offset

    def leadership_confirmed_ms(self, now_ms: int) -> int:
        """Return a time at which no other replica can have led the partition; ``now_ms`` if this one is in sync alone.

        Only a replica of the maximal ISR can be elected (cleanly), and one that still follows this leader has not been.
        """
        confirmed_ms = now_ms
        for broker_id in self.maximal:
            if broker_id != self.node_id:
                replica = self.remote.get(broker_id)
                confirmed_ms = min(confirmed_ms, LONG_AGO_MS if replica is None else replica.following_confirmed_ms)
        return confirmed_ms

    def _enter(self, event: IsrEvent) -> None:
        self.state = TRANSITIONS[self.state, event]
        if self.state not in _PENDING:
            self.pending = None

    def _take(self, registration: PartitionRegistration) -> None:
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.replicas = registration.replicas
        self.in_sync = registration.isr

    def _may_join(self, replica: RemoteReplica, now_ms: int) -> bool:
        """Return whether a follower outside the set is alive, as its leader and the controller see it."""
        is_active = now_ms - replica.last_active_ms <= self.fetch_age_max_ms
        is_excluded = now_ms < replica.excluded_until_ms
        return is_active and not is_excluded and self.brokers.may_join_isr(replica.broker_id, replica.broker_epoch)

    def _is_caught_up(self, broker_id: NodeId, end_offset: Offset, now_ms: int) -> bool:
        replica = self.remote.get(broker_id)
        return replica is not None and replica.is_caught_up(
            end_offset, now_ms=now_ms, lag_time_max_ms=self.lag_time_max_ms
        )

    def _propose(self, isr: tuple[NodeId, ...], *, maximal: tuple[NodeId, ...], own_broker_epoch: int) -> IsrChange:
        self.pending = IsrChange(
            topic_id=self.topic_id,
            partition=self.topic_partition.partition,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=isr,
            broker_epochs=tuple(self._broker_epoch(broker_id, own_broker_epoch) for broker_id in isr),
            maximal=maximal,
        )
        return self.pending

    def _broker_epoch(self, broker_id: NodeId, own_broker_epoch: int) -> int:
        if broker_id == self.node_id:
            return own_broker_epoch
        replica = self.remote.get(broker_id)
        return ANY_BROKER_EPOCH if replica is None or replica.broker_epoch is None else replica.broker_epoch
