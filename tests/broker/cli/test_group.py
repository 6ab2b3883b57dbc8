"""`ottla group` and `ottla quorum` against a node."""

import json
from typing import Any

import pytest


@pytest.fixture
def group(ottla: Any, topic: str) -> str:
    """A group that has read two of three records."""
    ottla("produce", topic, "-p", "0", stdin=b"a\nb\nc\n")
    assert ottla("consume", topic, "-g", f"reads-{topic}", "-n", "2").code == 0
    return f"reads-{topic}"


def test_groups_are_listed(ottla: Any, group: str) -> None:
    groups = json.loads(ottla("group", "list", "-o", "json").out)

    assert {"name": group, "type": "classic", "state": "Empty", "protocolType": "consumer"} in groups


def test_groups_in_another_state_are_left_out(ottla: Any, group: str) -> None:
    assert f"group/{group}" not in ottla("group", "list", "--state", "stable", "-o", "name").out


def test_lag_is_what_was_not_read(ottla: Any, group: str) -> None:
    described = json.loads(ottla("group", "describe", group, "-o", "json").out)

    partition = next(entry for entry in described["partitions"] if entry["partition"] == 0)
    assert (described["totalLag"], partition["currentOffset"], partition["endOffset"]) == (1, 2, 3)


def test_description_for_people(ottla: Any, group: str) -> None:
    out = ottla("group", "describe", group).out

    assert f"Name         {group}\nState        Empty\n" in out
    assert "Total lag    1" in out


def test_group_without_members_lists_none(ottla: Any, group: str) -> None:
    ran = ottla("group", "members", group)

    assert (ran.code, ran.out, ran.err) == (0, "", "no members\n")


@pytest.mark.parametrize("command", ["describe", "members"])
def test_missing_group_is_not_found(ottla: Any, command: str) -> None:
    ran = ottla("group", command, "nope")

    assert (ran.code, "there is no group nope" in ran.err) == (3, True)


def test_quorum_is_described(ottla: Any) -> None:
    described = json.loads(ottla("quorum", "describe", "-o", "json").out)

    assert described["leaderId"] == 1
    assert [(replica["nodeId"], replica["role"], replica["lag"]) for replica in described["replicas"]] == [
        (1, "leader", 0)
    ]


def test_quorum_is_described_for_people(ottla: Any) -> None:
    lines = ottla("quorum", "describe").out.splitlines()

    assert lines[0].split() == ["Leader", "1"]
    assert lines[-1].split()[:2] == ["1", "leader"]
