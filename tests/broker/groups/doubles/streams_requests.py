"""Commands of recorded scenarios of streams groups, as requests to a group coordinator, and its responses as lines."""

from typing import Any

from group_requests import Command, Names, group_of, groups_of, split_names
from ottla.wire.codec import Message
from ottla.wire.messages import streams_group_describe
from ottla.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from shown_errors import code, error_of, message_of

STATUS = (
    "STALE_TOPOLOGY",
    "MISSING_SOURCE_TOPICS",
    "INCORRECTLY_PARTITIONED_TOPICS",
    "MISSING_INTERNAL_TOPICS",
    "SHUTDOWN_APPLICATION",
    "ASSIGNMENT_DELAYED",
)


def streams_beat(command: Command, names: Names) -> tuple[Message, int]:
    """Send a heartbeat; without ``active``, ``topology`` and so on it says that these have not changed.

    A heartbeat with ``topology`` joins: it owns no tasks, unless it says that it does.
    """
    joins = "topology" in command.options
    return StreamsGroupHeartbeatRequest(
        group_id=group_of(command, names),
        member_id=names.member_id(command.get("member", f"${command.client}")),
        member_epoch=int(command.get("epoch", "0")),
        endpoint_information_epoch=int(command.get("endpoint_epoch", "-1")),
        instance_id=command.text("instance") if "instance" in command.options else None,
        rack_id=command.text("rack") if "rack" in command.options else None,
        rebalance_timeout_ms=int(command.get("timeout", "60000" if joins else "-1")),
        topology=_topology(command) if joins else None,
        active_tasks=_tasks(command, "active", joins=joins),
        standby_tasks=_tasks(command, "standby", joins=joins),
        warmup_tasks=_tasks(command, "warmup", joins=joins),
        process_id=command.get("process", command.client) if joins else command.options.get("process"),
        user_endpoint=_endpoint(command),
        client_tags=[KeyValue(key=key, value=value) for key, value in command.pairs("tags")] if joins else None,
        task_offsets=[TaskOffset()] if "offsets" in command.options else None,
        task_end_offsets=[TaskOffset()] if "end_offsets" in command.options else None,
        shutdown_application="shutdown" in command.options,
    ), 0


def streams_describe(command: Command, names: Names) -> tuple[Message, int]:
    return streams_group_describe.StreamsGroupDescribeRequest(group_ids=groups_of(command, names)), 0


def _topology(command: Command) -> Topology:
    """Return ``ID/SOURCES/SINKS/REPARTITIONS/CHANGELOGS/COPARTITIONED``, subtopologies separated by ``;``.

    Names are separated by ``+``, the partition count of an internal topic, if any, comes after ``*``; copartitioned are
    the indexes of source topics, and after ``&`` those of repartition topics. ``~`` stands for a regular expression.
    """
    parts = [part for part in command.text("topology").split(";") if part]
    epoch = int(command.get("topology_epoch", "0"))
    return Topology(epoch=epoch, subtopologies=[_subtopology(part) for part in parts])


def _subtopology(text: str) -> Subtopology:
    subtopology_id, sources, sinks, repartitions, changelogs, copartitioned = (text.split("/") + [""] * 5)[:6]
    copartition_groups = []
    if copartitioned:
        topics, _, repartition_topics = copartitioned.partition("&")
        copartition_groups.append(
            CopartitionGroup(
                source_topics=[int(index) for index in split_names(topics)],
                repartition_source_topics=[int(index) for index in split_names(repartition_topics)],
            )
        )
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=[name for name in split_names(sources) if not name.startswith("~")],
        source_topic_regex=[name[1:] for name in split_names(sources) if name.startswith("~")],
        repartition_sink_topics=split_names(sinks),
        repartition_source_topics=[_internal_topic(name) for name in split_names(repartitions)],
        state_changelog_topics=[_internal_topic(name) for name in split_names(changelogs)],
        copartition_groups=copartition_groups,
    )


def _internal_topic(text: str) -> TopicInfo:
    name, _, partitions = text.partition("*")
    return TopicInfo(name=name, partitions=int(partitions or 0), replication_factor=1)


