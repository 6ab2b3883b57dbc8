"""Dirty keys on their way to a worker: each at most once, failed ones later and later.

A key that is added while it is being worked on is worked on again afterwards, so no event is lost and no object has two
workers. Keys of one group (a cluster with its topics) take turns.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from ottla_operator.model.manifest import ObjectKey

_BACKOFF_S_MIN = 0.5
_BACKOFF_S_MAX = 60.0
_DOUBLINGS_MAX = 7
"""More than it takes to the longest backoff, and few enough for a float."""

Work = Callable[[ObjectKey], Awaitable[bool]]
"""Reconciles one object; False when it has to be tried again later."""


class DirtyKeys:
    """The queue; all of its methods belong to one event loop."""

    def __init__(self, group: Callable[[ObjectKey], Hashable]) -> None:
        self._group = group
        self._waiting_since: dict[ObjectKey, float] = {}
        """In order of arrival; when each began to wait, by the loop's clock."""
        self._in_work: set[ObjectKey] = set()
        self._dirty_again: set[ObjectKey] = set()
        self._failures: dict[ObjectKey, int] = {}
        self._later: dict[ObjectKey, asyncio.TimerHandle] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting_since)

    def add(self, key: ObjectKey) -> None:
        """Mark ``key`` dirty now; a later try that was planned for it is given up."""
        if (timer := self._later.pop(key, None)) is not None:
            timer.cancel()
        if key in self._in_work:
            self._dirty_again.add(key)
        elif key not in self._waiting_since:
            self._waiting_since[key] = asyncio.get_running_loop().time()
            self._changed.set()

    def progressed(self, key: ObjectKey) -> None:
        """Forget how often ``key`` was tried: the last time something was done, and what it waits for now is new."""
        self._failures.pop(key, None)

    def oldest_age_s(self) -> float:
        """Return how long the first key that could be worked on has been waiting; 0 when none is."""
        busy = {self._group(key) for key in self._in_work}
        since = [at for key, at in self._waiting_since.items() if self._group(key) not in busy]
        return asyncio.get_running_loop().time() - min(since) if since else 0.0

    async def work(self, reconcile: Work) -> None:
        """Reconcile keys for ever, as one worker of several; an exception out of ``reconcile`` ends the worker."""
        while True:
            key = await self._take()
            is_settled = False
            try:
                is_settled = await reconcile(key)
            finally:
                self._give_back(key, is_settled=is_settled)

    async def _take(self) -> ObjectKey:
        while True:
            busy = {self._group(key) for key in self._in_work}
            for key in self._waiting_since:
                if self._group(key) not in busy:
                    del self._waiting_since[key]
                    self._in_work.add(key)
                    return key
            self._changed.clear()
            await self._changed.wait()

    def _give_back(self, key: ObjectKey, *, is_settled: bool) -> None:
        self._in_work.discard(key)
        if is_settled:
            self._failures.pop(key, None)
        else:
            self._failures[key] = self._failures.get(key, 0) + 1
        if key in self._dirty_again:
            self._dirty_again.discard(key)
            self.add(key)
        elif not is_settled:
            delay_s = min(_BACKOFF_S_MIN * 2 ** min(self._failures[key] - 1, _DOUBLINGS_MAX), _BACKOFF_S_MAX)
            self._later[key] = asyncio.get_running_loop().call_later(delay_s, self.add, key)
        self._changed.set()
