"""Share-partitions are assigned only when their state exists; failures and elections in between repeat its creation."""

from collections.abc import Callable
from typing import Any

import pytest

from group_drivers import CoordinatorDriver
from ottla.errors import ErrorCode
from ottla.groups.modern.assignment import IN_PLACE_SIZE_MAX
from ottla.groups.share.heartbeat import GROUP_TOPICS_MAX
from ottla.groups.share.persistence import IN_PLACE_MAX
from ottla.groups.share.state_partitions import PARTITIONS_MAX
from recording_persister import RecordingPersister
from share_requests import send


@pytest.fixture
def driver(new_group_node: Callable[..., Any]) -> CoordinatorDriver:
    return CoordinatorDriver(new_group_node, {})


def join(driver: CoordinatorDriver, topics: str = "t") -> int:
    return int(send(driver, f"a share_heartbeat group=g member=m topics={topics}").member_epoch)


def beat(driver: CoordinatorDriver, epoch: int) -> Any:
    response = send(driver, f"a share_heartbeat group=g member=m epoch={epoch}")
    assert response.error_code == 0, response.error_message
    return response


def persister_of(driver: CoordinatorDriver) -> RecordingPersister:
    persister: RecordingPersister = driver.node.persister
    return persister


def assigned(driver: CoordinatorDriver) -> int:
    """Return how many partitions the member has."""
    member = driver.node.share_group().members["m"]
    return sum(map(len, member.assigned.values()))


def test_names_of_a_group_are_bounded(driver: CoordinatorDriver) -> None:
    names = [f"n{number}" for number in range(GROUP_TOPICS_MAX + 1)]

    def beat_with(member: str, topics: list[str], epoch: int = 0) -> Any:
        return send(driver, f"a share_heartbeat group=g member={member} epoch={epoch} topics={'+'.join(topics)}")

    joined = [beat_with("m1", names[:1_000]), beat_with("m2", names[1_000:2_000])]
    rejected = beat_with("m3", names[2_000:])
    changed = beat_with("m2", names[1_001:], joined[1].member_epoch)

    assert [each.error_code for each in joined] == [0, 0]
    assert rejected.error_code == ErrorCode.INVALID_REQUEST
    assert "m3" not in driver.node.share_group().members
    assert changed.error_code == 0


def test_target_of_many_topics_is_computed_in_slices(driver: CoordinatorDriver) -> None:
    names = "+".join(f"n{number}" for number in range(IN_PLACE_SIZE_MAX))
    send(driver, f"a share_heartbeat group=g member=many epoch=0 topics={names}")
    driver.advance(1_000)

    send(driver, "a share_heartbeat group=g member=few epoch=0 topics=t")

    group = driver.node.share_group()
    assert group.assignment_epoch < group.epoch
    driver.advance(500)
    assert group.assignment_epoch == group.epoch


def test_initializing_partitions_count_for_the_limit(driver: CoordinatorDriver) -> None:
    driver.node.add_partitions("large", range(PARTITIONS_MAX))
    persister_of(driver).is_held = True
    epoch = join(driver, "large")

    send(driver, f"a share_heartbeat group=g member=m epoch={epoch} topics=large+t")

    (initializing,) = driver.node.share_group().state_partitions.initializing.values()
    assert (initializing.name, len(initializing.partitions)) == ("large", PARTITIONS_MAX)


def test_known_partitions_count_once_for_the_limit(driver: CoordinatorDriver) -> None:
    half = PARTITIONS_MAX // 2 + 1
    driver.node.add_partitions("large", range(half))
    epoch = join(driver, "large")
    driver.advance(1_500)
    assert len(persister_of(driver).states) == half
    driver.node.add_partitions("large", range(half, PARTITIONS_MAX))

    beat(driver, epoch)

    (initializing,) = driver.node.share_group().state_partitions.initializing.values()
    assert len(initializing.partitions) == PARTITIONS_MAX - half


def test_altered_offsets_keep_the_limit(driver: CoordinatorDriver) -> None:
    driver.node.add_partitions("large", range(PARTITIONS_MAX))
    epoch = join(driver, "large")
    driver.advance(1_900)
    send(driver, f"a share_heartbeat group=g member=m epoch={epoch}")
    send(driver, "a share_heartbeat group=g member=m epoch=-1")

    rejected = send(driver, "a share_alter group=g topics=t:0=1")
    altered = send(driver, "a share_alter group=g topics=large:0=1")

    assert rejected.error_code == ErrorCode.INVALID_REQUEST
    assert altered.error_code == 0


