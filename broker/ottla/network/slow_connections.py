"""`SlowConnections`: connections that hold memory which others wait for, and send too little of their frames for it.

Checked once a second while a frame waits for memory. Silence alone is no fault: while there is memory for all, a slow
client stays until ``connections.max.idle.ms``.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.network.connection import Connection

PROGRESS_BYTES_MIN = 64 * 1024
PROGRESS_INTERVAL_MS = 10_000
"""A frame that is under way must bring `PROGRESS_BYTES_MIN`, or end, in this time: about 6.5 kB/s."""
BLOCKED_INTERVAL_MS = 60_000
"""For bytes behind a request that is in hand, or whose response is not read: part of that wait may be the node's."""


class _Mark(NamedTuple):
    """How far a connection had come, and when that was first seen."""

    frames_begun: int
    kept_bytes: int
    is_blocked: bool
    at_ms: int


class SlowConnections:
    """Remembers how far each connection had come."""

    def __init__(self) -> None:
        self._marks: dict[Connection, _Mark] = {}

    def forget_all(self) -> None:
        """Start again: until now no frame waited."""
        self._marks.clear()

    def find(self, holders: Iterable[Connection], now_ms: int) -> list[tuple[Connection, str]]:
        """Return those of ``holders`` that have had their time, in that order, each with the reason."""
        marks, self._marks = self._marks, {}
        slow = []
        for connection in holders:
            mark = marks.get(connection)
            if mark is None or _has_progressed(connection, mark):
                mark = _Mark(connection.frames_begun, connection.kept_bytes, connection.is_blocked, now_ms)
            self._marks[connection] = mark
            if now_ms - mark.at_ms >= (BLOCKED_INTERVAL_MS if mark.is_blocked else PROGRESS_INTERVAL_MS):
                slow.append((connection, _explain(connection, mark, now_ms)))
        return slow


def _has_progressed(connection: Connection, mark: _Mark) -> bool:
    return (
        connection.frames_begun != mark.frames_begun
        or connection.is_blocked != mark.is_blocked
        or connection.kept_bytes < mark.kept_bytes
        or connection.kept_bytes >= mark.kept_bytes + PROGRESS_BYTES_MIN
    )


def _explain(connection: Connection, mark: _Mark, now_ms: int) -> str:
    if mark.is_blocked:
        return (
            f"{connection.kept_bytes} bytes have been behind its request in hand for {now_ms - mark.at_ms} ms "
            "while others wait for memory"
        )
    return (
        f"its frame holds {connection.held_bytes} bytes and brought {connection.kept_bytes - mark.kept_bytes} in "
        f"{now_ms - mark.at_ms} ms while others wait for memory"
    )
