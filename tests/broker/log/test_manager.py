"""All logs of a node: ownership of directories, guarantees of a clean shutdown, failure of a directory."""

import errno
import re
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ConfigurationError, ErrorCode, KafkaError, StorageError
from ottla.log.config import LogConfig
from ottla.log.maintenance import DELETION_CHECK_INTERVAL_MS, ITEMS_PER_SLICE
from ottla.log.meta_properties import parse_meta_properties
from ottla.types import TopicPartition, Uuid

NOW_MS = 1_700_000_000_000
A_ID, B_ID = Uuid(b"a" * 16), Uuid(b"b" * 16)
HOUR_MS = 3_600_000

MakeBatch = Callable[..., bytearray]


def append(log: Any, batch: bytearray) -> None:
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)


# --- ownership of directories


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        pytest.param("/b", {"node_id": 2}, "Stored node id 2 doesn't match previous node id 1", id="another-node"),
        pytest.param("/b", {"cluster_id": "x"}, "Expected cluster, but read x", id="another-cluster"),
        pytest.param("/b", {"directory_id": A_ID}, "Duplicate directory ID", id="a-copy"),
    ],
)
def test_directory_of_another_node_or_cluster_is_rejected(
    node: Any, path: str, fields: dict[str, Any], words: str
) -> None:
    node.format(path, fields.pop("directory_id", B_ID), **fields)

    with pytest.raises(ConfigurationError, match=words):
        node.start()


def test_unformatted_directory_is_rejected(node: Any) -> None:
    node.disk.remove("/b/meta.properties")
    with pytest.raises(ConfigurationError, match=r"No `meta.properties` found in /b .*ottla format"):
        node.start()
    node.disk.kill()
    node.disk.remove("/a/meta.properties")
    with pytest.raises(ConfigurationError, match=r"No readable meta\.properties"):
        node.start()


def test_cluster_id_defaults_to_that_of_the_first_directory(node: Any) -> None:
    assert node.start(cluster_id=None).offline_directories() == []


def test_directory_can_be_locked_by_one_process_only(node: Any) -> None:
    node.start()

    with pytest.raises(ConfigurationError, match=r"Failed to acquire lock on file \.lock in /a"):
        node.start()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param("version=7\ncluster.id=c\nnode.id=1\n", "Unknown meta.properties version number 7", id="version"),
        pytest.param("version=1\nnode.id=1\n", "Failed to find cluster.id", id="no-cluster"),
        pytest.param("version=1\ncluster.id=c\nnode.id=x\n", "invalid literal for int", id="node-id"),
        pytest.param("", "Failed to find version. Format the directory again, or restore the file.", id="empty"),
    ],
)
def test_malformed_meta_properties_are_an_error_that_names_the_file(text: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"/a/meta.properties: {wrong}")):
        parse_meta_properties(text, "/a/meta.properties")


def test_kafkas_own_meta_properties_are_read() -> None:
    text = "#\n#Sat Nov 21 08:22:06 UTC 2026\nnode.id=1\ndirectory.id=HMhHXgUPfkoZZiWmjw29vA\nversion=1\ncluster.id=Q\n"

    found = parse_meta_properties(text, "x")

    assert (found.node_id, found.cluster_id, found.directory_id is not None) == (1, "Q", True)


def test_directory_ids_are_read_from_meta_properties(node: Any) -> None:
    assert node.start().directory_ids() == {"/a": A_ID, "/b": B_ID}


# --- logs


def test_new_log_is_created_in_the_directory_with_the_fewest_logs(node: Any) -> None:
    manager = node.start()

    directories = [node.create(manager, partition=partition).directory for partition in range(4)]

    assert directories == ["/a/topic-0", "/b/topic-1", "/a/topic-2", "/b/topic-3"]


@pytest.mark.parametrize(
    ("cordoned", "directories"),
    [
        pytest.param(("/a",), ["/b/topic-0", "/b/topic-1"], id="the-other"),
        pytest.param(("/a", "/b"), ["/a/topic-0", "/b/topic-1"], id="all-are-as-good"),
    ],
)
def test_new_log_is_not_created_in_a_cordoned_directory(
    node: Any, cordoned: tuple[str, ...], directories: list[str]
) -> None:
    manager = node.start()
    manager.choice.cordon(cordoned)

    assert [node.create(manager, partition=partition).directory for partition in range(2)] == directories
    assert manager.choice.cordoned_directory_ids() == [{"/a": A_ID, "/b": B_ID}[path] for path in cordoned]


def test_cordoned_directory_accepts_a_log_that_the_metadata_assigns_to_it(node: Any) -> None:
    manager = node.start()
    manager.choice.cordon(["/a"])

    assert node.create(manager, directory_id=A_ID).directory == "/a/topic-0"


