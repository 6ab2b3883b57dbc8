"""`ottla partition` against one node: output, rejections, and commands without changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.partition import _explicit
from ottla.client.admin import AdminClient
from ottla.client.errors import BrokerUnreachableError
from ottla.client.results import Reassignment
from ottla.client.throttle import throttled_replicas
from ottla.config.resource_type import ConfigResourceType
from ottla.types import TopicPartition


def test_partition_with_the_wanted_replicas_is_not_moved(ottla: Any, topic: str) -> None:
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
        pytest.param(["flights", "--status", "--verify"], id="status-and-verify"),
        pytest.param(["flights", "--verify", "--throttle", "9"], id="verify-and-throttle"),
        pytest.param(["flights-0=1", "--throttle", "0"], id="no-throttle-at-all"),
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
def test_missing_partitions_cannot_be_moved(ottla: Any, arguments: list[str], said: str) -> None:
    ran = ottla("partition", "reassign", *arguments)

    assert (ran.code, said in ran.err) == (3, True)


def test_unknown_broker_is_not_found(ottla: Any, topic: str) -> None:
    ran = ottla("partition", "reassign", topic, "--brokers", "7")

    assert (ran.code, "there is no broker with the id 7" in ran.err) == (3, True)


def test_dry_run_shows_the_moves_as_data(ottla: Any, topic: str) -> None:
    (move,) = json.loads(ottla("partition", "reassign", f"{topic}-0=1,9", "--dry-run", "-o", "json").out)

    assert (move["topic"], move["partition"], move["replicas"], move["to"]) == (topic, 0, [1], [1, 9])


def test_move_needs_yes_without_a_terminal(ottla: Any, topic: str) -> None:
    assert ottla("partition", "reassign", f"{topic}-0=1,9").code == 2


def test_absent_broker_is_rejected_with_kafkas_message(ottla: Any, topic: str) -> None:
    ran = ottla("partition", "reassign", f"{topic}-0=9", "--yes")

    assert (ran.code, f"{topic}-0: INVALID_REPLICA_ASSIGNMENT" in ran.err) == (1, True)


def test_status_without_reassignments_is_healthy(ottla: Any, topic: str) -> None:
    assert ottla("partition", "reassign", "--status").code == 0
    assert ottla("partition", "reassign", topic, "--status").code == 0
    assert ottla("partition", "reassign", "--cancel").code == 0


def test_verify_clears_the_throttle_of_completed_moves(ottla: Any, topic: str) -> None:
    assert ottla("topic", "alter", topic, "--set", "leader.replication.throttled.replicas=0:1").code == 0

    ran = ottla("partition", "reassign", topic, "--verify")

    assert (ran.code, f"throttle of {topic} lifted" in ran.err) == (0, True)
    assert "throttle" not in ottla("partition", "reassign", topic, "--verify").err


def test_rejected_move_leaves_no_throttle(ottla: Any, topic: str) -> None:
    ran = ottla("partition", "reassign", f"{topic}-0=7", "--throttle", "1000", "--yes")

    assert ran.code == 1
    assert "INVALID_REPLICA_ASSIGNMENT" in ran.err
    assert "lifted" not in ottla("partition", "reassign", topic, "--verify").err


@pytest.mark.parametrize("is_back", [True, False], ids=["broker-comes-back", "broker-stays-away"])
def test_throttle_that_cannot_be_set_on_all_brokers_is_reported(
    ottla: Any, topic: str, monkeypatch: pytest.MonkeyPatch, is_back: bool
) -> None:
    alter = AdminClient.alter_configs

    async def alter_unless_broker(admin: Any, kind: ConfigResourceType, name: str, **changes: Any) -> None:
        if kind is ConfigResourceType.BROKER and ("upserts" in changes or not is_back):
            raise BrokerUnreachableError("nothing listens at broker 1")
        await alter(admin, kind, name, **changes)

    monkeypatch.setattr(AdminClient, "alter_configs", alter_unless_broker)
    ran = ottla("partition", "reassign", f"{topic}-0=7", "--throttle", "1000", "--yes")

    assert (ran.code, "error: nothing listens at broker 1" in ran.err) == (5, True)
    assert f"throttle of {topic} lifted" in ran.err
    assert ("the throttle stays; ottla partition reassign --verify lifts it" in ran.err) is not is_back


def test_move_that_has_ended_before_it_is_cancelled_leaves_no_throttle(
    ottla: Any, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ottla("topic", "alter", topic, "--set", "leader.replication.throttled.replicas=0:1").code == 0
    looks = iter([{TopicPartition(topic, 0): Reassignment(replicas=(1, 2), adding=(2,), removing=())}, {}])

    async def look(*_: Any) -> dict[TopicPartition, Reassignment]:
        return next(looks)

    monkeypatch.setattr(AdminClient, "list_partition_reassignments", look)
    ran = ottla("partition", "reassign", topic, "--cancel", "--yes")

    assert (ran.code, "NO_REASSIGNMENT_IN_PROGRESS" in ran.err) == (1, True)
    assert f"throttle of {topic} lifted" in ran.err


def test_sources_are_throttled_as_leaders_and_new_replicas_as_followers() -> None:
    moves = {
        TopicPartition("t", 1): ((2, 1), (1, 3)),
        TopicPartition("t", 0): ((1, 2), (4, 3)),
        TopicPartition("u", 0): ((1, 2), (1,)),
    }

    assert throttled_replicas(moves) == {
        "t": {
            "leader.replication.throttled.replicas": "0:1,0:2,1:1,1:2",
            "follower.replication.throttled.replicas": "0:3,0:4,1:3",
        },
        "u": {"leader.replication.throttled.replicas": "0:1,0:2"},
    }


def test_moves_are_read_as_kafkas_tool_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    file.write_text(
        '{"version":1,"partitions":[{"topic":"a-b","partition":3,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    )

    assert _explicit(["c-0=3"], file) == {TopicPartition("a-b", 3): (1, 2), TopicPartition("c", 0): (3,)}


def test_other_file_is_wrong_usage(ottla: Any, tmp_path: Path) -> None:
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


def test_unclean_election_needs_yes(ottla: Any, topic: str) -> None:
    ran = ottla("partition", "elect", topic, "--unclean")

    assert (ran.code, "lost for ever" in ran.err) == (2, True)


@pytest.mark.parametrize("fault", ["--under-replicated", "--under-min-isr", "--unavailable"])
def test_partitions_without_a_fault_are_not_listed(ottla: Any, topic: str, fault: str) -> None:
    assert (ottla("topic", "describe", fault).code, ottla("topic", "describe", topic, fault).out) == (0, "")
    assert ottla("topic", "describe", "nope", fault).code == 3
