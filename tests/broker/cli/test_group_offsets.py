"""`ottla group reset`, `delete` and `delete-offsets` against a node."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Offsets = Callable[[str], dict[str, int]]


@pytest.fixture
def group(ottla: Any, topic: str) -> str:
    """A group that has read two of the three records of partition 0 and one of partition 1, and nothing of 2."""
    ottla("produce", topic, "-p", "0", stdin=b"a\nb\nc\n")
    assert ottla("consume", topic, "-g", f"reads-{topic}", "-n", "2").code == 0
    ottla("produce", topic, "-p", "1", stdin=b"d\n")
    assert ottla("group", "reset", f"reads-{topic}", f"{topic}-1", "--to", "1", "--yes").code == 0
    assert ottla("group", "delete-offsets", f"reads-{topic}", f"{topic}-2", "--yes").code == 0
    return f"reads-{topic}"


@pytest.fixture
def offsets(ottla: Any) -> Offsets:
    """Return a function from a group to its committed offsets, by partition."""

    def committed(group: str) -> dict[str, int]:
        described = json.loads(ottla("group", "describe", group, "-o", "json").out)
        return {
            f"{entry['topic']}-{entry['partition']}": entry["currentOffset"]
            for entry in described["partitions"]
            if entry["currentOffset"] is not None
        }

    return committed


@pytest.mark.parametrize(
    ("option", "new"),
    [
        pytest.param(("--to", "start"), 0, id="start"),
        pytest.param(("--to", "end"), 3, id="end"),
        pytest.param(("--to", "current"), 2, id="current"),
        pytest.param(("--to", "1"), 1, id="offset"),
        pytest.param(("--to", "47"), 3, id="offset-after-the-end"),
        pytest.param(("--to", "-2"), 1, id="before-the-end"),
        pytest.param(("--to", "@2001-01-31"), 0, id="time-before-the-first-record"),
        pytest.param(("--to", "@2999-01-31"), 3, id="time-after-the-last-record"),
        pytest.param(("--shift", "-1"), 1, id="back"),
        pytest.param(("--shift", "-9"), 0, id="back-before-the-start"),
        pytest.param(("--shift", "9"), 3, id="forward-after-the-end"),
    ],
)
def test_reset_of_one_partition(
    ottla: Any, offsets: Offsets, group: str, topic: str, option: tuple[str, str], new: int
) -> None:
    ran = ottla("group", "reset", group, f"{topic}-0", *option, "--yes", "-o", "json")

    assert json.loads(ran.out) == [
        {"name": f"{topic}-0", "topic": topic, "partition": 0, "currentOffset": 2, "newOffset": new}
    ]
    assert offsets(group) == {f"{topic}-0": new, f"{topic}-1": 1}


def test_reset_of_all_topics_is_of_committed_partitions(ottla: Any, offsets: Offsets, group: str, topic: str) -> None:
    assert ottla("group", "reset", group, "--all-topics", "--to", "start", "--yes").code == 0

    assert offsets(group) == {f"{topic}-0": 0, f"{topic}-1": 0}


def test_current_offset_without_a_commit_is_the_end(ottla: Any, offsets: Offsets, topic: str) -> None:
    ottla("produce", topic, "-p", "2", stdin=b"a\n")

    assert ottla("group", "reset", f"new-{topic}", topic, "--to", "current", "--yes").code == 0
    assert offsets(f"new-{topic}") == {f"{topic}-0": 0, f"{topic}-1": 0, f"{topic}-2": 1}


def test_reset_to_the_offsets_of_a_file(ottla: Any, offsets: Offsets, group: str, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"{topic},0,1\n{topic}, 1, 99\n")

    assert ottla("group", "reset", group, "--file", str(file), "--yes").code == 0
    assert offsets(group) == {f"{topic}-0": 1, f"{topic}-1": 1}


@pytest.mark.parametrize("command", ["reset", "delete-offsets"])
def test_dry_run_changes_no_offset(ottla: Any, offsets: Offsets, group: str, topic: str, command: str) -> None:
    target = ("--to", "start") if command == "reset" else ()

    ran = ottla("group", command, group, topic, *target, "--dry-run")

    assert (ran.code, f"{topic}-0" in ran.out + ran.err) == (0, True)
    assert offsets(group) == {f"{topic}-0": 2, f"{topic}-1": 1}


def test_reset_needs_confirmation(ottla: Any, offsets: Offsets, group: str, topic: str) -> None:
    ran = ottla("group", "reset", group, topic, "--to", "start")

    assert (ran.code, "repeat with --yes" in ran.err) == (2, True)
    assert offsets(group)[f"{topic}-0"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(("{topic}",), 2, "name the new offsets", id="no-target"),
        pytest.param(("{topic}", "--to", "1", "--shift", "2"), 2, "name the new offsets", id="two-targets"),
        pytest.param(("--to", "1"), 2, "name the partitions", id="no-scope"),
        pytest.param(("{topic}", "--all-topics", "--to", "1"), 2, "name the partitions", id="two-scopes"),
        pytest.param(("{topic}", "--to", "1:9"), 2, "is a range", id="range"),
        pytest.param(("{topic}", "--to", "soon"), 2, "is not an offset", id="no-offset"),
        pytest.param(("nope", "--to", "1"), 3, "there is no topic or partition nope", id="no-topic"),
        pytest.param(("{topic}-3", "--to", "1"), 3, "there is no topic or partition", id="no-partition"),
        pytest.param(("{topic}-2", "--shift", "1"), 1, "no committed offset to shift", id="nothing-to-shift"),
    ],
)
def test_bad_reset_is_rejected(
    ottla: Any, offsets: Offsets, group: str, topic: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ran = ottla("group", "reset", group, *(it.format(topic=topic) for it in arguments), "--yes")

    assert (ran.code, words in ran.err) == (code, True), ran.err
    assert offsets(group) == {f"{topic}-0": 2, f"{topic}-1": 1}


@pytest.mark.parametrize("text", ["", "t,0", "t,x,1", "t,0,-1", "g,t,0,1"])
def test_bad_file_of_offsets_is_rejected(ottla: Any, group: str, tmp_path: Path, text: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(text)

    ran = ottla("group", "reset", group, "--file", str(file), "--yes")

    assert (ran.code, "topic,partition,offset" in ran.err) == (2, True)


def test_all_topics_of_a_group_without_offsets_is_not_found(ottla: Any) -> None:
    ran = ottla("group", "reset", "nope", "--all-topics", "--to", "start", "--yes")

    assert (ran.code, "group nope has no committed offsets" in ran.err) == (3, True)


def test_offsets_of_a_partition_are_deleted(ottla: Any, offsets: Offsets, group: str, topic: str) -> None:
    assert ottla("group", "delete-offsets", group, f"{topic}-0", "--yes").code == 0

    assert offsets(group) == {f"{topic}-1": 1}


def test_offset_that_is_not_committed_is_not_deleted(ottla: Any, group: str, topic: str) -> None:
    ran = ottla("group", "delete-offsets", group, f"{topic}-2", "--yes")

    assert (ran.code, f"has no committed offset of {topic}-2" in ran.err) == (3, True)


def test_groups_are_deleted_with_their_offsets(ottla: Any, group: str) -> None:
    planned = ottla("group", "delete", group, "--dry-run")
    assert (planned.code, planned.err) == (0, f"group {group} would be deleted\n")

    assert ottla("group", "delete", group, "--yes").code == 0
    assert ottla("group", "describe", group).code == 3
