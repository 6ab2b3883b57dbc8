"""``ottla group``: groups, their members, their lag and their offsets."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.exit_codes import NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.named_partitions import choose_partitions
from ottla.cli.offset_reset import PlannedReset, parse_target, plan_reset, require_no_members
from ottla.cli.options import ask_brokers, bootstrap_option, dry_run_option, timeout_option, yes_option
from ottla.cli.output import (
    Column,
    confirm,
    confirm_deletion,
    emit_descriptions,
    emit_pairs,
    emit_rows,
    emit_table,
    output_option,
    talk,
)
from ottla.cli.streams_groups import STREAMS, TASK_COLUMNS, internal_topics, show_streams, streams_fields, task_fields
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.results import GroupDescription, MemberDescription
    from ottla.types import TopicPartition

SHARE = "share"


@click.group()
def group() -> None:
    """List, describe and delete groups, and reset their offsets."""


@group.command(
    "list",
    cls=ExampleCommand,
    examples=["ottla group list", "ottla group list --state empty -o name"],
)
@click.option("-s", "--state", "states", multiple=True, help="Only groups in this state: stable, empty, dead, ...")
@output_option()
@bootstrap_option
@timeout_option
def list_(*, states: tuple[str, ...], output: str, bootstrap: str, timeout_s: float) -> None:
    """List groups."""
    groups = ask_brokers(bootstrap, timeout_s, lambda admin: admin.list_groups(states=[s.title() for s in states]))
    rows = [
        {"name": entry.group_id, "type": entry.type, "state": entry.state, "protocolType": entry.protocol_type}
        for entry in groups
    ]
    columns = [
        Column("NAME", "name"),
        Column("STATE", "state"),
        Column("TYPE", "type"),
        Column("PROTOCOL", "protocolType", wide=True),
    ]
    emit_rows(rows, columns, output, kind="group")


@group.command(
    cls=ExampleCommand,
    examples=["ottla group describe audit", "ottla group describe audit -o json | jq .totalLag"],
)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@output_option("table", "wide", "json", "yaml")
@bootstrap_option
@timeout_option
def describe(*, names: tuple[str, ...], output: str, bootstrap: str, timeout_s: float) -> None:
    """Describe groups: the member and the lag of each partition.

    Of a share group: the start offset and the lag of each partition. The start is the oldest record that the group may
    still deliver; the lag leaves out records after it that were accepted or rejected. Of a streams group also the
    epochs, the subtopologies with their topics, and the tasks of each member.
    """

    async def conversation(admin: "AdminClient") -> list[dict[str, Any]]:
        return [await _describe(admin, description) for description in await _find(admin, names)]

    described = ask_brokers(bootstrap, timeout_s, conversation)
    emit_descriptions(described, output, lambda one: _show(one, wide=output == "wide"))


@group.command(
    cls=ExampleCommand,
    examples=["ottla group members audit", "ottla group members audit -o wide"],
)
@click.argument("name", metavar="GROUP")
@output_option("table", "wide", "json", "yaml")
@bootstrap_option
@timeout_option
def members(*, name: str, output: str, bootstrap: str, timeout_s: float) -> None:
    """List a group's members and their partitions, of a streams group also their tasks."""
    (described,) = ask_brokers(bootstrap, timeout_s, lambda admin: _find(admin, (name,)))
    columns = [
        Column("MEMBER", "memberId"),
        Column("CLIENT", "clientId"),
        Column("HOST", "clientHost"),
        Column("PARTITIONS", "partitionCount"),
        *(TASK_COLUMNS if described.type == STREAMS else ()),
        Column("INSTANCE", "groupInstanceId", wide=True),
        Column("ASSIGNMENT", "assignment", wide=True),
    ]
    emit_rows([_member(member) for member in described.members], columns, output, kind="member", name_key="memberId")


