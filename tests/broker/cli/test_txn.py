"""Usage errors of `ottla txn` and of transactional options, which are reported before a broker is needed."""

from typing import Any

import pytest


@pytest.mark.parametrize(
    "arguments",
    [[], ["id", "--partition", "t-0", "--start-offset", "1"], ["--partition", "t-0"], ["id", "--start-offset", "1"]],
    ids=["nothing", "both", "without-offset", "id-with-offset"],
)
def test_abort_needs_an_id_or_a_partition_with_an_offset(run: Any, arguments: list[str]) -> None:
    ran = run("txn", "abort", *arguments)

    assert (ran.code, "name an ID, or a hanging transaction" in ran.err) == (2, True)


def test_partition_of_a_hanging_transaction_has_a_number(run: Any) -> None:
    ran = run("txn", "abort", "--partition", "flights", "--start-offset", "1")

    assert (ran.code, "is no partition; write TOPIC-N" in ran.err) == (2, True)


@pytest.mark.parametrize("arguments", [["list", "--open-for", "5"], ["hanging", "--idle-for", "soon"]])
def test_durations_need_a_unit(run: Any, arguments: list[str]) -> None:
    ran = run("txn", *arguments)

    assert (ran.code, "is no duration; write 90s, 15m or 1h" in ran.err) == (2, True)


def test_transaction_needs_all_acknowledgements(run: Any) -> None:
    ran = run("produce", "t", "--transactional-id", "id", "--acks", "1")

    assert (ran.code, "--transactional-id needs --acks all" in ran.err) == (2, True)
