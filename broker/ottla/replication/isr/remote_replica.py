"""A leader's knowledge of one follower: its log end, and when it was last caught up.

A follower names a partition in its fetch session only when something about it changed, so most fetches do not mention
it; that it still has what it had then follows from the session's last use. Source: Replica of Apache Kafka 4.3.
"""

from dataclasses import dataclass
from typing import Protocol

from ottla.types import NodeId, Offset

UNKNOWN_OFFSET: Offset = -1
LONG_AGO_MS = -(1 << 62)
EXCLUDED_MS_MIN, EXCLUDED_MS_MAX = 1_000, 5_000
"""A broker that the controller keeps out for minutes may follow thousands of partitions: each proposal is work."""


class FetchActivity(Protocol):
    """The follower's fetch session: its last use, and its last response that the follower has certainly received."""

    last_used_ms: int
    confirmed_ms: int


@dataclass(slots=True, kw_only=True)
class RemoteReplica:
    """See the module. Times are monotonic; ``broker_epoch`` is that of its last fetch, None before the first.

    ``session`` is the fetch session that holds this partition in the leader's present epoch, if any, and
    ``sessionless_fetch_ms`` the time of its last fetch where that had none;
    ``leader_end_offset_then`` the leader's log end offset at the last fetch that named the partition; ``served_offset``
    the start of the records that were sent last: a follower that fetches them again may have rejected them;
    ``excluded_until_ms`` the time before which this incarnation does not join the in-sync set: the controller rejected
    it, or it was silent; ``rejections`` how often in a row.
    """

    broker_id: NodeId
    log_end_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
    broker_epoch: int | None = None
    session: FetchActivity | None = None
    last_fetch_ms: int = LONG_AGO_MS
    last_caught_up_ms: int = LONG_AGO_MS
    sessionless_fetch_ms: int = LONG_AGO_MS
    leader_end_offset_then: Offset = UNKNOWN_OFFSET
    served_offset: Offset = UNKNOWN_OFFSET
    excluded_until_ms: int = LONG_AGO_MS
    rejections: int = 0

    @property
    def last_active_ms(self) -> int:
        """Time of its last fetch, even if that did not mention this partition."""
        return self.last_fetch_ms if self.session is None else max(self.last_fetch_ms, self.session.last_used_ms)

    @property
    def following_confirmed_ms(self) -> int:
        """Time at which it has certainly still followed this leader in its present epoch.

        A fetch may be old when it is read: this node may have been paused. A session's fetch proves more: it was sent
        after the response before it. Without a session, the time of its last fetch has to do.
        """
        return self.sessionless_fetch_ms if self.session is None else self.session.confirmed_ms

    def start_epoch(self, *, is_new_leader: bool, is_in_sync: bool, leader_end_offset: Offset, now_ms: int) -> None:
        """Reset for another leader epoch: an in-sync follower has the full lag time from now on."""
        self.session = None
        self.sessionless_fetch_ms = LONG_AGO_MS
        self.last_caught_up_ms = now_ms if is_in_sync else LONG_AGO_MS
        if is_new_leader:
            self.log_end_offset = self.log_start_offset = self.leader_end_offset_then = UNKNOWN_OFFSET
            self.broker_epoch = None
            self.last_fetch_ms = LONG_AGO_MS
        else:
            self.leader_end_offset_then = leader_end_offset
            self.last_fetch_ms = self.last_caught_up_ms

    def on_fetch(
        self,
        *,
        offset: Offset,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        broker_epoch: int,
        session: FetchActivity | None,
        now_ms: int,
    ) -> None:
        """Record a fetch at ``offset``: the follower has everything below."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset_then:
            # It has caught up with the leader's log end at its previous fetch.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset_then = max(self.leader_end_offset_then, leader_end_offset)
        self.last_fetch_ms = now_ms
        if broker_epoch != self.broker_epoch:
            self.excluded_until_ms, self.rejections = LONG_AGO_MS, 0
        self.broker_epoch = broker_epoch
        self.session = session
        self.sessionless_fetch_ms = now_ms if session is None else LONG_AGO_MS

    def exclude(self, now_ms: int) -> None:
        """Keep it out of the in-sync set for a while, for twice as long after each rejection in a row."""
        self.excluded_until_ms = now_ms + min(EXCLUDED_MS_MIN << self.rejections, EXCLUDED_MS_MAX)
        self.rejections += 1

    def on_leader_append(self, end_offset_before: Offset) -> None:
        """Note that the leader's log grew: a follower that had all of it was caught up at its last activity."""
        session = self.session
        if session is not None and self.log_end_offset == end_offset_before:
            active_ms = session.last_used_ms
            self.last_caught_up_ms = max(self.last_caught_up_ms, active_ms)
            self.leader_end_offset_then = end_offset_before
            self.last_fetch_ms = active_ms

    def is_caught_up(self, leader_end_offset: Offset, *, now_ms: int, lag_time_max_ms: int) -> bool:
        """Return whether it has everything, or had everything at most ``lag_time_max_ms`` ago."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms
