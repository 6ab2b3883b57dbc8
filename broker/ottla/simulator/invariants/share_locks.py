"""`ShareLocks`: records that members of share groups hold (KIP-932). None is given to a second member meanwhile.

A member holds a record from the response that gives it until it sends its acknowledgement, its share session ends, or
the lock may have timed out; and only at the share-partition that gave it: acquisitions are not stored, so a leader that
reads the share state again may give the record again. Sessions and share-partitions are compared by identity, in the
node that the members ask.

Two responses under way at once are not compared: which one was given first is not known.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.share_partitions.manager import SharePartitionManager
from ottla.share_partitions.share_partition import SharePartition
from ottla.share_partitions.share_session_cache import ShareSession, ShareSessionKey
from ottla.share_state.persister import SharePartitionKey
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.world.cluster import Cluster
from ottla.types import Endpoint, Offset, TopicIdPartition

LOCK_DURATION_MS: Final = 2_000
"""``group.share.record.lock.duration.ms`` of the nodes."""
CLOCK_ERROR_MS: Final = 50
"""What a lock may be shorter by the clocks of nodes."""


class ShareFetchSent(NamedTuple):
    """A ShareFetch that a member has sent, and what the node had then for the partitions that it wants."""

    member: ShareSessionKey
    manager: SharePartitionManager | None
    share_partitions: dict[TopicIdPartition, SharePartition | None]
    sent_ms: int


class _Lock(NamedTuple):
    """That a member holds a record."""

    session: ShareSession
    share_partition: SharePartition
    given_ms: int
    """When its response was received."""
    ends_ms: int


class ShareLocks:
    """See the module. Called by the members; raises `InvariantViolation`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._locks: dict[tuple[str, TopicIdPartition], dict[Offset, _Lock]] = {}

    def on_sent(
        self, member: ShareSessionKey, endpoint: Endpoint, wanted: Iterable[TopicIdPartition]
    ) -> ShareFetchSent:
        """A member sends a ShareFetch to a leader."""
        manager = self._manager(endpoint)
        found = {each: _share_partition(manager, member, each) for each in wanted}
        return ShareFetchSent(member, manager, found, self._cluster.clock.monotonic_ms())

    def on_given(self, sent: ShareFetchSent, where: TopicIdPartition, offsets: Iterable[Offset]) -> None:
        """The response gives records to the member."""
        share_partition = sent.share_partitions.get(where)
        if sent.manager is None or share_partition is None:
            return
        if _share_partition(sent.manager, sent.member, where) is not share_partition:
            return
        session = sent.manager.sessions.find(sent.member)
        now_ms = self._cluster.clock.monotonic_ms()
        locks = self._locks.setdefault((sent.member.group_id, where), {})
        for offset in offsets:
            held = locks.pop(offset, None)
            if (
                held is not None
                and held.share_partition is share_partition
                and held.session.key != sent.member
                and held.given_ms <= sent.sent_ms
                and now_ms < held.ends_ms
                and sent.manager.sessions.find(held.session.key) is held.session
            ):
                raise InvariantViolation(
                    f"AcquiredByOneMember: offset {offset} of partition {where.partition} is given to "
                    f"{sent.member.member_id} of {sent.member.group_id}, but {held.session.key.member_id} holds it "
                    f"until {held.ends_ms} ms"
                )
            if session is not None:
                ends_ms = sent.sent_ms + LOCK_DURATION_MS - CLOCK_ERROR_MS
                locks[offset] = _Lock(session, share_partition, now_ms, ends_ms)

    def on_acknowledgements_sent(
        self, member: ShareSessionKey, where: TopicIdPartition, offsets: Iterable[Offset]
    ) -> None:
        """A member sends its decisions, or gives them up: it holds these records no longer."""
        locks = self._locks.get((member.group_id, where), {})
        for offset in offsets:
            if offset in locks and locks[offset].session.key == member:
                del locks[offset]

    def _manager(self, endpoint: Endpoint) -> SharePartitionManager | None:
        for place in self._cluster.nodes.values():
            if place.host == endpoint.host and place.process is not None:
                return place.process.services.share_partitions
        return None


def _share_partition(
    manager: SharePartitionManager | None, member: ShareSessionKey, where: TopicIdPartition
) -> SharePartition | None:
    return None if manager is None else manager.current(SharePartitionKey(member.group_id, *where))
