"""Our transactional producer and read_committed consumer, beside librdkafka's, under each ``transaction.version``."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin_features import UpgradeType
from ottla.client.admin_topics import EARLIEST
from ottla.client.consumer import Consumer
from ottla.client.results import CommittedOffset
from ottla.client.transaction_requests import TRANSACTION_VERSION, GroupMetadata
from ottla.client.transactional_producer import TransactionalProducer
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

ROUNDS = 6


async def finalize(bootstrap: str, wanted: int) -> int:
    """Finalize a transaction.version; return the one before."""
    async with AdminClient(bootstrap) as admin:
        level = (await admin.describe_features())[TRANSACTION_VERSION].level
        if level != wanted:
            direction = UpgradeType.SAFE_DOWNGRADE if level > wanted else UpgradeType.UPGRADE
            await admin.update_features({TRANSACTION_VERSION: wanted}, direction)
    return level


async def finalized(bootstrap: str) -> int:
    async with AdminClient(bootstrap) as admin:
        return (await admin.describe_features())[TRANSACTION_VERSION].level


@pytest.fixture(params=[0, 1, 2])
def version(transactions: Any, request: pytest.FixtureRequest, eventually: Callable[..., object]) -> Iterator[int]:
    """A finalized transaction.version."""
    before = asyncio.run(finalize(transactions.bootstrap, request.param))
    eventually(lambda: asyncio.run(finalized(transactions.bootstrap)) == request.param)
    yield request.param
    asyncio.run(finalize(transactions.bootstrap, before))


@asynccontextmanager
async def transactional(broker: Any, transactional_id: str) -> AsyncIterator[TransactionalProducer]:
    async with TransactionalProducer(broker.bootstrap, transactional_id=transactional_id, linger_ms=0) as producer:
        await producer.init_transactions()
        yield producer


async def read(broker: Any, topic: str, count: int, *, read_committed: bool) -> list[bytes | None]:
    """Return the values of partition 0, at least ``count``, and all that a further fetch returns."""
    async with asyncio.timeout(60), Consumer(broker.bootstrap, read_committed=read_committed) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        values: list[bytes | None] = []
        while True:
            records = await consumer.fetch(max_wait_ms=200)
            values += [record.value for record in records]
            if not records and len(values) >= count:
                return values


@pytest.mark.usefixtures("version")
def test_committed_records_and_offsets_are_seen_and_aborted_ones_are_not(
    broker: Any, new_topic: Callable[..., str], unique: Callable[[str], str], consume: Callable[..., Any]
) -> None:
    topic, group = new_topic(), unique("group")
    where = TopicPartition(topic, 0)

    async def run() -> tuple[list[bytes | None], list[bytes | None], int]:
        async with transactional(broker, unique("id")) as producer:
            for number in range(ROUNDS):
                producer.begin_transaction()
                sent = [await producer.send(topic, b"%d-%d" % (number, index)) for index in range(3)]
                await producer.flush()
                assert all(future.result().offset >= 0 for future in sent)
                await producer.send_offsets_to_transaction(
                    {where: CommittedOffset(offset=100 + number)}, GroupMetadata(group)
                )
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
        async with AdminClient(broker.bootstrap) as admin:
            committed = await admin.group_offsets(group, [where], require_stable=True)
        return (
            await read(broker, topic, 3 * ROUNDS // 2, read_committed=True),
            await read(broker, topic, 3 * ROUNDS, read_committed=False),
            committed[where].offset,
        )

    committed, everything, offset = asyncio.run(run())

    expected = [b"%d-%d" % (number, index) for number in range(0, ROUNDS, 2) for index in range(3)]
    assert committed == expected
    assert everything == [b"%d-%d" % (number, index) for number in range(ROUNDS) for index in range(3)]
    assert offset == 100 + ROUNDS - 2
    assert [message.value() for message in consume(topic, len(expected))] == expected


@pytest.mark.usefixtures("version")
def test_newer_producer_fences_the_older_one_and_aborts_its_transaction(
    broker: Any, new_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic, transactional_id = new_topic(), unique("id")

    async def run() -> list[bytes | None]:
        async with transactional(broker, transactional_id) as older:
            older.begin_transaction()
            await older.send(topic, b"older")
            await older.flush()
            async with transactional(broker, transactional_id) as newer:
                with pytest.raises(KafkaError) as raised:
                    await older.commit_transaction()
                assert raised.value.code is ErrorCode.PRODUCER_FENCED
                newer.begin_transaction()
                await newer.send(topic, b"newer")
                await newer.commit_transaction()
        return await read(broker, topic, 1, read_committed=True)

    assert asyncio.run(run()) == [b"newer"]


@pytest.mark.usefixtures("version")
def test_last_stable_offset_waits_for_the_open_transaction(
    broker: Any, new_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic = new_topic()
    where = TopicPartition(topic, 0)

    async def run() -> tuple[list[bytes | None], list[bytes | None]]:
        async with (
            transactional(broker, unique("open")) as opened,
            transactional(broker, unique("other")) as other,
            AdminClient(broker.bootstrap) as admin,
        ):
            assert (await admin.list_offsets({where: EARLIEST}))[where].offset == 0
            opened.begin_transaction()
            await opened.send(topic, b"open")
            await opened.flush()
            other.begin_transaction()
            await other.send(topic, b"other")
            await other.commit_transaction()
            before = await read(broker, topic, 0, read_committed=True)
            await opened.commit_transaction()
            return before, await read(broker, topic, 2, read_committed=True)

    assert asyncio.run(run()) == ([], [b"open", b"other"])
