"""A complete node starts, serves, stops and starts again, and loses no acknowledged record."""

from itertools import pairwise
from operator import attrgetter

import pytest

from ottla.errors import ErrorCode
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, produce, records_in
from ottla.simulator.world.single_node import RunningNode, World
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.registry import ApiKey


def test_node_elects_itself_and_unfences_its_broker(world: World) -> None:
    running = world.start_node()

    assert running.node.readiness() == []
    assert running.node.controller_id == 1


def test_clients_are_accepted_once_the_broker_is_caught_up_and_controllers_always(world: World) -> None:
    """Metadata of an unfinished start would list no brokers and no topics."""
    create_topic(world.start_node().connect(), "t")
    world.disk.kill()

    running = RunningNode(world.disk, world.clock, world.random)

    assert not running.accepts_connection("PLAINTEXT")
    assert running.accepts_connection("CONTROLLER")
    while not running.accepts_connection("PLAINTEXT"):
        running.run(1)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    response = running.connect().ask(request, MetadataResponse, 9)
    assert [broker.node_id for broker in response.brokers] == [1]
    assert [topic.error_code for topic in response.topics] == [ErrorCode.NONE]


def test_api_versions_lists_produce_from_version_zero_and_every_catalog_row(running: RunningNode) -> None:
    response = running.connect().ask(
        ApiVersionsRequest(client_software_name="test", client_software_version="1"), ApiVersionsResponse, 3
    )

    ranges = {ApiKey(row.api_key): (row.min_version, row.max_version) for row in response.api_keys}
    assert response.error_code == ErrorCode.NONE
    assert ranges[ApiKey.PRODUCE] == (0, 13)
    assert ApiKey.BROKER_HEARTBEAT not in ranges


def test_creating_the_offsets_topic_does_not_block_the_loop(world: World) -> None:
    """Created in one step, they blocked producers for a fifth of a second."""
    running = world.start_node(offsets_topic_num_partitions="50")
    client = running.connect()
    made = [0]
    client.send(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    while made[-1] < 50:
        running.run(1)
        made.append(sum(log.topic_partition.topic == "__consumer_offsets" for log in running.node.logs.logs()))

    assert max(later - earlier for earlier, later in pairwise(made)) <= 10
    response = running.connect().ask(
        FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), FindCoordinatorResponse, 4
    )
    assert [coordinator.error_code for coordinator in response.coordinators] == [ErrorCode.NONE]


@pytest.mark.parametrize("version", [4, 3])
def test_invalid_client_software_name_is_rejected(running: RunningNode, version: int) -> None:
    response = running.connect().ask(ApiVersionsRequest(client_software_name="bad name!"), ApiVersionsResponse, version)

    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_controlled_shutdown_writes_the_clean_shutdown_marker(world: World) -> None:
    running = world.start_node()
    running.node.begin_shutdown()
    running.run_until(lambda: bool(running.stopped))
    running.node.close()

    assert running.stopped == [None]
    assert world.disk.exists("/data/.kafka_cleanshutdown")


def test_node_restarts_after_a_crash(world: World) -> None:
    world.start_node()
    world.disk.crash()

    again = world.start_node()

    assert again.node.readiness() == []


def test_torn_partition_metadata_file_does_not_lose_the_log(world: World) -> None:
    client = world.start_node().connect()
    create_topic(client, "t")
    produce(client, "t", batch_of(client, [b"kept"]))
    world.disk.kill()
    file = world.disk.open("/data/t-0/partition.metadata")
    file.truncate(20)
    file.close()

    again = world.start_node().connect()

    assert [record.value for record in records_in(fetch(again, "t", 0))] == [b"kept"]


@pytest.mark.parametrize("part", ["groups", "replicas", "logs.maintenance"])
def test_exception_in_one_parts_tick_does_not_affect_other_parts(
    running: RunningNode, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    client = running.connect()
    noted: list[tuple[str, Exception]] = []
    error = RuntimeError("can't start new thread")
    running.node._on_defect = lambda what, raised: noted.append((what, raised))

    def tick(_: int) -> None:
        raise error

    broken = attrgetter(part)(running.node)
    monkeypatch.setattr(type(broken), "tick", lambda _, now_ms: tick(now_ms))
    running.run(1_100)
    assert noted[0] == (f"the tick of {type(broken).__name__} failed", error)
    monkeypatch.undo()
    create_topic(client, "t")

    assert produce(client, "t", batch_of(client, [b"x"])).error_code == ErrorCode.NONE


def test_thousands_of_new_partitions_do_not_block_the_loop_and_are_usable_at_once(running: RunningNode) -> None:
    client = running.connect()
    create_topic(client, "many", partitions=300)
    opened = len(running.node.replicas)

    response = produce(client, "many", batch_of(client, [b"x"]), partition=299)
    running.run(2_000)

    assert opened < 300
    assert response.error_code == ErrorCode.NONE
    assert len(running.node.replicas) == 300


def test_work_in_slices_is_due_a_millisecond_after_the_last_slice(running: RunningNode) -> None:
    client = running.connect()
    create_topic(client, "many", partitions=300)
    running.node.tick()
    left = len(running.node.replicas)
    due_ms = running.node.next_deadline_ms()
    running.node.tick()

    assert left == len(running.node.replicas) < 300
    assert due_ms == running.clock.monotonic_ms() + 1
