"""``ottla group``: groups, their members and their lag."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.exit_codes import NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import ask_brokers, bootstrap_option, timeout_option
from ottla.cli.output import Column, emit_pairs, emit_rows, emit_table, emit_value, output_option

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.results import GroupDescription, MemberDescription
    from ottla.types import TopicPartition


@click.group()
def group() -> None:
    """List and describe groups and their members."""


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
    """Describe groups: the member and the lag of each partition."""

    async def conversation(admin: "AdminClient") -> list[dict[str, Any]]:
        return [await _describe(admin, description) for description in await _find(admin, names)]

    described = ask_brokers(bootstrap, timeout_s, conversation)
    if output in ("json", "yaml"):
        emit_value(described[0] if len(described) == 1 else described, output)
        return
    for index, one in enumerate(described):
        if index:
            click.echo()
        _show(one, wide=output == "wide")


@group.command(
    cls=ExampleCommand,
    examples=["ottla group members audit", "ottla group members audit -o wide"],
)
@click.argument("name", metavar="GROUP")
@output_option("table", "wide", "json", "yaml")
@bootstrap_option
@timeout_option
def members(*, name: str, output: str, bootstrap: str, timeout_s: float) -> None:
    """List a group's members and their partitions."""
    (described,) = ask_brokers(bootstrap, timeout_s, lambda admin: _find(admin, (name,)))
    columns = [
        Column("MEMBER", "memberId"),
        Column("CLIENT", "clientId"),
        Column("HOST", "clientHost"),
        Column("PARTITIONS", "partitionCount"),
        Column("INSTANCE", "groupInstanceId", wide=True),
        Column("ASSIGNMENT", "assignment", wide=True),
    ]
    emit_rows([_member(member) for member in described.members], columns, output, kind="member", name_key="memberId")


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
    }


async def _describe(admin: "AdminClient", description: "GroupDescription") -> dict[str, Any]:
    from ottla.client.admin_topics import LATEST

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
    return {
        "name": description.group_id,
        "state": description.state,
        "type": description.type,
        "assignor": description.assignor,
        "coordinator": str(description.coordinator),
        "members": len(description.members),
        "totalLag": sum(row["lag"] or 0 for row in rows),
        "partitions": rows,
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
        ]
    )
    if described["partitions"]:
        click.echo()
        columns = [
            Column("TOPIC", "topic"),
            Column("PARTITION", "partition"),
            Column("CURRENT", "currentOffset"),
            Column("END", "endOffset"),
            Column("LAG", "lag"),
            Column("CLIENT", "clientId"),
            Column("HOST", "clientHost", wide=True),
            Column("MEMBER", "memberId", wide=True),
        ]
        emit_table(described["partitions"], columns, wide=wide)
