"""The conversion of a classic group to a consumer group, when a member of the consumer protocol joins it.

Source: GroupMetadataManager.validateOnlineUpgrade, convertToConsumerGroup, ConsumerGroup.fromClassicGroup of Apache
Kafka 4.3.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.groups.assignors.types import MemberAssignment
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.member import ClassicMember
from ottla.groups.config import GroupConfig
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import SUBSCRIBED_TOPICS_MAX, ConsumerMember
from ottla.groups.consumer.records import (
    current_assignment_record,
    epoch_record,
    member_record,
    target_assignment_record,
    target_epoch_record,
)
from ottla.groups.log import GroupRecord, group_metadata_record
from ottla.groups.migration.consumer_protocol import decode_assignment, decode_subscription
from ottla.groups.migration.sizes import encoded_in_steps, portions, size_of_classic
from ottla.groups.modern.topics import ClusterTopics
from ottla.purgatory.steps import Steps
from ottla.quoting import one_line, quoted
from ottla.types import Uuid
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.group_log import ClassicMemberMetadata, ClassicProtocol
from ottla.wire.messages.join_group import JoinGroupRequestProtocol

log = logging.getLogger(__name__)

Source: TypeAlias = tuple[int, list[tuple[ClassicMember, list[JoinGroupRequestProtocol], bytes]]]
"""A classic group's generation, and its members with their protocols and assignments."""

NEVER_ASSIGNED_MS: Final = 0
"""The time of an assignment that a leader among the members has made: the next one is due at once."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The consumer group that replaces a classic group, and the records that do it.

    Attributes:
        group: as a replay of ``records`` would build it.
        records: in Kafka's order, the tombstone of the classic group first.
        source: what it was made of.
    """

    group: ConsumerGroup
    records: list[GroupRecord]
    source: Source

    def is_of(self, classic: ClassicGroup) -> bool:
        """Return whether the classic group has not changed since."""
        generation_id, members = _source_of(classic)
        # Each change of a member makes new objects; to compare their contents would take milliseconds.
        return (
            generation_id == self.source[0]
            and len(members) == len(self.source[1])
            and all(
                now[0] is then[0] and now[1] is then[1] and now[2] is then[2]
                for now, then in zip(members, self.source[1], strict=True)
            )
        )


def _source_of(classic: ClassicGroup) -> Source:
    members = [(member, member.protocols, member.assignment) for member in classic.members.values()]
    return classic.generation_id, members


def upgrade_in_steps(classic: ClassicGroup, config: GroupConfig, topics: ClusterTopics) -> Steps[Upgrade]:
    """Return what replaces ``classic``, which is not changed; it may change between the steps, see `Upgrade.is_of`.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND: the policy or the group does not permit it; UNKNOWN_SERVER_ERROR: the group has
            no generation yet, or two members have the same partition.
    """
    _check(classic, config)
    source, protocol_name = _source_of(classic), classic.protocol_name
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.assignment_epoch = classic.generation_id
    claims: dict[str, ConsumerProtocolSubscription] = {}
    for portion in portions(list(classic.members.values()), size_of_classic):
        for member in portion:
            subscription = yield from _add_converted(group, member, protocol_name, topics)
            if subscription.owned_partitions:
                claims[member.member_id] = subscription
        yield None
    for member_id, claim in claims.items():
        if claimed := _claimed(group, claim, topics):
            _put(group, _with_more(group.members[member_id], claimed))
        yield None
    yield from topics.prepare(group.subscriptions.topics)
    group.metadata_hash = topics.hash_of(group.subscriptions.topics)
    return Upgrade(group, (yield from encoded_in_steps(_records(group))), source)


def _check(classic: ClassicGroup, config: GroupConfig) -> None:
    group_id = classic.group_id
    if not config.consumer_migration_policy.permits_upgrade:
        raise _not_upgraded(group_id, "online upgrade is disabled.")
    if not classic.uses_consumer_protocol:
        raise _not_upgraded(group_id, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > config.consumer_max_size:
        raise _not_upgraded(group_id, "the group size exceeds the consumer group maximum size.")
    if classic.protocol_name is None:
        # Its first members are still joining.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _not_upgraded(group_id: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group_id} to consumer group because {reason}"
    )


