"""`ShareWaiters`: the ShareFetches that wait for records of a share-partition, of which one at a time is woken.

An append or an acknowledgement makes records available once: the ShareFetch that waits longest tries that partition
alone. The next one is woken when it has tried and has left something. None tries the same twice without a change.
"""

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, Protocol

from ottla.purgatory import Delayed, Purgatory
from ottla.share_partitions.key_queue import KeyQueue
from ottla.share_state.persister import SharePartitionKey
from ottla.types import NEVER_MS, TopicPartition

_WOKEN_AT_ONCE: Final = 16
"""Waiters of a share-partition that is gone: there may be thousands."""


class Waiter(Protocol):
    """A ShareFetch that waits."""

    def wake(self, key: SharePartitionKey) -> None:
        """Try a share-partition soon, not in this call, then call `ShareWaiters.note_tried`."""


class _Watched:
    """A share-partition with waiters; ``tried``: the number of changes when each was woken last, oldest first."""

    __slots__ = ("appends", "changes", "tried", "trying")

    def __init__(self, appends: Delayed[Any]) -> None:
        self.appends = appends
        self.changes = 0
        self.tried: OrderedDict[Waiter, int] = OrderedDict()
        self.trying: Waiter | None = None


class ShareWaiters:
    """See the module.

    Args of the constructor:
        purgatory: the one that is checked when a partition's log changes.
        is_available: returns whether a share-partition has anything to acquire; None if it is to be dropped.
    """

    def __init__(self, purgatory: Purgatory[Any], is_available: Callable[[SharePartitionKey], bool | None]) -> None:
        self._purgatory = purgatory
        self._is_available = is_available
        self._watched: dict[SharePartitionKey, _Watched] = {}
        self._gone: KeyQueue[SharePartitionKey] = KeyQueue()

    @property
    def is_due(self) -> bool:
        """Whether `wake_some` has work."""
        return len(self._gone) > 0

    def watches(self, key: SharePartitionKey, waiter: Waiter) -> bool:
        watched = self._watched.get(key)
        return watched is not None and waiter in watched.tried

    def watch(self, key: SharePartitionKey, topic_partition: TopicPartition, waiter: Waiter) -> bool:
        """Add a waiter; return whether it must try now: something is available already."""
        watched = self._watched.get(key)
        if watched is None:
            appends = self._purgatory.watch(
                (topic_partition,),
                deadline_ms=NEVER_MS,
                try_complete=lambda: self.note_change(key),
                on_deadline=lambda: None,
                is_tried=True,
            )
            watched = self._watched[key] = _Watched(appends)
        watched.tried[waiter] = watched.changes
        return self._is_available(key) is not False

    def remove(self, key: SharePartitionKey, waiter: Waiter) -> None:
        """Remove a waiter; if it was woken, another one is."""
        watched = self._watched.get(key)
        if watched is None or watched.tried.pop(waiter, None) is None:
            return
        if not watched.tried:
            del self._watched[key]
            watched.appends.abandon()
        elif watched.trying is waiter:
            watched.trying = None
            self._wake_next(key)

    def note_change(self, key: SharePartitionKey) -> None:
        """Wake a waiter: records may have become available; all of them if the share-partition is gone."""
        watched = self._watched.get(key)
        if watched is not None:
            watched.changes += 1
            self._wake_next(key)

    def note_tried(self, key: SharePartitionKey, waiter: Waiter) -> None:
        """Note that a woken waiter has tried."""
        watched = self._watched.get(key)
        if watched is not None and watched.trying is waiter:
            watched.trying = None
            self._wake_next(key)

    def wake_some(self, waiters_max: int) -> None:
        """Wake some waiters of share-partitions that are gone, and remove them."""
        while self._gone and waiters_max > 0:
            key = self._gone.pop()
            if key in self._watched:
                waiters_max -= self._wake_all(key, waiters_max)

    def _wake_all(self, key: SharePartitionKey, waiters_max: int) -> int:
        """Wake and remove up to ``waiters_max`` waiters, leave the others to `wake_some`; return how many."""
        watched = self._watched[key]
        watched.trying = None
        waiters = list(islice(watched.tried, waiters_max))
        for waiter in waiters:
            self.remove(key, waiter)
            waiter.wake(key)
        if watched.tried:
            self._gone.append(key)
        return len(waiters)

    def _wake_next(self, key: SharePartitionKey) -> None:
        watched = self._watched.get(key)
        if watched is None:
            return
        is_available = self._is_available(key)
        if is_available is None:
            self._wake_all(key, _WOKEN_AT_ONCE)
        elif is_available and watched.trying is None:
            waiter, changes = next(iter(watched.tried.items()))
            if changes < watched.changes:
                watched.trying = waiter
                watched.tried[waiter] = watched.changes
                watched.tried.move_to_end(waiter)
                waiter.wake(key)
