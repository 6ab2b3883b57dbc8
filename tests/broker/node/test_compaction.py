"""A node compacts the logs of topics with cleanup.policy=compact, by its settings, and rejects records without key."""

import pytest

from ottla.errors import ErrorCode
from ottla.log.checkpoint import CLEANER_OFFSET_CHECKPOINT, read_offsets
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, produce, records_in
from ottla.simulator.world.single_node import DIRECTORY, RunningNode, World
from ottla.types import TopicPartition
from ottla.wire.records import Record, build_batch

PARTITION = TopicPartition("t", 0)
BACKOFF_MS = 15_000


def keyed(running: RunningNode, number: int) -> bytes:
    return build_batch([Record(0, running.clock.wall_ms(), b"key-%d" % (number % 3), b"%d" % number * 400)])


def fill(running: RunningNode, **config: str) -> None:
    client = running.connect()
    create_topic(client, "t", cleanup_policy="compact", internal_segment_bytes="4096", **config)
    for number in range(40):
        produce(client, "t", keyed(running, number))
    running.run(1_000)


def records(running: RunningNode) -> list[int]:
    log = running.node.logs.get(PARTITION)
    assert log is not None
    client = running.connect()
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        some = records_in(fetch(client, "t", offset))
        found += [record.offset for record in some if record.offset >= offset]
        offset = some[-1].offset + 1
    return found


def test_compacted_topic_keeps_the_last_record_of_each_key(world: World) -> None:
    running = world.start_node()
    fill(running)
    log = running.node.logs.get(PARTITION)
    assert log is not None
    active_offset = log.segments()[-1].base_offset

    running.run(BACKOFF_MS + 1_000)

    last_three = list(range(active_offset - 3, active_offset))
    assert records(running) == [*last_three, *range(active_offset, 40)]
    assert read_offsets(world.disk, f"{DIRECTORY}/{CLEANER_OFFSET_CHECKPOINT}") == {PARTITION: active_offset}


def test_restarted_node_continues_from_the_checkpoint(world: World) -> None:
    running = world.start_node()
    fill(running)
    running.run(BACKOFF_MS + 1_000)
    before = records(running)
    world.disk.crash()

    running = world.start_node()
    log = running.node.logs.get(PARTITION)
    assert log is not None

    assert log.first_dirty_offset == log.segments()[-1].base_offset
    assert records(running) == before


@pytest.mark.parametrize(
    "settings", [{"log_cleaner_enable": "false"}, {"log_cleaner_threads": "0"}, {"log_cleaner_backoff_ms": "3600000"}]
)
def test_settings_of_the_cleaner_are_honoured(world: World, settings: dict[str, str]) -> None:
    running = world.start_node(**settings)
    fill(running)

    running.run(BACKOFF_MS + 1_000)

    assert records(running) == list(range(40))


def test_record_without_key_is_rejected_as_by_kafka(running: RunningNode) -> None:
    client = running.connect()
    create_topic(client, "t", cleanup_policy="compact")

    response = produce(client, "t", batch_of(client, [b"value"]))

    assert response.error_code == ErrorCode.INVALID_RECORD
    assert response.error_message == "One or more records have been rejected"
    (error,) = response.record_errors
    assert error.batch_index_error_message == (
        "Compacted topic cannot accept message without key in topic partition t-0"
    )
