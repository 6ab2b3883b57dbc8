"""`ottla partition` against one node: what can be said of it, what is refused, and what changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.partition import _explicit
from ottla.types import TopicPartition


def test_partition_that_is_where_it_shall_be_does_not_move(ottla: Any, topic: str) -> None:
    ran = ottla("partition", "reassign", topic, "--brokers", "1", "--yes")

    assert (ran.code, ran.out, ran.err) == (0, "", "no moves\nnothing has to move\n")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="nothing-to-move"),
        pytest.param(["flights"], id="nowhere-to"),
        pytest.param(["flights-0=one"], id="no-broker-ids"),
        pytest.param(["flights-0=1,1"], id="broker-twice"),
        pytest.param(["flights=1"], id="no-partition"),
        pytest.param(["--status", "--cancel"], id="two-things"),
        pytest.param(["flights", "--status", "--brokers", "1"], id="status-and-brokers"),
    ],
)
def test_wrong_usage(ottla: Any, arguments: list[str]) -> None:
    assert ottla("topic", "create", "flights", "--if-not-exists").code == 0

    assert ottla("partition", "reassign", *arguments).code == 2


def test_more_replicas_than_brokers_are_wrong_usage(ottla: Any, topic: str) -> None:
    ran = ottla("partition", "reassign", topic, "-r", "2")

    assert (ran.code, "there are fewer brokers" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["nope", "--brokers", "1"], "no topic or partition nope", id="topic"),
        pytest.param(["nope-0=1"], "no partition nope-0", id="partition"),
    ],
)
def test_what_is_not_there_cannot_move(ottla: Any, arguments: list[str], said: str) -> None:
    ran = ottla("partition", "reassign", *arguments)

    assert (ran.code, said in ran.err) == (3, True)


def test_unknown_broker_is_not_found(ottla: Any, topic: str) -> None:
    ran = ottla("partition", "reassign", topic, "--brokers", "7")

    assert (ran.code, "no broker is there with the id 7" in ran.err) == (3, True)


def test_dry_run_shows_the_moves_as_data(ottla: Any, topic: str) -> None:
    (move,) = json.loads(ottla("partition", "reassign", f"{topic}-0=1,9", "--dry-run", "-o", "json").out)

    assert (move["topic"], move["partition"], move["replicas"], move["to"]) == (topic, 0, [1], [1, 9])


def test_move_demands_yes_where_nobody_can_answer(ottla: Any, topic: str) -> None:
    assert ottla("partition", "reassign", f"{topic}-0=1,9").code == 2


def test_broker_that_is_not_there_is_refused_in_kafkas_words(ottla: Any, topic: str) -> None:
    ran = ottla("partition", "reassign", f"{topic}-0=9", "--yes")

    assert (ran.code, f"{topic}-0: INVALID_REPLICA_ASSIGNMENT" in ran.err) == (1, True)


def test_nothing_on_the_move_is_healthy(ottla: Any, topic: str) -> None:
    assert ottla("partition", "reassign", "--status").code == 0
    assert ottla("partition", "reassign", topic, "--status").code == 0
    assert ottla("partition", "reassign", "--cancel").code == 0


def test_moves_are_read_as_kafkas_tool_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    file.write_text(
        '{"version":1,"partitions":[{"topic":"a-b","partition":3,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    )

    assert _explicit(["c-0=3"], file) == {TopicPartition("a-b", 3): (1, 2), TopicPartition("c", 0): (3,)}


def test_file_that_is_something_else_is_wrong_usage(ottla: Any, tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    file.write_text("[]")

    ran = ottla("partition", "reassign", "--file", str(file))

    assert (ran.code, "is not a list of partitions" in ran.err) == (2, True)


def test_leader_that_leads_already_is_not_elected(ottla: Any, topic: str) -> None:
    ran = ottla("partition", "elect", topic, "-o", "json")

    assert ran.code == 0
    assert [(row["partition"], row["reason"]) for row in json.loads(ran.out)] == [
        (f"{topic}-{number}", "ELECTION_NOT_NEEDED") for number in range(3)
    ]


@pytest.mark.parametrize("arguments", [[], ["--all", "flights"]], ids=["nothing", "both"])
def test_election_of_nothing_or_both_is_wrong_usage(ottla: Any, arguments: list[str]) -> None:
    assert ottla("partition", "elect", *arguments).code == 2


def test_unclean_election_demands_yes(ottla: Any, topic: str) -> None:
    ran = ottla("partition", "elect", topic, "--unclean")

    assert (ran.code, "lost for ever" in ran.err) == (2, True)


@pytest.mark.parametrize("fault", ["--under-replicated", "--under-min-isr", "--unavailable"])
def test_partitions_without_a_fault_are_not_listed(ottla: Any, topic: str, fault: str) -> None:
    assert (ottla("topic", "describe", fault).code, ottla("topic", "describe", topic, fault).out) == (0, "")
    assert ottla("topic", "describe", "nope", fault).code == 3
