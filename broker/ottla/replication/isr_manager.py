"""`IsrManager`: expands and shrinks the in-sync sets of the partitions that this node leads.

A follower that has caught up is proposed at once; one that the controller rejected is proposed again while it stays
caught up. A follower outside the set that has just fallen behind stops delaying the high watermark after the lag time.
Lagging members are checked every half replica.lag.time.max.ms, some partitions per tick; more often while a follower is
silent.

Source: ReplicaManager.maybeShrinkIsr and Partition.submitAlterPartition of Apache Kafka 4.3.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection

from ottla.metadata.topics import enough_in_sync
from ottla.ports import Clock
from ottla.replication.config import EXPANSION_CHECK_INTERVAL_MS, ReplicationConfig
from ottla.replication.isr.alter_partition_manager import AlterPartitionManager
from ottla.replication.isr.isr_change import IsrChange, IsrOutcome
from ottla.replication.partition import Partition
from ottla.replication.peer_brokers import PeerBrokers
from ottla.replication.silent_followers import SilentFollowers
from ottla.types import NodeId, TopicPartition
from ottla.wire.messages.alter_partition import AlterPartitionResponsePartitionData

_CHECKED_PER_TICK = 500
_SILENT_CHECK_INTERVAL_MS = 1_000
"""Between two checks while a follower is silent: a set may have had another change pending, or too few members."""

logger = logging.getLogger(__name__)


class IsrManager:
    """See the module.

    Attributes:
        followers: which followers still fetch; it has to be notified of every fetch.

    Args of the constructor:
        changed: called with the partitions whose in-sync sets have changed, or whose proposals were dropped: more may
            be committed now.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        peer_brokers: PeerBrokers,
        clock: Clock,
        config: Callable[[], ReplicationConfig],
        changed: Callable[[Collection[Partition]], object],
    ) -> None:
        self._peer_brokers = peer_brokers
        self._clock = clock
        self._config = config
        self._changed = changed
        self._alter_partition = AlterPartitionManager(
            node_id=node_id, peer_brokers=peer_brokers, clock=clock, on_all_responses=self._notify_changed
        )
        self.followers = SilentFollowers(lambda: config().follower_silence_max_ms)
        self._led: dict[TopicPartition, Partition] = {}
        self._incomplete: dict[TopicPartition, Partition] = {}
        self._changed_partitions: dict[TopicPartition, Partition] = {}
        self._shrink_queue: deque[Partition] = deque()
        self._expansion_queue: deque[Partition] = deque()
        self._next_shrink_check_ms = 0
        self._silent_members: set[NodeId] = set()
        """Of the sets that the current check has seen so far."""
        self._next_expansion_check_ms = 0
        self.expansions = 0
        self.shrinks = 0

    @property
    def failed_updates(self) -> int:
        """Number of proposals that the controller rejected or did not receive."""
        return self._alter_partition.failed_updates

    def lead(self, partition: Partition) -> None:
        """Manage a partition that this node leads, or that has changed while it does."""
        if len(partition.isr.replicas) > 1:
            if not self._led:
                self._next_shrink_check_ms = self._clock.monotonic_ms() + self._config().lag_time_max_ms // 2
            self._led[partition.topic_partition] = partition
            self._expect_members(partition)
        self._note_completeness(partition)
        self.consider_expansion(partition)

    def _expect_members(self, partition: Partition) -> None:
        now_ms = self._clock.monotonic_ms()
        for broker_id in partition.isr.in_sync:
            if broker_id in partition.isr.remote:
                self.followers.expect(broker_id, now_ms)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop managing a partition that another node leads or that is deleted; no error when it is not managed."""
        self._led.pop(topic_partition, None)
        self._incomplete.pop(topic_partition, None)

    def _note_completeness(self, partition: Partition) -> None:
        if partition.isr.is_complete:
            self._incomplete.pop(partition.topic_partition, None)
        else:
            self._incomplete[partition.topic_partition] = partition

    def consider_expansion(self, partition: Partition) -> None:
        """Propose the first follower that is out of sync and has caught up, if there is one."""
        change = partition.isr.on_expansion_check(
            high_watermark=partition.log.high_watermark,
            now_ms=self._clock.monotonic_ms(),
            own_broker_epoch=self._peer_brokers.broker_epoch(),
        )
        if change is not None:
            self._propose(partition, change)

    def check_incomplete(self) -> None:
        """Check all incomplete in-sync sets again: brokers that may join, or may delay the HW, have changed."""
        self._expansion_queue = deque(self._incomplete.values())

    def _check_expansion(self, partition: Partition, now_ms: int) -> None:
        self.consider_expansion(partition)
        if partition.is_leader and partition.advance_high_watermark(now_ms):
            self._changed_partitions[partition.topic_partition] = partition

    def _propose(self, partition: Partition, change: IsrChange) -> None:
        self._alter_partition.propose(
            change,
            is_wanted=lambda: partition.isr.pending is change,
            on_response=lambda response: self._on_response(partition, change, response),
        )

    def _on_response(
        self, partition: Partition, change: IsrChange, response: AlterPartitionResponsePartitionData
    ) -> None:
        outcome = partition.isr.on_response(change, response, now_ms=self._clock.monotonic_ms())
        if outcome is IsrOutcome.RETRY:
            self._alter_partition.back_off()
            self._propose(partition, change)
        elif outcome in (IsrOutcome.COMMITTED, IsrOutcome.REJECTED):
            if outcome is IsrOutcome.COMMITTED:
                if change.is_expansion:
                    self.expansions += 1
                    self._expect_members(partition)
                else:
                    self.shrinks += 1
                self._note_completeness(partition)
            self._changed_partitions[partition.topic_partition] = partition
            if outcome is IsrOutcome.COMMITTED:
                self.consider_expansion(partition)

    def _notify_changed(self) -> None:
        if self._changed_partitions:
            changed, self._changed_partitions = self._changed_partitions, {}
            self._changed(changed.values())

    # --- time

    def tick(self, now_ms: int) -> None:
        if now_ms >= self._next_expansion_check_ms and self._incomplete:
            self._next_expansion_check_ms = now_ms + EXPANSION_CHECK_INTERVAL_MS
            self.check_incomplete()
        if self._expansion_queue:
            for _ in range(min(len(self._expansion_queue), _CHECKED_PER_TICK)):
                self._check_expansion(self._expansion_queue.popleft(), now_ms)
            self._notify_changed()
        if now_ms >= self.followers.due_ms:
            self._note_silent(self.followers.update(now_ms), now_ms)
        if now_ms >= self._next_shrink_check_ms and self._led:
            self._next_shrink_check_ms = now_ms + self._shrink_check_interval_ms()
            self._shrink_queue = deque(self._led.values())
            self._silent_members.clear()
        if self._shrink_queue:
            self._check_some(now_ms)
        self._alter_partition.tick(now_ms)

    def _note_silent(self, silent: Collection[NodeId], now_ms: int) -> None:
        for broker_id in silent:
            logger.warning("broker %d does not fetch any more: ISRs with enough members do without it", broker_id)
        if silent:
            self._next_shrink_check_ms = now_ms

    def _shrink_check_interval_ms(self) -> int:
        lag_check_ms = self._config().lag_time_max_ms // 2
        return min(lag_check_ms, _SILENT_CHECK_INTERVAL_MS) if self.followers.silent else lag_check_ms

    def _check_some(self, now_ms: int) -> None:
        own_broker_epoch, silent = self._peer_brokers.broker_epoch(), self.followers.silent
        for _ in range(min(len(self._shrink_queue), _CHECKED_PER_TICK)):
            partition = self._shrink_queue.popleft()
            change = partition.isr.on_lag_check(
                end_offset=partition.log.log_end_offset,
                now_ms=now_ms,
                own_broker_epoch=own_broker_epoch,
                silent=silent,
                enough=enough_in_sync(partition.min_in_sync),
            )
            if change is not None:
                self._propose(partition, change)
            self._silent_members.update(silent.intersection(partition.isr.in_sync))
        if not self._shrink_queue:
            self.followers.remove(silent - self._silent_members)

    @property
    def due_ms(self) -> int:
        """When `tick` has work."""
        if self._shrink_queue or self._expansion_queue:
            return self._clock.monotonic_ms()
        due_ms = min(self._alter_partition.due_ms, self.followers.due_ms)
        if self._led and self._next_shrink_check_ms < due_ms:
            due_ms = self._next_shrink_check_ms
        if self._incomplete and self._next_expansion_check_ms < due_ms:
            due_ms = self._next_expansion_check_ms
        return due_ms
