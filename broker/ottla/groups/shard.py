"""`GroupCoordinatorShard`: the groups and offsets of one partition of ``__consumer_offsets``, in its leader's memory.

Offsets and consumer groups change by `replay` only. Members, generations and timers of classic groups are ahead of the
log, as in Kafka: they are soft until SyncGroup stores them, and clients join again when they are lost.

Source: GroupCoordinatorShard of Kafka.
"""

from collections.abc import Iterable
from typing import Any

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.shard import CoordinatorTimer
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.classic.records import group_of
from ottla.groups.config import GroupConfig
from ottla.groups.consumer.groups import ConsumerGroups
from ottla.groups.consumer.settings import ConsumerGroupSettings
from ottla.groups.log import GroupRecord
from ottla.groups.modern.groups import ModernGroups
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.offsets.expiry import expire_offsets
from ottla.groups.offsets.member_check import EpochGroup
from ottla.groups.offsets.store import OffsetKey, OffsetStore
from ottla.groups.result import GroupResult
from ottla.groups.share.deleted_topics import remove_deleted_topics
from ottla.groups.share.groups import ShareGroups
from ottla.groups.share.settings import ShareGroupSettings
from ottla.groups.streams.groups import StreamsGroups
from ottla.groups.streams.settings import StreamsGroupSettings
from ottla.ports import Clock, Random
from ottla.types import ProducerId
from ottla.wire.messages.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.wire.records import NO_PRODUCER_ID


class GroupCoordinatorShard:
    """See `CoordinatorShard`."""

    def __init__(
        self,
        *,
        config: GroupConfig,
        consumer_settings: ConsumerGroupSettings,
        share_settings: ShareGroupSettings,
        streams_settings: StreamsGroupSettings,
        topics: ClusterTopics,
        clock: Clock,
        random: Random,
        timer: CoordinatorTimer[GroupRecord],
    ) -> None:
        self.topics = topics
        self.offsets = OffsetStore()
        self.rebalancer = Rebalancer(config=config, clock=clock, random=random, timer=timer)
        self.consumers = ConsumerGroups(
            settings=consumer_settings,
            topics=topics,
            clock=clock,
            timer=timer,
            classic=self.rebalancer,
            is_of_other_protocol=lambda group_id: group_id in self.shares.groups or group_id in self.streams.groups,
        )
        self.shares = ShareGroups(
            settings=share_settings,
            topics=topics,
            clock=clock,
            timer=timer,
            classic=self.rebalancer,
            is_of_other_protocol=lambda group_id: self.epoch_group(group_id) is not None,
        )
        self.streams = StreamsGroups(
            settings=streams_settings,
            topics=topics,
            clock=clock,
            timer=timer,
            classic=self.rebalancer,
            is_of_other_protocol=lambda group_id: group_id in self.consumers.groups or group_id in self.shares.groups,
        )
        self._modern: tuple[ModernGroups[Any, Any, Any], ...] = (self.consumers, self.shares, self.streams)
        self._config = config
        self._clock = clock
        self._timer = timer

    def on_loaded(self) -> Iterable[GroupResult]:
        self._schedule_expiry()
        for kind in self._modern:
            kind.start()
        # What a former coordinator has not removed.
        remove_deleted_topics(self.shares)
        return self.rebalancer.start()

    def on_unloaded(self) -> None:
        self.rebalancer.stop()
        for kind in self._modern:
            kind.jobs.stop()

    def describe_contents(self) -> str:
        count = len(self.rebalancer.groups) + sum(len(kind.groups) for kind in self._modern)
        return f"{count} groups"

    # Groups

    def group_with_offsets(self, group_id: str) -> ClassicGroup | EpochGroup | None:
        """Return the group with this id; None also for a share group, which has no committed offsets."""
        return self.epoch_group(group_id) or self.rebalancer.groups.get(group_id)

    def epoch_group(self, group_id: str) -> EpochGroup | None:
        """Return the group with this id; None for a classic group or a share group."""
        return self.consumers.groups.get(group_id) or self.streams.groups.get(group_id)

    def is_modern(self, group_id: str) -> bool:
        """Return whether there is a group with this id that is not classic."""
        return self.epoch_group(group_id) is not None or group_id in self.shares.groups

    # State

    def replay(self, record: GroupRecord, producer_id: ProducerId) -> None:
        for kind in self._modern:
            if kind.replay(record):
                return
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue), "log.decode pairs keys and values"
            self._replay_offset(OffsetKey(key.group, key.topic, key.partition), value, producer_id)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue), "log.decode pairs keys and values"
            # Before anything changes: a record that contradicts itself leaves the group as it was.
            group = None if value is None else group_of(key.group, value)
            self.rebalancer.discard_group(key.group)
            if group is not None:
                for kind in self._modern:
                    kind.discard_group(key.group)
                self.rebalancer.groups[key.group] = group

    def _replay_offset(self, key: OffsetKey, value: OffsetCommitValue | None, producer_id: ProducerId) -> None:
        if value is None:
            self.offsets.remove(key)
            return
        if not self.is_modern(key.group_id):
            # A group that only commits offsets has no record of its own.
            self.rebalancer.get_or_create(key.group_id)
        if producer_id == NO_PRODUCER_ID:
            self.offsets.put(key, value)
        else:
            self.offsets.put_pending(producer_id, key, value)

    def replay_end_transaction_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        self.offsets.end_transaction(producer_id, commit=is_commit)

    # Expiry

    def _schedule_expiry(self) -> None:
        self._timer.schedule(("expiry",), self._config.offsets_retention_check_interval_ms, self._expire)

    def _expire(self) -> GroupResult:
        """Return the tombstones of expired offsets and groups; if the write fails, the next check retries."""
        self._schedule_expiry()
        now_ms, retention_ms = self._clock.wall_ms(), self._config.offsets_retention_ms
        expired: list[GroupRecord] = []
        groups: list[ClassicGroup | EpochGroup] = [
            *self.rebalancer.groups.values(),
            *self.consumers.groups.values(),
            *self.streams.groups.values(),
        ]
        for group in groups:
            expired += expire_offsets(self.offsets, group, now_ms=now_ms, retention_ms=retention_ms)
        return CoordinatorResult(records=expired, response=None, is_atomic=False)
