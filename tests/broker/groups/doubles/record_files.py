"""Files of records of one group that JVM Kafka wrote: topics, commands, and the records in hexadecimal."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from group_drivers import CoordinatorDriver, KafkaDriver
from ottla.groups.log import GroupRecord, decode
from ottla.types import CONSUMER_OFFSETS_TOPIC, Uuid
from ottla.wire.messages import group_log as log
from ottla.wire.records import parse_batch, read_records
from share_requests import send_command

GROUP = "stored"

Records = list[tuple[bytes, bytes | None]]


def sections(file: Path) -> tuple[list[str], list[str], Records]:
    """Return the lines of topics, the commands, and the records."""
    topics, commands, records = file.read_text().split("\n\n")[1:]
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
        send_command(driver, line)
        assert not any(getattr(response, "error_code", 0) for _, response in driver.responses()), line


def comparable(stored: tuple[bytes, bytes | None]) -> str:
    """Return a record without times and offsets; lists whose order Java's hash maps decide are sorted."""
    decoded = decode(*stored)
    assert decoded is not None
    value = decoded.value
    if isinstance(value, log.ConsumerGroupTargetAssignmentMetadataValue):
        assert value.assignment_timestamp >= 0
        value.assignment_timestamp = min(value.assignment_timestamp, 1)
    elif isinstance(value, log.ConsumerGroupRegularExpressionValue):
        value.timestamp = value.version = 0
    elif isinstance(value, log.ConsumerGroupTargetAssignmentMemberValue):
        value.topic_partitions.sort(key=lambda topic: topic.topic_id)
    elif isinstance(value, log.ConsumerGroupCurrentMemberAssignmentValue):
        for topic in (*value.assigned_partitions, *value.partitions_pending_revocation):
            epochs = dict(zip(topic.partitions, topic.assignment_epochs or (), strict=True))
            topic.partitions = sorted(epochs)
            topic.assignment_epochs = [epochs[partition] for partition in topic.partitions]
        value.assigned_partitions.sort(key=lambda topic: topic.topic_id)
        value.partitions_pending_revocation.sort(key=lambda topic: topic.topic_id)
    elif isinstance(value, log.GroupMetadataValue):
        value.current_state_timestamp = 0
        value.members.sort(key=lambda member: member.member_id)
        value.leader = None
    return repr((decoded.key, value))


def records_of_kafka(log_dir: str) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the records of the group in the logs of the Kafka that has just served it."""
    for path in sorted(Path(log_dir).glob(f"{CONSUMER_OFFSETS_TOPIC}-*/*.log")):
        data, position = bytearray(path.read_bytes()), 0
        while position + 12 <= len(data) and (size := int.from_bytes(data[position + 8 : position + 12])):
            batch = parse_batch(data[position : position + 12 + size])
            for record in () if batch.is_control else read_records(batch, size_bytes_max=1 << 20):
                decoded = decode(record.key or b"", record.value)
                if decoded is not None and group_id_of(decoded).startswith(GROUP):
                    yield record.key or b"", record.value
            position += 12 + size


def group_id_of(record: GroupRecord) -> str:
    """Return the id of the record's group; that of an offset does not count."""
    key = record.key
    return key.group if isinstance(key, log.GroupMetadataKey) else getattr(key, "group_id", "")


def record(file: Path, bootstrap: str, log_dir: str) -> None:
    """Run the commands of ``file`` on a Kafka, and replace the records by those that it wrote."""
    head, _, commands, _ = file.read_text().split("\n\n")
    driver = KafkaDriver(bootstrap, "records")
    driver.names.group_suffix = ""
    run(driver, commands.splitlines())
    driver.close()
    topics = [f"{name} {count} {driver.names.topic_ids[name].hex()}" for name, count in (("t", 3), ("u", 1))]
    records = [f"{key.hex()} {'-' if value is None else value.hex()}" for key, value in records_of_kafka(log_dir)]
    file.write_text("\n\n".join([head, "\n".join(topics), commands, "\n".join(records)]) + "\n")


def driver_with_topics(
    new_group_node: Callable[..., Any], file: Path, options: dict[str, int] | None = None
) -> CoordinatorDriver:
    """Return a coordinator with the topics of the recorded Kafka."""
    driver = CoordinatorDriver(new_group_node, options or {})
    for line in sections(file)[0]:
        name, _, topic_id = line.split()
        driver.set_topic_id(name, Uuid(bytes.fromhex(topic_id)))
    return driver
