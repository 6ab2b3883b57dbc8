"""kafka-topics on five nodes: placement of replicas, rejected requests, and its output while a broker is down."""

import collections
from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 5])
def test_ten_partitions_are_spread_evenly(five: Any, unique: Callable[[str], str], factor: int) -> None:
    topic = unique("spread")
    five.create(topic, "--partitions", "10", "--replication-factor", str(factor))

    partitions = five.describe("--topic", topic)
    replicas = [partition["Replicas"].split(",") for partition in partitions]
    leaders = collections.Counter(partition["Leader"] for partition in partitions)
    held = collections.Counter(each for row in replicas for each in row)
    assert [len(set(row)) for row in replicas] == [factor] * 10
    assert [sorted(partition["Isr"].split(",")) for partition in partitions] == [sorted(row) for row in replicas]
    assert dict(leaders) == dict.fromkeys("12345", 2)
    assert dict(held) == dict.fromkeys("12345", 2 * factor)


def test_more_replicas_than_brokers_are_rejected(five: Any, unique: Callable[[str], str]) -> None:
    rejected = five.tool("kafka-topics", "--create", "--topic", unique("wide"), "--replication-factor", "7", code=1)

    assert rejected.lines[0] == (
        "Error while executing topic command : Unable to replicate the partition 7 time(s): "
        "The target replication factor of 7 cannot be reached because only 5 broker(s) are registered "
        "or some brokers have all their log directories cordoned."
    )
    assert "org.apache.kafka.common.errors.InvalidReplicationFactorException" in rejected.stdout + rejected.stderr


def test_partitions_are_added_and_never_removed(five: Any, unique: Callable[[str], str]) -> None:
    topic = unique("grow")
    five.create(topic, "--partitions", "10", "--replication-factor", "3")

    five.tool("kafka-topics", "--alter", "--topic", topic, "--partitions", "11")
    rejected = five.tool("kafka-topics", "--alter", "--topic", topic, "--partitions", "9", code=1)

    assert rejected.lines[0] == (
        f"Error while executing topic command : The topic {topic} currently has 11 partition(s); "
        "9 would not be an increase."
    )
    assert "org.apache.kafka.common.errors.InvalidPartitionsException" in rejected.stdout + rejected.stderr
    five.settle(lambda: len(five.describe("--topic", topic)), 11)


def test_partitions_that_a_dead_broker_leaves_behind(five: Any, unique: Callable[[str], str]) -> None:
    names = {unique(name): name for name in ("untouched", "enough", "just-enough", "too-few", "nobody")}
    untouched, enough, just_enough, too_few, leaderless = names
    five.create_at(untouched, "1:2:4", min_insync_replicas="2")
    five.create_at(enough, "1:2:5", min_insync_replicas="1")
    five.create_at(just_enough, "1:4:5", min_insync_replicas="2")
    five.create_at(too_few, "4:5", min_insync_replicas="2")
    five.create_at(leaderless, "5", min_insync_replicas="1")
    five.kill(5)
    five.wait_for(lambda: five.partition(leaderless)["Leader"] == "none")

    def shown(option: str) -> list[str]:
        return sorted(names[row["Topic"]] for row in five.describe(option) if row["Topic"] in names)

    def leadership(topic: str) -> tuple[str, ...]:
        row = five.partition(topic)
        return row["Leader"], row["Isr"], row["Elr"], row["LastKnownElr"]

    five.settle(lambda: shown("--under-replicated-partitions"), ["enough", "just-enough", "nobody", "too-few"])
    five.settle(lambda: shown("--under-min-isr-partitions"), ["nobody", "too-few"])
    five.settle(lambda: shown("--at-min-isr-partitions"), ["just-enough"])
    five.settle(lambda: shown("--unavailable-partitions"), ["nobody"])
    five.settle(lambda: leadership(untouched), ("1", "1,2,4", "", ""))
    five.settle(lambda: leadership(enough), ("1", "1,2", "", ""))
    five.settle(lambda: leadership(just_enough), ("1", "1,4", "", ""))
    five.settle(lambda: leadership(too_few), ("4", "4", "5", ""))
    five.settle(lambda: leadership(leaderless), ("none", "", "5", "5"))


def test_all_replicas_are_in_sync_once_the_broker_is_back(five: Any, unique: Callable[[str], str]) -> None:
    topic = unique("back")
    five.create_at(topic, "4:5,5:4", min_insync_replicas="2")
    five.kill(5)
    five.wait_for(lambda: all(each["Isr"] == "4" for each in five.describe("--topic", topic)))

    five.start(5)

    five.settle(
        lambda: [(len(each["Isr"]), each["Elr"]) for each in five.describe("--topic", topic)], [(3, ""), (3, "")]
    )
