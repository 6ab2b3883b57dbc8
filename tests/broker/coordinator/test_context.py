"""One led partition of a toy coordinator: decide, write, replay, waiting for commits, and the timers of its shard."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.coordinator.context import RECORDS_PER_BATCH_MAX
from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError

# Writing


def test_response_completes_when_the_records_are_committed(node: Any) -> None:
    node.log.is_held = True
    pending = node.increment()

    assert not pending.is_complete
    node.log.commit()
    assert pending.value == "a=1"


def test_write_is_replayed_before_it_is_committed(node: Any) -> None:
    node.log.is_held = True
    first, second = node.increment(), node.increment()

    node.log.commit()

    assert (first.value, second.value) == ("a=1", "a=2")


def test_read_waits_until_what_it_saw_is_committed(node: Any) -> None:
    node.log.is_held = True
    node.increment()
    seen = node.read()

    assert not seen.is_complete
    node.log.commit()
    assert seen.value == "a=1"
    assert node.read().value == "a=1"


def test_read_that_must_be_latest_needs_a_confirmed_leadership(node: Any) -> None:
    node.increment()
    node.log.is_confirmed = False

    assert node.read(must_be_latest=True).value == "NOT_COORDINATOR"
    assert node.read().value == "a=1"
    node.log.is_confirmed = True
    assert node.read(must_be_latest=True).value == "a=1"


def test_read_that_must_be_latest_sends_no_error_of_old_state(node: Any) -> None:
    node.log.is_confirmed = False
    rejected = node.runtime.run_read_operation("a", _reject, lambda error: error.name, must_be_latest=True)

    assert rejected.value == "NOT_COORDINATOR"


def _reject(shard: object) -> str:
    raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def test_read_that_must_be_latest_waits_until_what_it_saw_is_committed(node: Any) -> None:
    node.log.is_held = True
    node.increment()
    seen = node.read(must_be_latest=True)

    assert not seen.is_complete
    node.log.commit()
    assert seen.value == "a=1"


def test_error_of_an_operation_is_its_response_at_once(node: Any) -> None:
    node.log.is_held = True
    node.increment()

    assert node.increment(by=0).value == "INVALID_REQUEST"


@pytest.mark.parametrize(
    ("rejected_with", "responded"),
    [
        pytest.param(ErrorCode.NOT_ENOUGH_REPLICAS, "COORDINATOR_NOT_AVAILABLE", id="too-few-replicas"),
        pytest.param(ErrorCode.NOT_LEADER_OR_FOLLOWER, "NOT_COORDINATOR", id="lost-leadership"),
        pytest.param(ErrorCode.RECORD_LIST_TOO_LARGE, "UNKNOWN_SERVER_ERROR", id="too-large"),
    ],
)
def test_rejected_write_changes_nothing(
    node: Any, rejected_with: ErrorCode, responded: str, caplog: pytest.LogCaptureFixture
) -> None:
    node.increment()
    node.log.append_error = rejected_with

    assert node.increment().value == responded
    node.log.append_error = ErrorCode.NONE
    assert node.read().value == "a=1"
    assert f"rejected 1 records: {rejected_with.name}" in caplog.text


def test_result_that_is_ahead_of_the_log_is_not_replayed(node: Any) -> None:
    context = node.runtime.context_for("a")
    records = node.shard().increment("a", 5).records

    context.write(CoordinatorResult(records=records, response=None, is_replayed=False))

    assert node.read().value == "a=0"
    node.resign()
    node.elect()
    assert node.read().value == "a=5"


# Results in several batches


def increment_many(node: Any, count: int) -> Any:
    context = node.runtime.context_for("a")
    records = [record for number in range(count) for record in context.shard.increment(f"n{number}", 1).records]
    context.write(CoordinatorResult(records=records, response=None))
    return context


@pytest.mark.parametrize(
    ("count", "batches"),
    [
        pytest.param(RECORDS_PER_BATCH_MAX, 1, id="just-one"),
        pytest.param(RECORDS_PER_BATCH_MAX + 1, 2, id="one-record-more"),
    ],
)
def test_result_that_is_not_atomic_is_written_in_bounded_batches(node: Any, count: int, batches: int) -> None:
    increment_many(node, count)
    written = node.log.batches[node.partition_of("a")]
    before = len(written)

    node.runtime.write_to_all(lambda shard: shard.remove_all())

    assert len(written) - before == batches
    assert max(batch.record_count for batch in written[before:]) <= RECORDS_PER_BATCH_MAX
    assert not node.shard().counts


def test_atomic_result_is_one_batch_whatever_its_size(node: Any) -> None:
    increment_many(node, RECORDS_PER_BATCH_MAX + 1)

    assert [batch.record_count for batch in node.log.batches[node.partition_of("a")]] == [RECORDS_PER_BATCH_MAX + 1]


def test_rejected_batch_does_not_keep_the_next_one_from_being_written(node: Any) -> None:
    context = increment_many(node, RECORDS_PER_BATCH_MAX + 1)
    append = node.log.append

    def reject_first(partition: int, batch: bytes, **said: Any) -> Any:
        node.log.append = append
        node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        rejected = append(partition, batch)
        node.log.append_error = ErrorCode.NONE
        return rejected

    node.log.append = reject_first
    outcome = context.write(context.shard.remove_all())

    assert outcome.value is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(context.shard.counts) == RECORDS_PER_BATCH_MAX


def test_result_without_records_waits_for_the_append_before_it(node: Any) -> None:
    node.log.is_held = True
    node.increment()
    outcome = node.runtime.context_for("a").write(CoordinatorResult(response=None))

    assert not outcome.is_complete
    node.log.commit()
    assert outcome.value is ErrorCode.NONE


# Follow-up writes


@pytest.fixture
def write_with_follow_up(node: Any) -> Callable[[], list[ErrorCode]]:
    """Increment a by 1, then, after the outcome of that write, by 10; return the outcomes so far."""

    def write() -> list[ErrorCode]:
        outcomes: list[ErrorCode] = []
        context = node.runtime.context_for("a")

        def on_append(error: ErrorCode) -> Any:
            outcomes.append(error)
            records = context.shard.increment("a", 10).records
            return CoordinatorResult(records=records, response=None)

        records = context.shard.increment("a", 1).records
        context.write(CoordinatorResult(records=records, response=None, on_append=on_append))
        return outcomes

    return write


def test_on_append_writes_again_after_the_commit(node: Any, write_with_follow_up: Any) -> None:
    node.log.is_held = True
    outcomes = write_with_follow_up()

    assert outcomes == []
    assert node.shard().counts == {"a": 1}
    node.log.commit()
    assert outcomes == [ErrorCode.NONE]
    assert node.shard().counts == {"a": 11}


def test_on_append_sees_the_error_of_a_rejected_write(node: Any, write_with_follow_up: Any) -> None:
    node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    assert write_with_follow_up() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_follow_up_is_not_written_after_a_resignation(node: Any, write_with_follow_up: Any) -> None:
    node.log.is_held = True
    outcomes = write_with_follow_up()
    written = list(node.log.batches[node.partition_of("a")])

    node.resign()

    assert outcomes == [ErrorCode.NOT_COORDINATOR]
    assert node.log.batches[node.partition_of("a")] == written


# Time


def test_write_that_is_not_committed_in_time_is_reported_and_still_counts(node: Any) -> None:
    node.log.is_held = True
    pending, seen = node.increment(), node.read()

    node.advance(node.WRITE_TIMEOUT_MS - 1)
    assert not pending.is_complete
    assert not seen.is_complete
    node.advance(1)
    assert pending.value == seen.value == "COORDINATOR_NOT_AVAILABLE"
    node.log.commit()
    assert node.read().value == "a=1"


def test_committed_write_leaves_no_timer_behind(node: Any) -> None:
    node.log.is_held = True
    node.increment()
    node.log.commit()

    assert node.runtime.next_deadline_ms() == node.TTL_MS


def test_timer_of_a_shard_writes_its_result_at_its_millisecond(node: Any) -> None:
    node.increment()

    node.advance(node.TTL_MS - 1)
    assert node.shard().counts == {"a": 1}
    node.advance(1)
    assert node.shard().counts == {}
    node.resign()
    node.elect()
    assert node.shard().counts == {}


def test_timer_that_is_scheduled_again_replaces_the_earlier_one(node: Any) -> None:
    node.increment()
    node.advance(1)
    node.increment()

    node.advance(node.TTL_MS - 1)
    assert node.shard().counts == {"a": 2}
    node.advance(1)
    assert node.shard().counts == {}


def test_cancelled_timer_does_not_run(node: Any) -> None:
    node.increment()
    node.runtime.context_for("a").cancel(("removal", "a"))

    node.advance(2 * node.TTL_MS)

    assert node.shard().counts == {"a": 1}


def test_timers_start_again_when_the_log_is_loaded(node: Any) -> None:
    node.increment()
    node.advance(node.TTL_MS - 1)
    node.resign()
    node.elect(leader_epoch=1)

    node.advance(node.TTL_MS - 1)
    assert node.shard().counts == {"a": 1}
    node.advance(1)
    assert node.shard().counts == {}


def test_timers_end_with_their_shard_only(node: Any) -> None:
    node.increment("a")
    node.increment("b")
    node.log.is_held = True
    shard = node.shard("a")
    node.resign("a")

    node.advance(node.TTL_MS)

    assert shard.counts == {"a": 1}
    assert node.shard("b").counts == {}


def test_timer_without_delay_runs_in_the_next_millisecond(node: Any) -> None:
    """An operation that schedules itself again without a delay must not keep the node busy."""
    runs = []
    context = node.runtime.context_for("a")

    def run_again() -> None:
        runs.append(node.clock.monotonic_ms())
        context.schedule(("again",), 0, run_again)

    context.schedule(("again",), 0, run_again)
    node.advance(3)

    assert runs == [1, 2, 3]
