"""`ShareGroup`: members, epochs, assignments and state partitions of one group, as its records say.

Everything here changes by the replay of records only, except the time of the next check of the topics. What a request
needs is counted as members change: no heartbeat walks the members.

Source: ShareGroup, ModernGroup of Apache Kafka 4.3.
"""

from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.modern.counts import SubscriptionCounts
from ottla.groups.modern.topic_check import TopicCheck
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.share.member import NO_ASSIGNMENT, Assignment, ShareMember
from ottla.groups.share.state import ShareGroupState
from ottla.groups.share.state_partitions import StatePartitions
from ottla.types import Uuid

FIRST_EPOCH: Final = 1


class ShareGroup:
    """One group.

    Attributes:
        epoch: counts changes of members, subscriptions and topics.
        assignment_epoch: the epoch that the target assignment was computed for.
        assigned_at_ms: when that was (wall clock); 0 for never, or unknown.
        metadata_hash: of the topics at the last change of the epoch.
        target: assignments by member id; changed by `put_target` only.
        state_partitions: None without a record of them.
    """

    __slots__ = (
        "_pending_checked",
        "_targets_of",
        "assigned_at_ms",
        "assignment_epoch",
        "change_count",
        "epoch",
        "group_id",
        "initialized_checked",
        "members",
        "metadata_hash",
        "state_partitions",
        "subscriptions",
        "target",
        "topic_check",
    )

    def __init__(self, group_id: str) -> None:
        """Create a group without members."""
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at_ms = 0
        self.metadata_hash = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Assignment] = {}
        self.subscriptions = SubscriptionCounts()
        self.state_partitions: StatePartitions | None = None
        self.topic_check = TopicCheck()
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

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    # Members

    def member(self, member_id: str) -> ShareMember:
        """Return a member.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID.
        """
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def put_member(self, member: ShareMember) -> None:
        """Add a member, or replace the one with its id."""
        self.subscriptions.replace(self.members.get(member.member_id), member)
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it exists."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.subscriptions.replace(member, None)

    def put_target(self, member_id: str, target: Assignment | None) -> None:
        """Set the target assignment of a member; None removes it."""
        for topic_id, partitions in self.target.pop(member_id, NO_ASSIGNMENT).items():
            counts = self._targets_of[topic_id]
            for partition in partitions:
                counts[partition] -= 1
                if counts[partition] == 0:
                    del counts[partition]
            if not counts:
                del self._targets_of[topic_id]
        if target is None:
            return
        self.target[member_id] = target
        for topic_id, partitions in target.items():
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
        # Kafka does not ask whether a topic still exists. The record that removes it may have failed to be written, and
        # the epoch would change with every heartbeat.
        is_pending = any(
            self._targets_of.get(topic_id, {}).keys() != topic.partitions
            for topic_id, topic in state.initialized.items()
            if topic.name in self.subscriptions and topics.name_of(topic_id) is not None
        )
        self._pending_checked = (self.change_count, topics.change_count, is_pending)
        return is_pending
