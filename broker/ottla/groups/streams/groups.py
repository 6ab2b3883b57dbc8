"""`StreamsGroups`: the streams groups of one shard, the replay of their records, and the timers of their members.

Source: GroupMetadataManager of Apache Kafka 4.3 (replay, onLoaded, streamsGroupFenceMember, *Timeout).
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.shard import CoordinatorTimer
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.log import GroupRecord, group_metadata_record
from ottla.groups.modern.jobs import GroupJobs
from ottla.groups.modern.timers import RemovalTimers
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.result import GroupResult
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.member import MemberState, StreamsMember
from ottla.groups.streams.records import removal_records
from ottla.groups.streams.replay import REPLAY
from ottla.groups.streams.settings import StreamsGroupSettings
from ottla.ports import Clock
from ottla.quoting import quoted

log = logging.getLogger(__name__)

ASSIGNMENT_JOB: Final = "streams-assignment"

ResponseT = TypeVar("ResponseT")


class StreamsGroups:
    """The streams groups of one shard; ``is_of_other_protocol`` returns whether an id is of another modern group."""

    def __init__(
        self,
        *,
        settings: StreamsGroupSettings,
        topics: ClusterTopics,
        clock: Clock,
        timer: CoordinatorTimer[GroupRecord],
        classic: Rebalancer,
        is_of_other_protocol: Callable[[str], bool],
    ) -> None:
        self.settings = settings
        self.topics = topics
        self.clock = clock
        self.jobs = GroupJobs(timer)
        self.groups: dict[str, StreamsGroup] = {}
        self._classic = classic
        self._is_of_other_protocol = is_of_other_protocol
        self._timer = timer
        self._timers = RemovalTimers(timer)
        self._delayed: set[str] = set()

    # Groups

    def group(self, group_id: str, *, kind: str = "Group") -> StreamsGroup:
        """Return a streams group; ``kind`` is the subject of the message if there is none.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND: there is no such group, or it is of another protocol.
        """
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if group_id in self._classic.groups or self._is_of_other_protocol(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")

    def group_to_join(self, group_id: str, records: list[GroupRecord]) -> StreamsGroup:
        """Return the group of a member that joins; a new one, which ``records`` create.

        A classic group without members becomes a streams group, and keeps its offsets.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        group = self.groups.get(group_id)
        if group is not None:
            return group
        classic = self._classic.groups.get(group_id)
        if self._is_of_other_protocol(group_id) or (classic is not None and not classic.is_empty):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        if classic is not None:
            records.append(group_metadata_record(group_id, None))
        return StreamsGroup(group_id)

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
            # A group that only has offsets has no record of its own: this one is of a streams group from now on.
            self._classic.discard_group(group_id)
            group = self.groups[group_id] = StreamsGroup(group_id)
        if REPLAY.apply(group, record):
            self.discard_group(group_id)
        return True

    def discard_group(self, group_id: str) -> StreamsGroup | None:
        """Remove a group, if it exists, with its jobs and timers; return it."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return None
        self.jobs.cancel(ASSIGNMENT_JOB, group_id)
        self._timer.cancel(_initial_rebalance(group_id))
        self._delayed.discard(group_id)
        for member_id in group.members:
            self._cancel_timers(group_id, member_id)
        return group

    def restore_group(self, group: StreamsGroup) -> None:
        """Undo `discard_group` of a group without members: what was to replace it could not be written."""
        assert group.is_empty, f"group {group.group_id} has members"
        self.groups[group.group_id] = group

    # The first assignment of a group waits for more members

    def is_delayed(self, group_id: str) -> bool:
        """Return whether the first assignment of the group still waits for more members."""
        return group_id in self._delayed

    def delay_assignment(self, group_id: str, assign: Callable[[], GroupResult | None]) -> None:
        """Call ``assign`` when more members had time to join; the time is not extended by them."""
        delay_ms = self.settings.initial_rebalance_delay_ms(group_id)
        if delay_ms <= 0 or group_id in self._delayed:
            return
        self._delayed.add(group_id)

        def run() -> GroupResult | None:
            self._delayed.discard(group_id)
            return assign()

        self._timer.schedule(_initial_rebalance(group_id), delay_ms, run)

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
        self._timers.schedule(
            _session(group_id, member_id),
            self.settings.session_timeout_ms(group_id),
            lambda: self._fence(group_id, member_id, "its session timed out"),
        )

    def await_revocation(self, group_id: str, member: StreamsMember) -> None:
        """Remove the member unless it has left its epoch when its rebalance timeout is over."""
        member_id, epoch = member.member_id, member.member_epoch

        def expire() -> GroupResult | None:
            group = self.groups.get(group_id)
            current = None if group is None else group.members.get(member_id)
            if current is None or current.member_epoch != epoch:
                return None
            return self._fence(group_id, member_id, f"it did not leave epoch {epoch} within its rebalance timeout")

        self._timers.schedule(_revocation(group_id, member_id), member.rebalance_timeout_ms, expire)

    def end_revocation(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_revocation(group_id, member_id))

    def _cancel_timers(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_session(group_id, member_id))
        self.end_revocation(group_id, member_id)

    # Removal of members

    def remove_member(
        self, group: StreamsGroup, member: StreamsMember, response: ResponseT
    ) -> CoordinatorResult[GroupRecord, ResponseT]:
        """Return the removal of ``member``; its timers end with it, and continue if it cannot be written."""

        def end_timers(error: ErrorCode) -> None:
            # It may have joined again with its id.
            if error is ErrorCode.NONE and member.member_id not in group.members:
                self._cancel_timers(group.group_id, member.member_id)

        records = removal_records(group, member.member_id)
        return CoordinatorResult(records=records, response=response, on_append=end_timers)

    def _fence(self, group_id: str, member_id: str, reason: str) -> GroupResult | None:
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return None
        log.info("Group %s drops %s: %s", quoted(group_id), quoted(member_id), reason)
        return self.remove_member(group, member, None)


def _session(group_id: str, member_id: str) -> tuple[str, ...]:
    return "streams-session", group_id, member_id


def _revocation(group_id: str, member_id: str) -> tuple[str, ...]:
    return "streams-rebalance", group_id, member_id


def _initial_rebalance(group_id: str) -> tuple[str, ...]:
    return "streams-initial-rebalance", group_id
