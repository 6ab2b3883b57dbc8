"""`ModernGroup`: the part of a group that does not depend on the protocol, for all that are not classic.

A consumer group and a share group are also a `SubscribingGroup`, whose members name topics. The topics of a streams
group are those of its topology.

Source: ModernGroup, StreamsGroup of Apache Kafka 4.3.
"""

from abc import ABC, abstractmethod
from collections.abc import Container
from typing import Final, Generic, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.assignors.types import MemberAssignment
from ottla.groups.modern.counts import SubscriptionCounts
from ottla.groups.modern.topics import ClusterTopics

MemberT = TypeVar("MemberT")
TargetT = TypeVar("TargetT")

FIRST_EPOCH: Final = 1
NO_ASSIGNMENT_EPOCH: Final = -1
METADATA_REFRESH_INTERVAL_MS: Final = 2**31 - 1
"""The time after which a group compares its topics with their hash without a change of them (Kafka's constant)."""


class ModernGroup(ABC, Generic[MemberT, TargetT]):
    """One group.

    Attributes:
        epoch: counts changes of members, subscriptions and topics.
        assignment_epoch: the epoch that the target assignment was computed for.
        assigned_at_ms: when that was (wall clock); 0 for never, or unknown.
        metadata_hash: of the topics at the last change of the epoch.
        target: assignments by member id.
    """

    __slots__ = (
        "_compared_change",
        "_compared_epoch",
        "_refresh_deadline_ms",
        "assigned_at_ms",
        "assignment_epoch",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        """Create a group without members."""
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at_ms = 0
        self.metadata_hash = 0
        self.members: dict[str, MemberT] = {}
        self.target: dict[str, TargetT] = {}
        self._refresh_deadline_ms = 0
        self._compared_epoch = 0
        self._compared_change = 0

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> MemberT:
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

    def put_target(self, member_id: str, target: TargetT | None) -> None:
        """Set the target assignment of a member; None removes it."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    @property
    @abstractmethod
    def topic_names(self) -> Container[str]:
        """The topics that the group depends on, whether they exist or not."""

    # The next comparison of the topics with `metadata_hash`; times are monotonic

    def has_stale_topics(self, topics: ClusterTopics, now_ms: int) -> bool:
        """Return whether the topics must be compared with `metadata_hash` again."""
        # Source: hasMetadataExpired.
        if now_ms >= self._refresh_deadline_ms or self.epoch < self._compared_epoch:
            return True
        if self._compared_change != topics.change_count:
            if topics.have_changed_since(self._compared_change, self.topic_names):
                return True
            self._compared_change = topics.change_count
        return False

    def note_refresh(self, topics: ClusterTopics, now_ms: int, epoch: int) -> None:
        """Compare again when topics change, after a long time, or when ``epoch``, which is being written, is lost."""
        # Source: setMetadataRefreshDeadline.
        self._refresh_deadline_ms = now_ms + METADATA_REFRESH_INTERVAL_MS
        self._compared_epoch = epoch
        self._compared_change = topics.change_count


class SubscribingGroup(ModernGroup[MemberT, MemberAssignment]):
    """A group whose members subscribe to topics, and get partitions of them.

    Attributes:
        subscriptions: of all members.
    """

    __slots__ = ("subscriptions",)

    def __init__(self, group_id: str) -> None:
        """Create a group without members."""
        super().__init__(group_id)
        self.subscriptions = SubscriptionCounts()

    @property
    def topic_names(self) -> Container[str]:
        return self.subscriptions
