"""`ShareGroups`: the share groups of one shard, the replay of their records, and the sessions of their members.

Source: GroupMetadataManager of Apache Kafka 4.3 (replay, onLoaded, shareGroupFenceMember, *Timeout).
"""

from typing import Final, TypeVar

from ottla.coordinator.result import CoordinatorResult
from ottla.groups.group_type import GroupType
from ottla.groups.log import GroupRecord
from ottla.groups.modern.groups import ModernGroups
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.member import ShareMember
from ottla.groups.share.records import epoch_record, member_tombstones
from ottla.groups.share.replay import REPLAY
from ottla.groups.share.settings import ShareGroupSettings

ASSIGNMENT_JOB: Final = "share-assignment"

ResponseT = TypeVar("ResponseT")


class ShareGroups(ModernGroups[ShareGroup, ShareMember, ShareGroupSettings]):
    """The share groups of one shard."""

    group_type = GroupType.SHARE
    job_kinds = (ASSIGNMENT_JOB,)
    record_replay = REPLAY

    # Groups

    def group_to_join(self, group_id: str, *, is_join: bool) -> ShareGroup:
        """Return the group of a heartbeat; a new one, which the records create, for a member that joins.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        if not is_join:
            return self.group(group_id, subject="Share group")
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if group_id in self.classic.groups or self.is_of_other_protocol(group_id):
            raise self.other_protocol_error(group_id)
        return ShareGroup(group_id)

    def _apply_record(self, group: ShareGroup, record: GroupRecord) -> bool:
        before = group.state_partitions
        group.change_count += 1
        is_deleted = super()._apply_record(group, record)
        if group.state_partitions is not before:
            group.state_replayed_ms = self.clock.monotonic_ms()
        return is_deleted

    # Sessions

    def start(self) -> None:
        """Start the sessions of all loaded members."""
        for group in self.groups.values():
            for member_id in group.members:
                self.renew_session(group.group_id, member_id)

    def renew_session(self, group_id: str, member_id: str) -> None:
        """Start a member's session again."""
        self._start_session(group_id, member_id, self.settings.session_timeout_ms(group_id))

    def remove_member(
        self, group: ShareGroup, member: ShareMember, response: ResponseT
    ) -> CoordinatorResult[GroupRecord, ResponseT]:
        records = member_tombstones(group.group_id, member.member_id)
        names = group.subscriptions.topics_after([member])
        records.append(epoch_record(group.group_id, group.epoch + 1, self.topics.hash_of(names)))
        end_timers = self._end_timers_of(group.group_id, [member.member_id])
        return CoordinatorResult(records=records, response=response, on_append=end_timers)
