"""kafka-reassign-partitions on five nodes: generate, execute, verify and cancel, with throttles."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SLOW = "100000"
"""Bytes per second of a throttle under which a megabyte takes so long that a test finds it on its way."""


@pytest.fixture
def reassign(five: Any, tmp_path: Path) -> Callable[..., Any]:
    """Return ``reassign(plan, *args)``: run the tool with a plan, or with no file where ``plan`` is none."""

    def run(plan: object, *args: str, file: str = "--reassignment-json-file", code: int | None = 0) -> Any:
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(plan))
        return five.tool("kafka-reassign-partitions", *([file, str(path)] if plan else []), *args, code=code)

    return run


def plan_of(topic: str, *replicas: list[int]) -> dict[str, object]:
    rows = [{"topic": topic, "partition": index, "replicas": row} for index, row in enumerate(replicas)]
    return {"version": 1, "partitions": rows}


def throttles(five: Any, topic: str) -> str:
    """Return the throttles of ``topic`` and of the brokers that the tools list."""
    of_topic = five.tool("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic).stdout
    of_brokers = five.tool("kafka-configs", "--describe", "--entity-type", "brokers").stdout
    return "".join(line for line in (of_topic + of_brokers).splitlines() if "throttled" in line)


def test_proposal_is_carried_out_and_verified(
    five: Any, reassign: Callable[..., Any], unique: Callable[[str], str]
) -> None:
    topic = unique("move")
    five.create_at(topic, "1:2,2:3,3:1")
    five.produce(topic, count=100)
    topics = {"version": 1, "topics": [{"topic": topic}]}
    proposed = reassign(topics, "--broker-list", "4,5", "--generate", file="--topics-to-move-json-file")

    assert proposed.lines[0] == "Current partition replica assignment"
    assert [row["replicas"] for row in json.loads(proposed.lines[1])["partitions"]] == [[1, 2], [2, 3], [3, 1]]
    assert proposed.lines[2] == "Proposed partition reassignment configuration"
    proposal = json.loads(proposed.lines[3])
    assert all(sorted(row["replicas"]) == [4, 5] for row in proposal["partitions"])

    started = reassign(proposal, "--execute")
    assert started.lines[-1] == f"Successfully started partition reassignments for {topic}-0,{topic}-1,{topic}-2"

    done = [f"Reassignment of partition {topic}-{index} is completed." for index in range(3)]
    verified = five.wait_for(lambda: (shown := reassign(proposal, "--verify")) and shown.lines[1:4] == done and shown)
    assert verified.lines[0] == "Status of partition reassignment:"
    assert f"Clearing topic-level throttles on topic {topic}" in verified.lines
    five.settle(
        lambda: {
            tuple(sorted(row[key].split(","))) for row in five.describe("--topic", topic) for key in ("Replicas", "Isr")
        },
        {("4", "5")},
    )
    assert reassign(None, "--list").lines == ["No partition reassignments found."]


def test_throttled_reassignment_is_listed_and_cancelled(
    five: Any, reassign: Callable[..., Any], unique: Callable[[str], str]
) -> None:
    topic = unique("slow")
    five.create_at(topic, "1:2")
    five.produce(topic, count=200, size_bytes=50_000)
    plan = plan_of(topic, [4, 5])
    started = reassign(plan, "--execute", "--throttle", SLOW)

    assert f"The inter-broker throttle limit was set to {SLOW} B/s" in started.lines
    assert started.lines[-1] == f"Successfully started partition reassignment for {topic}-0"
    assert f"Reassignment of partition {topic}-0 is still in progress." in reassign(plan, "--verify").lines
    listed = reassign(None, "--list").lines
    assert listed == [
        "Current partition reassignments:",
        f"{topic}-0: replicas: 4,5,1,2. adding: 4,5. removing: 1,2.",
    ]
    five.wait_for(lambda: "leader.replication.throttled.rate=" in throttles(five, topic))
    five.wait_for(lambda: "follower.replication.throttled.replicas=" in throttles(five, topic))
    five.settle(lambda: five.partition(topic)["Replicas"], "4,5,1,2")
    rejected = reassign(plan_of(topic, [3, 4]), "--execute", code=1)
    assert "Cannot execute because there is an existing partition assignment." in rejected.stdout + rejected.stderr

    cancelled = reassign(plan, "--cancel")

    assert f"Successfully cancelled partition reassignment for: {topic}-0" in cancelled.lines
    five.settle(lambda: sorted(five.partition(topic)["Replicas"].split(",")), ["1", "2"])
    five.settle(lambda: throttles(five, topic), "")
    assert reassign(None, "--list").lines == ["No partition reassignments found."]


def test_removed_throttle_lets_the_reassignment_finish(
    five: Any, reassign: Callable[..., Any], unique: Callable[[str], str]
) -> None:
    topic = unique("lift")
    five.create_at(topic, "1:2:3")
    five.produce(topic, count=200, size_bytes=50_000)
    plan = plan_of(topic, [3, 4, 5])
    reassign(plan, "--execute", "--throttle", SLOW)
    again = reassign(plan, "--additional", "--execute", "--throttle", "100000000")
    assert "The inter-broker throttle limit was set to 100000000 B/s" in again.lines

    done = f"Reassignment of partition {topic}-0 is completed."
    verified = five.wait_for(lambda: (shown := reassign(plan, "--verify")) and done in shown.lines and shown)

    assert "Clearing broker-level throttles on brokers 1,2,3,4,5" in verified.lines
    five.settle(lambda: throttles(five, topic), "")

    def placement() -> tuple[object, ...]:
        row = five.partition(topic)
        return row["Leader"], row["Replicas"], sorted(row["Isr"].split(","))

    five.settle(placement, ("3", "3,4,5", ["3", "4", "5"]))


def test_number_of_replicas_changes(five: Any, reassign: Callable[..., Any], unique: Callable[[str], str]) -> None:
    topic = unique("wider")
    five.create_at(topic, "1,2")
    five.produce(topic, count=100)
    plan = plan_of(topic, [1, 2, 3, 4, 5], [2, 4])
    reassign(plan, "--execute")

    five.wait_for(lambda: [len(row["Isr"].split(",")) for row in five.describe("--topic", topic)] == [5, 2])
    five.wait_for(lambda: reassign(None, "--list").lines == ["No partition reassignments found."])
    five.settle(lambda: [row["Replicas"] for row in five.describe("--topic", topic)], ["1,2,3,4,5", "2,4"])


@pytest.mark.parametrize(
    ("replicas", "text"),
    [
        pytest.param([1, 9], "Unknown broker id 9", id="unknown-broker"),
        pytest.param([1, 1], "Partition replica lists may not contain duplicate entries", id="twice"),
        pytest.param([], "Partition replica list cannot be empty", id="empty"),
    ],
)
def test_impossible_plan_is_rejected(
    five: Any, reassign: Callable[..., Any], unique: Callable[[str], str], replicas: list[int], text: str
) -> None:
    topic = unique("bad")
    five.create_at(topic, "1:2")

    rejected = reassign(plan_of(topic, replicas), "--execute", code=1)

    assert text in rejected.stdout + rejected.stderr
    assert five.partition(topic)["Replicas"] == "1,2"
