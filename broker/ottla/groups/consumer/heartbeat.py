"""ConsumerGroupHeartbeat of a member that joins or stays: its subscription, its target, the next step towards it.

Source: GroupMetadataManager.consumerGroupHeartbeat of Apache Kafka 4.3; KIP-848.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.client import Client
from ottla.groups.consumer.advance import (
    new_member_id,
    reconcile,
    replace_static_member,
    update_epoch,
)
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.groups import ConsumerGroups
from ottla.groups.consumer.member import NOT_SET, ConsumerMember
from ottla.groups.consumer.reconciliation import OwnedPartitions
from ottla.groups.consumer.records import member_record
from ottla.groups.consumer.regex_resolution import (
    MayDescribe,
    RegexChange,
    update_regexes,
)
from ottla.groups.consumer.target import target_for
from ottla.groups.log import GroupRecord, group_metadata_record
from ottla.groups.migration.sizes import fits_in_place, size_of_classic
from ottla.groups.migration.upgrade import Upgrade, upgrade_in_steps
from ottla.groups.modern.member_epochs import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from ottla.purgatory.steps import run_to_end
from ottla.quoting import quoted
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

log = logging.getLogger(__name__)

SETTLING_MS: Final = 10_000
"""How long after a change of the group's epoch heartbeats are frequent."""


