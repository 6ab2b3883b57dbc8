"""`StreamsGroups`: the streams groups of one shard, the replay of their records, and the timers of their members.

Source: GroupMetadataManager of Apache Kafka 4.3 (replay, onLoaded, streamsGroupFenceMember, *Timeout).
"""

from collections.abc import Callable
from typing import Final, TypeVar

from ottla.coordinator.result import CoordinatorResult
from ottla.groups.group_type import GroupType
from ottla.groups.log import GroupRecord, group_metadata_record
from ottla.groups.modern.groups import ModernGroups
from ottla.groups.result import GroupResult
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.member import MemberState, StreamsMember
from ottla.groups.streams.records import removal_records
from ottla.groups.streams.replay import REPLAY
from ottla.groups.streams.settings import StreamsGroupSettings

ASSIGNMENT_JOB: Final = "streams-assignment"

ResponseT = TypeVar("ResponseT")


class StreamsGroups(ModernGroups[StreamsGroup, StreamsMember, StreamsGroupSettings]):
    """The streams groups of one shard."""

    group_type = GroupType.STREAMS
    job_kinds = (ASSIGNMENT_JOB,)
    record_replay = REPLAY

    # Groups

    def group_to_join(self, group_id: str, records: list[GroupRecord]) -> StreamsGroup:
        """Return the group of a member that joins; a new one, which ``records`` create.

        A classic group without members becomes a streams group, and keeps its offsets.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        group = self.groups.get(group_id)
        if group is not None:
            return group
        classic = self.classic.groups.get(group_id)
        if self.is_of_other_protocol(group_id) or (classic is not None and not classic.is_empty):
            raise self.other_protocol_error(group_id)
        if classic is not None:
            records.append(group_metadata_record(group_id, None))
        return StreamsGroup(group_id)

    def discard_group(self, group_id: str) -> None:
        super().discard_group(group_id)
        self._timer.cancel(_initial_rebalance(group_id))

    # The first assignment of a group waits for more members

    def is_delayed(self, group_id: str) -> bool:
        """Return whether the first assignment of the group still waits for more members."""
        return self._timer.is_scheduled(_initial_rebalance(group_id))

    def delay_assignment(self, group_id: str, assign: Callable[[], GroupResult | None]) -> None:
        """Call ``assign`` when more members had time to join; the time is not extended by them."""
        delay_ms = self.settings.initial_rebalance_delay_ms(group_id)
        if delay_ms > 0 and not self.is_delayed(group_id):
            self._timer.schedule(_initial_rebalance(group_id), delay_ms, assign)

    # Timers

    def start(self) -> None:
        """Start the sessions of all loaded members, and the time-outs of those that are revoking tasks."""
        for group in self.groups.values():
            for member in group.members.values():
                self.renew_session(group.group_id, member.member_id)
                if member.state is MemberState.UNREVOKED_TASKS:
                    self.await_revocation(group.group_id, member)

    def renew_session(self, group_id: str, member_id: str) -> None:
        """Start a member's session again."""
        self._start_session(group_id, member_id, self.settings.session_timeout_ms(group_id))

    def remove_member(
        self, group: StreamsGroup, member: StreamsMember, response: ResponseT
    ) -> CoordinatorResult[GroupRecord, ResponseT]:
        records = removal_records(group, member.member_id)
        end_timers = self._end_timers_of(group.group_id, [member.member_id])
        return CoordinatorResult(records=records, response=response, on_append=end_timers)


def _initial_rebalance(group_id: str) -> tuple[str, ...]:
    return "streams-initial-rebalance", group_id
