"""`ottla topic` against a node."""

import json
from typing import Any

import pytest

from ottla.cli.topic import _life
from ottla.client.results import PartitionDescription, Reassignment


def test_created_topic_is_listed(ottla: Any, topic: str) -> None:
    ran = ottla("topic", "list", "-o", "name")

    assert f"topic/{topic}" in ran.out.splitlines()


def test_created_topic_is_reported_on_stderr(ottla: Any) -> None:
    ran = ottla("topic", "create", "told")

    assert (ran.code, ran.out, ran.err) == (0, "", "topic told created\n")


def test_existing_topic_is_an_error(ottla: Any, topic: str) -> None:
    ran = ottla("topic", "create", topic)

    assert (ran.code, ran.err) == (1, f"error: TOPIC_ALREADY_EXISTS: Topic '{topic}' already exists.\n")


def test_if_not_exists_accepts_an_existing_topic(ottla: Any, topic: str) -> None:
    assert ottla("topic", "create", topic, "--if-not-exists").code == 0


def test_dry_run_creates_nothing(ottla: Any) -> None:
    ran = ottla("topic", "create", "imagined", "--dry-run")

    assert (ran.code, ran.err) == (0, "topic imagined would be created\n")
    assert ottla("topic", "describe", "imagined").code == 3


def test_rejected_config_has_kafkas_message(ottla: Any) -> None:
    ran = ottla("topic", "create", "refused", "-c", "retention.ms=-5")

    assert ran.code == 1
    assert "Invalid value -5 for configuration retention.ms: Value must be at least -1" in ran.err


def test_description_for_programs(ottla: Any, topic: str) -> None:
    described = json.loads(ottla("topic", "describe", topic, "-o", "json").out)

    assert described["name"] == topic
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    assert described["configs"] == []
    assert [(entry["state"], entry["replicaStates"]) for entry in described["partitions"]] == [
        ("Online", {"1": "Online"})
    ] * 3


def test_wide_output_has_states_of_partitions_and_replicas(ottla: Any, topic: str) -> None:
    lines = ottla("topic", "describe", topic, "-o", "wide").out.splitlines()

    assert lines[5].split()[-3:] == ["EPOCH", "STATE", "REPLICA-STATES"]
    assert lines[6].split()[-2:] == ["Online", "1:Online"]


@pytest.mark.parametrize(
    ("leader", "offline", "adding", "states"),
    [
        pytest.param(1, (), None, ("Online", "Online", "Online"), id="well"),
        pytest.param(1, (2,), None, ("Online", "Online", "Offline"), id="replica-offline"),
        pytest.param(-1, (1, 2), None, ("Offline", "Offline", "Offline"), id="no-leader"),
        pytest.param(1, (), (2,), ("Online", "Online", "New"), id="replica-comes"),
        pytest.param(1, (2,), (2,), ("Online", "Online", "Offline"), id="replica-comes-and-is-away"),
    ],
)
def test_states_follow_from_descriptions(
    leader: int, offline: tuple[int, ...], adding: tuple[int, ...] | None, states: tuple[str, ...]
) -> None:
    entry = PartitionDescription(
        partition=0, leader=leader, leader_epoch=0, replicas=(1, 2), isr=(1,), offline_replicas=offline
    )
    move = None if adding is None else Reassignment(replicas=(1, 2), adding=adding, removing=())

    life = _life(entry, move)

    assert (life["state"], *life["replicaStates"].values()) == states


def test_description_for_people(ottla: Any, topic: str) -> None:
    lines = ottla("topic", "describe", topic).out.splitlines()

    assert lines[0] == f"Name         {topic}"
    assert lines[5].split() == ["PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END", "ELR"]
    assert lines[6].split() == ["0", "1", "1", "1", "0", "0", "-"]


def test_missing_topic_is_not_found(ottla: Any) -> None:
    ran = ottla("topic", "describe", "nope")

    assert ran.code == 3
    assert "there is no topic nope" in ran.err


def test_altered_topic_has_more_partitions_and_the_config(ottla: Any, topic: str) -> None:
    ran = ottla(
        "topic", "alter", topic, "--partitions", "5", "--set", "retention.ms=1", "--append", "cleanup.policy=compact"
    )

    described = json.loads(ottla("topic", "describe", topic, "-o", "json").out)
    assert ran.code == 0
    assert len(described["partitions"]) == 5
    assert {(config["name"], config["value"]) for config in described["configs"]} == {
        ("cleanup.policy", "delete,compact"),
        ("retention.ms", "1"),
    }


def test_fewer_partitions_are_rejected(ottla: Any, topic: str) -> None:
    ran = ottla("topic", "alter", topic, "--partitions", "2")

    assert (ran.code, "INVALID_PARTITIONS" in ran.err) == (1, True)


def test_nothing_to_alter_is_wrong_usage(ottla: Any, topic: str) -> None:
    assert ottla("topic", "alter", topic).code == 2


def test_deletion_needs_yes_without_a_terminal(ottla: Any, topic: str) -> None:
    ran = ottla("topic", "delete", topic)

    assert ran.code == 2
    assert ottla("topic", "describe", topic).code == 0


def test_topics_are_deleted_by_expression_after_their_names_are_shown(ottla: Any, topic: str) -> None:
    ran = ottla("topic", "delete", "--regex", f"{topic[:-2]}..", "--yes")

    assert (ran.code, ran.err) == (0, f"topic {topic}\n1 topic(s) deleted\n")
    assert ottla("topic", "describe", topic).code == 3


def test_dry_run_deletes_nothing(ottla: Any, topic: str) -> None:
    assert ottla("topic", "delete", topic, "--dry-run").err == f"topic {topic} would be deleted\n"
    assert ottla("topic", "describe", topic).code == 0


def test_deleting_a_missing_topic_is_not_found(ottla: Any) -> None:
    assert ottla("topic", "delete", "nope", "--yes").code == 3


def test_unreachable_broker_has_a_remedy(run: Any) -> None:
    ran = run("topic", "list", "-b", "127.0.0.1:1", "--timeout", "0.1")

    assert ran.code == 5
    assert "nothing listens at 127.0.0.1:1; start a node there" in ran.err
