"""`ConsumerGroups`: the consumer groups of one shard, the replay of their records, and the timers of their members.

Source: GroupMetadataManager of Apache Kafka 4.3 (replay, onLoaded, *Timeout).
"""

import logging
from collections.abc import Sequence
from typing import Final, TypeVar

from ottla.coordinator.result import CoordinatorResult
from ottla.groups.consumer.fencing import removal_records
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import ConsumerMember, MemberState
from ottla.groups.consumer.replay import REPLAY
from ottla.groups.consumer.settings import ConsumerGroupSettings
from ottla.groups.consumer.state import ConsumerGroupState
from ottla.groups.group_type import GroupType
from ottla.groups.log import GroupRecord
from ottla.groups.migration.downgrade import Downgrade, downgrade_in_steps, ends_with_members
from ottla.groups.migration.sizes import fits_in_place, size_of_consumer
from ottla.groups.modern.groups import ModernGroups
from ottla.groups.modern.jobs import GroupJob, in_job
from ottla.groups.result import GroupResult
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


class ConsumerGroups(ModernGroups[ConsumerGroup, ConsumerMember, ConsumerGroupSettings]):
    """The consumer groups of one shard."""

    group_type = GroupType.CONSUMER
    job_kinds = (ASSIGNMENT_JOB, REGEX_JOB, DOWNGRADE_JOB)
    record_replay = REPLAY

    # Groups

    def _apply_record(self, group: ConsumerGroup, record: GroupRecord) -> bool:
        before = group.epoch
        is_deleted = super()._apply_record(group, record)
        if group.epoch != before:
            group.epoch_changed_ms = self.clock.monotonic_ms()
        return is_deleted

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
        classic = member.classic
        timeout_ms = self.settings.session_timeout_ms(group_id) if classic is None else classic.session_timeout_ms
        self._start_session(group_id, member.member_id, timeout_ms)

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
        super()._cancel_timers(group_id, member_id)
        self.end_classic_timers(group_id, member_id)

    # Conversion

    def apply_upgrade(self, group: ConsumerGroup, records: Sequence[GroupRecord]) -> None:
        """Replace a classic group by ``group``, as the log has done, and replay the records that follow."""
        log.info("Group %s is a consumer group now, epoch %d", quoted(group.group_id), group.epoch)
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
            log.info("Group %s is a classic group now, generation %d", quoted(classic.group_id), classic.generation_id)

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

    def remove_member(
        self, group: ConsumerGroup, member: ConsumerMember, response: ResponseT
    ) -> CoordinatorResult[GroupRecord, ResponseT]:
        return self.remove_members(group, [member], response)

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

        end_timers = self._end_timers_of(group.group_id, [member.member_id for member in members])
        records = removal_records(group, members, self.topics)
        return CoordinatorResult(records=records, response=response, on_append=end_timers)

    def _downgrade_without(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> Downgrade | None:
        leaving_ids = {member.member_id for member in leaving}
        others = [member for member in group.members.values() if member.member_id not in leaving_ids]
        steps = downgrade_in_steps(group, others, self.topics, wall_ms=self.clock.wall_ms(), must_rebalance=True)
        return run_to_end(steps)
