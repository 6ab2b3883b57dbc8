"""The next step of one member towards its target assignment.

The invariant of the protocol is here: a partition is added to a member only when no other member owns it, and a member
owns what it was assigned until its own heartbeat no longer lists it. So a partition has one owner at any time, without
a barrier that stops the whole group.

Source: CurrentAssignmentBuilder of Apache Kafka 4.3; KIP-848, KIP-1251 (epochs by partition).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.assignors.types import MemberAssignment
from ottla.groups.consumer.member import ConsumerMember, EpochAssignment, MemberState
from ottla.types import Uuid

OwnedPartitions = Mapping[Uuid, Collection[int]]
"""Partitions that a member reports in its heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """All that the next step depends on, besides the member itself.

    Attributes:
        target_epoch: epoch of ``target``.
        target: the member's own target assignment.
        is_owned: returns whether any member owns the partition.
        owned: what the member reports; None if the heartbeat does not list it.
        subscribed_topic_ids: the topics of ``target`` and of the member's assignment that exist and that the member
            subscribes to.
        has_subscription_changed: whether this heartbeat has changed the subscription: what is no longer subscribed to
            is revoked at once.
    """

    target_epoch: int
    target: MemberAssignment
    is_owned: Callable[[Uuid, int], bool]
    owned: OwnedPartitions | None
    subscribed_topic_ids: Collection[Uuid]
    has_subscription_changed: bool = False

    def next_step(self, member: ConsumerMember) -> ConsumerMember:
        """Return the member after this heartbeat; the same object when nothing changes.

        Raises:
            KafkaError: FENCED_MEMBER_EPOCH: the log holds a state of a later release.
        """
        match member.state:
            case MemberState.STABLE:
                if member.member_epoch != self.target_epoch:
                    return self._next_assignment(member, member.member_epoch)
                return self._without_unsubscribed(member) if self.has_subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS:
                if self._still_owns(member.pending_revocation):
                    return self._without_unsubscribed(member) if self.has_subscription_changed else member
                return self._next_assignment(member, member.member_epoch)
            case MemberState.UNRELEASED_PARTITIONS:
                return self._next_assignment(member, member.member_epoch)
            case MemberState.UNKNOWN:
                if self.owned is None or any(self.owned.values()):
                    raise KafkaError(
                        ErrorCode.FENCED_MEMBER_EPOCH,
                        "The consumer group member is in a unknown state. The member must abandon all its partitions "
                        "and rejoin.",
                    )
                return self._next_assignment(member, self.target_epoch)

    def _still_owns(self, revoked: EpochAssignment) -> bool:
        """Return whether the member owns a partition of ``revoked``, or does not report what it owns."""
        owned = self.owned
        if owned is None:
            return True
        return any(
            not partitions.keys().isdisjoint(owned.get(topic_id, ())) for topic_id, partitions in revoked.items()
        )

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Move the topics that are not subscribed to from the assigned to the revoked partitions."""
        removed = {
            topic_id: partitions
            for topic_id, partitions in member.assigned.items()
            if topic_id not in self.subscribed_topic_ids
        }
        if not removed:
            return member
        assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in removed}
        revoked = dict(member.pending_revocation)
        for topic_id, epochs in removed.items():
            revoked[topic_id] = {**revoked.get(topic_id, {}), **epochs}
        if self._still_owns(revoked):
            return member.moved_to(MemberState.UNREVOKED_PARTITIONS, member.member_epoch, assigned, revoked)
        # The member has revoked them already: it stays in its state.
        return replace(member, previous_member_epoch=member.member_epoch, assigned=assigned)

    def _next_assignment(self, member: ConsumerMember, member_epoch: int) -> ConsumerMember:
        """Revoke what is not in the target; else add what is free of it, and take over the target's epoch."""
        assigned: dict[Uuid, Mapping[int, int]] = {}
        revoked: dict[Uuid, Mapping[int, int]] = {}
        added: dict[Uuid, list[int]] = {}
        has_unreleased = False
        for topic_id in self.target.keys() | member.assigned.keys():
            current = member.assigned.get(topic_id, {})
            target = self.target.get(topic_id, frozenset()) if topic_id in self.subscribed_topic_ids else frozenset()
            kept = {partition: epoch for partition, epoch in current.items() if partition in target}
            if kept:
                assigned[topic_id] = kept
            if len(kept) < len(current):
                revoked[topic_id] = {
                    partition: epoch for partition, epoch in current.items() if partition not in target
                }
            missing = target - kept.keys()
            # A partition that the member itself is revoking is not another's: it may keep it.
            own = member.pending_revocation.get(topic_id, {})
            free = [each for each in missing if each in own or not self.is_owned(topic_id, each)]
            has_unreleased = has_unreleased or len(free) < len(missing)
            if free:
                added[topic_id] = free
        if revoked and self._still_owns(revoked):
            return member.moved_to(MemberState.UNREVOKED_PARTITIONS, member_epoch, assigned, revoked)
        for topic_id, partitions in added.items():
            new = dict.fromkeys(sorted(partitions), self.target_epoch)
            assigned[topic_id] = {**assigned.get(topic_id, {}), **new}
        state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
        return member.moved_to(state, self.target_epoch, assigned)
