"""`ConsumerGroups`: the consumer groups of one shard, the replay of their records, and the timers of their members.

A group id belongs to one protocol: its group is here, or among those of another protocol.

Source: GroupMetadataManager of Apache Kafka 4.3 (replay, onLoaded, *Timeout).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.shard import CoordinatorTimer
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.consumer.fencing import removal_records
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import ConsumerMember, MemberState
from ottla.groups.consumer.replay import REPLAY
from ottla.groups.consumer.settings import ConsumerGroupSettings
from ottla.groups.consumer.state import ConsumerGroupState
from ottla.groups.log import GroupRecord
from ottla.groups.migration.downgrade import Downgrade, downgrade_in_steps, ends_with_members
from ottla.groups.migration.sizes import fits_in_place, size_of_consumer
from ottla.groups.modern.jobs import GroupJob, GroupJobs, in_job
from ottla.groups.modern.timers import RemovalTimers
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.result import GroupResult
from ottla.ports import Clock, Random
from ottla.purgatory.steps import run_to_end
from ottla.quoting import quoted

log = logging.getLogger(__name__)

ASSIGNMENT_JOB: Final = "assignment"
REGEX_JOB: Final = "regex"
DOWNGRADE_JOB: Final = "downgrade"
DOWNGRADE_ATTEMPTS_MAX: Final = 10
"""How often a conversion starts again because members have changed meanwhile; the next removal starts another."""
LAST_MEMBER_GONE: Final = "its last member of the consumer protocol is gone"

ResponseT = TypeVar("ResponseT")


class ConsumerGroups:
    """The consumer groups of one shard."""

    def __init__(
        self,
        *,
        settings: ConsumerGroupSettings,
        topics: ClusterTopics,
        clock: Clock,
        random: Random,
        timer: CoordinatorTimer[GroupRecord],
        classic: Rebalancer,
        is_share_group: Callable[[str], bool],
        is_streams_group: Callable[[str], bool],
    ) -> None:
        self.settings = settings
        self.topics = topics
        self.clock = clock
        self.random = random
        self.classic = classic
        self.is_share_group = is_share_group
        self._is_streams_group = is_streams_group
        self.jobs = GroupJobs(timer)
        self.groups: dict[str, ConsumerGroup] = {}
        self._timers = RemovalTimers(timer)

    # Groups

    def group(self, group_id: str) -> ConsumerGroup:
        """Return a consumer group.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND: there is no such group, or it is of another protocol.
        """
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if group_id in self.classic.groups or self.is_of_other_protocol(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")

    def is_of_other_protocol(self, group_id: str) -> bool:
        """Return whether a group with this id is neither a consumer group nor a classic one."""
        return self.is_share_group(group_id) or self._is_streams_group(group_id)

    def require_offsets(self, group_id: str) -> None:
        """Reject commits to a share group: the state of its partitions is kept by the share coordinators.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        if self.is_share_group(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def replay(self, record: GroupRecord) -> bool:
        """Change the group that a record belongs to; return False for a record of another kind."""
        if not REPLAY.includes(record):
            return False
        group_id: str = record.key.group_id  # type: ignore[attr-defined]
        group = self.groups.get(group_id)
        if group is None:
            if record.value is None:
                # Compaction has removed what this tombstone removes.
                return True
            # A group that only has offsets has no record of its own: this one is of a consumer group from now on.
            self.classic.discard_group(group_id)
            group = self.groups[group_id] = ConsumerGroup(group_id)
        before = group.epoch
        if REPLAY.apply(group, record):
            self.discard_group(group_id)
        elif group.epoch != before:
            group.epoch_changed_ms = self.clock.monotonic_ms()
        return True

    def discard_group(self, group_id: str) -> ConsumerGroup | None:
        """Remove a group, if it exists, with its jobs and timers; return it."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return None
        for kind in (ASSIGNMENT_JOB, REGEX_JOB, DOWNGRADE_JOB):
            self.jobs.cancel(kind, group_id)
        for member_id in group.members:
            self._cancel_timers(group_id, member_id)
        return group

    def restore_group(self, group: ConsumerGroup) -> None:
        """Undo `discard_group` of a group without members: what was to replace it could not be written."""
        assert group.is_empty, f"group {group.group_id} has members"
        self.groups[group.group_id] = group

    # Timers

    def start(self) -> None:
        """Start the sessions of all loaded members, and the time-outs of those that are revoking partitions."""
        for group in self.groups.values():
            if group.state in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY):
                # It was loaded, and did not change: its members need no frequent heartbeats.
                group.epoch_changed_ms = None
            for member in group.members.values():
                self.renew_session(group.group_id, member)
                if member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
                    self.await_revocation(group.group_id, member)

    def renew_session(self, group_id: str, member: ConsumerMember) -> None:
        """Start a member's session again: that of the group, or the one that a classic member requests."""
        member_id, classic = member.member_id, member.classic
        self._timers.schedule(
            ("consumer-session", group_id, member_id),
            self.settings.session_timeout_ms(group_id) if classic is None else classic.session_timeout_ms,
            lambda: self._fence(group_id, member_id, "its session timed out"),
        )

    def await_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Remove the member unless it has left its epoch when its rebalance timeout is over."""
        member_id, epoch = member.member_id, member.member_epoch

        def expire() -> GroupResult | None:
            group = self.groups.get(group_id)
            current = None if group is None else group.members.get(member_id)
            if current is None or current.member_epoch != epoch:
                return None
            return self._fence(group_id, member_id, f"it did not leave epoch {epoch} within its rebalance timeout")

        self._timers.schedule(("consumer-rebalance", group_id, member_id), member.rebalance_timeout_ms, expire)

    def end_revocation(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("consumer-rebalance", group_id, member_id))

    def await_join(self, group_id: str, member: ConsumerMember) -> None:
        """Remove a classic member that does not join within its rebalance timeout after its first notification."""
        member_id = member.member_id
        self._timers.schedule_if_absent(
            ("consumer-join", group_id, member_id),
            member.rebalance_timeout_ms,
            lambda: self._fence(group_id, member_id, "it did not join within its rebalance timeout"),
        )

    def await_sync(self, group_id: str, member: ConsumerMember) -> None:
        """Remove a classic member that has joined and sends no SyncGroup within its rebalance timeout."""
        member_id = member.member_id
        self._timers.cancel(("consumer-join", group_id, member_id))
        self._timers.schedule(
            ("consumer-sync", group_id, member_id),
            member.rebalance_timeout_ms,
            lambda: self._fence(group_id, member_id, "it sent no SyncGroup within its rebalance timeout"),
        )

    def end_sync(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("consumer-sync", group_id, member_id))

    def end_classic_timers(self, group_id: str, member_id: str) -> None:
        """Stop waiting for requests of the classic protocol."""
        self._timers.cancel(("consumer-join", group_id, member_id))
        self.end_sync(group_id, member_id)

    def _cancel_timers(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("consumer-session", group_id, member_id))
        self.end_revocation(group_id, member_id)
        self.end_classic_timers(group_id, member_id)

    # Conversion

    def apply_upgrade(self, group: ConsumerGroup, records: Sequence[GroupRecord]) -> None:
        """Replace a classic group by ``group``, as the log has done, and replay the records that follow."""
        log.info("Group %s becomes a consumer group in epoch %d", quoted(group.group_id), group.epoch)
        self.classic.discard_group(group.group_id)
        self.groups[group.group_id] = group
        group.epoch_changed_ms = self.clock.monotonic_ms()
        for record in records:
            self.replay(record)
        for member in group.members.values():
            self.renew_session(group.group_id, member)

    def downgrade(self, downgrade: Downgrade, rebalance_reason: str | None) -> GroupResult:
        """Return the conversion to a classic group, which starts with a rebalance if there is a reason for one."""
        classic = downgrade.classic

        def apply() -> None:
            # A replay of the record would give the members only the protocol that the record has.
            self.discard_group(classic.group_id)
            self.classic.add_converted(classic, rebalance_reason)

        log.info("Group %s becomes a classic group, generation %d", quoted(classic.group_id), classic.generation_id)
        return CoordinatorResult(records=downgrade.records, response=None, apply=apply)

    def downgrade_in_slices(self, group_id: str) -> None:
        """Convert a large group of which only classic members are left, if that is still so when the job is done."""
        self.jobs.start(DOWNGRADE_JOB, group_id, self._downgrade_in_slices(group_id))

    def _downgrade_in_slices(self, group_id: str) -> GroupJob:
        for _ in range(DOWNGRADE_ATTEMPTS_MAX):
            group = self.groups.get(group_id)
            if group is None or not ends_with_members(group, (), self.settings.config):
                return
            members = list(group.members.values())
            must_rebalance = group.epoch > group.assignment_epoch or not group.is_reconciled_without(None)
            steps = downgrade_in_steps(
                group, members, self.topics, wall_ms=self.clock.wall_ms(), must_rebalance=must_rebalance
            )
            prepared = yield from in_job(steps)
            if prepared is None:
                return
            # Members are replaced, not changed.
            if group is self.groups.get(group_id) and members == list(group.members.values()):
                yield self.downgrade(prepared, LAST_MEMBER_GONE if must_rebalance else None)
                return

    # Removal of members

    def remove_members(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], response: ResponseT
    ) -> CoordinatorResult[GroupRecord, ResponseT]:
        """Return the removal of ``members`` (each once); their timers end with it, and continue if it is not written.

        The group becomes a classic one if only classic members are left.
        """
        if not members:
            return CoordinatorResult(response=response)
        if ends_with_members(group, members, self.settings.config):
            if not fits_in_place(map(size_of_consumer, group.members.values())):
                self.downgrade_in_slices(group.group_id)
            elif (downgrade := self._downgrade_without(group, members)) is not None:
                return self.downgrade(downgrade, LAST_MEMBER_GONE).with_response(response)

        def end_timers(error: ErrorCode) -> None:
            # One may have joined again with its id, a group that has been converted twice since then as well.
            current = self.groups.get(group.group_id)
            for member in members:
                if error is ErrorCode.NONE and (current is None or member.member_id not in current.members):
                    self._cancel_timers(group.group_id, member.member_id)

        records = removal_records(group, members, self.topics)
        return CoordinatorResult(records=records, response=response, on_append=end_timers)

    def _downgrade_without(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> Downgrade | None:
        leaving_ids = {member.member_id for member in leaving}
        others = [member for member in group.members.values() if member.member_id not in leaving_ids]
        steps = downgrade_in_steps(group, others, self.topics, wall_ms=self.clock.wall_ms(), must_rebalance=True)
        return run_to_end(steps)

    def _fence(self, group_id: str, member_id: str, reason: str) -> GroupResult | None:
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return None
        log.info("Group %s drops %s: %s", quoted(group_id), quoted(member_id), reason)
        return self.remove_members(group, [member], None)
