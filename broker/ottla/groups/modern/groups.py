"""`ModernGroups`: the groups of one protocol in one shard, the replay of their records, the timers of their members.

A group id belongs to one protocol: its group is here, or among those of another protocol.

Source: GroupMetadataManager of Apache Kafka 4.3 (replay, *Timeout).
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.shard import CoordinatorTimer
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.group_type import GroupType
from ottla.groups.log import GroupRecord
from ottla.groups.modern.group import ModernGroup
from ottla.groups.modern.jobs import GroupJobs
from ottla.groups.modern.replay import RecordReplay
from ottla.groups.modern.timers import RemovalTimers
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.result import GroupResult
from ottla.ports import Clock
from ottla.quoting import quoted

log = logging.getLogger(__name__)

GroupT = TypeVar("GroupT", bound=ModernGroup[Any, Any])
MemberT = TypeVar("MemberT")
SettingsT = TypeVar("SettingsT")
ResponseT = TypeVar("ResponseT")


class RevokingMember(Protocol):
    """A member that has to revoke a part of its assignment within its rebalance timeout."""

    @property
    def member_id(self) -> str: ...

    @property
    def member_epoch(self) -> int: ...

    @property
    def rebalance_timeout_ms(self) -> int: ...


class ModernGroups(ABC, Generic[GroupT, MemberT, SettingsT]):
    """The groups of one protocol.

    Attributes:
        group_type: that of all groups here.
        job_kinds: the jobs that end with their group.
        record_replay: replays their records.
        settings: of the node, and of each group.
        is_of_other_protocol: returns whether a group id belongs to another protocol that is not classic.
    """

    group_type: ClassVar[GroupType]
    job_kinds: ClassVar[tuple[str, ...]]
    record_replay: ClassVar[RecordReplay[Any]]

    def __init__(
        self,
        *,
        settings: SettingsT,
        topics: ClusterTopics,
        clock: Clock,
        timer: CoordinatorTimer[GroupRecord],
        classic: Rebalancer,
        is_of_other_protocol: Callable[[str], bool],
    ) -> None:
        self.settings = settings
        self.topics = topics
        self.clock = clock
        self.classic = classic
        self.is_of_other_protocol = is_of_other_protocol
        self.jobs = GroupJobs(timer)
        self.groups: dict[str, GroupT] = {}
        self._timer = timer
        self._timers = RemovalTimers(timer)

    # Groups

    def group(self, group_id: str, *, subject: str = "Group") -> GroupT:
        """Return a group; ``subject`` is that of the message if there is no group with this id at all.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND: there is no such group, or it is of another protocol.
        """
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if group_id in self.classic.groups or self.is_of_other_protocol(group_id):
            raise self.other_protocol_error(group_id)
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{subject} {group_id} not found.")

    def other_protocol_error(self, group_id: str) -> KafkaError:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {self.group_type} group.")

    def check_size(self, group: GroupT, member_id: str, size_max: int) -> None:
        """Reject a new member of a full group.

        Raises:
            KafkaError: GROUP_MAX_SIZE_REACHED.
        """
        if len(group.members) >= size_max and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {self.group_type} group has reached its maximum capacity of {size_max} members.",
            )

    def replay(self, record: GroupRecord) -> bool:
        """Change the group that a record belongs to; return False for a record of another kind."""
        if not self.record_replay.includes(record):
            return False
        group_id: str = record.key.group_id  # type: ignore[attr-defined]
        group = self.groups.get(group_id)
        if group is None:
            if record.value is None:
                # Compaction has removed what this tombstone removes.
                return True
            # A group that only has offsets has no record of its own: this one is of a modern group from now on.
            self.classic.discard_group(group_id)
            group = self.groups[group_id] = self.record_replay.new_group(group_id)
        if self._apply_record(group, record):
            self.discard_group(group_id)
        return True

    def _apply_record(self, group: GroupT, record: GroupRecord) -> bool:
        """See `RecordReplay.apply`; subclasses note here what no record stores."""
        return self.record_replay.apply(group, record)

    def discard_group(self, group_id: str) -> None:
        """Remove a group, if it exists, with its jobs and timers."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        for kind in self.job_kinds:
            self.jobs.cancel(kind, group_id)
        for member_id in group.members:
            self._cancel_timers(group_id, member_id)

    def restore_group(self, group: GroupT) -> None:
        """Undo `discard_group` of a group without members: what was to replace it could not be written."""
        assert group.is_empty, f"group {group.group_id} has members"
        self.groups[group.group_id] = group

    # Timers

    @abstractmethod
    def start(self) -> None:
        """Start the timers of all loaded members."""

    def _start_session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start a member's session, or start it again."""
        session = self._session(group_id, member_id)
        if not self._timers.postpone(session, timeout_ms):
            self._timers.schedule(
                session, timeout_ms, lambda: self._fence(group_id, member_id, "its session timed out")
            )

    def await_revocation(self, group_id: str, member: RevokingMember) -> None:
        """Remove the member unless it has left its epoch when its rebalance timeout is over."""
        member_id, epoch = member.member_id, member.member_epoch

        def expire() -> GroupResult | None:
            group = self.groups.get(group_id)
            current = None if group is None else group.members.get(member_id)
            if current is None or current.member_epoch != epoch:
                return None
            return self._fence(group_id, member_id, f"it did not leave epoch {epoch} within its rebalance timeout")

        self._timers.schedule(self._revocation(group_id, member_id), member.rebalance_timeout_ms, expire)

    def end_revocation(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(self._revocation(group_id, member_id))

    def _cancel_timers(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(self._session(group_id, member_id))
        self.end_revocation(group_id, member_id)

    def _session(self, group_id: str, member_id: str) -> tuple[str, ...]:
        return f"{self.group_type}-session", group_id, member_id

    def _revocation(self, group_id: str, member_id: str) -> tuple[str, ...]:
        return f"{self.group_type}-rebalance", group_id, member_id

    # Removal of members

    @abstractmethod
    def remove_member(
        self, group: GroupT, member: MemberT, response: ResponseT
    ) -> CoordinatorResult[GroupRecord, ResponseT]:
        """Return the removal of ``member``; its timers end with it, and continue if it is not written."""

    def _end_timers_of(self, group_id: str, member_ids: Collection[str]) -> Callable[[ErrorCode], None]:
        """Return what ends the timers of members when their removal is written."""

        def end_timers(error: ErrorCode) -> None:
            # One may have joined again with its id, a group that has been converted twice since then as well.
            group = self.groups.get(group_id)
            for member_id in member_ids:
                if error is ErrorCode.NONE and (group is None or member_id not in group.members):
                    self._cancel_timers(group_id, member_id)

        return end_timers

    def _fence(self, group_id: str, member_id: str, reason: str) -> GroupResult | None:
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return None
        log.info("Group %s drops %s: %s", quoted(group_id), quoted(member_id), reason)
        return self.remove_member(group, member, None)