def _tasks(command: Command, kind: str, *, joins: bool) -> list[StreamsGroupHeartbeatRequestTaskIds] | None:
    """Return ``SUBTOPOLOGY:PARTITION:PARTITION,...``."""
    if kind not in command.options:
        return [] if joins or any(other in command.options for other in ("active", "standby", "warmup")) else None
    return [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id=task, partitions=[int(index) for index in rest.split(":")])
        for task, rest in command.pairs(kind)
    ]


def _endpoint(command: Command) -> StreamsGroupHeartbeatRequestEndpoint | None:
    if "endpoint" not in command.options:
        return None
    host, _, port = command.text("endpoint").partition(":")
    return StreamsGroupHeartbeatRequestEndpoint(host=host, port=int(port))


def show_streams_beat(response: StreamsGroupHeartbeatResponse, names: Names) -> list[str]:
    if response.error_code:
        return [error_of(response)]
    tasks = [
        f" {kind}={tasks_of(listed)}"
        for kind, listed in (
            ("active", response.active_tasks),
            ("standby", response.standby_tasks),
            ("warmup", response.warmup_tasks),
        )
        if listed is not None
    ]
    endpoints = sorted(
        f"endpoint {entry.user_endpoint.host}:{entry.user_endpoint.port} "
        f"active={topics_of(entry.active_partitions)} standby={topics_of(entry.standby_partitions)}"
        for entry in response.partitions_by_user_endpoint or ()
    )
    return [
        f"NONE member={names.shown(response.member_id)} epoch={response.member_epoch}{''.join(tasks)} "
        f"interval={response.heartbeat_interval_ms} lag={response.acceptable_recovery_lag} "
        f"offsets={response.task_offset_interval_ms} endpoints={response.endpoint_information_epoch}",
        *(f"{STATUS[status.status_code]} {status.status_detail!r}" for status in response.status or ()),
        *endpoints,
    ]


def show_streams_describe(response: streams_group_describe.StreamsGroupDescribeResponse, names: Names) -> list[str]:
    lines = [f"{len(response.groups)} groups"]
    for group in sorted(response.groups, key=lambda one: one.group_id):
        lines.append(
            f"{group.group_id or '-'} {code(group.error_code)} state={group.group_state or '-'} "
            f"epoch={group.group_epoch} assignment_epoch={group.assignment_epoch}{message_of(group)}"
        )
        if group.topology is not None:
            lines.append(f"  topology epoch={group.topology.epoch}")
            lines += [f"    {_shown_subtopology(each)}" for each in group.topology.subtopologies or ()]
        lines += sorted(f"  {_shown_member(member, names)}" for member in group.members)
    return lines


def _shown_subtopology(subtopology: streams_group_describe.Subtopology) -> str:
    def internal(topics: list[streams_group_describe.TopicInfo]) -> str:
        return "+".join(f"{topic.name}*{topic.partitions}" for topic in topics)

    return "/".join(
        (
            subtopology.subtopology_id,
            "+".join(subtopology.source_topics),
            "+".join(subtopology.repartition_sink_topics),
            internal(subtopology.repartition_source_topics),
            internal(subtopology.state_changelog_topics),
        )
    )


def _shown_member(member: streams_group_describe.Member, names: Names) -> str:
    endpoint = "" if member.user_endpoint is None else f" endpoint={member.user_endpoint.host}"
    tags = "".join(f" {tag.key}={tag.value}" for tag in member.client_tags)
    return (
        f"{names.shown(member.member_id)} instance={member.instance_id} rack={member.rack_id} "
        f"epoch={member.member_epoch} topology_epoch={member.topology_epoch} process={member.process_id} "
        f"client={member.client_id} host={member.client_host}{endpoint}{tags} "
        f"has={_all_tasks(member.assignment)} target={_all_tasks(member.target_assignment)}"
    )


def _all_tasks(assignment: streams_group_describe.Assignment) -> str:
    return "|".join(
        tasks_of(listed) for listed in (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    )


def tasks_of(listed: Any) -> str:
    return (
        ",".join(sorted(":".join([task.subtopology_id, *map(str, sorted(task.partitions))]) for task in listed)) or "-"
    )


def topics_of(listed: Any) -> str:
    return ",".join(sorted(":".join([each.topic, *map(str, sorted(each.partitions))]) for each in listed)) or "-"