def test_failed_alteration_of_initialized_partitions_does_not_make_heartbeats_check_again(
    driver: CoordinatorDriver,
) -> None:
    join(driver)
    send(driver, "a share_heartbeat group=g member=m epoch=-1")
    persister_of(driver).error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    send(driver, "a share_alter group=g topics=t:0=1")
    persister_of(driver).error = ErrorCode.NONE
    epoch = join(driver)

    beat(driver, epoch)

    group = driver.node.share_group()
    assert group.initialized_checked is not None
    assert assigned(driver) == 3


def test_heartbeat_keeps_the_offsets_that_an_alteration_has_set(driver: CoordinatorDriver) -> None:
    persister_of(driver).failing = {1}
    altered = send(driver, "a share_alter group=g topics=t:0=5:1=6")
    persister_of(driver).failing = set()

    driver.advance(1_100)
    beat(driver, join(driver))

    assert [it.error_code for topic in altered.responses for it in topic.partitions] == [
        0,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ]
    assert sorted((key.partition, offset) for key, (_, offset) in persister_of(driver).states.items()) == [
        (0, 5),
        (1, -1),
        (2, -1),
    ]


def test_state_is_created_before_partitions_are_assigned(driver: CoordinatorDriver) -> None:
    persister_of(driver).is_held = True
    epoch = join(driver)

    assert [name for name, _ in persister_of(driver).calls] == ["initialize"] * 3
    assert {state for state, _ in persister_of(driver).states.values()} == {epoch}
    assert beat(driver, epoch).assignment is None

    persister_of(driver).release()
    assert len(beat(driver, epoch).assignment.topic_partitions[0].partitions) == 3


def test_heartbeats_do_not_repeat_a_recent_initialization(driver: CoordinatorDriver) -> None:
    persister_of(driver).is_held = True
    epoch = join(driver)

    driver.advance(900)
    beat(driver, epoch)
    assert len(persister_of(driver).calls) == 3

    driver.advance(200)
    beat(driver, epoch)
    assert len(persister_of(driver).calls) == 6


def test_topics_of_a_partly_failed_alteration_are_recorded_in_order(driver: CoordinatorDriver) -> None:
    names = [f"n{number}" for number in range(8)]
    for name in names:
        driver.node.add_partitions(name, range(2))
    persister_of(driver).failing = {1}

    send(driver, f"a share_alter group=g topics={','.join(f'{name}:0=5:1=6' for name in names)}")

    initialized = driver.node.share_group().state_partitions.initialized
    assert [(topic.name, topic.partitions) for topic in initialized.values()] == [(name, {0}) for name in names]


def test_failed_initialization_is_repeated_by_the_next_heartbeat(driver: CoordinatorDriver) -> None:
    persister_of(driver).error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    epoch = join(driver)
    assert driver.node.share_group().state_partitions.initializing == {}

    persister_of(driver).error = ErrorCode.NONE
    epoch = beat(driver, epoch).member_epoch
    beat(driver, epoch)

    assert assigned(driver) == 3


def test_next_coordinator_repeats_an_initialization_that_was_lost(driver: CoordinatorDriver) -> None:
    persister_of(driver).is_held = True
    epoch = join(driver)
    driver.node.restart()
    persister_of(driver).is_held = False

    driver.advance(1_001)
    epoch = beat(driver, epoch).member_epoch
    beat(driver, epoch)

    assert assigned(driver) == 3


