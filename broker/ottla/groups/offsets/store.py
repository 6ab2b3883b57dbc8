"""`OffsetStore`: the committed offsets of groups, and the pending offsets of open transactions.

An offset is kept as the value of its record. Offsets that a transaction commits (KIP-447) wait, by producer id, for
the transaction's end. The newest record of an offset counts, not the newest marker: a transaction that commits an
offset after a later record of it was committed does not change it. Otherwise compaction, which keeps the newest record,
would change the offset.

Source: OffsetMetadataManager of Kafka.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from ottla.types import ProducerId
from ottla.wire.messages.group_log import OffsetCommitValue

TopicOffsets: TypeAlias = dict[str, dict[int, OffsetCommitValue]]
"""By topic and partition."""


class OffsetKey(NamedTuple):
    """Group, topic and partition of an offset."""

    group_id: str
    topic: str
    partition: int


_PendingOffsets: TypeAlias = dict[ProducerId, OffsetCommitValue | None]
"""Of one key, in the order of their records; None if a later record of the key has been committed meanwhile."""


class OffsetStore:
    """The offsets of one shard. A topic or group without offsets is not in it."""

    def __init__(self) -> None:
        self._by_group: dict[str, TopicOffsets] = {}
        self._pending: dict[str, dict[OffsetKey, _PendingOffsets]] = {}
        self._keys_by_producer: dict[ProducerId, dict[OffsetKey, None]] = {}

    def put(self, key: OffsetKey, value: OffsetCommitValue) -> None:
        if self._pending:
            pending = self._pending_offsets(key)
            for producer_id in pending:
                pending[producer_id] = None
        self._put(key, value)

    def _put(self, key: OffsetKey, value: OffsetCommitValue) -> None:
        self._by_group.setdefault(key.group_id, {}).setdefault(key.topic, {})[key.partition] = value

    def remove(self, key: OffsetKey) -> None:
        """Remove an offset, also from open transactions, if it exists."""
        for producer_id in list(self._pending_offsets(key)):
            self._remove_pending(producer_id, key)
        topics = self._by_group.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        if partitions.pop(key.partition, None) is None or partitions:
            return
        del topics[key.topic]
        if not topics:
            del self._by_group[key.group_id]

    def get(self, key: OffsetKey) -> OffsetCommitValue | None:
        return self._by_group.get(key.group_id, {}).get(key.topic, {}).get(key.partition)

    def of_group(self, group_id: str) -> TopicOffsets:
        """Return the group's offsets; callers must not change them."""
        return self._by_group.get(group_id, {})

    def keys_of_group(self, group_id: str) -> Iterator[OffsetKey]:
        """Yield the keys of the group's offsets, those of open transactions last."""
        for topic, partitions in self.of_group(group_id).items():
            for partition in partitions:
                yield OffsetKey(group_id, topic, partition)
        for key in self._pending.get(group_id, {}):
            if self.get(key) is None:
                yield key

    def keys_of_topics(self, topics: frozenset[str]) -> Iterator[OffsetKey]:
        """Yield the keys of all groups' offsets in ``topics``."""
        for group_id, offsets in self._by_group.items():
            for topic in topics & offsets.keys():
                for partition in offsets[topic]:
                    yield OffsetKey(group_id, topic, partition)
        for keys in self._pending.values():
            for key in keys:
                if key.topic in topics and self.get(key) is None:
                    yield key

    # Transactions

    def put_pending(self, producer_id: ProducerId, key: OffsetKey, value: OffsetCommitValue) -> None:
        """Store an offset until the end of the producer's transaction."""
        self._keys_by_producer.setdefault(producer_id, {})[key] = None
        pending = self._pending.setdefault(key.group_id, {}).setdefault(key, {})
        pending.pop(producer_id, None)  # a second commit of the same offset is the newest record
        pending[producer_id] = value

    def end_transaction(self, producer_id: ProducerId, *, commit: bool) -> None:
        """Commit the producer's offsets to their groups, or drop them."""
        for key in list(self._keys_by_producer.get(producer_id, ())):
            if commit:
                self._commit_pending(producer_id, key)
            self._remove_pending(producer_id, key)

    def _commit_pending(self, producer_id: ProducerId, key: OffsetKey) -> None:
        pending = self._pending_offsets(key)
        value = pending[producer_id]
        if value is None:
            return
        for earlier in pending:
            if earlier == producer_id:
                break
            pending[earlier] = None
        self._put(key, value)

    def _remove_pending(self, producer_id: ProducerId, key: OffsetKey) -> None:
        of_group = self._pending[key.group_id]
        pending = of_group[key]
        del pending[producer_id]
        if not pending:
            del of_group[key]
        if not of_group:
            del self._pending[key.group_id]
        keys = self._keys_by_producer[producer_id]
        del keys[key]
        if not keys:
            del self._keys_by_producer[producer_id]

    def is_pending(self, key: OffsetKey) -> bool:
        """Return whether an open transaction would change the offset."""
        return bool(self._pending_offsets(key))

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._pending

    def _pending_offsets(self, key: OffsetKey) -> _PendingOffsets:
        return self._pending.get(key.group_id, {}).get(key, {})
