"""A node whose disk has a corrupt record of an internal topic starts, serves the other records, and starts again."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.simulator.clients.requests import commit_offset, create_topic
from ottla.simulator.world.single_node import Client, RunningNode, World
from ottla.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.wire.records import HEADER_SIZE_BYTES, iterate_batches

SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
}


def start(world: World) -> tuple[RunningNode, Client]:
    running = world.start_node(**SETTINGS)
    client = running.connect()
    for key_type, key in enumerate(("g", "payments")):
        client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), FindCoordinatorResponse, 4)
    running.run(2_000)
    return running, client


def stop(running: RunningNode) -> None:
    running.node.begin_shutdown()
    running.run_until(lambda: bool(running.stopped))
    running.node.close()


def corrupt_batch(world: World, topic: str, number: int) -> int:
    """Flip a bit of the first record of a batch on the disk; return the batch's offset."""
    path = f"/data/{topic}-0/{0:020d}.log"
    batch = list(iterate_batches(world.disk.contents(path)))[number]
    position = batch.position + HEADER_SIZE_BYTES + 12
    world.disk.corrupt(path, position, bytes([world.disk.contents(path)[position] ^ 1]))
    return batch.base_offset


def committed(client: Client) -> dict[int, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    (topic,) = client.ask(request, OffsetFetchResponse, 8).groups[0].topics
    return {partition.partition_index: partition.committed_offset for partition in topic.partitions}


def initialize(client: Client, transactional_id: str) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    return client.ask(request, InitProducerIdResponse, 4)


def skipped_lines(caplog: pytest.LogCaptureFixture, topic: str) -> list[str]:
    return [line for line in caplog.messages if line.startswith(f"{topic}-0: skipped")]


def test_offsets_beside_a_corrupt_record_are_served_after_each_start(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    running, client = start(world)
    create_topic(client, "t", partitions=3)
    errors = [commit_offset(client, "g", "t", 10 + partition, partition=partition) for partition in range(3)]
    assert errors == [ErrorCode.NONE] * 3
    stop(running)
    offset = corrupt_batch(world, CONSUMER_OFFSETS_TOPIC, -2)

    for count in (1, 2):
        running, client = start(world)
        assert committed(client) == {0: 9 + count, 2: 12}
        assert commit_offset(client, "g", "t", 10 + count) == ErrorCode.NONE
        stop(running)
        lines = skipped_lines(caplog, CONSUMER_OFFSETS_TOPIC)
        assert len(lines) == count
        assert f"offset {offset}: " in lines[-1]


def test_transactional_ids_beside_a_corrupt_record_are_served_after_each_start(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    running, client = start(world)
    before: dict[str, Any] = {each: initialize(client, each) for each in ("a", "b", "c")}
    assert [response.error_code for response in before.values()] == [ErrorCode.NONE] * 3
    stop(running)
    corrupt_batch(world, TRANSACTION_STATE_TOPIC, -2)

    for count in (1, 2):
        running, client = start(world)
        again = {each: initialize(client, each) for each in before}
        assert [again[each].producer_epoch for each in ("a", "b", "c")] == [count, count - 1, count]
        assert again["a"].producer_id == before["a"].producer_id
        stop(running)
        assert len(skipped_lines(caplog, TRANSACTION_STATE_TOPIC)) == count
