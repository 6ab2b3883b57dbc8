"""`ShareGroup`: members, epochs, assignments and state partitions of one group, as its records say.

Everything here changes by the replay of records only, except the notes of what the last heartbeats have checked. What a
request needs is counted as members change: no heartbeat walks the members.

Source: ShareGroup of Apache Kafka 4.3.
"""

from ottla.groups.assignors.types import NO_ASSIGNMENT, MemberAssignment
from ottla.groups.modern.group import SubscribingGroup
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.share.member import ShareMember
from ottla.groups.share.state import ShareGroupState
from ottla.groups.share.state_partitions import StatePartitions
from ottla.types import Uuid


class ShareGroup(SubscribingGroup[ShareMember]):
    """One group.

    Attributes:
        target: see `SubscribingGroup`; changed by `put_target` only.
        state_partitions: None without a record of them.
        state_replayed_ms: when that record was written or loaded (monotonic): an initialization that has not succeeded
            some time after that is repeated.
    """

    __slots__ = (
        "_pending_checked",
        "_targets_of",
        "change_count",
        "initialized_checked",
        "state_partitions",
        "state_replayed_ms",
    )

    def __init__(self, group_id: str) -> None:
        """Create a group without members."""
        super().__init__(group_id)
        self.state_partitions: StatePartitions | None = None
        self.state_replayed_ms = 0
        self.change_count = 0
        """Counts the records that have changed the group."""
        self.initialized_checked: tuple[int, int] | None = None
        """Changes of the group and of topics at the last heartbeat that found every share-partition initialized."""
        self._targets_of: dict[Uuid, dict[int, int]] = {}
        """How many members have a partition in their target."""
        self._pending_checked: tuple[int, int, bool] | None = None

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    # Members

    def put_member(self, member: ShareMember) -> None:
        """Add a member, or replace the one with its id."""
        self.subscriptions.replace(self.members.get(member.member_id), member)
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it exists."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.subscriptions.replace(member, None)

    def put_target(self, member_id: str, target: MemberAssignment | None) -> None:
        """Set the target assignment of a member; None removes it."""
        for topic_id, partitions in self.target.get(member_id, NO_ASSIGNMENT).items():
            counts = self._targets_of[topic_id]
            for partition in partitions:
                counts[partition] -= 1
                if counts[partition] == 0:
                    del counts[partition]
            if not counts:
                del self._targets_of[topic_id]
        super().put_target(member_id, target)
        for topic_id, partitions in (target or NO_ASSIGNMENT).items():
            counts = self._targets_of.setdefault(topic_id, {})
            for partition in partitions:
                counts[partition] = counts.get(partition, 0) + 1

    # Share-partitions

    def awaits_assignment(self, topics: ClusterTopics) -> bool:
        """Return whether an initialized share-partition of a subscribed topic is in no member's target."""
        # Source: GroupMetadataManager.initializedAssignmentPending.
        state = self.state_partitions
        if state is None or not self.members:
            return False
        checked = self._pending_checked
        if checked is not None and checked[:2] == (self.change_count, topics.change_count):
            return checked[2]
        # Kafka does not check whether a topic still exists. The record that removes it may have failed to be written,
        # and the epoch would change with every heartbeat.
        is_pending = any(
            self._targets_of.get(topic_id, {}).keys() != topic.partitions
            for topic_id, topic in state.initialized.items()
            if topic.name in self.subscriptions and topics.name_of(topic_id) is not None
        )
        self._pending_checked = (self.change_count, topics.change_count, is_pending)
        return is_pending
