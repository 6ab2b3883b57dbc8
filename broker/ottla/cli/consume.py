"""``ottla consume``: records on stdout."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.exit_codes import NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.offset_range import END, START, OffsetRange, parse_offset_range
from ottla.cli.options import FIRST_RESPONSE_S, bootstrap_option, command_security
from ottla.cli.output import talk
from ottla.cli.positions import offsets_of_position, partition_bounds
from ottla.cli.record_format import compile_writer, iso_time

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.consumer import ConsumedRecord, Consumer
    from ottla.client.group_reader import GroupReader
    from ottla.client.share_consumer import ShareConsumer
    from ottla.types import Offset, TopicPartition

POLL_MS = 500
READ_COMMITTED = "read_committed"
CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"
DEFAULT_FORMAT = "%v\\n"
WIDE_FORMAT = "%t-%p  %o  %D  %k  %v\\n"


@click.command(
    cls=ExampleCommand,
    examples=[
        "ottla consume greetings                    # from the start, then new records",
        "ottla consume flights -O -5                # the last 5 of each partition, then new ones",
        "ottla consume flights -O :end -o json      # all existing records, then stop",
        "ottla consume flights -O @-1h -n 10 -f '%p %o %k %v\\n'",
        "ottla consume flights -g audit             # as a group member, from its committed offsets",
        "ottla consume flights -g audit --group-protocol consumer",
        "ottla consume jobs -g workers --group-protocol share",
        "ottla consume -r 'flights-.*' -g audit --group-protocol consumer --instance-id reader-1",
    ],
)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "-O",
    "--offset",
    default="start",
    show_default=True,
    metavar="OFFSET",
    help="start, end, :end, 47, 10:20, +5, -5, @TIME, @TIME:TIME.",
)
@click.option("-n", "--num", "count_max", type=click.IntRange(min=0), help="Stop after this many records.")
@click.option("-p", "--partitions", metavar="N,...", help="Only these partitions.")
@click.option("-g", "--group", metavar="GROUP", help="Join this group, which commits offsets.")
@click.option(
    "--group-protocol",
    type=click.Choice((CLASSIC, CONSUMER, SHARE)),
    default=CLASSIC,
    show_default=True,
    help="With --group: consumer is KIP-848; members of a share group share records, not partitions (KIP-932).",
)
@click.option("-r", "--regex", is_flag=True, help="TOPICs are regular expressions (RE2).  [consumer protocol]")
@click.option("--assignor", metavar="NAME", help="uniform or range.  [consumer protocol]")
@click.option("--instance-id", metavar="ID", help="Be a static member, for quick restarts.  [consumer protocol]")
@click.option("-f", "--format", "form", metavar="FORMAT", help="Percent verbs: %t %p %o %k %v %h %d %D %i ...")
@click.option("-o", "--output", type=click.Choice(("value", "wide", "json")), default="value", show_default=True)
@click.option(
    "--isolation",
    type=click.Choice((READ_COMMITTED, "read_uncommitted")),
    default="read_uncommitted",
    show_default=True,
    help="read_committed skips records of open and aborted transactions.",
)
@bootstrap_option
def consume(*, topics: tuple[str, ...], bootstrap: str, **options: Any) -> None:  # noqa: ANN401 - click's
    """Show the records of TOPICs."""
    import asyncio
    import time

    chosen = parse_offset_range(options["offset"], now_ms=time.time_ns() // 1_000_000)
    write = json_line if options["output"] == "json" else compile_writer(_format(options))
    printer = _Printer(write, options["count_max"])
    if options["group_protocol"] != CONSUMER and any(options[name] for name in ("regex", "assignor", "instance_id")):
        raise click.UsageError("--regex, --assignor and --instance-id need --group-protocol consumer")
    if options["group"] is None:
        if options["group_protocol"] != CLASSIC:
            raise click.UsageError("--group-protocol needs --group")
        partitions = _partition_numbers(options["partitions"])
        asyncio.run(_consume(topics, partitions, chosen, bootstrap, options["isolation"] == READ_COMMITTED, printer))
        return
    if options["partitions"] or chosen not in (OffsetRange(START), OffsetRange(END)):
        raise click.UsageError("with --group, the group assigns partitions, and --offset may be start or end")
    if options["group_protocol"] == SHARE and (chosen != OffsetRange(START) or options["isolation"] == READ_COMMITTED):
        raise click.UsageError(
            "--offset and --isolation are configurations of a share group: share.auto.offset.reset and "
            "share.isolation.level, which kafka-configs --entity-type groups sets"
        )
    member = _new_member(topics, chosen, bootstrap, options)
    asyncio.run(_consume_as_member(member, options["group_protocol"], printer))


def _format(options: dict[str, Any]) -> str:
    form: str | None = options["form"]
    return form or (WIDE_FORMAT if options["output"] == "wide" else DEFAULT_FORMAT)


def _partition_numbers(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    try:
        return frozenset(int(number) for number in text.split(","))
    except ValueError:
        raise click.UsageError(f"--partitions takes numbers with commas, not {text!r}") from None


class _Printer:
    """Writes records to stdout until it has written enough."""

    def __init__(self, write: "Callable[[ConsumedRecord, int], bytes]", count_max: int | None) -> None:
        self._write = write
        self._count_max = count_max
        self._count = 0

    @property
    def is_done(self) -> bool:
        return self._count_max is not None and self._count >= self._count_max

    def show(self, records: "Sequence[ConsumedRecord]") -> int:
        """Write ``records`` up to the limit; return how many."""
        room = len(records) if self._count_max is None else self._count_max - self._count
        out = sys.stdout.buffer
        for record in records[:room]:
            self._count += 1
            out.write(self._write(record, self._count))
        out.flush()
        return min(room, len(records))


async def _consume(
    topics: Sequence[str],
    partitions: frozenset[int] | None,
    chosen: OffsetRange,
    bootstrap: str,
    read_committed: bool,
    printer: _Printer,
) -> None:
    from ottla.client.admin_topics import TopicAdmin
    from ottla.client.cluster import Cluster
    from ottla.client.consumer import Consumer

    async with Cluster(bootstrap, client_id="ottla-consume", security=command_security()) as cluster:
        where = await _partitions(cluster, topics, partitions)
        admin = TopicAdmin(cluster)
        bounds = await partition_bounds(admin, where, read_committed=read_committed)
        begins = await offsets_of_position(admin, bounds, chosen.begin)
        stops = None if chosen.stop is None else await offsets_of_position(admin, bounds, chosen.stop)
        consumer = Consumer(cluster, offset_reset="earliest", read_committed=read_committed)
        consumer.assign(begins)
        while not printer.is_done and not _drop_finished(consumer, stops):
            records = await consumer.fetch(max_wait_ms=POLL_MS)
            if stops is not None:
                records = [record for record in records if record.offset < stops[_partition_of(record)]]
            printer.show(records)


def _drop_finished(consumer: "Consumer", stops: "dict[TopicPartition, Offset] | None") -> bool:
    """Stop reading partitions that have reached their end; return whether none is left."""
    if stops is None:
        return False
    left = {where: offset for where, offset in consumer.positions.items() if offset < stops[where]}
    consumer.assign(left)
    return not left


def _partition_of(record: "ConsumedRecord") -> "TopicPartition":
    from ottla.types import TopicPartition

    return TopicPartition(record.topic, record.partition)


async def _partitions(
    cluster: "Cluster", topics: Sequence[str], chosen: frozenset[int] | None
) -> "list[TopicPartition]":
    from ottla.types import TopicPartition

    found = []
    for topic in topics:
        numbers = await cluster.partitions(topic)
        missing = sorted((chosen or frozenset()) - set(numbers))
        if missing:
            raise NotFoundError(f"topic {topic} has partitions 0 to {len(numbers) - 1}, not {missing[0]}")
        found += [TopicPartition(topic, number) for number in numbers if chosen is None or number in chosen]
    return found


def _new_member(
    topics: Sequence[str], chosen: OffsetRange, bootstrap: str, options: dict[str, Any]
) -> "GroupReader | ShareConsumer":
    from ottla.client.consumer_protocol_member import ConsumerProtocolMember
    from ottla.client.group_member import GroupConsumer
    from ottla.client.share_consumer import ShareConsumer

    client: dict[str, Any] = {
        "group_id": options["group"],
        "client_id": "ottla-consume",
        "security": command_security(),
    }
    if options["group_protocol"] == SHARE:
        return ShareConsumer(bootstrap, topics=topics, **client)
    client["offset_reset"] = "earliest" if chosen.begin == START else "latest"
    client["read_committed"] = options["isolation"] == READ_COMMITTED
    if options["group_protocol"] == CLASSIC:
        return GroupConsumer(bootstrap, topics=topics, **client)
    return ConsumerProtocolMember(
        bootstrap,
        topics=() if options["regex"] else topics,
        topic_regex="|".join(f"(?:{each})" for each in topics) if options["regex"] else None,
        server_assignor=options["assignor"],
        instance_id=options["instance_id"],
        **client,
    )


async def _consume_as_member(member: "GroupReader | ShareConsumer", protocol: str, printer: _Printer) -> None:
    import asyncio
    import signal

    # As Ctrl-C: a member that leaves hands over at once, not after its session.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    async with member:
        await member.cluster.reach(timeout_s=FIRST_RESPONSE_S)
        if protocol == SHARE:
            await _explain_where_it_begins(member.cluster, member.group_id)
        known: tuple[int, list[TopicPartition]] = (-1, [])
        while not printer.is_done:
            records = await member.poll(max_wait_ms=POLL_MS)
            if known != (member.generation, member.assignment):
                known = member.generation, member.assignment
                mine = ", ".join(str(partition) for partition in member.assignment) or "nothing"
                name = "generation" if protocol == CLASSIC else "epoch"
                talk(f"member of {member.group_id}, {name} {member.generation}: {mine}")
            shown = printer.show(records)
            if shown < len(records):
                # Records that were fetched but not shown stay uncommitted, or are released, for the next reader.
                member.rewind(records[shown:])


async def _explain_where_it_begins(cluster: "Cluster", share_group: str) -> None:
    """Explain it for a share group that has read nothing so far: groups of other protocols begin at the start."""
    from ottla.client.admin_groups import GroupAdmin

    offsets = await GroupAdmin(cluster).share_group_offsets(share_group)
    if all(offset.start_offset is None for offset in offsets.values()):
        talk(
            f"share group {share_group} has read nothing yet: it begins at the end of its topics, unless its "
            "share.auto.offset.reset is earliest; without members, ottla group reset --share sets where it begins"
        )


def json_line(record: "ConsumedRecord", _: int) -> bytes:
    """Return one line of JSON; keys and values that are not UTF-8 become ``{"base64": ...}``."""
    import json

    shown = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": iso_time(record.timestamp_ms),
        "key": _text(record.key),
        "value": _text(record.value),
    }
    if record.headers:
        shown["headers"] = [{"name": name, "value": _text(value)} for name, value in record.headers]
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"


def _text(data: bytes | None) -> str | dict[str, str] | None:
    import base64

    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}
