"""`ottla cluster rebalance` against one node: plans, stale plans, and wrong usage."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.rebalance_plan import Move, moves_json
from ottla.types import TopicPartition


def written(tmp_path: Path, *moves: Move) -> str:
    file = tmp_path / "moves.json"
    file.write_text(moves_json(moves))
    return str(file)


def test_single_broker_needs_no_moves(ottla: Any, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "moves.json"

    planned = ottla("cluster", "rebalance", "--plan", str(file))
    made = ottla("cluster", "rebalance", "--execute", str(file), "--yes")

    assert (planned.code, "nothing has to move" in planned.err) == (0, True)
    assert json.loads(file.read_text())["partitions"] == []
    assert (made.code, "nothing has to move" in made.err) == (0, True)


def test_plan_can_be_shown_only(ottla: Any, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert ottla("cluster", "rebalance", "--plan", "-").code == 0
    assert list(tmp_path.glob("*")) == []


def test_stale_plan_is_not_started(ottla: Any, topic: str, tmp_path: Path) -> None:
    file = written(tmp_path, Move(TopicPartition(topic, 0), (7,), (1,)), Move(TopicPartition(topic, 1), (7,), (8,)))

    ran = ottla("cluster", "rebalance", "--execute", file, "--yes")

    assert ran.code == 10
    assert f"{topic}-1 is on 1 now, and was on 7; create another one with --plan" in ran.err


def test_remaining_moves_are_started_in_batches_with_the_throttle(
    ottla: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ottla("topic", "create", "many", "-p", "150", "--if-not-exists").code == 0
    begun: list[int] = []

    async def take(_: Any, targets: dict[TopicPartition, Any], **__: Any) -> dict[TopicPartition, Any]:
        begun.append(len(targets))
        return {}

    monkeypatch.setattr(AdminClient, "alter_partition_reassignments", take)
    file = written(tmp_path, *(Move(TopicPartition("many", number), (1,), (1, 1)) for number in range(150)))

    ran = ottla("cluster", "rebalance", "--execute", file, "--throttle", "1000", "--yes")

    assert (ran.code, begun) == (0, [100, 50])
    assert "150 partition(s) have moved" in ran.err
    assert "throttle of many lifted" in ran.err
    assert "throttled" not in ottla("topic", "describe", "many", "-o", "json").out


@pytest.mark.parametrize(
    ("more", "said"), [((), "nothing has to move"), (((1,), (1, 1)), "1 partition(s) have moved")], ids=["all", "some"]
)
def test_leaders_of_earlier_moves_are_elected_too(
    ottla: Any, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: Any, said: str
) -> None:
    elected: list[TopicPartition] = []

    async def take(_: Any, targets: dict[TopicPartition, Any], **__: Any) -> dict[TopicPartition, Any]:
        return {}

    async def elect(_: Any, __: Any, partitions: list[TopicPartition]) -> dict[TopicPartition, Any]:
        elected.extend(partitions)
        return {}

    monkeypatch.setattr(AdminClient, "alter_partition_reassignments", take)
    monkeypatch.setattr(AdminClient, "elect_leaders", elect)
    moves = [Move(TopicPartition(topic, 0), (7,), (1,)), *([Move(TopicPartition(topic, 1), *more)] if more else [])]

    ran = ottla("cluster", "rebalance", "--execute", written(tmp_path, *moves), "--yes")

    assert (ran.code, said in ran.err) == (0, True)
    assert elected == [move.partition for move in moves]


@pytest.mark.parametrize(
    "arguments", [[], ["--plan", "a", "--execute", __file__], ["--execute", __file__]], ids=["none", "both", "no-plan"]
)
def test_wrong_usage(ottla: Any, arguments: list[str]) -> None:
    assert ottla("cluster", "rebalance", *arguments).code == 2
