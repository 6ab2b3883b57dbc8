"""StreamsGroupHeartbeat: a member joins, stays or leaves.

Source: GroupMetadataManager.streamsGroupHeartbeat, streamsGroupLeave of Apache Kafka 4.3; KIP-1071.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, InvalidRequestError, KafkaError
from ottla.groups.client import Client
from ottla.groups.log import GroupRecord
from ottla.groups.modern.assignment import Target
from ottla.groups.modern.member_epochs import JOIN_EPOCH
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.groups import StreamsGroups
from ottla.groups.streams.member import NOT_SET, EpochTasks, MemberState, MemberTasks, StreamsMember
from ottla.groups.streams.reconciliation import Reconciliation
from ottla.groups.streams.records import current_assignment_record, epoch_record, member_record, topology_record
from ottla.groups.streams.state import is_transition
from ottla.groups.streams.target import assign_delayed, assignment_configs, target_for
from ottla.groups.streams.tasks import TaskAssignment, Tasks
from ottla.groups.streams.topics.configure import configure_topology
from ottla.groups.streams.topics.configured import ConfiguredTopology, StreamsStatus
from ottla.groups.streams.topology import Topology
from ottla.purgatory.steps import run_to_end
from ottla.quoting import quoted
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponseTaskIds as TaskIds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A request, and what was made of it in slices.

    Attributes:
        topology: of a member that joins.
        owned: tasks that the member reports; None if the request does not list them.
        configured: a topology that was configured for this request; void when topics have changed since then.
    """

    client: Client
    request: StreamsGroupHeartbeatRequest
    topology: Topology | None
    owned: TaskAssignment | None
    configured: ConfiguredTopology | None

    @property
    def is_join(self) -> bool:
        return self.request.member_epoch == JOIN_EPOCH


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatResult:
    """What a heartbeat has decided besides its records.

    Attributes:
        topics_to_create: internal topics that the broker must create, by name.
        needs_endpoints: whether the response is to have ``partitions_by_user_endpoint``, which takes longer.
        configured: the topology that it was decided with; None when a member leaves.
    """

    response: StreamsGroupHeartbeatResponse
    topics_to_create: Mapping[str, CreatableTopic]
    needs_endpoints: bool = False
    configured: ConfiguredTopology | None = None


def leave(
    groups: StreamsGroups, request: StreamsGroupHeartbeatRequest
) -> CoordinatorResult[GroupRecord, StreamsHeartbeatResult]:
    """Remove a member.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID.
    """
    group = groups.group(request.group_id)
    if request.shutdown_application:
        _request_shutdown(group, request.member_id)
    member = group.member(request.member_id)
    log.info("Group %s: %s leaves", quoted(group.group_id), quoted(member.member_id))
    response = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch, status=[])
    return groups.remove_member(group, member, StreamsHeartbeatResult(response, {}))


def heartbeat(groups: StreamsGroups, beat: Heartbeat) -> CoordinatorResult[GroupRecord, StreamsHeartbeatResult]:
    """Add or keep a member.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, INVALID_REQUEST;
            nothing has changed.
    """
    request = beat.request
    records: list[GroupRecord] = []
    statuses: list[Status] = []
    group = _group(groups, beat, records)
    group_id = group.group_id
    member = _member(group, beat)
    updated = _with_request(member, beat)
    is_changed = updated != member
    if is_changed:
        records.append(member_record(group_id, updated))
    topology = _topology(group, beat, records)
    if group.topology is not None and updated.topology_epoch < group.topology.epoch:
        statuses.append(_stale_topology(updated, group.topology))
    epoch, configured = _update_epoch(groups, group, topology, beat, records, must_increment=is_changed)
    if group.is_empty:
        groups.delay_assignment(group_id, lambda: assign_delayed(groups, group_id, configured))
    target = target_for(groups, group, epoch, updated, configured, records, statuses)
    updated = _reconcile(groups, group, updated, target, beat.owned, records)
    groups.renew_session(group_id, updated.member_id)
    if request.shutdown_application:
        _request_shutdown(group, updated.member_id)
    response = _response(groups, group, member, updated, beat)
    if configured.problem is not None:
        statuses.append(Status(status_code=int(configured.problem.status), status_detail=configured.problem.detail))
    if group.shutdown_requested_by is not None:
        statuses.append(_shutdown(group.shutdown_requested_by))
    response.status = statuses
    result = StreamsHeartbeatResult(
        response,
        configured.internal_topics_to_create,
        needs_endpoints=group.endpoint_epoch != request.endpoint_information_epoch,
        configured=configured,
    )
    return CoordinatorResult(records=records, response=result)


