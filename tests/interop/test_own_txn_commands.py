"""`ottla produce --transactional-id`, `ottla consume --isolation` and `ottla txn` against a broker."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.producer import Producer
from ottla.client.transactional_producer import TransactionalProducer


@pytest.fixture
def ottla(transactions: Any, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs a command line against the broker."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", transactions.bootstrap)
    return run


@pytest.fixture
def open_transaction(transactions: Any, new_topic: Callable[..., str], unique: Callable[[str], str]) -> tuple[str, str]:
    """Return the id of a transaction that stays open, and the topic with one record of it."""
    transactional_id, topic = unique("open"), new_topic()

    async def leave_open() -> None:
        producer = TransactionalProducer(transactions.bootstrap, transactional_id=transactional_id, linger_ms=0)
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send(topic, b"uncommitted", partition=0)
        await producer.flush()
        await Producer.close(producer)

    asyncio.run(leave_open())
    return transactional_id, topic


def test_all_lines_are_one_transaction(ottla: Callable[..., Any], new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    ran = ottla("produce", topic, "--transactional-id", topic, "-z", "zstd", stdin=b"a\nb\n")

    assert (ran.code, "2 record(s) produced" in ran.err) == (0, True)
    assert ottla("consume", topic, "-O", ":end", "--isolation", "read_committed").out == "a\nb\n"
    described = json.loads(ottla("txn", "describe", topic, "-o", "json").out)
    assert (described["state"], described["timeoutMs"], described["partitions"]) == ("CompleteCommit", 60_000, [])


def test_failed_input_aborts(ottla: Callable[..., Any], new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    ran = ottla("produce", topic, "--transactional-id", topic, "-K", ":", stdin=b"a:1\nno key\n")

    assert (ran.code, "line 2 does not have the form" in ran.err) == (1, True)
    assert ottla("consume", topic, "-O", ":end", "--isolation", "read_committed").out == ""


def test_open_transaction_is_hidden_listed_described_and_aborted(
    ottla: Callable[..., Any], open_transaction: tuple[str, str]
) -> None:
    transactional_id, topic = open_transaction

    assert ottla("consume", topic, "-O", ":end").out == "uncommitted\n"
    assert ottla("consume", topic, "-O", ":end", "--isolation", "read_committed").out == ""
    listed = ottla("txn", "list", "--state", "ongoing", "--pattern", transactional_id, "-o", "name").out
    assert listed == f"transaction/{transactional_id}\n"
    assert transactional_id not in ottla("txn", "list", "--open-for", "1h").out
    assert f"Partitions      {topic}-0" in ottla("txn", "describe", transactional_id).out

    assert ottla("txn", "abort", transactional_id, "--dry-run").code == 0
    assert "repeat with --yes" in ottla("txn", "abort", transactional_id).err
    assert json.loads(ottla("txn", "describe", transactional_id, "-o", "json").out)["state"] == "Ongoing"
    aborted = ottla("txn", "abort", transactional_id, "--yes")
    assert (aborted.code, "is aborted" in aborted.err) == (0, True)
    assert json.loads(ottla("txn", "describe", transactional_id, "-o", "json").out)["state"] in (
        "Empty",
        "CompleteAbort",
    )
    again = ottla("txn", "abort", transactional_id, "--yes")
    assert (again.code, "has no open transaction" in again.err) == (1, True)


def test_hanging_transaction_is_found_and_aborted(ottla: Callable[..., Any], hanging_transaction: str) -> None:
    topic = hanging_transaction

    assert ottla("txn", "hanging", topic).out == ""
    (found,) = json.loads(ottla("txn", "hanging", topic, "--idle-for", "0s", "-o", "json").out)
    assert (found["name"], found["transactionalId"]) == (f"{topic}-0", None)
    assert ottla("consume", topic, "-O", ":end", "--isolation", "read_committed").out == ""

    where = ("--partition", f"{topic}-0", "--start-offset", str(found["startOffset"]))
    assert ottla("txn", "abort", *where, "--dry-run").code == 0
    assert ottla("txn", "abort", *where, "--yes").code == 0
    assert ottla("txn", "hanging", topic, "--idle-for", "0s").out == ""
    ottla("produce", topic, "-p", "0", stdin=b"after\n")
    assert ottla("consume", topic, "-O", ":end", "--isolation", "read_committed").out == "after\n"
    again = ottla("txn", "abort", *where, "--yes")
    assert (again.code, "no open transaction starts at offset" in again.err) == (3, True)


def test_open_transaction_of_a_coordinator_does_not_hang(
    ottla: Callable[..., Any], open_transaction: tuple[str, str]
) -> None:
    assert ottla("txn", "hanging", open_transaction[1], "--idle-for", "0s").out == ""


def test_unknown_id_is_not_found(ottla: Callable[..., Any], unique: Callable[[str], str]) -> None:
    for command in ("describe", "abort"):
        ran = ottla("txn", command, unique("nope"))
        assert (ran.code, "there is no transactional id" in ran.err) == (3, True)
