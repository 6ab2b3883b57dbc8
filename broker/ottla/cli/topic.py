"""``ottla topic``: create, list, describe, alter and delete topics."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.exit_codes import ExitCode, NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import (
    ask_brokers,
    bootstrap_option,
    dry_run_option,
    key_values,
    timeout_option,
    yes_option,
)
from ottla.cli.output import (
    Column,
    confirm_deletion,
    emit_descriptions,
    emit_pairs,
    emit_rows,
    emit_table,
    output_option,
    talk,
)
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.results import ConfigEntry, PartitionDescription, Reassignment, TopicDescription


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command(
    cls=ExampleCommand,
    examples=[
        "ottla topic create flights -p 6",
        "ottla topic create flights bookings -p 6 -r 3 -c retention.ms=-1 -c cleanup.policy=compact",
    ],
)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="How many.  [default: the brokers']")
@click.option("-r", "--replication-factor", type=click.IntRange(min=1), help="How many.  [default: the brokers']")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A config of the topic's own.")
@click.option("--if-not-exists", is_flag=True, help="A topic that exists is no error.")
@dry_run_option
@bootstrap_option
@timeout_option
def create(
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Create topics."""
    config = key_values(configs, "--config")

    async def conversation(admin: "AdminClient") -> None:
        for name in names:
            try:
                await admin.create_topic(
                    name,
                    partitions=partitions,
                    replication_factor=replication_factor,
                    config=config,
                    validate_only=dry_run,
                )
            except KafkaError as error:
                if not if_not_exists or error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
                talk(f"topic {name} exists already")
            else:
                talk(f"topic {name} {'would be created' if dry_run else 'created'}")

    ask_brokers(bootstrap, timeout_s, conversation)


@topic.command(
    "list",
    cls=ExampleCommand,
    examples=["ottla topic list", "ottla topic list -o name | grep dead-letter", "ottla topic list --internal -o wide"],
)
@click.option("-i", "--internal", is_flag=True, help="Kafka's own topics too.")
@output_option()
@bootstrap_option
@timeout_option
def list_(*, internal: bool, output: str, bootstrap: str, timeout_s: float) -> None:
    """List topics."""
    topics = ask_brokers(bootstrap, timeout_s, lambda admin: admin.list_topics(include_internal=internal))
    columns = [
        Column("NAME", "name"),
        Column("PARTITIONS", "partitions"),
        Column("REPLICATION", "replicationFactor"),
        Column("UNDER-REPLICATED", "underReplicatedPartitions"),
        Column("OFFLINE", "offlinePartitions"),
        Column("ID", "topicId", wide=True),
        Column("INTERNAL", "internal", wide=True),
    ]
    emit_rows([_summary(described) for described in topics], columns, output, kind="topic")


def _summary(topic_: "TopicDescription") -> dict[str, Any]:
    return {
        "name": topic_.name,
        "topicId": topic_.topic_id,
        "internal": topic_.is_internal,
        "partitions": topic_.partition_count,
        "replicationFactor": topic_.replication_factor,
        "underReplicatedPartitions": sum(len(entry.isr) < len(entry.replicas) for entry in topic_.partitions),
        "offlinePartitions": sum(entry.leader < 0 for entry in topic_.partitions),
    }


@topic.command(
    cls=ExampleCommand,
    examples=[
        "ottla topic describe flights",
        "ottla topic describe flights -o json | jq .partitions",
        "ottla topic describe --under-replicated       # such partitions of all topics",
    ],
)
@click.argument("names", nargs=-1, metavar="[TOPIC]...")
@click.option("--under-replicated", "fault", flag_value="under-replicated", help="Only partitions that lack a replica.")
@click.option("--under-min-isr", "fault", flag_value="under-min-isr", help="Only those that reject acks=all.")
@click.option("--unavailable", "fault", flag_value="unavailable", help="Only those without a leader.")
@click.option("-a", "--all-configs", is_flag=True, help="Also inherited configs.")
@output_option("table", "wide", "json", "yaml")
@bootstrap_option
@timeout_option
def describe(
    *, names: tuple[str, ...], fault: str | None, all_configs: bool, output: str, bootstrap: str, timeout_s: float
) -> int:
    """Describe topics: replicas, sizes and configs of their partitions.

    With --under-replicated, --under-min-isr or --unavailable such partitions are listed, of all topics unless some are
    named, and the exit code is 10 if there are any.
    """
    if fault is not None:
        return _list_faults(names, fault, output, bootstrap, timeout_s)
    if not names:
        raise click.UsageError("name a topic, or a kind of partitions such as --under-replicated")

    async def conversation(admin: "AdminClient") -> list[dict[str, Any]]:
        topics = await _described_topics(admin, names)
        missing = [name for name in names if name not in topics]
        if missing:
            raise NotFoundError(f"there is no topic {', '.join(missing)}; ottla topic list shows those that are")
        return [await _describe(admin, topics[name], all_configs=all_configs) for name in names]

    described = ask_brokers(bootstrap, timeout_s, conversation)
    emit_descriptions(described, output, lambda one: _show(one, wide=output == "wide"))
    return ExitCode.OK