PreparedUpgrade: TypeAlias = Upgrade | KafkaError | None
"""The conversion of a large classic group, or the reason why it is impossible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A heartbeat in progress.

    Attributes:
        subscribed_topic_names: sorted, each once; None for no change.
        owned: the partitions that the member reports; None for no change.
        upgrade: the conversion of a classic group that the member joins, if it was prepared.
    """

    client: Client
    request: ConsumerGroupHeartbeatRequest
    subscribed_topic_names: tuple[str, ...] | None
    owned: OwnedPartitions | None
    may_describe: MayDescribe
    upgrade: PreparedUpgrade = None

    @property
    def is_join(self) -> bool:
        return self.request.member_epoch == JOIN_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether the member sent all that it has: when it joins, and after an error."""
        request = self.request
        has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return request.rebalance_timeout_ms != NOT_SET and has_subscription and request.topic_partitions is not None

    @property
    def is_bare(self) -> bool:
        """Whether it says nothing of the member but that it lives, and what it owns."""
        request = self.request
        return (
            self.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.server_assignor is None
            and request.instance_id is None
            and request.rack_id is None
            and request.rebalance_timeout_ms == NOT_SET
        )


def heartbeat(
    groups: ConsumerGroups, beat: Heartbeat
) -> CoordinatorResult[GroupRecord, ConsumerGroupHeartbeatResponse]:
    """Add or keep a member; return its records, and the response with what it has to own.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
            UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION; those of `upgrade_in_steps`;
            COORDINATOR_LOAD_IN_PROGRESS: a large classic group has changed since its conversion was prepared; nothing
            has changed.
    """
    request = beat.request
    records: list[GroupRecord] = []
    converted: list[GroupRecord] = []
    group = _group(groups, beat, records, converted)
    groups.check_size(group, request.member_id, groups.settings.config.consumer_max_size)
    owned = beat.owned
    member = _member(groups, group, beat, owned, records)
    updated = _with_request(member, beat)
    if updated is not member and updated != member:
        records.append(member_record(group.group_id, updated))
    has_new_names = updated.subscribed_topic_names != member.subscribed_topic_names
    regex_change = update_regexes(groups, group, member, updated, beat.may_describe, records)
    epoch = update_epoch(
        groups,
        group,
        member,
        updated,
        records,
        must_increment=has_new_names or regex_change is RegexChange.UPDATED_AND_RESOLVED,
    )
    target = target_for(groups, group, epoch, member, updated, records)
    updated = reconcile(
        groups,
        group,
        updated,
        target,
        owned,
        records,
        has_subscription_changed=has_new_names or regex_change is not RegexChange.NONE,
    )
    if member.uses_classic_protocol:
        groups.end_classic_timers(group.group_id, member.member_id)
    groups.renew_session(group.group_id, updated)
    response = ConsumerGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=_heartbeat_interval_ms(groups, group, epoch),
    )
    if beat.is_join or beat.is_full or updated.assigned != member.assigned:
        response.assignment = _assignment(updated)
    if not converted:
        return CoordinatorResult(records=records, response=response)
    return CoordinatorResult(
        records=[*converted, *records], response=response, apply=lambda: groups.apply_upgrade(group, records)
    )


def _heartbeat_interval_ms(groups: ConsumerGroups, group: ConsumerGroup, epoch: int) -> int:
    """Return the time until the member's next heartbeat: short while the members move to a new epoch.

    A partition moves in two steps, each of which waits for a heartbeat: one member revokes it, then the other may have
    it. With 5 s between heartbeats a group of ten takes 10 s to start. The more members, the longer the interval, so
    that those of one group send 1,000 heartbeats a second at most for this.
    """
    usual_ms, settling_ms = groups.settings.heartbeat_interval_ms(group.group_id), groups.settings.settling_interval_ms
    changed_ms = group.epoch_changed_ms
    is_settling = epoch != group.epoch or (
        changed_ms is not None and groups.clock.monotonic_ms() - changed_ms < SETTLING_MS
    )
    if not is_settling or settling_ms == 0:
        return usual_ms
    return min(usual_ms, max(settling_ms, len(group.members)))


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in member.assigned.items()
        ]
    )


# Group and member


def _group(
    groups: ConsumerGroups, beat: Heartbeat, records: list[GroupRecord], converted: list[GroupRecord]
) -> ConsumerGroup:
    """Return the group; a new one, which the records create, for a member that joins.

    The records of an upgrade are added to ``converted``.
    """
    group_id = beat.request.group_id
    if not beat.is_join:
        return groups.group(group_id, subject="Consumer group")
    group = groups.groups.get(group_id)
    if group is not None:
        return group
    if groups.is_of_other_protocol(group_id):
        raise groups.other_protocol_error(group_id)
    classic = groups.classic.groups.get(group_id)
    if classic is not None:
        if not classic.is_empty:
            upgraded = _upgrade(groups, classic, beat.upgrade)
            converted += upgraded.records
            return upgraded.group
        records.append(group_metadata_record(group_id, None))
    return ConsumerGroup(group_id)


def _upgrade(groups: ConsumerGroups, classic: ClassicGroup, prepared: PreparedUpgrade) -> Upgrade:
    """Return the conversion of a classic group; that of a large one must have been prepared."""
    if isinstance(prepared, KafkaError):
        raise prepared
    if prepared is not None and prepared.is_of(classic):
        return prepared
    if not fits_in_place(map(size_of_classic, classic.members.values())):
        # It has changed meanwhile. The member tries again.
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return run_to_end(upgrade_in_steps(classic, groups.settings.config, groups.topics))


def _member(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    beat: Heartbeat,
    owned: OwnedPartitions | None,
    records: list[GroupRecord],
) -> ConsumerMember:
    """Return the member as it is known, or a new one."""
    request = beat.request
    member_id = request.member_id or new_member_id(groups)
    if request.instance_id is not None:
        return _static_member(groups, group, beat, member_id, owned, records)
    member = group.members.get(member_id)
    if member is None:
        if not beat.is_join:
            return group.member(member_id)
        member = ConsumerMember(member_id=member_id)
    _check_epoch(member, request.member_epoch, owned)
    if beat.is_join:
        log.info("Group %s: %s joins", quoted(group.group_id), quoted(member_id))
    return member


def _static_member(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    beat: Heartbeat,
    member_id: str,
    owned: OwnedPartitions | None,
    records: list[GroupRecord],
) -> ConsumerMember:
    """Return a static member; it continues one that has left for a while, or that uses the classic protocol."""
    instance_id = beat.request.instance_id
    if not beat.is_join:
        current = group.identified_member(member_id, instance_id)
        _check_epoch(current, beat.request.member_epoch, owned)
        return current
    replaced = group.static_member(instance_id)
    log.info("Group %s: %s joins as instance %s", quoted(group.group_id), quoted(member_id), quoted(instance_id or ""))
    if replaced is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    if not replaced.uses_classic_protocol and replaced.member_epoch != LEAVE_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {replaced.member_id} member.",
        )
    return replace_static_member(groups, group, replaced, member_id, records)


def _check_epoch(member: ConsumerMember, epoch: int, owned: OwnedPartitions | None) -> None:
    """Accept the member's epoch, and the one before with nothing else than the assignment that went with it.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH.
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    is_behind = epoch < member.member_epoch
    if is_behind and epoch == member.previous_member_epoch and _is_within(owned, member.assigned):
        # The response with the new epoch may have been lost.
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'smaller' if is_behind else 'greater'} member epoch ({epoch}) than the one "
        f"known by the group coordinator ({member.member_epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _is_within(owned: OwnedPartitions | None, assigned: Mapping[Uuid, Mapping[int, int]]) -> bool:
    if owned is None:
        return False
    return all(
        topic_id in assigned and assigned[topic_id].keys() >= set(partitions) for topic_id, partitions in owned.items()
    )


def _with_request(member: ConsumerMember, beat: Heartbeat) -> ConsumerMember:
    """Return the member with what the request says; what it leaves out has not changed."""
    request = beat.request
    names, regex = beat.subscribed_topic_names, request.subscribed_topic_regex
    client, known = beat.client, (member.client_id, member.client_host, member.classic)
    if beat.is_bare and known == (client.client_id, client.host, None):
        return member
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_SET else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topic_names=member.subscribed_topic_names if names is None else names,
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=client.client_id,
        client_host=client.host,
        classic=None,
    )
