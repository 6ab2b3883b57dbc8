"""`SilentFollowers`: followers that do not fetch from this node any more, though the controller has not fenced them.

A follower fetches again after each response, and no response waits for longer than the fetch permits. One that has sent
nothing for that time and `silence_max_ms` is not slow: it hangs, or a network has cut the link between the two nodes,
of which the controller learns nothing. Commits must not wait for it as long as for a follower that lags
(replica.lag.time.max.ms), so `IsrManager` takes it out of the in-sync sets that have enough members without it.

Only followers that `expect` named are followed: a client that calls itself a broker costs no memory.

Apache Kafka has no equivalent: it waits for replica.lag.time.max.ms.
"""

from collections.abc import Callable, Collection
from typing import Final

from ottla.types import NEVER_MS, NodeId

PAUSED_AFTER_MS: Final = 250
"""A tick that is later than this means that the process was paused."""
_FIRST_FETCH_PART: Final = 2
"""A follower has this many times `silence_max_ms` for its first fetch: it has to learn first who leads."""


class SilentFollowers:
    """See the module. Times are monotonic.

    Attributes:
        silent: the followers that are silent; the owner removes those that no set has any more.
        newest_fetch_ms: arrival of the last fetch of any follower.
        due_ms: when `update` has work.

    Args of the constructor:
        silence_max_ms: 0 if no follower is ever silent.
    """

    def __init__(self, silence_max_ms: Callable[[], int]) -> None:
        self._silence_max_ms = silence_max_ms
        self._silent_from_ms: dict[NodeId, int] = {}
        self.silent: set[NodeId] = set()
        self.newest_fetch_ms = 0
        self.due_ms = NEVER_MS

    def expect(self, follower: NodeId, now_ms: int) -> None:
        """Expect fetches of the follower from now on, if they were not expected before."""
        silence_max_ms = self._silence_max_ms()
        if silence_max_ms > 0 and follower not in self._silent_from_ms:
            from_ms = self._silent_from_ms[follower] = now_ms + _FIRST_FETCH_PART * silence_max_ms
            self.due_ms = min(self.due_ms, from_ms)

    def on_fetch(self, follower: NodeId, received_at_ms: int, wait_max_ms: int) -> None:
        """Note a fetch whose response may wait for ``wait_max_ms``."""
        self.newest_fetch_ms = received_at_ms
        from_ms = self._silent_from_ms.get(follower)
        if from_ms is None:
            return
        self._silent_from_ms[follower] = max(from_ms, received_at_ms + wait_max_ms + self._silence_max_ms())
        if follower in self.silent:
            self.silent.remove(follower)
            self.due_ms = min(self.due_ms, self._silent_from_ms[follower])

    def remove(self, followers: Collection[NodeId]) -> None:
        for follower in followers:
            self._silent_from_ms.pop(follower, None)
            self.silent.discard(follower)

    def update(self, now_ms: int) -> list[NodeId]:
        """Return the followers that have become silent."""
        if now_ms > self.due_ms + PAUSED_AFTER_MS:
            # This process was paused: what the followers sent meanwhile has yet to be read.
            earliest_ms = now_ms + self._silence_max_ms()
            for follower, from_ms in self._silent_from_ms.items():
                self._silent_from_ms[follower] = max(from_ms, earliest_ms)
        new = [
            follower
            for follower, from_ms in self._silent_from_ms.items()
            if from_ms <= now_ms and follower not in self.silent
        ]
        self.silent.update(new)
        self.due_ms = min(
            (from_ms for follower, from_ms in self._silent_from_ms.items() if follower not in self.silent),
            default=NEVER_MS,
        )
        return new
