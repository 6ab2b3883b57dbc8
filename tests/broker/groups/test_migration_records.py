"""Records of a group that changes its protocol: those of JVM Kafka 4.3.1 are read, and the same requests write them.

``migration_records.txt`` is recorded as `test_group_records` describes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from group_drivers import CoordinatorDriver
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.log import decode
from ottla.wire.messages import group_log as log
from ottla.wire.messages.group_log import GroupMetadataKey
from record_files import GROUP, Records, comparable, driver_with_topics, run, sections

FILE = Path(__file__).with_name("migration_records.txt")


@pytest.fixture
def driver(new_group_node: Callable[..., Any]) -> CoordinatorDriver:
    """A coordinator with the topics of the recorded Kafka."""
    return driver_with_topics(new_group_node, FILE)


def test_same_requests_write_the_same_records_in_the_same_order(driver: CoordinatorDriver) -> None:
    _, commands, recorded = sections(FILE)

    run(driver, commands)

    written = [(each.key, each.value) for each in driver.node.log.records()]
    assert list(map(kind, written)) == list(map(kind, recorded))
    assert sorted(map(comparable, written)) == sorted(map(comparable, recorded))


def kind(stored: tuple[bytes, bytes | None]) -> tuple[str, bool]:
    """Return the type of a record, and whether it is a tombstone: of several members, Java decides the order."""
    decoded = decode(*stored)
    assert decoded is not None
    return type(decoded.key).__name__, decoded.value is None


def position_of_downgrade(records: Records, number: int) -> int:
    """Return the position of the record that ends the given conversion to a classic group, 0 for the first."""
    found = [
        position
        for position, (key, value) in enumerate(records)
        if value is not None and isinstance(decode(key, value).key, GroupMetadataKey)  # type: ignore[union-attr]
    ]
    return found[number]


def test_loaded_log_continues_with_the_classic_group(driver: CoordinatorDriver) -> None:
    recorded = sections(FILE)[2]
    driver.node.write_log(GROUP, recorded[: position_of_downgrade(recorded, 1) + 1])
    driver.node.restart()

    assert driver.node.consumer_group(GROUP) is None
    described = driver.node.describe(GROUP)
    assert described.group_state == ClassicGroupState.STABLE
    assert {each.member_id for each in described.members} == {"b1", "m3"}
    run(driver, [f"b heartbeat group={GROUP} member=b1 generation=6"])


def test_loaded_log_continues_with_the_classic_members_of_a_consumer_group(driver: CoordinatorDriver) -> None:
    recorded = sections(FILE)[2]
    start = position_of_downgrade(recorded, 2)
    while recorded[start - 1][1] is None:
        start -= 1
    driver.node.write_log(GROUP, recorded[:start])
    driver.node.restart()

    group = driver.node.consumer_group(GROUP)

    assert group is not None
    assert {each: member.uses_classic_protocol for each, member in group.members.items()} == {
        "b1": True,
        "m3": True,
        "m4": False,
    }
    member = group.members["b1"]
    assert isinstance(member.classic, log.ClassicMemberMetadata)
    assert member.classic.session_timeout_ms == 6_000
    epoch = group.epoch
    run(
        driver,
        [
            f"b join group={GROUP} member=b1 protocols=range:t;v=3,roundrobin:t session=6000 rebalance=7000 v=9",
            f"b sync group={GROUP} member=b1 generation={epoch}",
            f"e consumer_heartbeat group={GROUP} member=m4 epoch=-1",
        ],
    )
    assert driver.node.describe(GROUP).group_state == ClassicGroupState.PREPARING_REBALANCE


def test_loaded_deletion_leaves_nothing(driver: CoordinatorDriver) -> None:
    driver.node.write_log(GROUP, sections(FILE)[2])

    driver.node.restart()

    assert driver.node.consumer_group(GROUP) is None
    assert driver.node.describe(GROUP).error_message == f"Group {GROUP} not found."
