"""A toy coordinator on `CoordinatorRuntime`: elections, loading, fencing, resignation and reloading of its shards."""

from typing import Any

import pytest

from ottla.coordinator.context import ContextState
from ottla.coordinator.loader import LOADED_RECORDS_PER_SLICE
from ottla.coordinator.runtime import RELOAD_INTERVAL_MS
from ottla.errors import ErrorCode, KafkaError
from ottla.purgatory import Delayed


def test_partition_that_this_node_does_not_lead_is_not_served(idle_node: Any) -> None:
    assert idle_node.increment().value == "NOT_COORDINATOR"
    assert idle_node.read().value == "NOT_COORDINATOR"
    assert idle_node.runtime.next_deadline_ms() is None


def test_missing_internal_topic_has_no_coordinator(node: Any) -> None:
    node.partition_count = None

    assert node.runtime.partition_for("a") is None
    assert node.read().value == "NOT_COORDINATOR"


def test_state_is_rebuilt_from_the_log_after_an_election(node: Any) -> None:
    node.increment(by=5)
    node.increment("b")
    node.resign()

    node.elect(leader_epoch=2)

    assert node.read().value == "a=5"
    assert node.read("b").value == "b=1"


# Loading


def test_long_log_is_loaded_in_slices_while_other_partitions_are_served(idle_node: Any) -> None:
    node = idle_node
    node.elect("b")
    node.write_log(node.batch(*[("a", value) for value in range(2 * LOADED_RECORDS_PER_SLICE)]))

    node.start_election()
    for _ in range(2):
        assert node.runtime.is_loading
        assert node.runtime.count_partitions() == {ContextState.LOADING: 1, ContextState.ACTIVE: 1}
        assert node.runtime.next_deadline_ms() == node.clock.monotonic_ms()
        assert node.read().value == node.increment().value == "COORDINATOR_LOAD_IN_PROGRESS"
        assert node.increment("b").value.startswith("b=")
        assert node.runtime.tick(node.clock.monotonic_ms()) == node.clock.monotonic_ms()

    assert not node.runtime.is_loading
    assert node.read().value == f"a={2 * LOADED_RECORDS_PER_SLICE - 1}"


def test_slice_reads_no_more_of_the_log_than_it_replays(idle_node: Any) -> None:
    node, read = idle_node, []
    node.write_log(*[node.batch(("a", value)) for value in range(LOADED_RECORDS_PER_SLICE + 1)])
    written = node.log.read_again(node.partition_of("a"))

    node.start_election(batches=(read.append(batch) or batch for batch in written))

    assert len(read) == LOADED_RECORDS_PER_SLICE


def test_partitions_are_loaded_one_after_the_other(idle_node: Any) -> None:
    node = idle_node
    for name in ("a", "b"):
        node.write_log(node.batch(*[(name, value) for value in range(LOADED_RECORDS_PER_SLICE)]), name=name)
        node.start_election(name)

    node.runtime.tick(0)
    assert [node.read(name).value for name in ("a", "b")] == ["a=499", "COORDINATOR_LOAD_IN_PROGRESS"]
    node.runtime.tick(0)
    assert [node.read(name).value for name in ("a", "b")] == ["a=499", "b=499"]