async def _described_topics(admin: "AdminClient", names: Sequence[str]) -> "dict[str, TopicDescription]":
    from ottla.client.errors import UnsupportedApiError

    try:
        return await admin.describe_topic_partitions(names)
    except UnsupportedApiError:
        # Kafka before 3.8 does not return eligible leaders.
        return await admin.describe_topics(names)


def _list_faults(names: Sequence[str], fault: str, output: str, bootstrap: str, timeout_s: float) -> int:
    async def conversation(admin: "AdminClient") -> list[dict[str, Any]]:
        topics = await admin.describe_topic_partitions(names or None)
        missing = [name for name in names if name not in topics]
        if missing:
            raise NotFoundError(f"there is no topic {', '.join(missing)}; ottla topic list shows those that are")
        min_isr = await admin.describe_topic_config(sorted(topics), "min.insync.replicas")
        return [
            {"topic": name, **_place(entry), "minIsr": int(min_isr.get(name) or 1)}
            for name in sorted(topics)
            for entry in topics[name].partitions
            if _has_fault(entry, fault, int(min_isr.get(name) or 1))
        ]

    rows = ask_brokers(bootstrap, timeout_s, conversation)
    columns = [
        Column("TOPIC", "topic"),
        Column("PARTITION", "partition"),
        Column("LEADER", "leader"),
        Column("REPLICAS", "replicas"),
        Column("ISR", "isr"),
        Column("MIN-ISR", "minIsr"),
        Column("ELR", "eligibleLeaderReplicas"),
        Column("LAST-KNOWN-ELR", "lastKnownElr"),
    ]
    emit_rows(rows, columns, output, kind=f"{fault} partition", name_key="topic")
    return ExitCode.UNHEALTHY if rows else ExitCode.OK


def _has_fault(entry: "PartitionDescription", fault: str, min_isr: int) -> bool:
    if fault == "unavailable":
        return entry.leader < 0
    # As brokers do: a min.insync.replicas above the number of replicas would reject every write forever.
    return (
        entry.is_under_replicated if fault == "under-replicated" else len(entry.isr) < min(min_isr, len(entry.replicas))
    )


def _life(entry: "PartitionDescription", move: "Reassignment | None") -> dict[str, Any]:
    """Return the states of partition and replicas (`ottla.metadata.life_cycles`), as clients see them."""

    def state(node: int) -> str:
        if node in entry.offline_replicas:
            return "Offline"
        return "New" if move is not None and node in move.adding and node not in entry.isr else "Online"

    return {
        "state": "Online" if entry.leader >= 0 else "Offline",
        "replicaStates": {str(node): state(node) for node in entry.replicas},
    }


def _place(entry: "PartitionDescription") -> dict[str, Any]:
    return {
        "partition": entry.partition,
        "leader": entry.leader,
        "leaderEpoch": entry.leader_epoch,
        "replicas": list(entry.replicas),
        "isr": list(entry.isr),
        "offlineReplicas": list(entry.offline_replicas),
        "eligibleLeaderReplicas": list(entry.eligible_leader_replicas),
        "lastKnownElr": list(entry.last_known_elr),
    }


