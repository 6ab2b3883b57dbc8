"""`ShareShard`: the share-partitions of one partition of ``__share_group_state``, in its leader's memory.

A share-partition's records are a snapshot and the updates since; after some hundred updates a snapshot is written
instead of the next one. Records before the oldest of the last snapshots are not needed any more: the coordinator
deletes them from the log (`redundant_before`). A share-partition that is not written to would keep everything behind
its snapshot in the log, so that cold ones are written again now and then.

Source: ShareCoordinatorShard, ShareCoordinatorOffsetsManager of Apache Kafka 4.3.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Protocol, TypeAlias

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.shard import CoordinatorPartition
from ottla.ports import Clock
from ottla.share_state.batches import combine
from ottla.share_state.config import ShareStateConfig
from ottla.share_state.log import ShareRecord, ShareSnapshot, ShareState, ShareUpdate
from ottla.share_state.persister import UNINITIALIZED_OFFSET, SharePartitionKey, StateBatch
from ottla.types import LeaderEpoch, Offset, ProducerId, Uuid

Result: TypeAlias = CoordinatorResult[ShareRecord, None]

NO_EPOCH: Final = -1
"""As an epoch in a request: not checked."""
_CHECKED_PER_SLICE: Final = 500
_DELETED_PER_SLICE: Final = 100
"""Encoding and replaying a record takes some 10 us."""
_BYTES_PER_SLICE: Final = 50_000
"""Of state batches and group ids: 10,000 batches take some 3 ms, and an append has a megabyte at most."""
_BYTES_PER_BATCH: Final = 20


class Topics(Protocol):
    """The cluster's topics: `metadata.cache.MetadataCache`."""

    def topic_name(self, topic_id: Uuid) -> str | None:
        """Return the name of a topic that exists."""

    def partition_count(self, name: str) -> int | None:
        """Return the number of partitions of a topic that exists."""


class SharePartition:
    """A share-partition: its state, the newest epochs that were seen, the updates since a snapshot."""

    __slots__ = ("leader_epoch", "state", "state_epoch", "updates")

    def __init__(self, state: ShareState) -> None:
        self.state = state
        self.state_epoch = state.state_epoch
        self.leader_epoch = state.leader_epoch
        self.updates = 0


