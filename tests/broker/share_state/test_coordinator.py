"""The share coordinator: commits, restarts, snapshots, pruning, deleted topics."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode, ProtocolError
from ottla.java_hashes import string_hash
from ottla.share_state.config import ShareStateConfig
from ottla.share_state.coordinator import BATCHES_PER_WRITE_MAX, coordinator_hash
from ottla.share_state.log import ShareSnapshot, ShareState, ShareUpdate, decode, encode
from ottla.share_state.persister import SharePartitionKey, StateBatch
from ottla.types import format_uuid
from share_node import KEY, OTHER_ID, TOPIC_ID, ShareNode

INTERVAL_MS = 1_000
PRUNED = ShareStateConfig(
    update_records_per_snapshot=3, cold_snapshot_interval_ms=10 * INTERVAL_MS, prune_interval_ms=INTERVAL_MS
)


@pytest.fixture
def node() -> ShareNode:
    return ShareNode()


def test_write_responds_when_it_is_committed(node: ShareNode) -> None:
    node.initialize()
    node.log.is_held = True

    written = node.write((0, 9, 2, 1))

    assert not written.is_complete
    node.log.commit()
    assert written.value.error is ErrorCode.NONE


def test_read_waits_for_the_write_that_it_sees(node: ShareNode) -> None:
    node.initialize()
    node.log.is_held = True
    node.write((0, 9, 2, 1))

    read = node.coordinator.read(KEY, leader_epoch=-1)

    assert not read.is_complete
    node.log.commit()
    assert read.value.batches == (StateBatch(0, 9, 2, 1),)


def test_lost_write_has_the_error_of_kafka(node: ShareNode) -> None:
    node.initialize()
    node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    assert node.write((0, 9, 2, 1)).value == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "Unable to write share group state: The coordinator is not available.",
    )
    assert node.read().batches == ()


def test_coordinator_that_may_have_been_replaced_serves_no_read(node: ShareNode) -> None:
    node.initialize()
    node.log.is_confirmed = False

    assert node.read().error is ErrorCode.NOT_COORDINATOR
    assert node.coordinator.read_summary(KEY, leader_epoch=-1).value.error is ErrorCode.NOT_COORDINATOR


def test_resigned_coordinator_is_none(node: ShareNode) -> None:
    node.initialize()
    node.coordinator.on_resigned(0)

    assert node.write((0, 9, 2, 1)).value.error is ErrorCode.NOT_COORDINATOR


def test_oversized_write_is_rejected(node: ShareNode) -> None:
    node.initialize()

    written = node.write(*[(offset, offset, 2, 1) for offset in range(BATCHES_PER_WRITE_MAX + 1)])

    assert written.value.error is ErrorCode.INVALID_REQUEST
    assert node.read().batches == ()


_keys = st.builds(SharePartitionKey, st.sampled_from(("a", "b")), st.just(TOPIC_ID), st.integers(0, 1))
_operations = st.one_of(
    st.tuples(st.just("initialize"), _keys, st.integers(-1, 3)),
    st.tuples(st.just("write"), _keys, st.integers(0, 30)),
    st.tuples(st.just("read"), _keys, st.integers(-1, 3)),
    st.tuples(st.just("delete"), _keys, st.just(0)),
    st.tuples(st.just("wait"), _keys, st.integers(0, 4 * INTERVAL_MS)),
)


def contents(node: ShareNode) -> dict[SharePartitionKey, object]:
    """Return the states of all share-partitions."""
    keys = [SharePartitionKey(group, TOPIC_ID, index) for group in ("a", "b") for index in (0, 1)]
    return {key: (node.read(key), node.coordinator.read_summary(key, leader_epoch=-1).value) for key in keys}


@given(operations=st.lists(_operations, max_size=40))
def test_new_coordinator_has_the_same_state(operations: list[tuple[str, SharePartitionKey, int]]) -> None:
    node = ShareNode(PRUNED)
    for name, key, value in operations:
        match name:
            case "initialize":
                node.coordinator.initialize(key, state_epoch=value, start_offset=value)
            case "write":
                node.write((value, value + 3, 2, 1), key=key, start_offset=value - 5)
            case "read":
                node.coordinator.read(key, leader_epoch=value)
            case "delete":
                node.coordinator.delete(key)
            case _:
                node.advance(value)
    before = contents(node)

    node.restart(1)

    assert contents(node) == before


def test_some_updates_are_followed_by_a_snapshot() -> None:
    node = ShareNode(PRUNED)
    node.initialize()
    for offset in range(5):
        node.write((offset, offset, 2, 1))

    kinds = [type(record) for record in node.records()]

    assert kinds == [ShareSnapshot, ShareUpdate, ShareUpdate, ShareUpdate, ShareSnapshot, ShareUpdate]
    assert node.read().batches == (StateBatch(0, 4, 2, 1),)


def test_records_before_the_last_snapshots_are_deleted() -> None:
    node = ShareNode(PRUNED)
    node.initialize()
    for offset in range(5):
        node.write((offset, offset, 2, 1))

    node.advance(INTERVAL_MS)

    assert [type(record) for record in node.records()] == [ShareSnapshot, ShareUpdate]
    node.restart(1)
    assert node.read().batches == (StateBatch(0, 4, 2, 1),)


def test_nothing_is_deleted_before_the_snapshot_is_committed() -> None:
    node = ShareNode(PRUNED)
    node.initialize()
    node.log.is_held = True
    node.initialize_uncommitted()

    node.advance(INTERVAL_MS)

    assert len(list(node.records())) == 2
    node.log.commit()
    assert len(list(node.records())) == 1


def test_cold_share_partition_does_not_keep_the_records_of_others() -> None:
    node = ShareNode(PRUNED)
    cold = KEY._replace(partition=1)
    node.initialize(cold, start_offset=7)
    node.initialize()
    for offset in range(20):
        node.write((offset, offset, 2, 1))
    node.advance(PRUNED.cold_snapshot_interval_ms - INTERVAL_MS)
    assert len(list(node.records())) == 22

    node.advance(3 * INTERVAL_MS)

    assert len(list(node.records())) == 2
    node.restart(1)
    assert node.read(cold).start_offset == 7
    assert node.read().batches == (StateBatch(0, 19, 2, 1),)


def test_cold_share_partitions_are_not_snapshotted_again_and_again() -> None:
    node = ShareNode(PRUNED)
    node.initialize()
    node.advance(5 * PRUNED.cold_snapshot_interval_ms)

    (snapshot,) = node.records()

    assert isinstance(snapshot, ShareSnapshot)
    assert snapshot.state is not None
    assert snapshot.state.snapshot_epoch == 1


def test_one_large_record_is_decoded_in_slices(node: ShareNode) -> None:
    batches = tuple(StateBatch(offset, offset, 2, offset % 2) for offset in range(BATCHES_PER_WRITE_MAX))
    node.initialize()
    node.write(*batches)

    node.elect(1)
    slices = 1
    while node.coordinator.is_loading:
        node.coordinator.tick(node.clock.monotonic_ms())
        slices += 1

    assert slices >= 5
    assert node.read().batches == batches


def test_large_record_with_bytes_too_many_is_rejected() -> None:
    state = ShareState(1, 1, 1, 0, 0, 0, 0, tuple(StateBatch(offset, offset, 2, offset % 2) for offset in range(1_000)))
    key, value = encode(ShareSnapshot(KEY, state))
    assert value is not None
    assert decode(key, value) == ShareSnapshot(KEY, state)

    with pytest.raises(ProtocolError, match="followed by 1 bytes too many"):
        decode(key, value + b"\0")


def test_large_records_are_loaded_in_small_slices(node: ShareNode) -> None:
    node.initialize()
    for _ in range(20):
        node.write(*((offset, offset, 2, offset % 2) for offset in range(1_000)))

    node.elect(1)
    slices = 1
    while node.coordinator.is_loading:
        node.coordinator.tick(node.clock.monotonic_ms())
        slices += 1

    assert slices >= 5


def test_slice_of_cold_snapshots_ends_with_its_size() -> None:
    node = ShareNode(PRUNED)
    for partition in range(40):
        node.initialize(KEY._replace(partition=partition))
        written = node.write(
            *((offset, offset, 2, offset % 2) for offset in range(1_000)), key=KEY._replace(partition=partition)
        )
        assert written.value.error is ErrorCode.NONE
    node.advance(PRUNED.cold_snapshot_interval_ms + 100)

    (batches,) = node.log.batches.values()
    assert [batch.last_offset - batch.base_offset + 1 for batch in batches[80:]] == [3] * 13 + [1]


def test_slice_of_deleted_states_ends_with_its_size() -> None:
    node = ShareNode()
    long_id = "g" * 30_000
    for partition in range(10):
        node.initialize(SharePartitionKey(long_id, TOPIC_ID, partition))

    node.delete_topic(TOPIC_ID)
    node.advance(10)

    (batches,) = node.log.batches.values()
    assert [batch.last_offset - batch.base_offset + 1 for batch in batches[10:]] == [2] * 5


def test_deletion_of_a_topic_removes_its_state() -> None:
    node = ShareNode()
    other = KEY._replace(topic_id=OTHER_ID)
    node.initialize(other)
    for partition in range(250):
        node.initialize(KEY._replace(partition=partition))

    node.delete_topic(TOPIC_ID)
    node.advance(10)

    tombstones = [record for record in node.records() if isinstance(record, ShareSnapshot) and record.state is None]
    assert [record.key.partition for record in tombstones] == list(range(250))
    assert node.read(other).error is ErrorCode.NONE


def test_state_of_a_topic_that_was_deleted_without_coordinator_is_removed() -> None:
    node = ShareNode()
    node.initialize()
    del node.names[TOPIC_ID]

    node.restart(1)
    node.advance(10)

    assert list(node.records())[-1] == ShareSnapshot(KEY, None)


@pytest.mark.parametrize("group_id", ["g", "\N{GRINNING FACE}:", "g" * 128, "g" * 129, "\N{GRINNING FACE}" * 8_000])
@pytest.mark.parametrize("partition", [0, 1, 2**31 - 1, -1])
def test_hash_of_a_key_is_that_of_its_text(group_id: str, partition: int) -> None:
    key = SharePartitionKey(group_id, TOPIC_ID, partition)

    assert coordinator_hash(key) == string_hash(f"{group_id}:{format_uuid(TOPIC_ID)}:{partition}")


def test_long_group_id_is_not_kept_for_each_partition(node: ShareNode) -> None:
    group_id = "g" * 32_767
    node.coordinator.partition_for(SharePartitionKey(group_id, TOPIC_ID, 0))

    tracemalloc.start()
    for partition in range(100):
        node.coordinator.partition_for(SharePartitionKey(group_id, TOPIC_ID, partition))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < len(group_id)
