"""``ottla produce``: lines of stdin become records."""

import io
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.durations import read_duration
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import FIRST_RESPONSE_S, bootstrap_option, command_security, key_values
from ottla.cli.output import talk
from ottla.cli.record_format import Parsed, compile_reader, iso_time, unescape

if TYPE_CHECKING:
    import asyncio

    from ottla.client.producer import Producer
    from ottla.client.producer_queue import RecordMetadata

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
UNREPORTED_MAX = 10_000
READ_SIZE_BYTES = 1 << 16


@click.command(
    cls=ExampleCommand,
    examples=[
        "echo hello | ottla produce greetings",
        "ottla produce orders -K : < lines-with-key-colon-value.txt",
        r"ottla produce orders -f '%k\t%v' -z zstd < table.tsv",
        "ottla produce config -k theme --tombstone",
        "ottla produce orders --transactional-id nightly < orders.txt    # all lines or none",
    ],
)
@click.argument("topic")
@click.option("-k", "--key", help="Key of every record.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Each line is KEY, this text, VALUE.")
@click.option("-f", "--format", "form", metavar="FORMAT", help="The form of a line: %k %v %p %d.  [default: %v]")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every record.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="The partition, instead of that of the key.")
@click.option("-z", "--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="Replicas to wait for.")
@click.option("--tombstone", is_flag=True, help="Send one record without a value: it deletes its key.")
@click.option("--transactional-id", metavar="ID", help="Produce all lines as one transaction of this id.")
@click.option(
    "--transaction-timeout",
    "transaction_timeout_ms",
    callback=read_duration,
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="The broker aborts a transaction that is open for longer.",
)
@click.option("--no-create", is_flag=True, help="A missing topic is an error even if brokers would create it.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(("none", "json")),
    default="none",
    help="Print the offset of each record.",
)
@bootstrap_option
def produce(*, topic: str, bootstrap: str, **options: Any) -> None:  # noqa: ANN401 - click's
    """Send each line of stdin to TOPIC as a record, until the input ends."""
    import asyncio

    if options["tombstone"] and options["key"] is None:
        raise click.UsageError("--tombstone needs --key: a record without a value deletes its key")
    if options["transactional_id"] is not None and ACKS[options["acks"]] != ACKS["all"]:
        raise click.UsageError("--transactional-id needs --acks all")
    if options["form"] and options["key_delimiter"]:
        raise click.UsageError("--format and --key-delimiter exclude each other")
    count = asyncio.run(_produce(topic, bootstrap, options))
    talk(f"{count} record(s) produced to {topic}")


async def _produce(topic: str, bootstrap: str, options: dict[str, Any]) -> int:
    if options["transactional_id"] is not None:
        return await _produce_transaction(topic, bootstrap, options)
    from ottla.client.producer import Producer

    reports = _Reports(as_json=options["output"] == "json")
    async with Producer(bootstrap, acks=ACKS[options["acks"]], **_producer_settings(options)) as producer:
        await producer.cluster.reach(timeout_s=FIRST_RESPONSE_S)
        await _send_input(producer, topic, options, reports)
        await producer.flush()
        await reports.settle(0)
    return reports.count


async def _produce_transaction(topic: str, bootstrap: str, options: dict[str, Any]) -> int:
    """Produce and commit; a failure or an interruption aborts."""
    from ottla.client.transactional_producer import TransactionalProducer

    reports = _Reports(as_json=options["output"] == "json")
    producer = TransactionalProducer(
        bootstrap,
        transactional_id=options["transactional_id"],
        transaction_timeout_ms=options["transaction_timeout_ms"],
        **_producer_settings(options),
    )
    async with producer:
        await producer.cluster.reach(timeout_s=FIRST_RESPONSE_S)
        await producer.init_transactions()
        producer.begin_transaction()
        await _send_input(producer, topic, options, reports)
        await producer.commit_transaction()
        await reports.settle(0)
    return reports.count


def _producer_settings(options: dict[str, Any]) -> dict[str, Any]:
    from ottla.wire.records import Compression

    return {
        "compression": Compression.from_label(options["compression"]),
        "create_topics": not options["no_create"],
        "client_id": "ottla-produce",
        "security": command_security(),
    }


async def _send_input(producer: "Producer", topic: str, options: dict[str, Any], reports: "_Reports") -> None:
    headers = [(name, value.encode()) for name, value in key_values(options["headers"], "--header").items()]
    every_key = None if options["key"] is None else options["key"].encode()
    if sys.stdin.isatty() and not options["tombstone"]:
        talk(f"Type a line for each record for {topic}; Ctrl-D ends.")
    pieces = _tombstone() if options["tombstone"] else _records(options)
    async for piece in pieces:
        for record in piece:
            sent = await producer.send(
                topic,
                record.value,
                key=record.key if record.key is not None else every_key,
                headers=headers,
                partition=record.partition if record.partition is not None else options["partition"],
                timestamp_ms=record.timestamp_ms,
            )
            await reports.add(sent)


async def _tombstone() -> AsyncIterator[list[Parsed]]:
    yield [Parsed(None, None, None, None)]


async def _records(options: dict[str, Any]) -> AsyncIterator[list[Parsed]]:
    """Yield the records of the lines that each read from stdin completes."""
    delimiter = unescape(options["key_delimiter"]) if options["key_delimiter"] else None
    read = compile_reader(options["form"] or "%v")
    wanted = options["form"] or f"KEY{options['key_delimiter']}VALUE"
    number = 0
    async for lines in _lines():
        piece = []
        for line in lines:
            number += 1
            parsed = read(line) if delimiter is None else _split_key(line, delimiter)
            if parsed is None:
                raise click.ClickException(f"line {number} does not have the form {wanted!r}: {line[:60]!r}")
            piece.append(parsed)
        yield piece


async def _lines() -> AsyncIterator[list[bytes]]:
    """Yield whole lines, without their ends, as they arrive; a last line needs no end."""
    rest = b""
    stream = sys.stdin.buffer
    assert isinstance(stream, io.BufferedReader)
    while True:
        await _readable(stream)
        data = stream.read1(READ_SIZE_BYTES)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        yield lines
    if rest:
        yield [rest]


async def _readable(stream: io.BufferedReader) -> None:
    """Return when ``stream`` has bytes or has ended; a file always has.

    Queued records must be sent while the next line is awaited. A thread that reads would do, but Ctrl-C cannot end it.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(stream.fileno(), ready.set)
    except (io.UnsupportedOperation, PermissionError):
        # Files, and streams without a descriptor, cannot be watched.
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(stream.fileno())


def _split_key(line: bytes, delimiter: bytes) -> Parsed | None:
    key, found, value = line.partition(delimiter)
    return Parsed(key, value, None, None) if found else None


class _Reports:
    """Results in order; the first failure is raised."""

    def __init__(self, *, as_json: bool) -> None:
        self.count = 0
        self._as_json = as_json
        self._unreported: list[asyncio.Future[RecordMetadata]] = []

    async def add(self, sent: "asyncio.Future[RecordMetadata]") -> None:
        self._unreported.append(sent)
        if len(self._unreported) >= UNREPORTED_MAX:
            await self.settle(UNREPORTED_MAX // 2)

    async def settle(self, left_max: int) -> None:
        """Wait for results until at most ``left_max`` are pending."""
        done = len(self._unreported) - left_max
        for sent in self._unreported[:done]:
            metadata = await sent
            self.count += 1
            if self._as_json:
                _report(metadata)
        del self._unreported[:done]


def _report(metadata: "RecordMetadata") -> None:
    import json

    click.echo(
        json.dumps(
            {
                "topic": metadata.partition.topic,
                "partition": metadata.partition.partition,
                "offset": metadata.offset,
                "timestamp": iso_time(metadata.timestamp_ms),
            }
        )
    )
