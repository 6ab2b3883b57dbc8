"""`StreamsGroupService`: StreamsGroupHeartbeat and StreamsGroupDescribe.

Source: GroupCoordinatorService of Apache Kafka 4.3.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from ottla.coordinator.runtime import CoordinatorRuntime, respond_when_committed
from ottla.coordinator.shard import CoordinatorShard
from ottla.errors import ErrorCode, InvalidRequestError, KafkaError
from ottla.groups.client import Client
from ottla.groups.log import GroupRecord
from ottla.groups.modern.member_epochs import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from ottla.groups.streams.describe import describe
from ottla.groups.streams.endpoints import partitions_by_endpoint
from ottla.groups.streams.groups import StreamsGroups
from ottla.groups.streams.heartbeat import Heartbeat, StreamsHeartbeatResult, heartbeat, leave
from ottla.groups.streams.member import NOT_SET
from ottla.groups.streams.tasks import TaskAssignment, Tasks
from ottla.groups.streams.topics.configure import TASKS_MAX, configure_topology
from ottla.groups.streams.topics.configured import ConfiguredTopology
from ottla.groups.streams.topology import Topology, check_topology, topology_of_request
from ottla.purgatory.steps import Steps
from ottla.wire.messages.streams_group_describe import DescribedGroup
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequestTaskIds as TaskIds

CLIENT_TAGS_MAX: Final = 100
"""Tags of one member (docs/limits.md)."""
_PARTITIONS_PER_STEP: Final = 2_000
_CONFIGURATIONS_MAX: Final = 4
"""Of one heartbeat, while topics change; after the last one `heartbeat` does it at once, in up to 14 ms."""


class StreamsGroupShard(CoordinatorShard[GroupRecord], Protocol):
    """The part of a shard that this service uses."""

    streams: StreamsGroups


class StreamsGroupService:
    """Operations of streams groups."""

    def __init__(self, *, runtime: CoordinatorRuntime[StreamsGroupShard]) -> None:
        self._runtime = runtime

    def heartbeat(self, client: Client, request: StreamsGroupHeartbeatRequest) -> Steps[StreamsHeartbeatResult]:
        """Let a member join, stay or leave; return the response when its records are committed.

        Without records it is NOT_COORDINATOR where another node may have become the coordinator unnoticed: the member
        may have been removed there, and others may have its tasks. JVM Kafka responds with them.
        """
        try:
            _check(request)
            leaves = request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH)
            beat = None if leaves else (yield from self._prepare(client, request))
            context = self._runtime.context_for(request.group_id)
            groups = context.shard.streams
            result = leave(groups, request) if beat is None else heartbeat(groups, beat)
            if not result.records:
                context.require_confirmed_leadership()
        except KafkaError as error:
            return StreamsHeartbeatResult(error_response(error.code, error.message), {})
        outcome = result.response
        written = respond_when_committed(context.write(result), outcome.response, error_response)
        group = groups.groups.get(request.group_id)
        if group is not None and group.configured is None:
            # The record of a new group's topology has just been replayed.
            group.configured = outcome.configured
        if outcome.needs_endpoints and group is not None:
            outcome.response.partitions_by_user_endpoint = yield from partitions_by_endpoint(group, groups.topics)
        response = written.value if written.is_complete else (yield written)
        return StreamsHeartbeatResult(response, outcome.topics_to_create if response.error_code == 0 else {})

    def _prepare(self, client: Client, request: StreamsGroupHeartbeatRequest) -> Steps[Heartbeat]:
        """Do in slices what takes long of a heartbeat by which a member joins or stays.

        Raises:
            KafkaError: see `_owned_tasks`, `configure_topology`.
        """
        topology = None if request.topology is None else topology_of_request(request.topology)
        owned = yield from _owned_tasks(request)
        configured = yield from self._configure(request.group_id, topology)
        return Heartbeat(client=client, request=request, topology=topology, owned=owned, configured=configured)

    def _configure(self, group_id: str, topology: Topology | None) -> Steps[ConfiguredTopology | None]:
        """Configure the topology that `heartbeat` is going to need, and hash its topics, in slices."""
        try:
            groups = self._runtime.context_for(group_id).shard.streams
        except KafkaError:
            return None  # `heartbeat` responds
        group = groups.groups.get(group_id)
        if group is not None and group.topology is not None:
            topology = group.topology
        if topology is None:
            return None
        known = None if group is None else group.configured
        now_ms = groups.clock.monotonic_ms()
        if group is not None and known is not None and not group.has_stale_topics(groups.topics, now_ms):
            return None
        configured: ConfiguredTopology | None = None
        for _ in range(_CONFIGURATIONS_MAX):
            yield from groups.topics.prepare(topology.required_topics)
            change = groups.topics.change_count
            metadata_hash = groups.topics.hash_of(topology.required_topics)
            if known is not None and known.metadata_hash == metadata_hash:
                return None
            configured = yield from configure_topology(topology, metadata_hash, groups.topics)
            if not groups.topics.have_changed_since(change, topology.required_topics):
                break
        return configured

    def describe_group(self, group_id: str) -> Steps[DescribedGroup]:
        """Return a group when all that is shown of it is committed, or its error."""
        if not group_id:
            return DescribedGroup(group_id=group_id, error_code=int(ErrorCode.INVALID_GROUP_ID))
        try:
            context = self._runtime.context_for(group_id)
            group = context.shard.streams.group(group_id)
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=int(error.code), error_message=error.message)
        committed = context.when_committed()
        described = yield from describe(group)
        outcome = committed.value if committed.is_complete else (yield committed)
        if outcome is not ErrorCode.NONE:
            return DescribedGroup(group_id=group_id, error_code=int(outcome))
        return described


def error_response(error: ErrorCode, message: str | None = None) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=int(error), error_message=message)


def _owned_tasks(request: StreamsGroupHeartbeatRequest) -> Steps[TaskAssignment | None]:
    """Return the tasks that a member reports; None if it does not.

    Raises:
        KafkaError: INVALID_REQUEST: they are more than any group has.
    """
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    tasks: list[Tasks] = []
    for entries in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        tasks.append((yield from _tasks(entries)))
    return TaskAssignment(*tasks)


def _tasks(entries: Sequence[TaskIds]) -> Steps[Tasks]:
    reported = len(entries) + sum(len(entry.partitions) for entry in entries)
    if reported > 2 * TASKS_MAX:
        raise InvalidRequestError(f"A member reports {reported} tasks; a streams group has at most {TASKS_MAX}.")
    tasks: dict[str, set[int]] = {}
    work = 0
    for entry in entries:
        if entry.partitions:
            tasks.setdefault(entry.subtopology_id, set()).update(entry.partitions)
        work += 10 + len(entry.partitions)
        if work >= _PARTITIONS_PER_STEP:
            work = 0
            yield None
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in tasks.items()}


def _check(request: StreamsGroupHeartbeatRequest) -> None:
    """Reject a request that contradicts itself, or uses what Kafka 4.3 does not support.

    Raises:
        KafkaError: INVALID_REQUEST; see `check_topology`.

    Source: throwIfStreamsGroupHeartbeatRequestIsInvalid, -IsUsingUnsupportedFeatures.
    """
    for is_used, message in (
        (request.instance_id is not None, "Static membership is not yet supported."),
        (request.task_offsets is not None, "TaskOffsets are not supported yet."),
        (request.task_end_offsets is not None, "TaskEndOffsets are not supported yet."),
        (request.warmup_tasks, "WarmupTasks are not supported yet."),
    ):
        if is_used:
            raise InvalidRequestError(message)
    for text, field in ((request.member_id, "MemberId"), (request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if text is not None and not text.strip():
            raise InvalidRequestError(f"{field} can't be empty.")
    if len(request.client_tags or ()) > CLIENT_TAGS_MAX:
        raise InvalidRequestError(f"A member can't have more than {CLIENT_TAGS_MAX} client tags.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
        return
    if request.member_epoch == LEAVE_STATIC_EPOCH:
        raise InvalidRequestError("InstanceId can't be null.")
    if request.member_epoch < LEAVE_STATIC_EPOCH:
        raise InvalidRequestError(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    _check_task_kinds(request)
    if request.topology is not None:
        raise InvalidRequestError("Topology can only be provided when (re-)joining.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == NOT_SET:
        raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
    for tasks, field in (
        (request.active_tasks, "ActiveTasks"),
        (request.standby_tasks, "StandbyTasks"),
        (request.warmup_tasks, "WarmupTasks"),
    ):
        if tasks is None or tasks:
            raise InvalidRequestError(f"{field} must be empty when (re-)joining.")
    if request.topology is None:
        raise InvalidRequestError("Topology must be non-null when (re-)joining.")
    check_topology(request.topology)


def _check_task_kinds(request: StreamsGroupHeartbeatRequest) -> None:
    kinds: Iterable[object] = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    missing = [each is None for each in kinds]
    if any(missing) and not all(missing):
        raise InvalidRequestError("If one task-type is non-null, all must be non-null.")
