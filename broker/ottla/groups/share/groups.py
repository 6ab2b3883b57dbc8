"""`ShareGroups`: the share groups of one shard, the replay of their records, and the sessions of their members.

Source: GroupMetadataManager of Apache Kafka 4.3 (replay, onLoaded, shareGroupFenceMember, *Timeout).
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.shard import CoordinatorTimer
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.log import GroupRecord
from ottla.groups.modern.jobs import GroupJobs
from ottla.groups.modern.timers import RemovalTimers
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.result import GroupResult
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.member import ShareMember
from ottla.groups.share.records import epoch_record, member_tombstones
from ottla.groups.share.replay import REPLAY
from ottla.groups.share.settings import ShareGroupSettings
from ottla.ports import Clock
from ottla.quoting import quoted

log = logging.getLogger(__name__)

ASSIGNMENT_JOB: Final = "share-assignment"

ResponseT = TypeVar("ResponseT")


class ShareGroups:
    """The share groups of one shard; ``is_of_other_protocol`` returns whether an id is of another kind of group."""

    def __init__(
        self,
        *,
        settings: ShareGroupSettings,
        topics: ClusterTopics,
        clock: Clock,
        timer: CoordinatorTimer[GroupRecord],
        is_of_other_protocol: Callable[[str], bool],
    ) -> None:
        self.settings = settings
        self.topics = topics
        self.clock = clock
        self.jobs = GroupJobs(timer)
        self.groups: dict[str, ShareGroup] = {}
        self.is_of_other_protocol = is_of_other_protocol
        self._timers = RemovalTimers(timer)

    # Groups

    def group(self, group_id: str) -> ShareGroup:
        """Return a share group.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND: there is no such group, or it is of another protocol.
        """
        group = self.groups.get(group_id)
        if group is None:
            is_other = self.is_of_other_protocol(group_id)
            reason = "is not a share group" if is_other else "not found"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
        return group

    def group_to_join(self, group_id: str, *, is_join: bool) -> ShareGroup:
        """Return the group of a heartbeat; a new one, which the records create, for a member that joins.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if self.is_of_other_protocol(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if not is_join:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return ShareGroup(group_id)

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
            group = self.groups[group_id] = ShareGroup(group_id)
        before = group.state_partitions
        group.change_count += 1
        if REPLAY.apply(group, record):
            self.discard_group(group_id)
        elif group.state_partitions is not before:
            group.state_replayed_ms = self.clock.monotonic_ms()
        return True

    def discard_group(self, group_id: str) -> None:
        """Remove a group, if it exists, with its jobs and timers."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        self.jobs.cancel(ASSIGNMENT_JOB, group_id)
        for member_id in group.members:
            self._timers.cancel(_session(group_id, member_id))

    # Sessions

    def start(self) -> None:
        """Start the sessions of all loaded members."""
        for group in self.groups.values():
            for member_id in group.members:
                self.renew_session(group.group_id, member_id)

    def renew_session(self, group_id: str, member_id: str) -> None:
        """Start a member's session again."""
        timeout_ms = self.settings.session_timeout_ms(group_id)
        self._timers.schedule(_session(group_id, member_id), timeout_ms, lambda: self._fence(group_id, member_id))

    def remove_member(
        self, group: ShareGroup, member: ShareMember, response: ResponseT
    ) -> CoordinatorResult[GroupRecord, ResponseT]:
        """Return the removal of ``member``; its session ends with it, and continues if it cannot be written."""

        def end_session(error: ErrorCode) -> None:
            # It may have joined again with its id.
            if error is ErrorCode.NONE and member.member_id not in group.members:
                self._timers.cancel(_session(group.group_id, member.member_id))

        records = member_tombstones(group.group_id, member.member_id)
        names = group.subscriptions.topics_after([member])
        records.append(epoch_record(group.group_id, group.epoch + 1, self.topics.hash_of(names)))
        return CoordinatorResult(records=records, response=response, on_append=end_session)

    def _fence(self, group_id: str, member_id: str) -> GroupResult | None:
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return None
        log.info("Group %s drops %s: its session timed out", quoted(group_id), quoted(member_id))
        return self.remove_member(group, member, None)


def _session(group_id: str, member_id: str) -> tuple[str, ...]:
    return "share-session", group_id, member_id
