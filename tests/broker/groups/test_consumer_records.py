"""Records of consumer groups: what JVM Kafka 4.3.1 wrote is read, and the same requests write the same here.

``consumer_records.txt`` has the topics of that Kafka, the requests, and the records in hexadecimal. To record it again
from a Kafka with one node, set up as for `test_scenarios`: OTTLA_SCENARIOS_BOOTSTRAP=HOST:PORT and
OTTLA_SCENARIOS_LOG_DIR=its directory of logs.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from group_drivers import CoordinatorDriver, KafkaDriver
from group_requests import REQUESTS, Command
from ottla.groups.consumer.state import ConsumerGroupState
from ottla.groups.log import decode, encode
from ottla.types import CONSUMER_OFFSETS_TOPIC, Uuid
from ottla.wire.messages import group_log as log
from ottla.wire.records import parse_batch, read_records

FILE = Path(__file__).with_name("consumer_records.txt")
LOG_DIR = os.environ.get("OTTLA_SCENARIOS_LOG_DIR")
GROUP = "stored"


def sections() -> tuple[list[str], list[str], list[tuple[bytes, bytes | None]]]:
    """Return the lines of topics, the commands, and the records."""
    topics, commands, records = FILE.read_text().split("\n\n")[1:]
    parsed = []
    for line in records.strip().splitlines():
        key, value = line.split()
        parsed.append((bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)))
    return topics.splitlines(), commands.splitlines(), parsed


def run(driver: Any, commands: list[str]) -> None:
    for line in commands:
        if line.startswith("advance "):
            driver.advance(int(line.split()[1]))
            continue
        command = Command(line)
        request, version = REQUESTS[command.api](command, driver.names)
        driver.send(command.client, request, version)
        assert not any(getattr(response, "error_code", 0) for _, response in driver.responses()), line


def records_of_kafka() -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the records of the group in the logs of the Kafka that has just served it."""
    assert LOG_DIR is not None, "only for recording"
    for path in sorted(Path(LOG_DIR).glob(f"{CONSUMER_OFFSETS_TOPIC}-*/*.log")):
        data, position = bytearray(path.read_bytes()), 0
        while position + 12 <= len(data) and (size := int.from_bytes(data[position + 8 : position + 12])):
            batch = parse_batch(data[position : position + 12 + size])
            for record in () if batch.is_control else read_records(batch, size_bytes_max=1 << 20):
                decoded = decode(record.key or b"", record.value)
                if decoded is not None and getattr(decoded.key, "group_id", "").startswith(GROUP):
                    yield record.key or b"", record.value
            position += 12 + size


@pytest.mark.skipif(LOG_DIR is None, reason="only for recording")
def test_record() -> None:
    head, _, commands, _ = FILE.read_text().split("\n\n")
    driver = KafkaDriver(os.environ["OTTLA_SCENARIOS_BOOTSTRAP"], "records")
    driver.names.group_suffix = ""
    run(driver, commands.splitlines())
    driver.close()
    topics = [f"{name} {count} {driver.names.topic_ids[name].hex()}" for name, count in (("t", 3), ("u", 1))]
    records = [f"{key.hex()} {'-' if value is None else value.hex()}" for key, value in records_of_kafka()]
    FILE.write_text("\n\n".join([head, "\n".join(topics), commands, "\n".join(records)]) + "\n")


@pytest.mark.parametrize(("key", "value"), sections()[2])
def test_records_are_written_with_the_bytes_that_were_read(key: bytes, value: bytes | None) -> None:
    record = decode(key, value)

    assert record is not None
    assert encode(record) == (key, value)


@pytest.fixture
def driver(new_group_node: Callable[..., Any]) -> CoordinatorDriver:
    """A coordinator with the topics of the recorded Kafka."""
    driver = CoordinatorDriver(new_group_node, {})
    driver.node.delete_topic("t")
    driver.node.delete_topic("u")
    for line in sections()[0]:
        name, count, topic_id = line.split()
        driver.node.add_partitions(name, range(int(count)), Uuid(bytes.fromhex(topic_id)))
        driver.names.topic_ids[name] = bytes.fromhex(topic_id)
    return driver


def test_same_requests_write_the_same_records(driver: CoordinatorDriver) -> None:
    _, commands, recorded = sections()

    run(driver, commands)

    written = [(record.key, record.value) for record in driver.node.log.records()]
    assert sorted(map(comparable, written)) == sorted(map(comparable, recorded))


def comparable(record: tuple[bytes, bytes | None]) -> str:
    """Return a record without times and offsets; lists whose order Java's hash maps decide are sorted."""
    decoded = decode(*record)
    assert decoded is not None
    value = decoded.value
    if isinstance(value, log.ConsumerGroupTargetAssignmentMetadataValue):
        assert value.assignment_timestamp > 0
        value.assignment_timestamp = 0
    elif isinstance(value, log.ConsumerGroupRegularExpressionValue):
        value.timestamp = value.version = 0
    elif isinstance(value, log.ConsumerGroupTargetAssignmentMemberValue):
        value.topic_partitions.sort(key=lambda topic: topic.topic_id)
    elif isinstance(value, log.ConsumerGroupCurrentMemberAssignmentValue):
        value.assigned_partitions.sort(key=lambda topic: topic.topic_id)
        value.partitions_pending_revocation.sort(key=lambda topic: topic.topic_id)
    return repr((decoded.key, value))


def test_loaded_log_of_kafka_goes_on(driver: CoordinatorDriver) -> None:
    recorded = sections()[2]
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
    driver.node.write_log(GROUP, sections()[2])

    driver.node.restart()

    assert driver.node.consumer_group(GROUP) is None
