"""Streams groups (KIP-1071) in `ottla group`: topology, tasks of members, internal topics."""

import re
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.output import Column, emit_table

if TYPE_CHECKING:
    from ottla.client.results import GroupDescription, MemberDescription

STREAMS: Final = "streams"
_INTERNAL_TOPIC: Final = re.compile(
    r".+-(changelog|repartition|subscription-(registration|response)-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)


def internal_topics(description: "GroupDescription") -> list[str]:
    """Return the repartition and changelog topics of a streams group, sorted; of other groups none.

    Only names that Kafka Streams gives to internal topics: a topology may name any topic as its changelog.
    Source: StreamsGroupCommand.isInferredInternalTopic of Apache Kafka 4.3.
    """
    if description.streams is None:
        return []
    names = {
        name
        for each in description.streams.subtopologies
        for name in (*each.repartition_source_topics, *each.changelog_topics)
    }
    start = f"{description.group_id}-"
    return sorted(name for name in names if name.startswith(start) and _INTERNAL_TOPIC.fullmatch(name))


def streams_fields(description: "GroupDescription") -> dict[str, Any]:
    """Return what the description of a streams group has besides that of other groups."""
    streams = description.streams
    if streams is None:
        return {}
    return {
        "groupEpoch": streams.group_epoch,
        "assignmentEpoch": streams.assignment_epoch,
        "topologyEpoch": streams.topology_epoch,
        "subtopologies": [
            {
                "subtopologyId": each.subtopology_id,
                "sourceTopics": list(each.source_topics),
                "repartitionSourceTopics": list(each.repartition_source_topics),
                "repartitionSinkTopics": list(each.repartition_sink_topics),
                "changelogTopics": list(each.changelog_topics),
            }
            for each in streams.subtopologies
        ],
        "tasks": [_member_tasks(member) for member in description.members],
    }


def task_fields(member: "MemberDescription") -> dict[str, Any]:
    """Return the tasks of a streams group's member; of other groups' members nothing."""
    tasks = member.tasks
    if tasks is None:
        return {}
    return {
        "memberEpoch": tasks.member_epoch,
        "topologyEpoch": tasks.topology_epoch,
        "processId": tasks.process_id,
        "activeTasks": list(tasks.active),
        "standbyTasks": list(tasks.standby),
        "warmupTasks": list(tasks.warmup),
    }


TASK_COLUMNS: Final = (
    Column("ACTIVE", "activeTasks"),
    Column("STANDBY", "standbyTasks"),
    Column("WARMUP", "warmupTasks"),
    Column("PROCESS", "processId", wide=True),
    Column("EPOCH", "memberEpoch", wide=True),
)


def show_streams(described: dict[str, Any], *, wide: bool) -> None:
    """Print the subtopologies of a streams group and the tasks of its members."""
    if described["subtopologies"]:
        click.echo()
        columns = (
            Column("SUBTOPOLOGY", "subtopologyId"),
            Column("SOURCES", "sourceTopics"),
            Column("REPARTITION", "repartitionSourceTopics"),
            Column("CHANGELOGS", "changelogTopics"),
            Column("SINKS", "repartitionSinkTopics", wide=True),
        )
        emit_table(described["subtopologies"], columns, wide=wide)
    if described["tasks"]:
        click.echo()
        emit_table(
            described["tasks"], [Column("MEMBER", "memberId"), Column("CLIENT", "clientId"), *TASK_COLUMNS], wide=wide
        )


def _member_tasks(member: "MemberDescription") -> dict[str, Any]:
    return {"memberId": member.member_id, "clientId": member.client_id, **task_fields(member)}