def test_log_is_created_in_the_directory_that_the_metadata_assigns(node: Any) -> None:
    manager = node.start()

    assert node.create(manager, partition=0, directory_id=B_ID).directory == "/b/topic-0"
    assert node.create(manager, partition=1, directory_id=Uuid(b"?" * 16)).directory == "/a/topic-1"


def test_get_or_create_returns_the_existing_log(node: Any) -> None:
    manager = node.start()

    assert node.create(manager) is node.create(manager) is manager.get(TopicPartition("topic", 0))
    assert manager.get(TopicPartition("other", 0)) is None


def test_log_of_another_topic_id_is_rejected(node: Any) -> None:
    manager = node.start()
    node.create(manager)

    with pytest.raises(KafkaError) as raised:
        manager.get_or_create(TopicPartition("topic", 0), topic_id=Uuid(b"x" * 16), config=LogConfig())

    assert raised.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


def test_new_log_ignores_checkpoints_of_a_deleted_log_of_its_name(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    log = node.create(manager)
    append(log, make_batch(5))
    log.update_high_watermark(5)
    log.delete_records_before(5)
    manager.close()
    node.disk.kill()
    manager = node.start()

    manager.delete(TopicPartition("topic", 0))
    log = node.create(manager, directory_id=A_ID)

    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 0, 0)


