"""Records of consumer groups: what JVM Kafka 4.3.1 wrote is read, and the same requests write the same here.

``consumer_records.txt`` is recorded as `test_group_records` describes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from group_drivers import CoordinatorDriver
from ottla.groups.consumer.state import ConsumerGroupState
from record_files import GROUP, comparable, driver_with_topics, run, sections

FILE = Path(__file__).with_name("consumer_records.txt")


@pytest.fixture
def driver(new_group_node: Callable[..., Any]) -> CoordinatorDriver:
    """A coordinator with the topics of the recorded Kafka."""
    return driver_with_topics(new_group_node, FILE)


def test_same_requests_write_the_same_records(driver: CoordinatorDriver) -> None:
    _, commands, recorded = sections(FILE)

    run(driver, commands)

    written = [(each.key, each.value) for each in driver.node.log.records()]
    assert sorted(map(comparable, written)) == sorted(map(comparable, recorded))


def test_loaded_log_of_kafka_is_continued(driver: CoordinatorDriver) -> None:
    recorded = sections(FILE)[2]
    departure = next(number for number, (key, value) in enumerate(recorded) if value is None and b"m2" in key)
    driver.node.write_log(GROUP, recorded[:departure])
    driver.node.restart()

    group = driver.node.consumer_group(GROUP)

    assert group.state is ConsumerGroupState.STABLE
    assert set(group.members) == {"m2", "m3"}
    assert group.static_members == {"i1": "m3"}
    epoch = group.epoch
    run(driver, [f"b consumer_heartbeat group={GROUP} member=m2 epoch={epoch}"])
    assert group.epoch == epoch, "its hash of the topics is ours"
    driver.advance(2_001)
    assert group.state is ConsumerGroupState.EMPTY, "the sessions of loaded members end, too"


def test_loaded_deletion_leaves_nothing(driver: CoordinatorDriver) -> None:
    driver.node.write_log(GROUP, sections(FILE)[2])

    driver.node.restart()

    assert driver.node.consumer_group(GROUP) is None
