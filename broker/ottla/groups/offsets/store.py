"""`OffsetStore`: the committed offsets of groups, and the pending offsets of open transactions.

An offset is kept as the value of its record. Offsets that a transaction commits (KIP-447) wait, by producer id, for
the transaction's end.

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


class OffsetStore:
    """The offsets of one shard. A topic or group without offsets is not in it."""

    def __init__(self) -> None:
        self._by_group: dict[str, TopicOffsets] = {}
        self._pending: dict[ProducerId, dict[OffsetKey, OffsetCommitValue]] = {}

    def put(self, key: OffsetKey, value: OffsetCommitValue) -> None:
        self._by_group.setdefault(key.group_id, {}).setdefault(key.topic, {})[key.partition] = value

    def remove(self, key: OffsetKey) -> None:
        """Remove an offset, also from open transactions, if it exists."""
        for pending in self._pending.values():
            pending.pop(key, None)
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
        for key in self._pending_keys():
            if key.group_id == group_id and self.get(key) is None:
                yield key

    def keys_of_topics(self, topics: frozenset[str]) -> Iterator[OffsetKey]:
        """Yield the keys of all groups' offsets in ``topics``."""
        for group_id, offsets in self._by_group.items():
            for topic in topics & offsets.keys():
                for partition in offsets[topic]:
                    yield OffsetKey(group_id, topic, partition)
        for key in self._pending_keys():
            if key.topic in topics and self.get(key) is None:
                yield key

    # Transactions

    def put_pending(self, producer_id: ProducerId, key: OffsetKey, value: OffsetCommitValue) -> None:
        """Store an offset until the end of the producer's transaction."""
        self._pending.setdefault(producer_id, {})[key] = value

    def end_transaction(self, producer_id: ProducerId, *, commit: bool) -> None:
        """Commit the producer's offsets to their groups, or drop them."""
        for key, value in self._pending.pop(producer_id, {}).items():
            if commit:
                self.put(key, value)

    def is_pending(self, key: OffsetKey) -> bool:
        """Return whether an open transaction would change the offset."""
        return any(key in pending for pending in self._pending.values())

    def has_open_transaction(self, group_id: str) -> bool:
        return any(key.group_id == group_id for key in self._pending_keys())

    def _pending_keys(self) -> Iterator[OffsetKey]:
        seen = {key: None for pending in self._pending.values() for key in pending}
        yield from seen