async def _describe(admin: "AdminClient", described: "TopicDescription", *, all_configs: bool) -> dict[str, Any]:
    from ottla.client.admin_topics import EARLIEST, LATEST
    from ottla.config.resource_type import ConfigResourceType
    from ottla.types import TopicPartition

    led = [TopicPartition(described.name, entry.partition) for entry in described.partitions if entry.leader >= 0]
    starts = await admin.list_offsets(dict.fromkeys(led, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(led, LATEST))
    configs = await admin.describe_configs(ConfigResourceType.TOPIC, described.name)
    moving = await admin.list_partition_reassignments(
        [TopicPartition(described.name, entry.partition) for entry in described.partitions]
    )
    partitions = []
    for entry in described.partitions:
        where = TopicPartition(described.name, entry.partition)
        start, end = starts.get(where), ends.get(where)
        partitions.append(
            {
                **_place(entry),
                **_life(entry, moving.get(where)),
                "logStartOffset": start.offset if start else None,
                "endOffset": end.offset if end else None,
            }
        )
    return {**_summary(described), "partitions": partitions, "configs": _configs(configs, all_configs=all_configs)}


def _configs(entries: Sequence["ConfigEntry"], *, all_configs: bool) -> list[dict[str, Any]]:
    return [
        {"name": entry.name, "value": entry.value, "source": entry.source}
        for entry in entries
        if all_configs or entry.source == "DYNAMIC_TOPIC_CONFIG"
    ]


def _show(described: dict[str, Any], *, wide: bool) -> None:
    emit_pairs(
        [
            ("Name", described["name"]),
            ("Topic id", described["topicId"]),
            ("Partitions", len(described["partitions"])),
            ("Replication", described["replicationFactor"]),
        ]
    )
    click.echo()
    columns = [
        Column("PARTITION", "partition"),
        Column("LEADER", "leader"),
        Column("REPLICAS", "replicas"),
        Column("ISR", "isr"),
        Column("START", "logStartOffset"),
        Column("END", "endOffset"),
        Column("ELR", "eligibleLeaderReplicas"),
        Column("LAST-KNOWN-ELR", "lastKnownElr", wide=True),
        Column("EPOCH", "leaderEpoch", wide=True),
        Column("STATE", "state", wide=True),
        Column("REPLICA-STATES", "replicaStates", wide=True),
    ]
    rows = [
        {**entry, "replicaStates": [f"{node}:{state}" for node, state in entry["replicaStates"].items()]}
        for entry in described["partitions"]
    ]
    emit_table(rows, columns, wide=wide)
    if described["configs"]:
        click.echo()
        columns = [Column("CONFIG", "name"), Column("VALUE", "value"), Column("SOURCE", "source")]
        emit_table(described["configs"], columns)


@topic.command(
    cls=ExampleCommand,
    examples=[
        "ottla topic alter flights --partitions 12",
        "ottla topic alter flights --set retention.ms=86400000 --delete segment.bytes",
        "ottla topic alter flights --append cleanup.policy=compact --dry-run",
    ],
)
@click.argument("name", metavar="TOPIC")
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="Increase the number of partitions to this.")
@click.option("--set", "upserts", multiple=True, metavar="KEY=VALUE", help="Set a config.")
@click.option("--delete", "deletions", multiple=True, metavar="KEY", help="Reset to the inherited value.")
@click.option("--append", "appends", multiple=True, metavar="KEY=ENTRY", help="Add to a config that is a list.")
@click.option("--subtract", "subtractions", multiple=True, metavar="KEY=ENTRY", help="Take from a list.")
@dry_run_option
@bootstrap_option
@timeout_option
def alter(
    *,
    name: str,
    partitions: int | None,
    upserts: tuple[str, ...],
    deletions: tuple[str, ...],
    appends: tuple[str, ...],
    subtractions: tuple[str, ...],
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Change a topic's configs and number of partitions."""
    from ottla.config.resource_type import ConfigResourceType

    changes = {
        "upserts": key_values(upserts, "--set"),
        "appends": key_values(appends, "--append"),
        "subtractions": key_values(subtractions, "--subtract"),
    }
    has_configs = bool(deletions) or any(changes.values())
    if partitions is None and not has_configs:
        raise click.UsageError("nothing to alter: give --partitions, --set, --delete, --append or --subtract")

    async def conversation(admin: "AdminClient") -> None:
        if has_configs:
            await admin.alter_configs(
                ConfigResourceType.TOPIC, name, deletions=deletions, validate_only=dry_run, **changes
            )
        if partitions is not None:
            await admin.create_partitions(name, total=partitions, validate_only=dry_run)

    ask_brokers(bootstrap, timeout_s, conversation)
    talk(f"topic {name} {'would be altered' if dry_run else 'altered'}")


@topic.command(
    cls=ExampleCommand,
    examples=["ottla topic delete flights", "ottla topic delete --regex 'test-.*' --yes"],
)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("-r", "--regex", is_flag=True, help="The arguments are regular expressions for whole names.")
@yes_option
@dry_run_option
@bootstrap_option
@timeout_option
def delete(*, names: tuple[str, ...], regex: bool, yes: bool, dry_run: bool, bootstrap: str, timeout_s: float) -> None:
    """Delete topics and all their records."""
    if regex:
        known = ask_brokers(bootstrap, timeout_s, lambda admin: admin.list_topics())
        chosen = [entry.name for entry in known if any(re.fullmatch(pattern, entry.name) for pattern in names)]
    else:
        known_names = ask_brokers(bootstrap, timeout_s, lambda admin: admin.describe_topics(names))
        chosen = [name for name in names if name in known_names]
    missing = [] if regex else [name for name in names if name not in chosen]
    if missing or not chosen:
        raise NotFoundError(f"there is no topic {', '.join(missing or names)}")
    question = f"Delete {len(chosen)} topic(s) with all records?"
    if confirm_deletion([f"topic {name}" for name in chosen], question, yes=yes, dry_run=dry_run):
        ask_brokers(bootstrap, timeout_s, lambda admin: admin.delete_topics(chosen))
        talk(f"{len(chosen)} topic(s) deleted")
