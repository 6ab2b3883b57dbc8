"""Stray logs, which are no longer assigned to this node, and duplicate logs."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import StorageError
from ottla.types import TopicPartition, Uuid

NOW_MS = 1_700_000_000_000
TOPIC_ID = Uuid(b"t" * 16)
A_ID, B_ID = Uuid(b"a" * 16), Uuid(b"b" * 16)

MakeBatch = Callable[..., bytearray]


def append(log: Any, batch: bytearray) -> None:
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)


def test_strays_are_renamed_and_kept(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    append(node.create(manager, "wanted"), make_batch(1))
    append(node.create(manager, "stray"), make_batch(1))

    moved = manager.move_aside_strays(lambda log: log.topic_partition.topic == "stray")

    assert moved == [TopicPartition("stray", 0)]
    assert [log.topic_partition.topic for log in manager.logs()] == ["wanted"]
    node.disk.kill()
    assert [log.topic_partition.topic for log in node.start().logs()] == ["wanted"]


def make_duplicates(
    node: Any, make_batch: MakeBatch, *, ends: dict[str, int], topic_ids: dict[str, Uuid] | None = None
) -> None:
    """Leave a log of topic-0 in /a and in /b, with so many records each."""
    for path, end in ends.items():
        others = [each for each in ends if each != path]
        for other in others:
            node.disk.break_directory(other)
        manager = node.start()
        log = manager.get_or_create(
            TopicPartition("topic", 0), topic_id=(topic_ids or {}).get(path, TOPIC_ID), config=node.config
        )
        for _ in range(end):
            append(log, make_batch(1))
        manager.close()
        node.disk.repair_directories()
        node.disk.kill()
    node.failures.clear()


def strays(node: Any) -> list[str]:
    return [f"{path}/{name}" for path in ("/a", "/b") for name in node.disk.list_directory(path) if "-stray" in name]


@pytest.mark.parametrize(
    ("ends", "directory_id", "kept"),
    [
        pytest.param({"/a": 3, "/b": 1}, B_ID, "/b", id="the-one-that-the-metadata-names"),
        pytest.param({"/a": 1, "/b": 3}, A_ID, "/a", id="wherever-that-is"),
        pytest.param({"/a": 3, "/b": 1}, None, "/a", id="without-such-a-name-the-longest"),
        pytest.param({"/a": 1, "/b": 3}, Uuid(b"c" * 16), "/b", id="likewise-with-a-name-of-neither"),
    ],
)
def test_one_of_two_logs_of_a_partition_is_used_and_the_other_is_a_stray(
    node: Any,
    make_batch: MakeBatch,
    caplog: pytest.LogCaptureFixture,
    ends: dict[str, int],
    directory_id: Uuid | None,
    kept: str,
) -> None:
    make_duplicates(node, make_batch, ends=ends)
    aside = "/b" if kept == "/a" else "/a"

    manager = node.start()
    log = node.create(manager, directory_id=directory_id)

    assert (log.directory, log.log_end_offset) == (f"{kept}/topic-0", ends[kept])
    assert list(manager.logs()) == [log]
    (stray,) = strays(node)
    assert stray.startswith(f"{aside}/topic-0.")
    assert f"Duplicate log directories found: {aside}/topic-0 is not used ({kept}/topic-0 is)" in caplog.text
    manager.close()
    node.disk.kill()
    assert [log.directory for log in node.start().logs()] == [f"{kept}/topic-0"]


def test_duplicate_of_another_topic_id_is_never_used(node: Any, make_batch: MakeBatch) -> None:
    make_duplicates(node, make_batch, ends={"/a": 3, "/b": 1}, topic_ids={"/a": Uuid(b"o" * 16)})

    assert node.create(node.start(), directory_id=A_ID).directory == "/b/topic-0"


def test_new_log_replaces_duplicates_of_another_topic_id(node: Any, make_batch: MakeBatch) -> None:
    old = Uuid(b"o" * 16)
    make_duplicates(node, make_batch, ends={"/a": 3, "/b": 1}, topic_ids={"/a": old, "/b": old})

    assert node.create(node.start()).log_end_offset == 0
    assert len(strays(node)) == 2


def test_duplicates_are_kept_until_the_partition_is_assigned(node: Any, make_batch: MakeBatch) -> None:
    make_duplicates(node, make_batch, ends={"/a": 3, "/b": 1})
    manager = node.start()
    assert list(manager.logs()) == []
    manager.close()
    node.disk.kill()

    manager = node.start()

    assert [manager.get(TopicPartition("topic", 0)), strays(node)] == [None, []]
    assert node.create(manager, directory_id=A_ID).log_end_offset == 3


def test_duplicates_of_an_unassigned_partition_are_strays(node: Any, make_batch: MakeBatch) -> None:
    make_duplicates(node, make_batch, ends={"/a": 3, "/b": 1})
    manager = node.start()

    manager.move_aside_strays(lambda log: True)

    assert len(strays(node)) == 2
    assert node.create(manager).log_end_offset == 0


def test_duplicates_are_not_resolved_while_one_of_their_directories_is_offline(
    node: Any, make_batch: MakeBatch
) -> None:
    make_duplicates(node, make_batch, ends={"/a": 3, "/b": 1})
    manager = node.start()
    node.lose(manager, "/a")

    with pytest.raises(StorageError, match="/a, which holds topic-0, is offline"):
        node.create(manager)

    node.disk.repair_directories()
    assert strays(node) == []