def test_no_state_is_created_for_records_that_are_not_committed(driver: CoordinatorDriver) -> None:
    driver.node.log.is_held = True
    send(driver, "a share_heartbeat group=g member=m topics=t")
    assert persister_of(driver).calls == []

    driver.node.log.commit(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert persister_of(driver).calls == []


def test_topic_that_is_deleted_meanwhile_is_not_recorded_again(driver: CoordinatorDriver) -> None:
    persister_of(driver).is_held = True
    join(driver)

    driver.node.delete_topic("t")
    persister_of(driver).release()
    driver.advance(2)

    state = driver.node.share_group().state_partitions
    assert (state.initializing, state.initialized) == ({}, {})


def test_deleted_topic_is_removed_from_many_groups_in_slices(driver: CoordinatorDriver) -> None:
    driver.node.add_partitions("large", range(1_000))
    for number in range(20):
        send(driver, f"a share_heartbeat group=g{number} member=m epoch=0 topics=t+large")
        driver.advance(50)
    batches_before = {partition: len(batches) for partition, batches in driver.node.log.batches.items()}

    driver.node.delete_topic("t")
    driver.advance(20)

    groups = [driver.node.share_group(f"g{number}") for number in range(20)]
    assert [len(group.state_partitions.initialized) for group in groups] == [1] * 20
    sizes = [
        batch.last_offset - batch.base_offset + 1
        for partition, batches in driver.node.log.batches.items()
        for batch in batches[batches_before[partition] :]
    ]
    assert max(sizes) <= 2
    assert sum(sizes) == 20


def test_topic_that_was_deleted_without_coordinator_is_removed_from_groups(driver: CoordinatorDriver) -> None:
    join(driver)
    driver.node.groups.on_resigned(driver.node.groups.partition_for("g"))
    driver.node.delete_topic("t")

    driver.node.restart()
    driver.advance(2)

    assert driver.node.share_group().state_partitions.initialized == {}


def test_group_with_a_state_that_cannot_be_deleted_stays(driver: CoordinatorDriver) -> None:
    epoch = join(driver)
    send(driver, "a share_heartbeat group=g member=m epoch=-1")
    persister_of(driver).error = ErrorCode.COORDINATOR_NOT_AVAILABLE

    (rejected,) = send(driver, "a delete groups=g").results
    persister_of(driver).error = ErrorCode.NONE
    (deleted,) = send(driver, "a delete groups=g").results

    assert (rejected.error_code, deleted.error_code) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, 0)
    assert persister_of(driver).states == {}
    assert driver.node.share_group() is None
    assert epoch == 2


def test_failed_deletion_of_offsets_can_be_repeated(driver: CoordinatorDriver) -> None:
    join(driver)
    send(driver, "a share_heartbeat group=g member=m epoch=-1")
    persister_of(driver).error = ErrorCode.REQUEST_TIMED_OUT

    (rejected,) = send(driver, "a share_delete group=g topics=t").responses
    persister_of(driver).error = ErrorCode.NONE
    (deleted,) = send(driver, "a share_delete group=g topics=t").responses

    assert (rejected.error_code, deleted.error_code) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert driver.node.share_group().state_partitions.deleting == {}


def test_many_share_partitions_are_initialized_and_assigned_in_slices(driver: CoordinatorDriver) -> None:
    driver.node.add_partitions("large", range(10 * IN_PLACE_MAX))
    epoch = join(driver, "large")
    assert len(persister_of(driver).calls) < IN_PLACE_MAX

    driver.advance(1_000)
    assert len(persister_of(driver).calls) == 10 * IN_PLACE_MAX
    beat(driver, epoch)
    driver.advance(1_000)
    beat(driver, epoch)

    assert assigned(driver) == 10 * IN_PLACE_MAX


@pytest.mark.parametrize("count", [IN_PLACE_MAX, 10 * IN_PLACE_MAX])
def test_initialization_waits_for_a_deletion_in_slices(driver: CoordinatorDriver, count: int) -> None:
    driver.node.add_partitions("large", range(10 * IN_PLACE_MAX))
    driver.node.add_partitions("z", range(count))
    join(driver, "large+z")
    driver.advance(1_000)
    send(driver, "a share_heartbeat group=g member=m epoch=-1")
    deleted = driver.node.groups.delete_group("g")

    join(driver, "z")
    driver.advance(1_000)

    assert deleted.value.error_code == ErrorCode.NON_EMPTY_GROUP
    (initialized,) = driver.node.share_group().state_partitions.initialized.values()
    assert (initialized.name, len(initialized.partitions)) == ("z", count)
    assert len(persister_of(driver).states) == count


def test_waiting_initialization_ends_with_the_shard(driver: CoordinatorDriver) -> None:
    driver.node.add_partitions("large", range(10 * IN_PLACE_MAX))
    join(driver, "large")
    driver.advance(1_000)
    send(driver, "a share_heartbeat group=g member=m epoch=-1")
    driver.node.groups.delete_group("g")
    altered = send(driver, "a share_alter group=g topics=large:0=1")
    assert altered is None

    driver.node.groups.on_resigned(driver.node.groups.partition_for("g"))

    ((_, response),) = driver.responses()
    assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_deletion_in_slices_ends_with_the_shard(driver: CoordinatorDriver) -> None:
    driver.node.add_partitions("large", range(10 * IN_PLACE_MAX))
    join(driver, "large")
    driver.advance(1_000)
    send(driver, "a share_heartbeat group=g member=m epoch=-1")
    deleted = driver.node.groups.delete_group("g")
    assert not deleted.is_complete

    driver.node.groups.on_resigned(driver.node.groups.partition_for("g"))

    assert deleted.value.error_code == ErrorCode.NOT_COORDINATOR
