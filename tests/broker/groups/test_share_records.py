"""Records of share groups: what JVM Kafka 4.3.1 wrote is read, and the same requests write the same here.

``share_records.txt`` is recorded as `test_group_records` describes, from a Kafka with
group.share.assignment.interval.ms=0 and the shortest intervals.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from group_drivers import CoordinatorDriver
from ottla.groups.log import decode
from ottla.groups.share.state import ShareGroupState
from ottla.wire.messages import share_group_log as log
from record_files import GROUP, driver_with_topics, run, sections

FILE = Path(__file__).with_name("share_records.txt")


@pytest.fixture
def driver(new_group_node: Callable[..., Any]) -> CoordinatorDriver:
    """A coordinator with the topics of the recorded Kafka."""
    return driver_with_topics(new_group_node, FILE)


def test_same_requests_write_the_same_records(driver: CoordinatorDriver) -> None:
    _, commands, recorded = sections(FILE)

    run(driver, commands)

    written = [(each.key, each.value) for each in driver.node.log.records()]
    # Kafka writes a target once more when only such an empty topic goes from it (`comparable`).
    assert set(map(comparable, written)) == set(map(comparable, recorded))


def comparable(stored: tuple[bytes, bytes | None]) -> str:
    """Return a record without times; lists whose order Java's hash maps decide are sorted."""
    decoded = decode(*stored)
    assert decoded is not None
    value = decoded.value
    if isinstance(value, log.ShareGroupTargetAssignmentMetadataValue):
        assert value.assignment_timestamp > 0
        value.assignment_timestamp = 0
    elif isinstance(value, log.ShareGroupTargetAssignmentMemberValue):
        # Kafka keeps topics of which the member has no partition any more.
        value.topic_partitions = [topic for topic in value.topic_partitions if topic.partitions]
        value.topic_partitions.sort(key=lambda topic: topic.topic_id)
    elif isinstance(value, log.ShareGroupCurrentMemberAssignmentValue):
        value.assigned_partitions = [topic for topic in value.assigned_partitions if topic.partitions]
        value.assigned_partitions.sort(key=lambda topic: topic.topic_id)
    elif isinstance(value, log.ShareGroupStatePartitionMetadataValue):
        value.initialized_topics.sort(key=lambda topic: topic.topic_id)
        value.initializing_topics.sort(key=lambda topic: topic.topic_id)
    return repr((decoded.key, value))


def test_loaded_log_of_kafka_is_continued(driver: CoordinatorDriver) -> None:
    recorded = sections(FILE)[2]
    departure = next(number for number, (key, value) in enumerate(recorded) if value is None and b"m1" in key)
    driver.node.write_log(GROUP, recorded[:departure])
    driver.node.restart()

    group = driver.node.share_group(GROUP)

    assert group.state is ShareGroupState.STABLE
    assert set(group.members) == {"m1", "m2"}
    epoch = group.epoch
    run(driver, [f"a share_heartbeat group={GROUP} member=m1 epoch={group.members['m1'].member_epoch}"])
    assert group.epoch == epoch, "its hash of the topics is ours, and its share-partitions are initialized"
    assert driver.node.persister.calls == []
    driver.advance(2_001)
    assert driver.node.share_group(GROUP).is_empty, "the sessions of loaded members end, too"


def test_loaded_deletion_leaves_nothing(driver: CoordinatorDriver) -> None:
    driver.node.write_log(GROUP, sections(FILE)[2])

    driver.node.restart()

    assert driver.node.share_group(GROUP) is None
