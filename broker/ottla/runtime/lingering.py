"""`Lingering`: links that the core has closed, and whose peers may still read the queued bytes for a while.

No limit on connections counts them.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from ottla.ports import Clock
from ottla.runtime.link import Link

LINGER_MS: Final = 10_000


class Lingering:
    """Closed links with unsent bytes; ``links`` has them with their deadlines, the earliest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.links: deque[tuple[int, Link]] = deque()

    def add(self, link: Link) -> None:
        self.links.append((self._clock.monotonic_ms() + LINGER_MS, link))

    def take_expired(self) -> Iterator[Link]:
        """Yield and remove the links whose time is over, among them some that were closed meanwhile."""
        now_ms = self._clock.monotonic_ms()
        while self.links and self.links[0][0] <= now_ms:
            yield self.links.popleft()[1]