def test_deleted_log_is_renamed_at_once_and_removed_later(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    append(node.create(manager), make_batch(1))

    manager.delete(TopicPartition("topic", 0))

    assert manager.get(TopicPartition("topic", 0)) is None
    (name,) = [name for name in node.disk.list_directory("/a") if "-delete" in name]
    assert name == f"topic-0.{(1).to_bytes(16).hex()}-delete"
    node.clock.advance(59_999)
    manager.maintenance.tick(node.clock.monotonic_ms())
    assert node.disk.exists(f"/a/{name}")
    node.clock.advance(1_000)
    manager.maintenance.tick(node.clock.monotonic_ms())
    assert not node.disk.exists(f"/a/{name}")


def test_idle_logs_are_due_again_after_the_check_interval(node: Any) -> None:
    manager = node.start()
    for partition in range(2 * ITEMS_PER_SLICE):
        node.create(manager, partition=partition)
    node.clock.advance(DELETION_CHECK_INTERVAL_MS)
    now_ms = node.clock.monotonic_ms()
    manager.maintenance.tick(now_ms)

    assert manager.maintenance.due_ms == now_ms + DELETION_CHECK_INTERVAL_MS


def test_checkpoint_of_the_same_offsets_is_not_written_again(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    append(node.create(manager), make_batch(1))
    writes = []
    for _ in range(3):
        node.clock.advance(node.manager_config.high_watermark_checkpoint_interval_ms)
        manager.maintenance.tick(node.clock.monotonic_ms())
        node.disk.complete_syncs()
        writes.append(node.disk.operations["rename"])

    assert writes[0] > 0
    assert writes[1] == writes[2] == writes[0]


def test_deletion_of_a_log_is_completed_after_a_restart(node: Any) -> None:
    manager = node.start()
    node.create(manager)
    manager.delete(TopicPartition("topic", 0))
    node.disk.kill()

    manager = node.start()
    node.clock.advance(1_000)
    manager.maintenance.tick(node.clock.monotonic_ms())

    assert not [name for name in node.disk.list_directory("/a") if "-delete" in name]


def test_metadata_log_is_not_loaded_by_the_manager(node: Any) -> None:
    node.disk.make_directory("/a/__cluster_metadata-0")

    assert list(node.start().logs()) == []


def test_new_configuration_is_applied_to_the_topics_logs(node: Any) -> None:
    manager = node.start()
    logs = [node.create(manager, topic) for topic in ("topic", "other")]

    manager.update_config("topic", LogConfig(segment_bytes=5, segment_jitter_ms=100))

    assert [log.config.segment_bytes for log in logs] == [5, 1 << 30]
    assert logs[0].config.segment_jitter_ms == 99, "drawn below the topic's bound"


# --- directory failure


def test_failed_directory_takes_only_its_own_logs_offline(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    lost, kept = node.create(manager, partition=0), node.create(manager, partition=1)
    node.disk.fail_next("write", errno.EIO, path_part="/a/topic-0")

    with pytest.raises(StorageError):
        append(lost, make_batch(1))

    append(kept, make_batch(1))
    assert node.failures == ["/a"]
    assert manager.offline_directories() == ["/a"]
    assert manager.lost_partitions("/a") == (TopicPartition("topic", 0),)
    assert [log.topic_partition.partition for log in manager.logs()] == [1]
    assert node.create(manager, partition=2).directory == "/b/topic-2"
    with pytest.raises(StorageError, match="/a, which is to hold topic-3, is offline"):
        node.create(manager, partition=3, directory_id=A_ID)


def test_log_is_not_created_elsewhere_while_a_directory_is_offline_since_the_start(
    node: Any, make_batch: MakeBatch
) -> None:
    """Found by the simulator (seed 48): its new log was empty, and was reported to the controller as the replica."""
    append(node.create(node.start(), directory_id=A_ID), make_batch(1))
    node.disk.kill()
    node.disk.break_directory("/a")

    manager = node.start()

    assert node.failures == ["/a"]
    with pytest.raises(StorageError, match="/a, which may hold topic-0, has been offline all the time"):
        node.create(manager, directory_id=A_ID)
    assert node.create(manager, partition=1, directory_id=B_ID).directory == "/b/topic-1"
    assert node.create(manager, partition=2).directory == "/b/topic-2"
    node.disk.kill()
    node.disk.repair_directories()
    assert node.create(node.start(), directory_id=A_ID).log_end_offset == 1


def test_lost_log_is_not_recreated_in_another_directory(node: Any, make_batch: MakeBatch) -> None:
    """Found by the simulator (seed 2126428070): the directory came back, and the node had two logs of the partition.

    The metadata did not name the directory yet. A topic that was recreated meanwhile has no log in the lost directory.
    """
    manager = node.start()
    append(node.create(manager), make_batch(1))
    node.lose(manager, "/a")

    with pytest.raises(StorageError, match="/a, which holds topic-0, is offline"):
        node.create(manager)

    recreated = manager.get_or_create(TopicPartition("topic", 0), topic_id=Uuid(b"n" * 16), config=node.config)
    assert recreated.directory == "/b/topic-0"


def test_log_not_loaded_from_a_failed_directory_is_not_recreated(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    for partition in range(3):
        append(node.create(manager, partition=partition, directory_id=A_ID), make_batch(1))
    node.disk.kill()
    node.disk.fail_next("list", errno.EIO, path_part="/a/topic-1")

    manager = node.start()

    assert node.failures == ["/a"]
    for partition in range(3):
        with pytest.raises(StorageError, match=f"/a, which holds topic-{partition}, is offline"):
            node.create(manager, partition=partition)


def test_start_fails_when_all_directories_have_failed(node: Any) -> None:
    node.disk.fail_next("make_directory", errno.EIO)
    node.disk.fail_next("make_directory", errno.EIO)

    with pytest.raises(StorageError, match="all log dirs have failed"):
        node.start()


def test_failed_close_of_a_directory_leaves_no_clean_shutdown_marker(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    append(node.create(manager), make_batch(1))
    node.disk.fail_next("sync", errno.EIO, path_part="/a/topic-0")

    manager.close()

    assert not node.disk.exists("/a/.kafka_cleanshutdown")
    assert node.disk.exists("/b/.kafka_cleanshutdown")


def test_space_of_a_directory_is_that_of_its_file_system(node: Any) -> None:
    node.disk.capacity_bytes = 1_000_000

    space = node.start().space_of("/a")

    assert space.total_bytes == 1_000_000
    assert 0 < space.usable_bytes < 1_000_000


def test_directories_of_deleted_logs_are_removed_a_slice_per_tick(node: Any) -> None:
    manager = node.start()
    count = ITEMS_PER_SLICE + 2
    for partition in range(count):
        node.create(manager, partition=partition)
    for log in list(manager.logs()):
        manager.delete(log.topic_partition)
    node.clock.advance(2 * HOUR_MS)
    now_ms = node.clock.monotonic_ms()

    def left() -> int:
        return sum(name.endswith("-delete") for path in ("/a", "/b") for name in node.disk.list_directory(path))

    before = left()
    manager.maintenance.tick(now_ms)
    after_one = left()
    manager.maintenance.tick(now_ms)

    assert (before, after_one, left()) == (count, 2, 0)


def test_close_during_a_checkpoint_write_keeps_the_final_checkpoint(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    log = node.create(manager)
    append(log, make_batch(3))
    log.update_high_watermark(3)
    node.clock.advance(node.manager_config.high_watermark_checkpoint_interval_ms)
    manager.maintenance.tick(node.clock.monotonic_ms())

    manager.close(broker_epoch=7)
    node.disk.complete_syncs()

    assert node.failures == []
    again = node.start().get(TopicPartition("topic", 0))
    assert again is not None
    assert (again.log_end_offset, again.high_watermark) == (3, 3)
