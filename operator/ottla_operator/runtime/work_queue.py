"""Dirty keys on their way to a worker: each at most once, with exponential backoff after failures.

What a key waits for is often nothing that is watched, as a Secret or a broker. So the longest delay is `interval_s`: a
few seconds while few keys wait, and up to a minute while many do, so that all of them together cost the same.

A key that is added while it is being reconciled is reconciled again afterwards, so no event is lost and no object has
two workers. Keys of one group (a cluster with its members) are taken by one worker at a time. Waiting keys of one group
and kind are taken together, which is many times cheaper; after a failure fewer of them, and in the end each alone, so
that a key that makes a batch fail does not block the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from itertools import islice

from ottla_operator.model.manifest import ObjectKey

_BACKOFF_S_MIN = 0.5
_DOUBLINGS_MAX = 7
"""More than it takes to reach the longest backoff, and few enough for a float."""

_INTERVAL_S_MIN, _INTERVAL_S_MAX = 4.0, 60.0
_RETRIES_PER_S = 5.0
"""Of all waiting keys together, unless even one per minute for each is more."""

TOGETHER_MAX = 256
_TOGETHER = frozenset({"Topic", "User"})
"""Kinds whose objects are reconciled in batches."""

Work = Callable[[Sequence[ObjectKey]], Awaitable[Collection[ObjectKey]]]
"""Reconciles objects; returns those that need no retry."""


class WorkQueue:
    """The queue; all of its methods belong to one event loop."""

    def __init__(self, group: Callable[[ObjectKey], Hashable]) -> None:
        self._group = group
        self._waiting_since: dict[ObjectKey, float] = {}
        """In order of arrival; the time since when each waits, by the loop's clock."""
        self._in_work: dict[ObjectKey, Hashable] = {}
        """With the group that each had when it was taken."""
        self._dirty_again: set[ObjectKey] = set()
        self._failures: dict[ObjectKey, int] = {}
        self._later: dict[ObjectKey, asyncio.TimerHandle] = {}
        self._wake_s: dict[ObjectKey, float] = {}
        """Of keys that are being reconciled: after how long each has to be reconciled again."""
        self._taken_s = float("-inf")
        """When a worker last took a key."""
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting_since)

    def add(self, key: ObjectKey) -> None:
        """Mark ``key`` dirty now, in place of a retry that was scheduled."""
        if (timer := self._later.pop(key, None)) is not None:
            timer.cancel()
        if key in self._in_work:
            self._dirty_again.add(key)
        elif key not in self._waiting_since:
            self._waiting_since[key] = asyncio.get_running_loop().time()
            self._changed.set()

    def progressed(self, key: ObjectKey) -> None:
        """Reset the backoff of ``key``: its last reconciliation made progress, so it now waits for something else."""
        self._failures.pop(key, None)

    def wake_in(self, key: ObjectKey, delay_s: float) -> None:
        """Reconcile ``key``, which is in work now, again after ``delay_s``, or sooner if it fails or changes."""
        self._wake_s[key] = delay_s

    def interval_s(self) -> float:
        """Return the longest delay before a waiting key is reconciled again."""
        return min(max(_INTERVAL_S_MIN, len(self._later) / _RETRIES_PER_S), _INTERVAL_S_MAX)

    def retry_now(self, key: ObjectKey) -> None:
        """Reconcile ``key`` now, if it was to be reconciled later: what it waits for may have happened."""
        if key in self._later:
            self.progressed(key)
            self.add(key)

    def oldest_age_s(self) -> float:
        """Return the waiting time of the first key that a worker could take; 0 without one."""
        since_s = self._oldest_s()
        return asyncio.get_running_loop().time() - since_s if since_s is not None else 0.0

    def standstill_s(self) -> float:
        """Return for how long no key was taken although one could have been; 0 for a long queue that moves."""
        since_s = self._oldest_s()
        return asyncio.get_running_loop().time() - max(since_s, self._taken_s) if since_s is not None else 0.0

    def _oldest_s(self) -> float | None:
        busy = set(self._in_work.values())
        return min((at for key, at in self._waiting_since.items() if self._group(key) not in busy), default=None)

    async def work(self, reconcile: Work) -> None:
        """Reconcile keys until cancelled, as one worker of several; an exception of ``reconcile`` ends the worker."""
        while True:
            keys = await self._take()
            settled: Collection[ObjectKey] = ()
            try:
                settled = await reconcile(keys)
            finally:
                for key in keys:
                    self._give_back(key, is_settled=key in settled)

    async def _take(self) -> list[ObjectKey]:
        while True:
            busy = set(self._in_work.values())
            for key in self._waiting_since:
                if (group := self._group(key)) not in busy:
                    taken = self._with_others(key, group)
                    self._taken_s = asyncio.get_running_loop().time()
                    for it in taken:
                        del self._waiting_since[it]
                        self._in_work[it] = group
                    return taken
            self._changed.clear()
            await self._changed.wait()

    def _with_others(self, first: ObjectKey, group: Hashable) -> list[ObjectKey]:
        """Return the keys of the batch of ``first``, including itself, in order of arrival."""
        if first.kind not in _TOGETHER:
            return [first]
        count = max(1, TOGETHER_MAX >> self._failures.get(first, 0))
        fitting = (it for it in self._waiting_since if it.kind == first.kind and self._group(it) == group)
        return list(islice(fitting, count))

    def _give_back(self, key: ObjectKey, *, is_settled: bool) -> None:
        del self._in_work[key]
        wake_s = self._wake_s.pop(key, float("inf"))
        if is_settled:
            self._failures.pop(key, None)
        else:
            self._failures[key] = self._failures.get(key, 0) + 1
        if key in self._dirty_again:
            self._dirty_again.discard(key)
            self.add(key)
        elif (delay_s := min(wake_s, self._backoff_s(key))) < float("inf"):
            self._later[key] = asyncio.get_running_loop().call_later(delay_s, self.add, key)
        self._changed.set()

    def _backoff_s(self, key: ObjectKey) -> float:
        """Return how long to wait after failures of ``key``; infinity without one."""
        failures = self._failures.get(key, 0)
        if not failures:
            return float("inf")
        return min(_BACKOFF_S_MIN * (1 << min(failures - 1, _DOUBLINGS_MAX)), self.interval_s())