# Group and member


def _group(groups: StreamsGroups, beat: Heartbeat, records: list[GroupRecord]) -> StreamsGroup:
    group_id, member_id = beat.request.group_id, beat.request.member_id
    if not beat.is_join:
        return groups.group(group_id, subject="Streams group")
    group = groups.group_to_join(group_id, records)
    # Kafka rejects a member that joins a full group again, too; here it keeps its place.
    groups.check_size(group, member_id, groups.settings.config.streams_max_size)
    return group


def _member(group: StreamsGroup, beat: Heartbeat) -> StreamsMember:
    """Return the member as it is known, or a new one.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
    """
    member_id, epoch = beat.request.member_id, beat.request.member_epoch
    if beat.is_join:
        log.info("Group %s: %s joins", quoted(group.group_id), quoted(member_id))
        return group.members.get(member_id) or StreamsMember(member_id=member_id)
    member = group.member(member_id)
    is_previous = epoch == member.previous_member_epoch and _are_assigned(beat.owned, member)
    if epoch > member.member_epoch or (epoch < member.member_epoch and not is_previous):
        comparison = "greater" if epoch > member.member_epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The streams group member has a {comparison} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
        )
    return member


def _are_assigned(owned: TaskAssignment | None, member: StreamsMember) -> bool:
    """Return whether the member reports its tasks, and only such as it was assigned."""
    assigned = member.assigned
    return owned is not None and all(
        partitions <= frozenset(known.get(subtopology_id, ()))
        for tasks, known in (
            (owned.active, assigned.active),
            (owned.standby, assigned.standby),
            (owned.warmup, assigned.warmup),
        )
        for subtopology_id, partitions in tasks.items()
    )


def _with_request(member: StreamsMember, beat: Heartbeat) -> StreamsMember:
    """Return the member with what the request says of it."""
    request, endpoint, tags = beat.request, beat.request.user_endpoint, beat.request.client_tags
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_SET else timeout_ms,
        topology_epoch=member.topology_epoch if beat.topology is None else beat.topology.epoch,
        client_id=beat.client.client_id,
        client_host=beat.client.host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        client_tags=member.client_tags if tags is None else {tag.key: tag.value for tag in tags},
        user_endpoint=member.user_endpoint if endpoint is None else (endpoint.host, endpoint.port),
    )


# Topology and epoch


def _topology(group: StreamsGroup, beat: Heartbeat, records: list[GroupRecord]) -> Topology:
    """Return the group's topology; that of its first member, which is recorded."""
    if beat.topology is None:
        if group.topology is None:
            # Every group starts with one: its record must have been corrupt.
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "The topology of the group is lost. Rejoin with it.")
        return group.topology
    if group.topology is None:
        records.append(topology_record(group.group_id, beat.topology))
        return beat.topology
    if group.topology.epoch <= beat.topology.epoch and group.topology != beat.topology:
        raise InvalidRequestError("Topology updates are not supported yet.")
    return group.topology


def _update_epoch(
    groups: StreamsGroups,
    group: StreamsGroup,
    topology: Topology,
    beat: Heartbeat,
    records: list[GroupRecord],
    *,
    must_increment: bool,
) -> tuple[int, ConfiguredTopology]:
    """Return the group's epoch, incremented with members, topics and settings; and the topology with its topics."""
    now_ms = groups.clock.monotonic_ms()
    configured, metadata_hash = group.configured, group.metadata_hash
    is_stale = configured is None or group.has_stale_topics(groups.topics, now_ms)
    if is_stale:
        metadata_hash = groups.topics.hash_of(topology.required_topics)
    if configured is None or configured.metadata_hash != metadata_hash:
        prepared = beat.configured
        if prepared is not None and prepared.epoch == topology.epoch and prepared.metadata_hash == metadata_hash:
            configured = prepared
        else:
            configured = run_to_end(configure_topology(topology, metadata_hash, groups.topics))
        group.configured = configured
    if configured.is_ready and beat.owned is not None:
        _check_tasks(configured, beat.owned)
    validated_epoch = topology.epoch if configured.is_ready else NOT_SET
    configs = assignment_configs(groups, group.group_id)
    before = (group.metadata_hash, group.validated_topology_epoch, group.assignment_configs)
    epoch = group.epoch
    if must_increment or (metadata_hash, validated_epoch, configs) != before:
        epoch += 1
        records.append(
            epoch_record(
                group.group_id,
                epoch,
                metadata_hash=metadata_hash,
                validated_topology_epoch=validated_epoch,
                assignment_configs=configs,
            )
        )
        log.info("Group %s has epoch %d", quoted(group.group_id), epoch)
    if is_stale or epoch != group.epoch:
        group.note_refresh(groups.topics, now_ms, epoch)
    return epoch, configured