@group.command(
    cls=ExampleCommand,
    examples=[
        "ottla group reset audit flights --to start --dry-run       # what would change",
        "ottla group reset audit flights-0 flights-1 --to 47",
        "ottla group reset audit --all-topics --to @-1h --yes       # an hour ago",
        "ottla group reset audit --all-topics --shift -100",
        "ottla group reset audit --file offsets.csv                 # lines of topic,partition,offset",
        "ottla group reset workers jobs --share --to start          # a share group that does not exist yet",
    ],
)
@click.argument("name", metavar="GROUP")
@click.argument("scope", nargs=-1, metavar="[TOPIC | TOPIC-N]...")
@click.option("--all-topics", is_flag=True, help="All partitions with a committed offset.")
@click.option(
    "--to",
    metavar="OFFSET",
    help="start, end, current, an offset, +N after the start, -N before the end, or a time as @2026-01-31 or @-1h.",
)
@click.option("--shift", type=int, metavar="N", help="Move the committed offsets by N records; -N moves back.")
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV of topic, partition, offset.",
)
@click.option("--share", is_flag=True, help="A group that does not exist becomes a share group.")
@yes_option
@dry_run_option
@output_option()
@bootstrap_option
@timeout_option
def reset(
    *,
    name: str,
    scope: tuple[str, ...],
    all_topics: bool,
    to: str | None,
    shift: int | None,
    file: Path | None,
    share: bool,
    yes: bool,
    dry_run: bool,
    output: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Set the committed offsets of a group without members.

    Of a share group it sets the start offsets (AlterShareGroupOffsets): the group delivers each record from there on
    again, also those that it has accepted or rejected, and none before. --all-topics of a streams group leaves out its
    internal topics, whose records it writes again while it reads its source topics again.
    """
    target = parse_target(to, shift, file, now_ms=time.time_ns() // 1_000_000)
    if (file is not None) + all_topics + bool(scope) != 1:
        raise click.UsageError("name the partitions: topics or TOPIC-N, --all-topics, or those of --file")

    async def plan(admin: "AdminClient") -> "tuple[bool, list[PlannedReset]]":
        described = (await admin.describe_groups((name,))).get(name)
        require_no_members(() if described is None else (described,), "its offsets can be reset")
        is_share = share if described is None else described.type == SHARE
        left_out = () if described is None else internal_topics(described)
        planned = await plan_reset(
            admin, name, scope, target, takes_all=all_topics, is_share=is_share, left_out=left_out
        )
        return is_share, planned

    is_share, planned = ask_brokers(bootstrap, timeout_s, plan)
    rows = [
        {
            "name": str(it.partition),
            "topic": it.partition.topic,
            "partition": it.partition.partition,
            "currentOffset": it.current,
            "newOffset": it.new,
        }
        for it in planned
    ]
    columns = [Column("PARTITION", "name"), Column("CURRENT", "currentOffset"), Column("NEW", "newOffset")]
    emit_rows(rows, columns, output, kind="partition")
    if dry_run:
        return
    confirm(f"Reset {len(planned)} offset(s) of group {name}?", yes=yes)
    from ottla.client.results import CommittedOffset

    async def set_offsets(admin: "AdminClient") -> None:
        if is_share:
            await admin.alter_share_group_offsets(name, {it.partition: it.new for it in planned})
        else:
            offsets = {it.partition: CommittedOffset(offset=it.new) for it in planned}
            await admin.alter_group_offsets(name, offsets)

    ask_brokers(bootstrap, timeout_s, set_offsets)
    talk(f"{len(planned)} offset(s) reset")


@group.command(
    cls=ExampleCommand,
    examples=[
        "ottla group delete audit",
        "ottla group delete old-1 old-2 --yes",
        "ottla group delete wordcount --internal-topics             # of a Kafka Streams application",
    ],
)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@click.option(
    "--internal-topics",
    "with_topics",
    is_flag=True,
    help="Also the repartition and changelog topics of streams groups.",
)
@yes_option
@dry_run_option
@bootstrap_option
@timeout_option
def delete(
    *, names: tuple[str, ...], with_topics: bool, yes: bool, dry_run: bool, bootstrap: str, timeout_s: float
) -> None:
    """Delete groups without members, and their offsets."""

    async def check(admin: "AdminClient") -> list[str]:
        described = await _find(admin, names)
        require_no_members(described, "it can be deleted")
        topics = [topic for each in described for topic in internal_topics(each)] if with_topics else []
        return sorted(await admin.describe_topics(topics))

    topics = ask_brokers(bootstrap, timeout_s, check)
    objects = [*(f"group {name}" for name in names), *(f"topic {name}" for name in topics)]
    question = f"Delete {len(names)} group(s) with their offsets{f', and {len(topics)} topic(s)' if topics else ''}?"
    if confirm_deletion(objects, question, yes=yes, dry_run=dry_run):

        async def delete_all(admin: "AdminClient") -> None:
            await admin.delete_groups(names)
            if topics:
                await admin.delete_topics(topics)

        ask_brokers(bootstrap, timeout_s, delete_all)
        talk(f"{len(names)} group(s) deleted" + (f", {len(topics)} topic(s) deleted" if topics else ""))


@group.command(
    "delete-offsets",
    cls=ExampleCommand,
    examples=["ottla group delete-offsets audit flights", "ottla group delete-offsets audit flights-0 --yes"],
)
@click.argument("name", metavar="GROUP")
@click.argument("scope", nargs=-1, required=True, metavar="TOPIC | TOPIC-N...")
@yes_option
@dry_run_option
@bootstrap_option
@timeout_option
def delete_offsets(
    *, name: str, scope: tuple[str, ...], yes: bool, dry_run: bool, bootstrap: str, timeout_s: float
) -> None:
    """Delete committed offsets of topics that a group no longer reads.

    Of a share group without members it deletes the start offsets and the states of whole topics.
    """

    async def find(admin: "AdminClient") -> "tuple[bool, list[TopicPartition]]":
        (described,) = await _find(admin, (name,))
        is_share = described.type == SHARE
        known = await (admin.share_group_offsets if is_share else admin.group_offsets)(name)
        kind = "state" if is_share else "committed offset"
        found = choose_partitions(scope, known, missing=f"group {name} has no {kind} of {{}}")
        topics = {partition.topic for partition in found}
        if is_share and any(partition.topic in topics and partition not in found for partition in known):
            raise OttlaError(f"group {name} is a share group: name topics, of which it deletes all partitions")
        return is_share, found

    is_share, chosen = ask_brokers(bootstrap, timeout_s, find)
    question = f"Delete {len(chosen)} offset(s) of group {name}?"
    if confirm_deletion([f"offset of {partition}" for partition in chosen], question, yes=yes, dry_run=dry_run):

        async def delete_all(admin: "AdminClient") -> None:
            if is_share:
                await admin.delete_share_group_offsets(name, sorted({partition.topic for partition in chosen}))
            else:
                await admin.delete_group_offsets(name, chosen)

        ask_brokers(bootstrap, timeout_s, delete_all)
        talk(f"{len(chosen)} offset(s) deleted")


async def _find(admin: "AdminClient", names: tuple[str, ...]) -> "list[GroupDescription]":
    described = await admin.describe_groups(names)
    missing = [name for name in names if name not in described]
    if missing:
        raise NotFoundError(f"there is no group {', '.join(missing)}; ottla group list shows the existing ones")
    return [described[name] for name in names]


def _member(member: "MemberDescription") -> dict[str, Any]:
    return {
        "memberId": member.member_id,
        "groupInstanceId": member.group_instance_id,
        "clientId": member.client_id,
        "clientHost": member.client_host.removeprefix("/"),
        "partitionCount": len(member.assignment),
        "assignment": [str(partition) for partition in member.assignment],
        **task_fields(member),
    }


async def _describe(admin: "AdminClient", description: "GroupDescription") -> dict[str, Any]:
    from ottla.client.admin_topics import LATEST

    if description.type == SHARE:
        return await _describe_share(admin, description)
    committed = await admin.group_offsets(description.group_id)
    owners = {partition: member for member in description.members for partition in member.assignment}
    wanted = sorted({*committed, *owners})
    existing = await admin.describe_topics(sorted({partition.topic for partition in wanted}))
    led = [
        partition
        for partition in wanted
        if partition.topic in existing and partition.partition < existing[partition.topic].partition_count
    ]
    ends = await admin.list_offsets(dict.fromkeys(led, LATEST))
    rows = []
    for partition in wanted:
        current = committed[partition].offset if partition in committed else None
        end = ends[partition].offset if partition in ends else None
        rows.append(_row(partition, current, end, owners.get(partition)))
    return _with_partitions(description, rows)


async def _describe_share(admin: "AdminClient", description: "GroupDescription") -> dict[str, Any]:
    """Return the description without a member for each partition, which several members share."""
    offsets = await admin.share_group_offsets(description.group_id)
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "startOffset": offsets[partition].start_offset,
            "lag": offsets[partition].lag,
        }
        for partition in sorted(offsets)
    ]
    return _with_partitions(description, rows)


def _with_partitions(description: "GroupDescription", rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": description.group_id,
        "state": description.state,
        "type": description.type,
        "assignor": description.assignor,
        "coordinator": str(description.coordinator),
        "members": len(description.members),
        "totalLag": sum(row["lag"] or 0 for row in rows),
        "partitions": rows,
        **streams_fields(description),
    }


def _row(
    partition: "TopicPartition", current: int | None, end: int | None, owner: "MemberDescription | None"
) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "currentOffset": current,
        "endOffset": end,
        "lag": None if current is None or end is None else max(end - current, 0),
        "memberId": owner.member_id if owner else None,
        "clientId": owner.client_id if owner else None,
        "clientHost": owner.client_host.removeprefix("/") if owner else None,
    }


def _show(described: dict[str, Any], *, wide: bool) -> None:
    emit_pairs(
        [
            ("Name", described["name"]),
            ("State", described["state"]),
            ("Type", described["type"]),
            ("Assignor", described["assignor"]),
            ("Coordinator", described["coordinator"]),
            ("Members", described["members"]),
            ("Total lag", described["totalLag"]),
            *(
                (title, described[key])
                for title, key in (
                    ("Group epoch", "groupEpoch"),
                    ("Assignment epoch", "assignmentEpoch"),
                    ("Topology epoch", "topologyEpoch"),
                )
                if key in described
            ),
        ]
    )
    if described["partitions"]:
        click.echo()
        columns = [Column("TOPIC", "topic"), Column("PARTITION", "partition")]
        if described["type"] == SHARE:
            columns += [Column("START", "startOffset"), Column("LAG", "lag")]
            emit_table(described["partitions"], columns, wide=wide)
            return
        columns += [
            Column("CURRENT", "currentOffset"),
            Column("END", "endOffset"),
            Column("LAG", "lag"),
            Column("CLIENT", "clientId"),
            Column("HOST", "clientHost", wide=True),
            Column("MEMBER", "memberId", wide=True),
        ]
        emit_table(described["partitions"], columns, wide=wide)
    if described["type"] == STREAMS:
        show_streams(described, wide=wide)
