"""`SlowConnections`: finds connections that hold memory which others wait for, and send their frames too slowly.

The check runs once a second while a frame waits for memory. While memory suffices, a slow client may stay connected for
``connections.max.idle.ms``.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.network.connection import Connection

PROGRESS_BYTES_MIN = 64 * 1024
PROGRESS_INTERVAL_MS = 10_000
"""A partial frame must receive `PROGRESS_BYTES_MIN`, or its end, in this time: about 6.5 kB/s."""
BLOCKED_INTERVAL_MS = 60_000
"""For bytes behind a request in progress or an unread response: the node may have caused part of that wait."""


class _Mark(NamedTuple):
    """Progress of a connection, and when it was first observed."""

    frames_started: int
    kept_bytes: int
    is_blocked: bool
    at_ms: int


class SlowConnections:
    """Progress of each connection at the last check."""

    def __init__(self) -> None:
        self._marks: dict[Connection, _Mark] = {}

    def reset(self) -> None:
        """Start again: no frame waited until now."""
        self._marks.clear()

    def find(self, holders: Iterable[Connection], now_ms: int) -> list[tuple[Connection, str]]:
        """Return those of ``holders`` whose time is over, in that order, each with the reason."""
        marks, self._marks = self._marks, {}
        slow = []
        for connection in holders:
            mark = marks.get(connection)
            if mark is None or _has_progressed(connection, mark):
                mark = _Mark(connection.frames_started, connection.kept_bytes, connection.is_blocked, now_ms)
            self._marks[connection] = mark
            if now_ms - mark.at_ms >= (BLOCKED_INTERVAL_MS if mark.is_blocked else PROGRESS_INTERVAL_MS):
                slow.append((connection, _explain(connection, mark, now_ms)))
        return slow


def _has_progressed(connection: Connection, mark: _Mark) -> bool:
    return (
        connection.frames_started != mark.frames_started
        or connection.is_blocked != mark.is_blocked
        or connection.kept_bytes < mark.kept_bytes
        or connection.kept_bytes >= mark.kept_bytes + PROGRESS_BYTES_MIN
    )


def _explain(connection: Connection, mark: _Mark, now_ms: int) -> str:
    if mark.is_blocked:
        return (
            f"{connection.kept_bytes} bytes have been behind its pending request for {now_ms - mark.at_ms} ms "
            "while others wait for memory"
        )
    return (
        f"its frame holds {connection.held_bytes} bytes and received {connection.kept_bytes - mark.kept_bytes} in "
        f"{now_ms - mark.at_ms} ms while others wait for memory"
    )
