"""`GroupCoordinator`: everything that a node does for the groups whose ``__consumer_offsets`` partition it leads.

The node tells it of elections (`on_elected`, `on_resigned`), of deleted topics and of time (`tick`); handlers call the
rest. It writes through `CoordinatorLog`. Every answer is a `Delayed`: complete once all that it saw is committed.

Source: GroupCoordinatorService of Kafka.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.coordinator.log import CoordinatorLog
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.describe import GROUP_TYPE, describe, list_entry
from ottla.groups.classic.heartbeat import heartbeat
from ottla.groups.classic.join import Join, join
from ottla.groups.classic.leave import leave
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.classic.sync import sync
from ottla.groups.client import Client
from ottla.groups.config import GroupConfig
from ottla.groups.offsets.commit import commit_offsets
from ottla.groups.offsets.fetch import fetch_offsets
from ottla.groups.offsets.removal import delete_group, delete_offsets, tombstone
from ottla.groups.partitioner import partition_for_group
from ottla.groups.result import Result
from ottla.groups.shard import GroupShard, ShardState
from ottla.groups.timers import Timers
from ottla.ports import Clock, Random
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.types import LeaderEpoch
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.records import RecordBatch

ResponseT = TypeVar("ResponseT")

DEAD = "Dead"
_STATE_LENGTH_MAX: Final = 32

RELOAD_INTERVAL_MS: Final = 1_000
"""How often a partition that has lost a write is loaded anew, should it lose one again each time."""


class GroupCoordinator:
    """The coordinator of one node. Times are `Clock.monotonic_ms` unless they are stored (then `Clock.wall_ms`)."""

    def __init__(
        self,
        *,
        config: GroupConfig,
        clock: Clock,
        random: Random,
        log: CoordinatorLog,
        offsets_partition_count: Callable[[], int | None],
    ) -> None:
        """Start with no partition led; ``offsets_partition_count`` is None while ``__consumer_offsets`` is missing."""
        self._config = config
        self._clock = clock
        self._random = random
        self._log = log
        self._partition_count = offsets_partition_count
        self._shards: dict[int, GroupShard] = {}
        self._loading: list[GroupShard] = []
        self._timers = Timers()
        self._next_reload_ms = 0

    # The node's side

    def partition_for(self, group_id: str) -> int | None:
        """Return the partition of ``__consumer_offsets`` that holds the group; None while there is no such topic."""
        count = self._partition_count()
        return None if count is None else partition_for_group(group_id, count)

    def on_elected(self, partition: int, leader_epoch: LeaderEpoch, batches: Iterable[RecordBatch]) -> None:
        """Start to load and then serve ``partition``, which this node leads from now on.

        ``batches`` runs from the log start to the log end offset at the election. It is read piece by piece: some now,
        the rest at each `tick` (which is then due at once); its groups answer COORDINATOR_LOAD_IN_PROGRESS meanwhile.
        A partition that is served already goes on as it is: its leader has not changed, whatever the epoch.
        """
        current = self._shards.get(partition)
        if current is not None and current.state is not ShardState.STOPPED:
            current.leader_epoch = max(current.leader_epoch, leader_epoch)
            return
        shard = self._shards[partition] = GroupShard(
            partition=partition,
            leader_epoch=leader_epoch,
            batches=batches,
            config=self._config,
            clock=self._clock,
            random=self._random,
            timers=self._timers,
            offsets_log=self._log,
        )
        self._loading.append(shard)
        self._load_some()

    def on_resigned(self, partition: int, leader_epoch: LeaderEpoch | None = None) -> None:
        """Stop serving ``partition``: everything that waits is answered with NOT_COORDINATOR.

        ``leader_epoch``: of the new leader, None when the replica is gone; a call older than the service is ignored.
        """
        shard = self._shards.get(partition)
        if shard is None or (leader_epoch is not None and leader_epoch < shard.leader_epoch):
            return
        del self._shards[partition]
        if shard in self._loading:
            self._loading.remove(shard)
        shard.stop()

    def on_topics_deleted(self, topics: Iterable[str]) -> None:
        """Forget the offsets that groups have committed for deleted topics."""
        deleted = frozenset(topics)
        for shard in self._active():
            shard.write_in_pieces([tombstone(key) for key in shard.offsets.keys_of_topics(deleted)])

    def tick(self, now_ms: int) -> int | None:
        """Do what is due at ``now_ms``: timeouts of members and rebalances, loading, expiry of offsets.

        Return ``now_ms`` when something was, else what `next_deadline_ms` would.
        """
        if now_ms >= self._next_reload_ms:
            self._load_again(now_ms)
        planned_ms = self._timers.next_deadline_ms()
        if not self._loading and (planned_ms is None or planned_ms > now_ms):
            return self._reload_or(planned_ms) if self._shards else planned_ms
        if self._loading:
            self._load_some()
        self._timers.run_due(now_ms)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is to be called next, at the latest; None when nothing is planned."""
        return self._clock.monotonic_ms() if self._loading else self._reload_or(self._timers.next_deadline_ms())

    def _reload_or(self, planned_ms: int | None) -> int | None:
        """Return when what lost a write is loaded anew, should that be before ``planned_ms``."""
        for shard in self._shards.values():
            if shard.has_lost_write:
                return self._next_reload_ms if planned_ms is None else min(planned_ms, self._next_reload_ms)
        return planned_ms

    # Membership

    def join_group(self, client: Client, api_version: int, request: JoinGroupRequest) -> Delayed[JoinGroupResponse]:
        """Let a member in; the answer comes when the join phase of the group's rebalance ends."""
        joining = Join(client=client, api_version=api_version, request=request, response=Delayed())
        timeout_ms = request.session_timeout_ms
        is_in_range = self._config.min_session_timeout_ms <= timeout_ms <= self._config.max_session_timeout_ms
        try:
            if request.group_id and not is_in_range:
                raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
            shard = self._shard_of(request.group_id)
        except KafkaError as error:
            joining.refuse(error.code, request.member_id)
        else:
            shard.write(join(shard.rebalancer, joining))
        return joining.response

    def sync_group(self, request: SyncGroupRequest) -> Delayed[SyncGroupResponse]:
        """Take the leader's assignments; the answer, the member's own, comes when they are stored."""
        response: Delayed[SyncGroupResponse] = Delayed()
        try:
            shard = self._shard_of(request.group_id)
        except KafkaError as error:
            response.complete(SyncGroupResponse(error_code=int(error.code)))
        else:
            shard.write(sync(shard.rebalancer, request, response))
        return response

    def heartbeat(self, request: HeartbeatRequest) -> Delayed[HeartbeatResponse]:
        """Prolong a member's session. While the group is being loaded nobody is missed, so the answer is NONE."""
        try:
            shard = self._shard_of(request.group_id)
            answer = HeartbeatResponse(error_code=int(heartbeat(shard.rebalancer, request)))
        except KafkaError as error:
            is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return Delayed.of(HeartbeatResponse(error_code=0 if is_loading else int(error.code)))
        return _when_committed(shard, None, answer, lambda error: HeartbeatResponse(error_code=int(error)))

    def leave_group(self, request: LeaveGroupRequest) -> Delayed[LeaveGroupResponse]:
        """Remove members; ``request.members`` names them, also for versions that name one only."""
        try:
            shard = self._shard_of(request.group_id)
        except KafkaError as error:
            return Delayed.of(LeaveGroupResponse(error_code=int(error.code)))
        result, answer = leave(shard.rebalancer, request)
        return _when_committed(shard, result, answer, lambda error: LeaveGroupResponse(error_code=int(error)))

    # Offsets

    def commit_offsets(self, request: OffsetCommitRequest, api_version: int) -> Delayed[OffsetCommitResponse]:
        """Store offsets; every partition in ``request`` exists, with its topic's name and id (see the handler)."""
        try:
            shard = self._shard_of(request.group_id, may_be_empty=True)
            result, answer = commit_offsets(shard.rebalancer, request, api_version)
        except KafkaError as error:
            return Delayed.of(refused_commit(request, error.code))
        return _when_committed(shard, result, answer, lambda error: refused_commit(request, error))

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Delayed[OffsetFetchResponseGroup]:
        """Return a group's offsets of the topics that ``request`` names."""

        def refused(error: ErrorCode) -> OffsetFetchResponseGroup:
            if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                # Consumers before 3.9 know only this one.
                error = ErrorCode.NOT_COORDINATOR
            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=int(error))

        try:
            shard = self._shard_of(request.group_id, may_be_empty=True)
        except KafkaError as error:
            return Delayed.of(refused(error.code))
        answer = fetch_offsets(shard.offsets, request, require_stable=require_stable)
        return _when_committed(shard, None, answer, refused)

    def committed_partitions(self, group_id: str) -> list[OffsetFetchRequestTopics]:
        """Return what a group has offsets of; nothing where this node does not serve it."""
        try:
            shard = self._shard_of(group_id, may_be_empty=True)
        except KafkaError:
            return []
        return [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(partitions))
            for name, partitions in shard.offsets.of_group(group_id).items()
        ]

    def delete_offsets(self, request: OffsetDeleteRequest) -> Delayed[OffsetDeleteResponse]:
        try:
            shard = self._shard_of(request.group_id)
            group = shard.rebalancer.groups.get(request.group_id)
            result, answer = delete_offsets(shard.offsets, group, request)
        except KafkaError as error:
            return Delayed.of(OffsetDeleteResponse(error_code=int(error.code)))
        return _when_committed(shard, result, answer, lambda error: OffsetDeleteResponse(error_code=int(error)))

    # Administration

    def list_groups(self, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
        """Return the groups of all partitions that this node leads; none at all while one of them is being loaded."""
        if self._loading:
            error = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return ListGroupsResponse(error_code=error)
        response = ListGroupsResponse()
        known = {state.lower() for state in ClassicGroupState}
        states = yield from _known_in(request.states_filter, known)
        if request.types_filter and not (yield from _known_in(request.types_filter, {GROUP_TYPE})):
            return response
        for shard in self._active():
            for number, group in enumerate(list(shard.rebalancer.groups.values()), 1):
                if not request.states_filter or group.state.lower() in states:
                    response.groups.append(list_entry(group))
                if number % 32 == 0:
                    yield None
        return response

    def describe_group(self, group_id: str) -> DescribedGroup:
        """Return a group; one that does not exist is Dead, with GROUP_ID_NOT_FOUND."""
        try:
            shard = self._shard_of(group_id, may_be_empty=True)
            group = shard.rebalancer.groups.get(group_id)
            if group is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        except KafkaError as error:
            state = DEAD if error.code is ErrorCode.GROUP_ID_NOT_FOUND else ""
            return DescribedGroup(
                group_id=group_id, group_state=state, error_code=int(error.code), error_message=error.message
            )
        return describe(group)

    def delete_group(self, group_id: str) -> Delayed[DeletableGroupResult]:
        """Delete a group without members, and its offsets."""

        def refused(error: ErrorCode) -> DeletableGroupResult:
            return DeletableGroupResult(group_id=group_id, error_code=int(error))

        try:
            shard = self._shard_of(group_id, may_be_empty=True)
            records = delete_group(shard.offsets, shard.rebalancer.groups.get(group_id))
        except KafkaError as error:
            return Delayed.of(refused(error.code))
        return _when_committed(shard, Result(records=records), DeletableGroupResult(group_id=group_id), refused)

    # Shards

    def _load_some(self) -> None:
        """Load the next piece of one partition: tick by tick, so that the node goes on serving the others."""
        for shard in self._loading[:1]:
            shard.load()
            if shard.state is not ShardState.LOADING:
                self._loading.remove(shard)

    def _load_again(self, now_ms: int) -> None:
        """Load the partitions anew that have lost a write, now and then: nobody else will, as long as they are led."""
        self._next_reload_ms = now_ms + RELOAD_INTERVAL_MS
        for partition, shard in list(self._shards.items()):
            batches = self._log.read_again(partition) if shard.has_lost_write else None
            if batches is not None:
                self.on_elected(partition, shard.leader_epoch, batches)

    def _active(self) -> list[GroupShard]:
        return [shard for _, shard in sorted(self._shards.items()) if shard.state is ShardState.ACTIVE]

    def _shard_of(self, group_id: str, *, may_be_empty: bool = False) -> GroupShard:
        """Return the shard that serves a group.

        Raises:
            KafkaError: INVALID_GROUP_ID: it is empty (old simple consumers may have that); NOT_COORDINATOR: another
                node leads its partition, or nobody; COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not group_id and not may_be_empty:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        partition = self.partition_for(group_id)
        shard = None if partition is None else self._shards.get(partition)
        if shard is None or shard.state is ShardState.STOPPED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard


def _known_in(names: list[str], known: set[str]) -> Steps[set[str]]:
    """Return which of ``known`` a client's filter names, in any case."""
    found: set[str] = set()
    for number, name in enumerate(names, 1):
        if len(name) <= _STATE_LENGTH_MAX and name.lower() in known:
            found.add(name.lower())
        if number % 256 == 0:
            yield None
    return found


def refused_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Return the answer that has ``error`` for every partition of ``request``."""
    response = OffsetCommitResponse()
    for topic in request.topics:
        partitions = [
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=int(error))
            for partition in topic.partitions
        ]
        response.topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        )
    return response


def _when_committed(
    shard: GroupShard, result: Result | None, answer: ResponseT, refused: Callable[[ErrorCode], ResponseT]
) -> Delayed[ResponseT]:
    """Write ``result``; complete with ``answer`` when it is committed, else with the error's."""
    return shard.write(result).then(lambda error: answer if error is ErrorCode.NONE else refused(error))
