"""`ConsumerGroup`: members, epochs and assignments of one group, as its records say.

Everything here changes by the replay of records only, except the time of the next check of the topics. What a request
needs is counted as members change: no heartbeat walks the members.

Source: ConsumerGroup of Apache Kafka 4.3.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.assignors.types import NO_ASSIGNMENT, MemberAssignment
from ottla.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from ottla.groups.consumer.member import ConsumerMember, MemberState
from ottla.groups.consumer.state import ConsumerGroupState
from ottla.groups.modern.counts import add_count
from ottla.groups.modern.group import SubscribingGroup
from ottla.types import Uuid


class ConsumerGroup(SubscribingGroup[ConsumerMember]):
    """One group.

    Attributes:
        has_partition_metadata: whether the log has a record of Kafka 4.0, to be replaced by a tombstone.
    """

    __slots__ = (
        "_owners",
        "_stable_by_epoch",
        "assignors",
        "classic_count",
        "classic_protocols",
        "epoch_changed_ms",
        "has_partition_metadata",
        "static_members",
    )

    def __init__(self, group_id: str) -> None:
        """Create a group without members."""
        super().__init__(group_id)
        self.epoch_changed_ms: int | None = None
        """When `epoch` changed last, or was loaded; monotonic. None before."""
        self.static_members: dict[str, str] = {}
        """Member id by group instance id."""
        self.assignors: Counter[str] = Counter()
        """Members by the server-side assignor that they request."""
        self.classic_count = 0
        """Members that use the classic protocol."""
        self.classic_protocols: Counter[str] = Counter()
        """Those members by the classic protocols that they support."""
        self.has_partition_metadata = False
        self._owners: dict[Uuid, dict[int, str]] = {}
        self._stable_by_epoch: Counter[int] = Counter()

    # State

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        return ConsumerGroupState.STABLE if self.is_reconciled_without(None) else ConsumerGroupState.RECONCILING

    def is_reconciled_without(self, member: ConsumerMember | None) -> bool:
        """Return whether every member but ``member`` has its target assignment."""
        reconciled, others = self._stable_by_epoch[self.assignment_epoch], len(self.members)
        if member is not None:
            others -= 1
            reconciled -= member.is_reconciled_to(self.assignment_epoch)
        return reconciled >= others

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    def is_owned(self, topic_id: Uuid, partition: int) -> bool:
        """Return whether a member has the partition, or has still to revoke it."""
        return partition in self._owners.get(topic_id, ())

    def awaits_release(self, member: ConsumerMember) -> bool:
        """Return whether another member still owns a partition of the member's target."""
        # Source: waitingOnUnreleasedPartition.
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned.get(topic_id, ()) and self.is_owned(topic_id, partition)
            for topic_id, partitions in self.target.get(member.member_id, NO_ASSIGNMENT).items()
            for partition in partitions
        )

    # Members

    def supports_classic_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a classic member with these protocols may join: all classic members support one of them."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        return any(self.classic_protocols[name] == self.classic_count for name in names)

    def identified_member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """Return the member that a request names.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        if instance_id is None:
            return self.member(member_id)
        member = self.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {member.instance_id} was fenced by member "
                f"{member.member_id}.",
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> MemberAssignment:
        """Return the target assignment of a member; of a static one, that of the member id it had before."""
        member_id: str | None = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id)
        return NO_ASSIGNMENT if member_id is None else self.target.get(member_id, NO_ASSIGNMENT)

    def put_member(self, member: ConsumerMember) -> None:
        """Add a member, or replace the one with its id."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.subscriptions.replace(old, member)
        self._count(old, -1)
        self._count(member, 1)
        if old is None:
            self._own_partitions(member)
        elif (old.assigned, old.pending_revocation) != (member.assigned, member.pending_revocation):
            self._release_partitions(old)
            self._own_partitions(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it exists."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self.subscriptions.replace(member, None)
        self._count(member, -1)
        self._release_partitions(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _count(self, member: ConsumerMember | None, change: int) -> None:
        if member is None:
            return
        if member.state is MemberState.STABLE:
            add_count(self._stable_by_epoch, member.member_epoch, change)
        if member.server_assignor is not None:
            add_count(self.assignors, member.server_assignor, change)
        if member.classic is not None:
            self.classic_count += change
            for name in {protocol.name for protocol in member.classic.supported_protocols}:
                add_count(self.classic_protocols, name, change)

    def _own_partitions(self, member: ConsumerMember) -> None:
        # The newest record counts: a member that an older one shows as the owner has lost the partition meanwhile.
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.member_id))

    def _release_partitions(self, member: ConsumerMember) -> None:
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                owners = self._owners.get(topic_id)
                if owners is None:
                    continue
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    del self._owners[topic_id]

    def preferred_assignor(
        self, assignors: Sequence[str], old: ConsumerMember | None = None, new: ConsumerMember | None = None
    ) -> str:
        """Return the one of ``assignors`` that most members request, counting ``new`` instead of ``old``.

        The first one if no member requests any of them: the log of JVM Kafka may have classes that it was given.
        """
        counts = self.assignors
        if old is not new:
            counts = counts.copy()
            for member, change in ((old, -1), (new, 1)):
                if member is not None and member.server_assignor is not None:
                    counts[member.server_assignor] += change
        wanted = [(count, name) for name, count in counts.items() if count > 0 and name in assignors]
        return max(wanted, key=lambda entry: entry[0])[1] if wanted else assignors[0]
