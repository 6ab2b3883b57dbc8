"""`GroupCoordinator`: everything that a node does for the groups whose ``__consumer_offsets`` partition it leads.

The node tells it of elections (`on_elected`, `on_resigned`), of deleted topics and of time (`tick`); handlers call the
rest. It writes through `OffsetsLog`. Every answer is a `Delayed`: complete once all that it saw is committed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ottla.groups.config import GroupConfig
from ottla.groups.offsets_log import OffsetsLog
from ottla.ports import Clock, Random
from ottla.purgatory import Delayed
from ottla.types import LeaderEpoch
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.records import RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who sends a JoinGroup: shown by DescribeGroups and kept in the log."""

    client_id: str
    host: str
    """As Kafka prints an address: ``/127.0.0.1``."""


class GroupCoordinator:
    """The coordinator of one node. Times are `Clock.monotonic_ms` unless they are stored (then `Clock.wall_ms`)."""

    def __init__(
        self,
        *,
        config: GroupConfig,
        clock: Clock,
        random: Random,
        log: OffsetsLog,
        offsets_partition_count: Callable[[], int | None],
    ) -> None:
        """Start with no partition led; ``offsets_partition_count`` is None while ``__consumer_offsets`` is missing."""
        raise NotImplementedError

    def partition_for(self, group_id: str) -> int | None:
        """Return the partition of ``__consumer_offsets`` that holds the group; None while there is no such topic."""
        raise NotImplementedError

    def on_elected(self, partition: int, leader_epoch: LeaderEpoch, batches: Iterable[RecordBatch]) -> None:
        """Start to load and then serve ``partition``, which this node leads from now on.

        ``batches`` runs from the log start to the log end offset at the election. It is read piece by piece: some now,
        the rest at each `tick` (which is then due at once); its groups answer COORDINATOR_LOAD_IN_PROGRESS meanwhile.
        A call with an epoch that is not newer than the one being served is ignored.
        """
        raise NotImplementedError

    def on_resigned(self, partition: int, leader_epoch: LeaderEpoch | None = None) -> None:
        """Stop serving ``partition``: everything that waits is answered with NOT_COORDINATOR.

        ``leader_epoch``: of the new leader, None when the replica is gone; a call older than the service is ignored.
        """
        raise NotImplementedError

    def on_topics_deleted(self, topics: Iterable[str]) -> None:
        """Forget the offsets that groups have committed for deleted topics."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> None:
        """Do what is due at ``now_ms``: timeouts of members and rebalances, loading, expiry of offsets."""
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is to be called next, at the latest; None when nothing is planned."""
        raise NotImplementedError

    def join_group(self, client: Client, api_version: int, request: JoinGroupRequest) -> Delayed[JoinGroupResponse]:
        raise NotImplementedError

    def sync_group(self, request: SyncGroupRequest) -> Delayed[SyncGroupResponse]:
        raise NotImplementedError

    def heartbeat(self, request: HeartbeatRequest) -> Delayed[HeartbeatResponse]:
        raise NotImplementedError

    def leave_group(self, request: LeaveGroupRequest) -> Delayed[LeaveGroupResponse]:
        raise NotImplementedError

    def commit_offsets(self, request: OffsetCommitRequest, api_version: int) -> Delayed[OffsetCommitResponse]:
        """Store offsets; every topic in ``request`` exists and has both name and id (the handler sees to it)."""
        raise NotImplementedError

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Delayed[OffsetFetchResponseGroup]:
        """Return a group's offsets: of the topics asked for, or of all when ``request.topics`` is None."""
        raise NotImplementedError

    def delete_offsets(self, request: OffsetDeleteRequest) -> Delayed[OffsetDeleteResponse]:
        raise NotImplementedError

    def list_groups(self, request: ListGroupsRequest) -> Delayed[ListGroupsResponse]:
        raise NotImplementedError

    def describe_groups(self, group_ids: list[str]) -> Delayed[list[DescribedGroup]]:
        raise NotImplementedError

    def delete_groups(self, group_ids: list[str]) -> Delayed[list[DeletableGroupResult]]:
        raise NotImplementedError
