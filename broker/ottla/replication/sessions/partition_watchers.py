"""`PartitionWatchers`: the fetch sessions that check a partition again when something about it changes.

A fetch of a thousand quiet partitions then costs nothing: every change to a partition is noted in the sessions that
hold it, and only partitions with a note are checked.

A session that ends, or that no longer holds the partition, is not removed here at once: that would cost a walk through
all of its partitions. Its entries are dropped when the partition changes, or when they outnumber the others.
"""

from typing import TypeAlias

from ottla.replication.sessions.fetch_session import FetchedPartition, FetchSession, PartitionKey
from ottla.types import TopicPartition

_Watcher: TypeAlias = tuple[FetchSession, PartitionKey, FetchedPartition]

_CLEANED_AT_MIN = 8


class _Watchers(list[_Watcher]):
    """The sessions that hold one partition; ``cleaned_at``: the length at which ended ones are dropped."""

    __slots__ = ("cleaned_at",)

    def __init__(self) -> None:
        super().__init__()
        self.cleaned_at = _CLEANED_AT_MIN

    def drop_ended(self) -> None:
        # The next walk follows when the list has doubled, so that each addition pays for a constant part of it.
        self[:] = [watcher for watcher in self if _still_watches(*watcher)]
        self.cleaned_at = max(_CLEANED_AT_MIN, 2 * len(self))


class PartitionWatchers:
    """See the module."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        self._watchers: dict[TopicPartition, _Watchers] = {}

    def __len__(self) -> int:
        """Return the number of watched partitions."""
        return len(self._watchers)

    def watch(
        self, topic_partition: TopicPartition, session: FetchSession, key: PartitionKey, fetched: FetchedPartition
    ) -> None:
        """Note every change of the partition in ``session`` while that is open and has ``fetched`` under ``key``."""
        watchers = self._watchers.get(topic_partition)
        if watchers is None:
            watchers = self._watchers[topic_partition] = _Watchers()
        elif len(watchers) >= watchers.cleaned_at:
            watchers.drop_ended()
        if not fetched.is_watched:
            fetched.is_watched = True
            watchers.append((session, key, fetched))

    def note_change(self, topic_partition: TopicPartition) -> list[FetchSession]:
        """Note a change in every session that holds the partition; return these."""
        watchers = self._watchers.get(topic_partition)
        if watchers is None:
            return []
        notified = []
        for session, key, fetched in watchers:
            if session.is_open and session.partitions.get(key) is fetched:
                session.pending[key] = None
                session.notes += 1
                notified.append(session)
        if not notified:
            del self._watchers[topic_partition]
        elif len(notified) < len(watchers):
            watchers.drop_ended()
        return notified


def _still_watches(session: FetchSession, key: PartitionKey, fetched: FetchedPartition) -> bool:
    return session.is_open and session.partitions.get(key) is fetched
