"""The rebalance of a classic group: the transition to the next generation, and the removal of members.

A rebalance has two phases. Join: members send JoinGroup and wait until all have joined or the longest rebalance timeout
has expired; members that have not joined are removed, except static members. Sync: the leader sends assignments, the
others wait for theirs. The first rebalance of an empty group is delayed (``group.initial.rebalance.delay.ms``); each
new member prolongs the delay up to the rebalance timeout, so that a fleet that starts together gets one generation.

Operations return the `GroupResult` to write, or None.

Source: GroupMetadataManager of Kafka (prepareRebalance, completeClassicGroupJoin, ...); KIP-134.
"""

import logging
from collections.abc import Mapping

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.shard import CoordinatorTimer
from ottla.errors import ErrorCode
from ottla.groups.classic.group import ClassicGroup, join_error_response
from ottla.groups.classic.member import ClassicMember
from ottla.groups.classic.records import record_of
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.config import GroupConfig
from ottla.groups.log import GroupRecord
from ottla.groups.result import GroupResult
from ottla.ports import Clock, Random
from ottla.quoting import quoted
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

log = logging.getLogger(__name__)

_JOINED = (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE)


class Rebalancer:
    """The classic groups of one shard, and their timers."""

    def __init__(
        self, *, config: GroupConfig, clock: Clock, random: Random, timer: CoordinatorTimer[GroupRecord]
    ) -> None:
        self.config = config
        self.clock = clock
        self.random = random
        self.timer = timer
        self.groups: dict[str, ClassicGroup] = {}

    # Rebalances

    def rebalance_or_complete_join(self, group: ClassicGroup, reason: str) -> GroupResult | None:
        """Start a rebalance, or complete the current join phase if all have joined; ``reason`` has `quoted` names."""
        if group.can_rebalance:
            return self.prepare_rebalance(group, reason)
        return self.maybe_complete_join(group)

    def prepare_rebalance(self, group: ClassicGroup, reason: str) -> GroupResult | None:
        """Start the join phase: members are notified by their heartbeats and join again."""
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            self.fail_sync(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self.timer.cancel(_sync_key(group))
        is_initial = group.is_empty
        if is_initial:
            delay_ms = self.config.initial_rebalance_delay_ms
            self._delay_initial_join(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.transition_to(ClassicGroupState.PREPARING_REBALANCE, wall_ms=self.clock.wall_ms())
        log.info("Group %s leaves generation %d to rebalance: %s", quoted(group.group_id), group.generation_id, reason)
        if is_initial:
            return None
        if group.all_members_joined:
            return self.complete_join(group)
        self.timer.schedule(_join_key(group), group.rebalance_timeout_ms, lambda: self.complete_join(group))
        return None

    def maybe_complete_join(self, group: ClassicGroup) -> GroupResult | None:
        """End the join phase if all members have joined; a group's first one ends only by its timer."""
        is_joining = group.state is ClassicGroupState.PREPARING_REBALANCE
        if not is_joining or group.previous_state is ClassicGroupState.EMPTY or not group.all_members_joined:
            return None
        return self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> GroupResult | None:
        """End the join phase: remove members that have not joined, start the next generation, complete JoinGroups."""
        self.timer.cancel(_join_key(group))
        late = [member for member in group.members.values() if member.awaiting_join is None and not member.is_static]
        for member in late:
            self.remove_member(group, member.member_id)
            log.info(
                "Group %s drops %s, which did not rejoin in time", quoted(group.group_id), quoted(member.member_id)
            )
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none has joined: wait until one joins or its session expires.
            self.timer.schedule(_join_key(group), group.rebalance_timeout_ms, lambda: self.complete_join(group))
            return None
        group.start_next_generation(wall_ms=self.clock.wall_ms())
        if group.is_empty:
            log.info("Group %s is empty in generation %d", quoted(group.group_id), group.generation_id)
            return CoordinatorResult(records=[record_of(group, {})], response=None, is_replayed=False)
        log.info(
            "Group %s has %d members in generation %d", quoted(group.group_id), len(group.members), group.generation_id
        )
        for member in list(group.members.values()):
            members = group.members_for_leader() if member.member_id == group.leader_id else []
            group.complete_join_future(member, self.join_response(group, member.member_id, members=members))
            self.renew_session(group, member)
            member.is_new = False
            group.pending_sync[member.member_id] = None
        generation_id = group.generation_id
        self.timer.schedule(
            _sync_key(group), group.rebalance_timeout_ms, lambda: self._expire_sync(group, generation_id)
        )
        return None

    def join_response(
        self,
        group: ClassicGroup,
        member_id: str,
        *,
        members: list[JoinGroupResponseMember] | None = None,
        leader: str | None = None,
        skip_assignment: bool = False,
    ) -> JoinGroupResponse:
        """Return the response with the current generation; ``leader`` overrides the group's leader."""
        return JoinGroupResponse(
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=leader if leader is not None else group.leader_id or "",
            skip_assignment=skip_assignment,
            member_id=member_id,
            members=members or [],
        )

    # Assignments

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Set every member's assignment (empty if the leader sent none) and complete the waiting SyncGroups."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            response = SyncGroupResponse(
                protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
            )
            self._complete_sync_and_renew(group, member, response)

    def fail_sync(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Remove every assignment and complete the waiting SyncGroups with ``error``."""
        for member in group.members.values():
            member.assignment = b""
            self._complete_sync_and_renew(group, member, SyncGroupResponse(error_code=int(error)))

    def record_sync(self, group: ClassicGroup, member_id: str) -> None:
        """Record a member's SyncGroup; cancel the sync time-out when it was the last one."""
        group.pending_sync.pop(member_id, None)
        if group.state not in _JOINED or not group.pending_sync:
            self.timer.cancel(_sync_key(group))

    # Sessions

    def renew_session(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Start the session timeout (or ``timeout_ms``) of ``member`` again."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member_id = member.member_id
        self.timer.schedule(_session_key(group, member_id), timeout_ms, lambda: self._expire_session(group, member_id))

    def await_pending_member(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Reserve the id of a new member (KIP-394) for ``timeout_ms``."""
        group.pending_join[member_id] = None
        self.timer.schedule(_session_key(group, member_id), timeout_ms, lambda: self._expire_session(group, member_id))

    def remove_member(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member or pending member, and its session; its waiting requests complete."""
        group.remove(member_id)
        self.timer.cancel(_session_key(group, member_id))

    def replace_static_member(self, group: ClassicGroup, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member a new id, with a session of its own."""
        self.timer.cancel(_session_key(group, old_id))
        member = group.replace_static_member(instance_id, old_id, new_id)
        self.renew_session(group, member)
        return member

    # Groups

    def get_or_create(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id)
            group.state_timestamp_ms = self.clock.wall_ms()
        return group

    def add_converted(self, group: ClassicGroup, rebalance_reason: str | None) -> None:
        """Add a group that was a consumer group; start its sessions, and a rebalance if there is a reason for one."""
        assert group.group_id not in self.groups, f"group {group.group_id} is a classic group already"
        self.groups[group.group_id] = group
        for member in group.members.values():
            self.renew_session(group, member)
        if rebalance_reason is not None:
            result = self.prepare_rebalance(group, rebalance_reason)
            assert result is None, "its members have not joined yet"

    def start(self) -> list[GroupResult]:
        """Start the sessions of all loaded members; rebalance groups that must, or exceed ``group.max.size`` now."""
        results = []
        for group in self.groups.values():
            for member in group.members.values():
                self.renew_session(group, member)
            reason = "it was a consumer group" if group.must_rebalance else None
            if len(group.members) > self.config.max_size:
                reason = f"its {len(group.members)} members are more than group.max.size={self.config.max_size}"
            if reason is not None:
                result = self.prepare_rebalance(group, reason)
                if result is not None:
                    results.append(result)
        return results

    def stop(self) -> None:
        """Complete all waiting requests with NOT_COORDINATOR and make every group Dead."""
        error = ErrorCode.NOT_COORDINATOR
        for group in self.groups.values():
            group.transition_to(ClassicGroupState.DEAD, wall_ms=self.clock.wall_ms())
            for member in list(group.members.values()):
                group.complete_join_future(member, join_error_response(error, member.member_id))
                group.complete_sync_future(member, SyncGroupResponse(error_code=int(error)))

    def discard_group(self, group_id: str) -> None:
        """Remove a group that is deleted, or converted to a consumer group, which its members join then."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        error = ErrorCode.REBALANCE_IN_PROGRESS
        for member in group.members.values():
            group.complete_join_future(member, join_error_response(error, member.member_id))
            group.complete_sync_future(member, SyncGroupResponse(error_code=int(error)))
        for member_id in (*group.members, *group.pending_join):
            self.timer.cancel(_session_key(group, member_id))
        group.members.clear()
        group.pending_join.clear()
        self.timer.cancel(_join_key(group))
        self.timer.cancel(_sync_key(group))
        group.transition_to(ClassicGroupState.DEAD, wall_ms=self.clock.wall_ms())

    # Expiry of timers

    def _delay_initial_join(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def end_or_delay_again() -> GroupResult | None:
            if not group.new_member_added or remaining_ms == 0:
                return self.complete_join(group)
            group.new_member_added = False
            next_delay_ms = min(self.config.initial_rebalance_delay_ms, remaining_ms)
            self._delay_initial_join(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
            return None

        self.timer.schedule(_join_key(group), delay_ms, end_or_delay_again)

    def _expire_session(self, group: ClassicGroup, member_id: str) -> GroupResult | None:
        if member_id in group.pending_join:
            log.info("Group %s drops %s, which did not join with its id", quoted(group.group_id), quoted(member_id))
            group.remove(member_id)
            return self._complete_join_without(group)
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return None
        log.info("Group %s drops %s, whose session timed out", quoted(group.group_id), quoted(member_id))
        self.remove_member(group, member_id)
        if group.state in _JOINED:
            return self.rebalance_or_complete_join(group, f"the session of {quoted(member_id)} timed out")
        return self._complete_join_without(group)

    def _complete_join_without(self, group: ClassicGroup) -> GroupResult | None:
        is_joining = group.state is ClassicGroupState.PREPARING_REBALANCE
        return self.complete_join(group) if is_joining and group.all_members_joined else None

    def _expire_sync(self, group: ClassicGroup, generation_id: int) -> GroupResult | None:
        if group.generation_id != generation_id or group.state not in _JOINED or not group.pending_sync:
            return None
        silent = list(group.pending_sync)
        for member_id in silent:
            self.remove_member(group, member_id)
        return self.prepare_rebalance(group, f"{quoted(', '.join(silent))} sent no SyncGroup in time")

    def _complete_sync_and_renew(self, group: ClassicGroup, member: ClassicMember, response: SyncGroupResponse) -> None:
        # A session that expired while the member waited was kept and has no timer any more: start it again.
        if group.complete_sync_future(member, response):
            self.renew_session(group, member)


def _join_key(group: ClassicGroup) -> tuple[str, ...]:
    return ("join", group.group_id)


def _sync_key(group: ClassicGroup) -> tuple[str, ...]:
    return ("sync", group.group_id)


def _session_key(group: ClassicGroup, member_id: str) -> tuple[str, ...]:
    return ("session", group.group_id, member_id)
