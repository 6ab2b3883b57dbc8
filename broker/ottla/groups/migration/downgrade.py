"""The conversion of a consumer group to a classic group, when only members of the classic protocol are left.

Source: GroupMetadataManager.validateOnlineDowngradeWithFencedMembers, validateOnlineDowngradeWithReplacedMember,
convertToClassicGroup, ClassicGroup.fromConsumerGroup of Apache Kafka 4.3.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.errors import ProtocolError
from ottla.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.groups.classic.member import ClassicMember
from ottla.groups.classic.records import record_of
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.classic.subscription import subscribed_topics
from ottla.groups.config import GroupConfig
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import ConsumerMember
from ottla.groups.consumer.records import group_tombstones
from ottla.groups.log import GroupRecord
from ottla.groups.migration.consumer_protocol import encode_assignment, version_of
from ottla.groups.migration.sizes import encoded_in_steps, portions, size_of_consumer
from ottla.groups.modern.topics import ClusterTopics
from ottla.purgatory.steps import Steps
from ottla.quoting import quoted
from ottla.types import Uuid
from ottla.wire.messages.join_group import JoinGroupRequestProtocol

log = logging.getLogger(__name__)


def ends_with_members(group: ConsumerGroup, leaving: Iterable[ConsumerMember], config: GroupConfig) -> bool:
    """Return whether the group becomes a classic one when ``leaving`` (each once) have left."""
    left, left_classic = len(group.members), group.classic_count
    for member in leaving:
        left -= 1
        left_classic -= member.uses_classic_protocol
    return left > 0 and left_classic == left and _is_permitted(group, left, config)


def ends_with_replacement(group: ConsumerGroup, replaced: ConsumerMember, config: GroupConfig) -> bool:
    """Return whether the group becomes a classic one when a classic member takes the place of ``replaced``."""
    is_last = not replaced.uses_classic_protocol and group.classic_count == len(group.members) - 1
    return is_last and _is_permitted(group, len(group.members), config)


def _is_permitted(group: ConsumerGroup, size: int, config: GroupConfig) -> bool:
    reason = None
    if not config.consumer_migration_policy.permits_downgrade:
        reason = "online downgrade is disabled"
    elif size > config.max_size:
        reason = f"its {size} members are more than group.max.size={config.max_size}"
    if reason is not None:
        log.info("Group %s does not become a classic group: %s", quoted(group.group_id), reason)
    return reason is None


@dataclass(frozen=True, slots=True)
class Downgrade:
    """The classic group that replaces a consumer group, and the records that do it."""

    classic: ClassicGroup
    records: list[GroupRecord]


def downgrade_in_steps(
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    topics: ClusterTopics,
    *,
    wall_ms: int,
    must_rebalance: bool,
    renamed: Mapping[str, str] | None = None,
) -> Steps[Downgrade | None]:
    """Return a Stable classic group of ``members``, all of which use the classic protocol, with what they own.

    Kafka gives them their targets. Those have partitions that other members still read, and lack some that they have to
    revoke: an upgrade during the rebalance, or the next coordinator, would give them to two members (found by the
    simulator). ``must_rebalance``: the record has no leader, so that the next coordinator starts the rebalance as well.

    ``renamed``: see `group_tombstones`. None if the members' metadata is malformed, or they have no protocol in common:
    no JoinGroup leads to that, but a record may be corrupt.
    """
    classic = ClassicGroup(group.group_id)
    classic.state = ClassicGroupState.STABLE
    classic.state_timestamp_ms = wall_ms
    classic.generation_id = group.epoch
    owned: dict[str, Mapping[Uuid, Collection[int]]] = {}
    for portion in portions(members, size_of_consumer):
        for member in portion:
            classic.add(_converted(member))
            owned[member.member_id] = member.owned_partitions()
        yield None
    if not classic.has_common_protocol:
        log.warning("Group %s does not become a classic group: no common protocol", quoted(group.group_id))
        return None
    name = classic.protocol_name = classic.select_protocol()
    yield None
    for portion in portions(members, size_of_consumer):
        try:
            for member in portion:
                metadata = classic.members[member.member_id].metadata(name)
                subscribed_topics([metadata])
                assignment = encode_assignment(owned[member.member_id], version_of(metadata), topics)
                classic.members[member.member_id].assignment = assignment
        except ProtocolError as error:
            log.warning("Group %s does not become a classic group: %s", quoted(group.group_id), error)
            return None
        yield None
    classic.keep_subscriptions()
    tombstones = yield from encoded_in_steps(group_tombstones(group, renamed))
    assignments = {each.member_id: each.assignment for each in classic.members.values()}
    record = record_of(classic, assignments, has_leader=not must_rebalance)
    return Downgrade(classic, [*tombstones, *(yield from encoded_in_steps([record]))])


def _converted(member: ConsumerMember) -> ClassicMember:
    metadata = member.classic
    assert metadata is not None, f"{member.member_id} uses the consumer protocol"
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=metadata.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequestProtocol(name=each.name, metadata=each.metadata) for each in metadata.supported_protocols
        ],
    )
