"""`AwaitedFollowers`: followers that have yet to fetch a partition which this node has just started to lead.

Their fetches must not be held meanwhile: a follower cannot add the partition to its fetch before its last fetch has
completed, and until it does, acks=all produces wait for it.
"""

from collections.abc import Callable
from typing import Final

from ottla.replication.partition import Partition
from ottla.replication.sessions.fetch_session import FetchSession
from ottla.types import NodeId, TopicPartition

AWAITED_MS_MAX: Final = 5_000
"""How long the leader of a new epoch keeps its followers' fetches short."""


class AwaitedFollowers:
    """See the module; ``check_session`` checks the fetch that waits in a session again."""

    def __init__(self, check_session: Callable[[int], object]) -> None:
        self._check_session = check_session
        self._awaited: dict[NodeId, dict[TopicPartition, int]] = {}
        self._held: dict[NodeId, None] = {}
        self._sessions: dict[NodeId, list[FetchSession]] = {}

    @property
    def has_held_fetches(self) -> bool:
        """Whether `complete_held_fetches` has work."""
        return bool(self._held)

    def await_followers(self, partition: Partition, now_ms: int) -> None:
        """Keep the fetches of the followers of ``partition`` short until each has fetched it."""
        for broker_id in partition.isr.remote:
            self._awaited.setdefault(broker_id, {})[partition.topic_partition] = now_ms + AWAITED_MS_MAX
            self._held[broker_id] = None

    def on_fetched(self, broker_id: NodeId, topic_partition: TopicPartition) -> None:
        """Note that a follower has fetched a partition."""
        awaited = self._awaited.get(broker_id)
        if awaited:
            awaited.pop(topic_partition, None)

    def awaits(self, broker_id: NodeId, now_ms: int) -> bool:
        """Return whether a follower has yet to fetch a partition: then its fetch must not be held."""
        awaited = self._awaited.get(broker_id)
        while awaited:
            topic_partition, until_ms = next(iter(awaited.items()))
            if until_ms > now_ms:
                return True
            del awaited[topic_partition]
        return False

    def note_session(self, broker_id: NodeId, session: FetchSession) -> None:
        """Remember a session that a follower has started: `awaits` may become true while its fetch is held."""
        known = [other for other in self._sessions.get(broker_id, ()) if other.is_open]
        self._sessions[broker_id] = [*known, session]

    def complete_held_fetches(self) -> None:
        """Complete the waiting fetches of the followers that are awaited."""
        held, self._held = self._held, {}
        for broker_id in held:
            for session in self._sessions.get(broker_id, ()):
                self._check_session(session.session_id)