def _add_converted(
    group: ConsumerGroup, member: ClassicMember, protocol_name: str | None, topics: ClusterTopics
) -> Steps[ConsumerProtocolSubscription]:
    """Add a classic member with what it is assigned; return its subscription."""
    try:
        subscription = yield from _subscription(member, protocol_name)
        assigned = yield from _assigned(group, member, topics)
        _add(group, _converted(member, subscription, group.epoch, assigned))
    except ProtocolError as error:
        log.warning(
            "Group %s does not become a consumer group: the subscription or assignment of %s: %s",
            quoted(group.group_id),
            quoted(member.member_id),
            one_line(str(error)),
        )
        raise _not_upgraded(group.group_id, "the embedded consumer protocol is malformed.") from error
    return subscription


def _subscription(member: ClassicMember, protocol_name: str | None) -> Steps[ConsumerProtocolSubscription]:
    metadata = next((each.metadata for each in member.protocols if each.name == protocol_name), None)
    if metadata is None:
        # It is joining, and does not support the protocol of the last generation.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    subscription = yield from decode_subscription(metadata)
    if len(subscription.topics) > SUBSCRIBED_TOPICS_MAX:
        raise ProtocolError(f"it has {len(subscription.topics)} topics; consumer groups permit {SUBSCRIBED_TOPICS_MAX}")
    return subscription


def _converted(
    member: ClassicMember, subscription: ConsumerProtocolSubscription, epoch: int, assigned: MemberAssignment
) -> ConsumerMember:
    """Return a classic member as a member of the consumer group: stable, with what it has."""
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=epoch,
        previous_member_epoch=epoch,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        assigned={topic_id: dict.fromkeys(sorted(partitions), epoch) for topic_id, partitions in assigned.items()},
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def classic_metadata(session_timeout_ms: int, protocols: list[JoinGroupRequestProtocol]) -> ClassicMemberMetadata:
    """Return what a consumer group keeps of a classic member besides the subscription."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=each.name, metadata=each.metadata) for each in protocols],
    )


def _assigned(group: ConsumerGroup, member: ClassicMember, topics: ClusterTopics) -> Steps[MemberAssignment]:
    if not member.assignment:
        return {}
    assignment = yield from decode_assignment(member.assignment)
    if assignment.user_data:
        log.warning(
            "Group %s does not become a consumer group: its client-side assignor keeps user data in assignments",
            quoted(group.group_id),
        )
        raise _not_upgraded(
            group.group_id,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    return {
        topic_id: frozenset(topic.partitions)
        for topic in assignment.assigned_partitions
        if (topic_id := topics.id_of(topic.topic)) is not None
    }


def _claimed(
    group: ConsumerGroup, subscription: ConsumerProtocolSubscription, topics: ClusterTopics
) -> MemberAssignment:
    """Return what a member said that it owned when it joined, without what others have.

    Cooperative members still read it: a leader that moves a partition assigns it to none of them in one generation, and
    a rebalance that starts before the last one has ended drops all assignments. Kafka would give these to others.
    """
    claimed: dict[Uuid, frozenset[int]] = {}
    for topic in subscription.owned_partitions:
        topic_id = topics.id_of(topic.topic)
        if topic_id is not None:
            free = (partition for partition in topic.partitions if not group.is_owned(topic_id, partition))
            claimed[topic_id] = claimed.get(topic_id, frozenset()) | frozenset(free)
    return {topic_id: partitions for topic_id, partitions in claimed.items() if partitions}


def _with_more(member: ConsumerMember, claimed: MemberAssignment) -> ConsumerMember:
    assigned = {topic_id: dict(partitions) for topic_id, partitions in member.assigned.items()}
    for topic_id, partitions in claimed.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(sorted(partitions), member.member_epoch))
    return replace(member, assigned=assigned)


def _add(group: ConsumerGroup, member: ConsumerMember) -> None:
    if any(group.is_owned(topic_id, each) for topic_id, partitions in member.assigned.items() for each in partitions):
        # Whatever the leader meant by it: a partition of a consumer group has one owner.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    _put(group, member)


def _put(group: ConsumerGroup, member: ConsumerMember) -> None:
    group.put_member(member)
    target = {topic_id: frozenset(each) for topic_id, each in member.assigned.items()}
    group.put_target(member.member_id, target)


def _records(group: ConsumerGroup) -> Iterator[GroupRecord]:
    group_id, members = group.group_id, group.members.values()
    yield group_metadata_record(group_id, None)
    for member in members:
        yield member_record(group_id, member)
    yield epoch_record(group_id, group.epoch, group.metadata_hash)
    for member_id, target in group.target.items():
        yield target_assignment_record(group_id, member_id, target)
    yield target_epoch_record(group_id, group.assignment_epoch, NEVER_ASSIGNED_MS)
    for member in members:
        yield current_assignment_record(group_id, member)
