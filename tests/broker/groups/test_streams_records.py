"""Records of streams groups: what JVM Kafka 4.3.1 wrote is read, and the same requests write the same here.

``streams_records.txt`` is recorded as `test_group_records` describes, from a Kafka with
group.streams.num.standby.replicas=1, and with 0 for group.streams.assignment.interval.ms and
group.streams.initial.rebalance.delay.ms. Its changelog topics are the source topics: the hash of the topics has the ids
of internal topics, which are random.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from group_drivers import CoordinatorDriver
from ottla.groups.log import decode
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.member import MemberState
from ottla.groups.streams.state import StreamsGroupState
from ottla.wire.messages import streams_group_log as log
from record_files import GROUP, driver_with_topics, run, sections

FILE = Path(__file__).with_name("streams_records.txt")


@pytest.fixture
def driver(new_group_node: Callable[..., Any]) -> CoordinatorDriver:
    """A coordinator with the topics of the recorded Kafka."""
    return driver_with_topics(new_group_node, FILE, {"streams_standby_replicas": 1})


def streams_group(driver: CoordinatorDriver) -> StreamsGroup | None:
    shard = driver.node.groups._runtime.context_for(GROUP).shard
    group: StreamsGroup | None = shard.streams.groups.get(GROUP)
    return group


def test_same_requests_write_the_same_records(driver: CoordinatorDriver) -> None:
    _, commands, recorded = sections(FILE)

    run(driver, commands)

    written = [(each.key, each.value) for each in driver.node.log.records()]
    assert sorted(map(comparable, written)) == sorted(map(comparable, recorded))


def comparable(stored: tuple[bytes, bytes | None]) -> str:
    """Return a record without times."""
    decoded = decode(*stored)
    assert decoded is not None
    value = decoded.value
    if isinstance(value, log.StreamsGroupTargetAssignmentMetadataValue):
        assert value.assignment_timestamp > 0
        value.assignment_timestamp = 0
    return repr((decoded.key, value))


def test_loaded_log_of_kafka_is_continued(driver: CoordinatorDriver) -> None:
    recorded = sections(FILE)[2]
    departure = next(number for number, (key, value) in enumerate(recorded) if value is None and b"m1" in key)
    driver.node.write_log(GROUP, recorded[:departure])
    driver.node.restart()

    group = streams_group(driver)

    assert group is not None
    assert group.state is StreamsGroupState.STABLE
    assert {each.state for each in group.members.values()} == {MemberState.STABLE}
    epoch = group.epoch
    run(driver, [f"a streams_heartbeat group={GROUP} member=m1 epoch={group.members['m1'].member_epoch}"])
    assert group.epoch == epoch, "its hash of the topics is ours"
    driver.advance(2_001)
    assert group.is_empty, "the sessions of loaded members end, too"


def test_loaded_deletion_leaves_nothing(driver: CoordinatorDriver) -> None:
    driver.node.write_log(GROUP, sections(FILE)[2])

    driver.node.restart()

    assert streams_group(driver) is None