class ShareShard:
    """See `CoordinatorShard`.

    Attributes:
        partitions: by key; only `replay` changes it.
    """

    def __init__(
        self,
        *,
        config: ShareStateConfig,
        clock: Clock,
        partition: CoordinatorPartition[ShareRecord],
        topics: Topics,
    ) -> None:
        self.partitions: dict[SharePartitionKey, SharePartition] = {}
        self.config = config
        self.clock = clock
        self._partition = partition
        self._topics = topics
        self._keys_by_topic: dict[Uuid, dict[SharePartitionKey, None]] = {}
        self._snapshot_offsets: OrderedDict[SharePartitionKey, Offset] = OrderedDict()
        """Offset of each last snapshot; in the order of the offsets, because a newer one is moved to the end."""
        self._last_offset: Offset = 0
        """Of the last snapshot or tombstone."""
        self._hot_count = 0
        """How many share-partitions have been changed since they were last snapshotted as cold."""
        self._checking: Iterator[SharePartitionKey] | None = None
        self._deleting: deque[Iterator[SharePartitionKey]] = deque()

    # CoordinatorShard

    def replay(self, record: ShareRecord, producer_id: ProducerId) -> None:
        """Set, change or remove a share-partition."""
        if isinstance(record, ShareUpdate):
            self._replay_update(record)
        elif record.state is None:
            self._remove(record.key)
        else:
            self._replay_snapshot(record.key, record.state)

    def _replay_update(self, update: ShareUpdate) -> None:
        found = self.partitions.get(update.key)
        if found is None:
            # Its snapshot has been pruned, so that a later record of the log replaces this one, or removes it.
            self._add(
                update.key,
                ShareState(
                    update.snapshot_epoch,
                    0,
                    update.leader_epoch,
                    update.start_offset,
                    update.delivery_complete_count,
                    create_ms=0,
                    write_ms=0,
                    batches=update.batches,
                ),
            ).updates = 1
            return
        state = found.state
        start_offset = state.start_offset if update.start_offset == UNINITIALIZED_OFFSET else update.start_offset
        leader_epoch = state.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch
        found.state = ShareState(
            state.snapshot_epoch,
            state.state_epoch,
            leader_epoch,
            start_offset,
            update.delivery_complete_count,
            state.create_ms,
            state.write_ms,
            combine(state.batches, update.batches, start_offset),
        )
        found.leader_epoch = max(found.leader_epoch, update.leader_epoch)
        found.updates += 1

    def _replay_snapshot(self, key: SharePartitionKey, state: ShareState) -> None:
        found = self.partitions.get(key)
        if found is None:
            self._add(key, state)
        else:
            self._hot_count += _is_hot(state) - _is_hot(found.state)
            found.state = state
            found.state_epoch = max(found.state_epoch, state.state_epoch)
            found.leader_epoch = max(found.leader_epoch, state.leader_epoch)
            if found.updates >= self.config.update_records_per_snapshot:
                found.updates = 0
        self._last_offset = self._partition.replayed_offset()
        self._snapshot_offsets[key] = self._last_offset
        self._snapshot_offsets.move_to_end(key)

    def _add(self, key: SharePartitionKey, state: ShareState) -> SharePartition:
        added = self.partitions[key] = SharePartition(state)
        self._keys_by_topic.setdefault(key.topic_id, {})[key] = None
        self._hot_count += _is_hot(state)
        return added

    def _remove(self, key: SharePartitionKey) -> None:
        self._last_offset = self._partition.replayed_offset()
        removed = self.partitions.pop(key, None)
        if removed is None:
            return
        self._hot_count -= _is_hot(removed.state)
        self._snapshot_offsets.pop(key, None)
        of_topic = self._keys_by_topic[key.topic_id]
        del of_topic[key]
        if not of_topic:
            del self._keys_by_topic[key.topic_id]

    def replay_end_transaction_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Do nothing: the topic has no transactions."""

    def on_loaded(self) -> Iterable[Result]:
        """Start the check for cold share-partitions, and remove the state of topics that have been deleted meanwhile.

        Kafka keeps the state of a topic that was deleted while no coordinator was loaded. The metadata of this node is
        not older than its election, and whatever wrote the state knew the topic before that.
        """
        self._schedule_check(self.config.cold_snapshot_interval_ms)
        self.delete_topics([topic_id for topic_id in self._keys_by_topic if self._topics.topic_name(topic_id) is None])
        return ()

    def on_unloaded(self) -> None:
        """Do nothing: no response waits in the shard."""

    def describe_contents(self) -> str:
        return f"{len(self.partitions)} share-partitions"

    # Decisions

    def has_partition(self, key: SharePartitionKey) -> bool:
        """Return whether the cluster has the partition."""
        name = self._topics.topic_name(key.topic_id)
        count = None if name is None else self._topics.partition_count(name)
        return count is not None and key.partition < count

    def change(
        self,
        key: SharePartitionKey,
        *,
        leader_epoch: LeaderEpoch,
        start_offset: Offset,
        delivery_complete_count: int,
        batches: Iterable[StateBatch],
    ) -> ShareRecord:
        """Return the record that changes a share-partition that is known: an update, or a snapshot after enough."""
        found = self.partitions[key]
        state = found.state
        if found.updates < self.config.update_records_per_snapshot:
            return ShareUpdate(
                key,
                state.snapshot_epoch,
                leader_epoch,
                start_offset,
                delivery_complete_count,
                combine((), batches, start_offset),
            )
        now_ms = self.clock.wall_ms()
        new_start = state.start_offset if start_offset == UNINITIALIZED_OFFSET else start_offset
        snapshot = ShareState(
            state.snapshot_epoch + 1,
            state.state_epoch,
            leader_epoch,
            new_start,
            delivery_complete_count,
            create_ms=now_ms,
            write_ms=now_ms,
            batches=combine(state.batches, batches, new_start),
        )
        return ShareSnapshot(key, snapshot)

    # Pruning

    @property
    def redundant_before(self) -> Offset:
        """The offset before which no record of the log is needed."""
        return next(iter(self._snapshot_offsets.values()), self._last_offset)

    def _schedule_check(self, delay_ms: int) -> None:
        self._partition.schedule(("cold",), delay_ms, self._snapshot_cold)

    def _snapshot_cold(self) -> Result:
        """Return new snapshots of share-partitions whose last one is old, some per slice.

        Nothing if all are cold already: then nothing else is written either that could be pruned.
        """
        if self._checking is None:
            self._checking = iter(list(self.partitions) if self._hot_count else ())
        now_ms = self.clock.wall_ms()
        records: list[ShareRecord] = []
        checked = size = 0
        for key in islice(self._checking, _CHECKED_PER_SLICE):
            checked += 1
            found = self.partitions.get(key)
            if found is not None and now_ms - found.state.write_ms >= self.config.cold_snapshot_interval_ms:
                state = found.state
                records.append(
                    ShareSnapshot(key, state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_ms=now_ms))
                )
                size += len(key.group_id) + _BYTES_PER_BATCH * len(state.batches)
                if size >= _BYTES_PER_SLICE:
                    break
        if checked == _CHECKED_PER_SLICE or size >= _BYTES_PER_SLICE:
            self._schedule_check(0)
        else:
            self._checking = None
            self._schedule_check(self.config.cold_snapshot_interval_ms)
        return CoordinatorResult(records=records, response=None, is_atomic=False)

    # Deleted topics

    def delete_topics(self, topic_ids: Iterable[Uuid]) -> None:
        """Write tombstones for all share-partitions of topics, a few at a time."""
        deleted = [
            iter(list(self._keys_by_topic[topic_id])) for topic_id in topic_ids if topic_id in self._keys_by_topic
        ]
        if deleted:
            self._deleting.extend(deleted)
            self._partition.schedule(("deleted topics",), 0, self._delete_some)

    def _delete_some(self) -> Result:
        keys: list[SharePartitionKey] = []
        size = 0
        while self._deleting and len(keys) < _DELETED_PER_SLICE and size < _BYTES_PER_SLICE:
            key = next(self._deleting[0], None)
            if key is None:
                self._deleting.popleft()
            else:
                keys.append(key)
                size += len(key.group_id)
        if self._deleting:
            self._partition.schedule(("deleted topics",), 0, self._delete_some)
        records: list[ShareRecord] = [ShareSnapshot(key, None) for key in keys if key in self.partitions]
        return CoordinatorResult(records=records, response=None, is_atomic=False)


def _is_hot(state: ShareState) -> bool:
    return state.create_ms == state.write_ms