def _check_tasks(configured: ConfiguredTopology, owned: TaskAssignment) -> None:
    """Reject tasks that the topology does not have.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    subtopologies = configured.subtopologies or {}
    for tasks in (owned.active, owned.standby, owned.warmup):
        for subtopology_id, partitions in tasks.items():
            subtopology = subtopologies.get(subtopology_id)
            if subtopology is None:
                raise InvalidRequestError(f"Subtopology {subtopology_id} does not exist in the topology.")
            for partition in (min(partitions), max(partitions)):
                if not 0 <= partition < subtopology.task_count:
                    raise InvalidRequestError(
                        f"Task {partition} for subtopology {subtopology_id} is invalid. Number of tasks for this "
                        f"subtopology: {subtopology.task_count}"
                    )


def _reconcile(
    groups: StreamsGroups,
    group: StreamsGroup,
    member: StreamsMember,
    target: Target[TaskAssignment],
    owned: TaskAssignment | None,
    records: list[GroupRecord],
) -> StreamsMember:
    """Return the member after its next step; record it, and limit the time for a revocation."""
    if member.is_reconciled_to(target.epoch):
        return member
    step = Reconciliation(target_epoch=target.epoch, target=target.assignment, group=group, owned=owned)
    updated = step.next_step(member)
    assert is_transition(member.state, updated.state), f"{member.state.name} cannot become {updated.state.name}"
    if updated != member:
        records.append(current_assignment_record(group.group_id, updated))
        if updated.state is MemberState.UNREVOKED_TASKS:
            groups.await_revocation(group.group_id, updated)
        else:
            groups.end_revocation(group.group_id, updated.member_id)
    return updated


# Response


def _response(
    groups: StreamsGroups, group: StreamsGroup, old: StreamsMember, new: StreamsMember, beat: Heartbeat
) -> StreamsGroupHeartbeatResponse:
    """Return epoch and tasks.

    Kafka gives a member that is no new one only the tasks that have changed by this heartbeat: one that did not receive
    the response to its last heartbeat never learns of its tasks. Here it does when it lists others, as Kafka's client
    does after a failure.
    """
    response = StreamsGroupHeartbeatResponse(
        member_id=new.member_id,
        member_epoch=new.member_epoch,
        heartbeat_interval_ms=groups.settings.heartbeat_interval_ms(group.group_id),
    )
    is_changed = beat.is_join or old.assigned != new.assigned
    if is_changed or _has_other_tasks(beat.owned, new.assigned):
        assigned = new.assigned
        response.active_tasks = _task_ids(assigned.active)
        response.standby_tasks = _task_ids(assigned.standby)
        response.warmup_tasks = _task_ids(assigned.warmup)
        if is_changed and new.user_endpoint is not None:
            group.endpoint_epoch += 1
    if group.group_id in groups.groups:
        response.endpoint_information_epoch = group.endpoint_epoch
    return response


def _has_other_tasks(owned: TaskAssignment | None, assigned: MemberTasks) -> bool:
    """Return whether the member reports its tasks, and not those that it was assigned."""
    return owned is not None and any(
        reported.keys() != known.keys()
        or any(partitions != frozenset(known[each]) for each, partitions in reported.items())
        for reported, known in (
            (owned.active, assigned.active),
            (owned.standby, assigned.standby),
            (owned.warmup, assigned.warmup),
        )
    )


def _task_ids(tasks: Tasks | EpochTasks) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=sorted(partitions))
        for subtopology_id, partitions in sorted(tasks.items())
    ]


def _request_shutdown(group: StreamsGroup, member_id: str) -> None:
    if group.shutdown_requested_by is None:
        log.info("Group %s: %s requests the application to end", quoted(group.group_id), quoted(member_id))
        group.shutdown_requested_by = member_id


def _stale_topology(member: StreamsMember, topology: Topology) -> Status:
    return Status(
        status_code=int(StreamsStatus.STALE_TOPOLOGY),
        status_detail=f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
        f"{topology.epoch}.",
    )


def _shutdown(member_id: str) -> Status:
    return Status(
        status_code=int(StreamsStatus.SHUTDOWN_APPLICATION),
        status_detail=f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the "
        "entire application.",
    )