def test_loaded_shard_may_write(idle_node: Any) -> None:
    """A counter above the limit is one that an earlier release wrote."""
    idle_node.write_log(idle_node.batch(("a", 10_001)))

    idle_node.elect()
    assert idle_node.read().value == "a=10000"
    idle_node.resign()
    idle_node.elect(leader_epoch=1)
    assert len(idle_node.log.batches[idle_node.partition_of("a")]) == 2
    assert idle_node.read().value == "a=10000"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OSError(5, "Input/output error"), id="disk"),
        pytest.param(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "offset 0 is gone"), id="log"),
    ],
)
def test_partition_whose_log_cannot_be_read_is_not_served(
    node: Any, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def batches() -> Any:
        yield from node.log.read_again(node.partition_of("a"))
        raise error

    node.increment()
    node.resign()
    node.elect(batches=batches())

    assert node.read().value == "NOT_COORDINATOR"
    assert node.read("b").value == "b=0"
    assert f"__counters-{node.partition_of('a')} cannot be loaded" in caplog.text
    assert str(error) in caplog.text


def test_unreadable_partition_is_loaded_at_the_next_election_only(idle_node: Any) -> None:
    node = idle_node

    def batches() -> Any:
        raise OSError(5, "Input/output error")
        yield

    node.elect(batches=batches())
    node.advance(10 * RELOAD_INTERVAL_MS)
    assert node.read().value == "NOT_COORDINATOR"

    node.write_log(node.batch(("a", 77)))
    node.elect(leader_epoch=1)

    assert node.read().value == "a=77"


# Epochs


def test_resignation_of_an_older_epoch_is_ignored(node: Any) -> None:
    node.resign()
    node.elect(leader_epoch=5)

    node.resign(leader_epoch=4)
    assert node.increment().value == "a=1"
    node.resign(leader_epoch=5)
    assert node.increment().value == "NOT_COORDINATOR"


def test_removed_replica_resigns_in_any_epoch(node: Any) -> None:
    node.resign()
    node.elect(leader_epoch=5)

    node.resign()

    assert node.read().value == "NOT_COORDINATOR"


def test_leader_that_is_elected_again_continues_without_loading(node: Any) -> None:
    node.log.is_held = True
    pending = node.increment()

    node.start_election(leader_epoch=9, batches=[])

    assert not node.runtime.is_loading
    node.resign(leader_epoch=8)
    node.log.commit()
    assert pending.value == "a=1"


def test_resignation_of_a_partition_that_is_not_led_is_ignored(node: Any) -> None:
    node.resign("c" if node.partition_of("c") not in map(node.partition_of, "ab") else "d")

    assert node.read().value == "a=0"


# Resignation


def test_resignation_completes_everything_that_waits_with_not_coordinator(node: Any) -> None:
    shard = node.shard()
    watcher: Delayed[ErrorCode] = Delayed()
    shard.watchers.append(watcher)
    node.log.is_held = True
    pending_write, pending_read, other = node.increment(), node.read(), node.increment("b")

    node.resign(leader_epoch=1)

    assert watcher.value is ErrorCode.NOT_COORDINATOR
    assert pending_write.value == pending_read.value == "NOT_COORDINATOR"
    assert shard.unloaded == 1
    assert not other.is_complete
    node.log.commit()
    assert other.value == "b=1"


def test_commit_after_the_resignation_changes_nothing(node: Any) -> None:
    node.log.is_held = True
    pending = node.increment()
    node.resign(leader_epoch=1)
    node.elect(leader_epoch=2)

    node.log.commit(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert pending.value == "NOT_COORDINATOR"
    assert node.read().value == "a=1"


def test_partition_may_be_resigned_while_it_is_loaded(idle_node: Any) -> None:
    node = idle_node
    node.write_log(node.batch(*[("a", value) for value in range(LOADED_RECORDS_PER_SLICE)]))
    node.start_election()

    node.resign(leader_epoch=1)

    assert not node.runtime.is_loading
    assert node.runtime.next_deadline_ms() is None
    assert node.read().value == "NOT_COORDINATOR"


# Lost writes


def test_lost_write_closes_the_partition_until_it_is_reloaded(node: Any, caplog: pytest.LogCaptureFixture) -> None:
    node.increment(by=3)
    node.advance(1)
    node.log.is_held = True
    lost, seen, other = node.increment(), node.read(), node.increment("b")
    for name in ("a", "b"):
        node.log.batches[node.partition_of(name)].pop()
    shard = node.shard()

    node.log.commit(ErrorCode.KAFKA_STORAGE_ERROR)

    assert lost.value == seen.value == "NOT_COORDINATOR"
    assert shard.unloaded == 1
    assert node.read().value == "NOT_COORDINATOR"
    assert f"__counters-{node.partition_of('a')} lost a write: KAFKA_STORAGE_ERROR" in caplog.text
    node.log.is_held = False
    node.advance(RELOAD_INTERVAL_MS)
    assert node.read().value == "a=3"
    assert other.value == "NOT_COORDINATOR"
    assert node.read("b").value == "b=0"


def test_lost_write_has_its_own_error_and_the_others_not_coordinator(node: Any) -> None:
    node.log.is_held = True
    lost, seen = node.increment(), node.read()

    node.log.commit(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert lost.value == "COORDINATOR_NOT_AVAILABLE"
    assert seen.value == "NOT_COORDINATOR"


def test_partition_with_a_lost_write_is_not_reloaded_by_a_follower(node: Any) -> None:
    node.log.is_held = True
    node.increment()
    node.log.commit(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    node.log.read_again = lambda partition: None

    node.advance(3 * RELOAD_INTERVAL_MS)

    assert node.read().value == "NOT_COORDINATOR"


def test_reloads_of_a_failing_partition_are_an_interval_apart(node: Any) -> None:
    node.log.is_held = True
    node.increment()
    node.log.commit(ErrorCode.NOT_ENOUGH_REPLICAS)
    node.advance(0)
    assert node.read().value == "a=1"
    node.increment()
    node.log.commit(ErrorCode.NOT_ENOUGH_REPLICAS)

    node.advance(RELOAD_INTERVAL_MS - 1)
    assert node.read().value == "NOT_COORDINATOR"
    node.advance(1)
    assert node.read().value == "a=2"


def test_write_that_is_late_closes_nothing(node: Any) -> None:
    node.log.is_held = True
    late = node.increment()

    node.log.commit(ErrorCode.REQUEST_TIMED_OUT)

    assert late.value == "COORDINATOR_NOT_AVAILABLE"
    assert node.read().value == "a=1"
