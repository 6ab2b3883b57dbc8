"""``ottla txn``: transactions, their states, and how to end those that hang."""

import time
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.durations import read_duration
from ottla.cli.exit_codes import NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.named_partitions import choose_partitions, parse_partition
from ottla.cli.options import ask_brokers, bootstrap_option, dry_run_option, timeout_option, yes_option
from ottla.cli.output import Column, confirm, emit_descriptions, emit_pairs, emit_rows, output_option, talk
from ottla.cli.record_format import iso_time

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.admin_transactions import HangingTransaction, ProducerDescription, TransactionDescription

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence")
_BY_LOWER_CASE = {state.lower(): state for state in STATES}


@click.group()
def txn() -> None:
    """List and describe transactions; find and abort those that hang."""


@txn.command(
    "list",
    cls=ExampleCommand,
    examples=[
        "ottla txn list",
        "ottla txn list --state ongoing --open-for 5m",
        "ottla txn list --pattern 'orders-.*' -o name",
    ],
)
@click.option(
    "-s",
    "--state",
    "states",
    multiple=True,
    type=click.Choice(list(_BY_LOWER_CASE), case_sensitive=False),
    metavar="STATE",
    help="Only transactions in this state: ongoing, empty, preparecommit, ...",
)
@click.option("--producer-id", "producer_ids", multiple=True, type=click.IntRange(min=0), help="Only of this producer.")
@click.option(
    "--open-for", "open_for_ms", callback=read_duration, metavar="DURATION", help="Only if open for at least 5m, ..."
)
@click.option("--pattern", metavar="REGEX", help="Only ids that match from start to end (RE2).")
@output_option()
@bootstrap_option
@timeout_option
def list_(
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    open_for_ms: int | None,
    pattern: str | None,
    output: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """List transactional ids."""
    from ottla.client.admin_transactions import OPEN_STATES

    found = ask_brokers(
        bootstrap,
        timeout_s,
        lambda admin: admin.list_transactions(
            # Coordinators also return ended transactions that started so long ago.
            states=[_BY_LOWER_CASE[state] for state in states] if states or open_for_ms is None else OPEN_STATES,
            producer_ids=producer_ids,
            open_for_ms=open_for_ms,
            pattern=pattern,
        ),
    )
    rows = [
        {
            "name": entry.transactional_id,
            "state": entry.state,
            "producerId": entry.producer_id,
            "coordinatorId": entry.coordinator_id,
        }
        for entry in found
    ]
    columns = [
        Column("NAME", "name"),
        Column("STATE", "state"),
        Column("PRODUCER", "producerId"),
        Column("COORDINATOR", "coordinatorId", wide=True),
    ]
    emit_rows(rows, columns, output, kind="transaction")


@txn.command(
    cls=ExampleCommand,
    examples=["ottla txn describe orders-1", "ottla txn describe orders-1 -o json | jq .partitions"],
)
@click.argument("names", nargs=-1, required=True, metavar="ID...")
@output_option("table", "json", "yaml")
@bootstrap_option
@timeout_option
def describe(*, names: tuple[str, ...], output: str, bootstrap: str, timeout_s: float) -> None:
    """Describe transactional ids: producer, state, and the partitions of the open transaction."""
    described = [_plain(it) for it in ask_brokers(bootstrap, timeout_s, lambda admin: _find(admin, names))]
    emit_descriptions(described, output, _show)


@txn.command(
    cls=ExampleCommand,
    examples=["ottla txn hanging", "ottla txn hanging orders flights-0 --idle-for 1h", "ottla txn hanging -o json"],
)
@click.argument("scope", nargs=-1, metavar="[TOPIC | TOPIC-N]...")
@click.option(
    "--idle-for",
    "idle_ms",
    callback=read_duration,
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="Only if the last record is so old: at least the longest time-out of a transaction.",
)
@output_option()
@bootstrap_option
@timeout_option
def hanging(*, scope: tuple[str, ...], idle_ms: int, output: str, bootstrap: str, timeout_s: float) -> None:
    """List open transactions that no coordinator will end; readers of committed records wait for them."""

    async def conversation(admin: "AdminClient") -> "list[HangingTransaction]":
        from ottla.types import TopicPartition

        topics = await admin.list_topics(include_internal=True)
        known = [TopicPartition(it.name, part.partition) for it in topics for part in it.partitions]
        chosen = choose_partitions(scope, known) if scope else known
        idle_since_ms = time.time_ns() // 1_000_000 - idle_ms
        return await admin.find_hanging_transactions(chosen, idle_since_ms=idle_since_ms)

    found = ask_brokers(bootstrap, timeout_s, conversation)
    rows = [_producer(it.producer) | {"transactionalId": it.transactional_id} for it in found]
    columns = [
        Column("PARTITION", "name"),
        Column("START", "startOffset"),
        Column("PRODUCER", "producerId"),
        Column("EPOCH", "producerEpoch"),
        Column("LAST RECORD", "lastTimestamp"),
        Column("ID", "transactionalId"),
        Column("COORDINATOR EPOCH", "coordinatorEpoch", wide=True),
    ]
    emit_rows(rows, columns, output, kind="partition", nothing="no hanging transactions")
    if found and output == "table":
        first = found[0].producer
        talk(f"to end one: ottla txn abort --partition {first.partition} --start-offset {first.start_offset}")


@txn.command(
    cls=ExampleCommand,
    examples=[
        "ottla txn abort orders-1 --dry-run                       # what would be aborted",
        "ottla txn abort orders-1 --yes                           # its producer is fenced",
        "ottla txn abort --partition flights-0 --start-offset 47  # of ottla txn hanging",
    ],
)
@click.argument("name", required=False, metavar="[ID]")
@click.option("--partition", metavar="TOPIC-N", help="End a hanging transaction in this partition.")
@click.option("--start-offset", type=click.IntRange(min=0), metavar="OFFSET", help="Its first offset.")
@yes_option
@dry_run_option
@bootstrap_option
@timeout_option
def abort(
    *,
    name: str | None,
    partition: str | None,
    start_offset: int | None,
    yes: bool,
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Abort the open transaction of an ID, or a hanging one in a partition."""
    if (name is None) == (partition is None) or (partition is None) != (start_offset is None):
        raise click.UsageError("name an ID, or a hanging transaction by --partition and --start-offset")
    if name is not None:
        _abort_by_id(name, bootstrap, timeout_s, yes=yes, dry_run=dry_run)
    elif partition is not None and start_offset is not None:
        _abort_in_partition(partition, start_offset, bootstrap, timeout_s, yes=yes, dry_run=dry_run)


def _abort_by_id(name: str, bootstrap: str, timeout_s: float, *, yes: bool, dry_run: bool) -> None:
    from ottla.client.transaction_requests import TransactionRequests

    (found,) = ask_brokers(bootstrap, timeout_s, lambda admin: _find(admin, (name,)))
    _show(_plain(found))
    if not found.is_open:
        raise click.ClickException(f"{name} has no open transaction; its last one is {found.state}")
    if dry_run:
        return
    confirm(f"Abort the transaction of {name} and fence its producer?", yes=yes)
    ask_brokers(
        bootstrap, timeout_s, lambda admin: TransactionRequests(admin.cluster, name).initialize(found.timeout_ms)
    )
    talk(f"the transaction of {name} is aborted")


def _abort_in_partition(
    text: str, start_offset: int, bootstrap: str, timeout_s: float, *, yes: bool, dry_run: bool
) -> None:
    where = parse_partition(text)

    async def find(admin: "AdminClient") -> "ProducerDescription":
        for producer in await admin.describe_producers([where]):
            if producer.start_offset == start_offset:
                return producer
        raise NotFoundError(f"no open transaction starts at offset {start_offset} of {where}; see ottla txn hanging")

    producer = ask_brokers(bootstrap, timeout_s, find)
    row = _producer(producer)
    emit_pairs(
        [
            ("Partition", row["name"]),
            ("Start offset", row["startOffset"]),
            ("Producer", row["producerId"]),
            ("Producer epoch", row["producerEpoch"]),
            ("Last record", row["lastTimestamp"]),
        ]
    )
    if dry_run:
        return
    confirm(f"Write an abort marker to {where}, in place of the coordinator?", yes=yes)
    ask_brokers(bootstrap, timeout_s, lambda admin: admin.abort_in_partition(producer))
    talk(f"the transaction from offset {start_offset} of {where} is aborted")


async def _find(admin: "AdminClient", names: tuple[str, ...]) -> "list[TransactionDescription]":
    described = await admin.describe_transactions(names)
    missing = [name for name in names if name not in described]
    if missing:
        raise NotFoundError(f"there is no transactional id {', '.join(missing)}; ottla txn list shows the known ones")
    return [described[name] for name in names]


def _plain(described: "TransactionDescription") -> dict[str, Any]:
    return {
        "name": described.transactional_id,
        "state": described.state,
        "producerId": described.producer_id,
        "producerEpoch": described.producer_epoch,
        "timeoutMs": described.timeout_ms,
        "startTime": None if described.start_ms is None else iso_time(described.start_ms),
        "coordinator": str(described.coordinator),
        "partitions": [str(partition) for partition in described.partitions],
    }


def _producer(producer: "ProducerDescription") -> dict[str, Any]:
    return {
        "name": str(producer.partition),
        "topic": producer.partition.topic,
        "partition": producer.partition.partition,
        "startOffset": producer.start_offset,
        "producerId": producer.producer_id,
        "producerEpoch": producer.producer_epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "lastTimestamp": iso_time(producer.last_timestamp_ms),
    }


def _show(described: dict[str, Any]) -> None:
    emit_pairs(
        [
            ("ID", described["name"]),
            ("State", described["state"]),
            ("Producer", described["producerId"]),
            ("Producer epoch", described["producerEpoch"]),
            ("Time-out (ms)", described["timeoutMs"]),
            ("Started", described["startTime"]),
            ("Coordinator", described["coordinator"]),
            ("Partitions", described["partitions"]),
        ]
    )
