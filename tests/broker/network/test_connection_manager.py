"""The memory limit of requests, seen by clients: others are served, in order, and slow holders are closed."""

import logging

import pytest

from ottla.errors import ErrorCode
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, fetch_request, produce, records_in
from ottla.simulator.world.single_node import Client, RunningNode, World
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MIB = 1024 * 1024
LIMIT_BYTES = 256 * MIB


def start_frame(client: Client, size_bytes: int, part: bytes = b"begun") -> Client:
    """Announce a frame, and send a part of it while the node reads."""
    client.send_bytes(size_bytes.to_bytes(4, "big"))
    trickle(client, part)
    return client


def trickle(client: Client, data: bytes) -> None:
    if client.peer.is_read_from and not client.is_closed:
        client.send_bytes(data)


def waiting(clients: list[Client]) -> list[bool]:
    return [not client.peer.is_read_from for client in clients]


def test_many_slow_large_frames_do_not_affect_other_clients(
    running: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    connections = running.node.connections
    good = running.connect()
    create_topic(good, "t")
    caplog.set_level(logging.DEBUG, logger="ottla.network.request_memories")
    clients = [start_frame(running.connect(), 50 * MIB, b"x" * 100) for _ in range(200)]
    assert waiting(clients) == [False] * 2 + [True] * 198

    offset = 0
    for _ in range(40):
        running.run(1_000)
        for peer in clients:
            trickle(peer, b"x")
        began_at_ms = running.clock.monotonic_ms()
        for value in (b"small", b"v" * 1_000_000):
            assert produce(good, "t", batch_of(good, [value])).error_code == ErrorCode.NONE
            assert records_in(fetch(good, "t", offset))[0].value == value
            offset += 1
        assert running.clock.monotonic_ms() == began_at_ms, "a client that is served at once does not advance the clock"
        assert connections.memories.clients.held_bytes <= LIMIT_BYTES

    ended = sum(peer.is_closed for peer in clients)
    records = [record for record in caplog.records if "bytes and received" in record.getMessage()]
    lines = [record.getMessage() for record in records]
    assert [record.levelname for record in records] == ["WARNING", "DEBUG"] * 3, "a warning a second"
    assert connections.memories.closed_as_slow == ended == len(lines) == 6, "two at a time, each after ten seconds"
    assert all("10.0.0.7:5000" in line and "while others wait for memory" in line for line in lines)
    assert not good.is_closed


def test_first_wait_for_memory_is_logged_once_a_minute(running: RunningNode, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        start_frame(running.connect(), 60 * MIB)

    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 1
    assert "waits for memory" in lines[0]
    assert "10.0.0.7:5000 on PLAINTEXT" in lines[0]
    assert f"queued.max.request.bytes={LIMIT_BYTES}" in lines[0]


def test_later_wait_for_memory_is_logged_again_after_a_minute(
    running: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        start_frame(running.connect(), 60 * MIB)
    for _ in range(61):
        running.run(1_000)
        start_frame(running.connect(), 60 * MIB)

    assert sum("waits for memory" in record.getMessage() for record in caplog.records) == 2


def test_closed_connections_log_one_warning_a_second_and_debug_lines(
    running: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="ottla.network.connection_manager"):
        for _ in range(5):
            running.connect().send_bytes(b"GET / HTTP/1.1\r\n")
        running.run(1_000)
        running.connect().send_bytes(b"GET / HTTP/1.1\r\n")

    lines = [record for record in caplog.records if "HTTP on a Kafka listener" in record.getMessage()]
    assert [record.levelname for record in lines] == ["WARNING", *["DEBUG"] * 4, "WARNING"]
    assert "(6 closed for such reasons so far)" in lines[-1].getMessage()


def test_waiting_frame_continues_when_another_peer_is_gone(running: RunningNode) -> None:
    first, second, third = (start_frame(running.connect(), 60 * MIB) for _ in range(3))
    assert waiting([first, second, third]) == [False, False, True]

    running.node.closed(first.peer.connection, "gone")

    assert waiting([second, third]) == [False, False]
    third.send_bytes(b"x" * MIB)


def test_frame_that_waited_for_memory_is_served(running: RunningNode) -> None:
    holders = [start_frame(running.connect(), 64 * MIB) for _ in range(2)]
    client = running.connect()
    request = client.frame(MetadataRequest(topics=[]), 9)
    frame = (3 * MIB).to_bytes(4, "big") + request[4:].ljust(3 * MIB, b"\0")
    client.send_bytes(frame[:100])
    assert waiting([client]) == [True]

    running.node.closed(holders[0].peer.connection, "gone")
    client.send_bytes(frame[100:])

    assert isinstance(client.response_to(MetadataRequest(topics=[]), 9), MetadataResponse)
    assert running.node.connections.memories.clients.held_bytes == 64 * MIB, (
        "held by the other; the request has released its own"
    )


def test_slow_frame_stays_until_max_idle_while_no_other_waits(world: World) -> None:
    running = world.start_node(connections_max_idle_ms="60000")
    slow = start_frame(running.connect(), 60 * MIB)

    running.run(50_000)
    assert not slow.is_closed
    running.run(20_000)

    assert slow.is_closed
    assert running.node.connections.memories.closed_as_slow == 0
    assert running.node.connections.memories.clients.held_bytes == 0


def test_many_idle_connections_are_closed_some_at_a_time(world: World) -> None:
    running = world.start_node(connections_max_idle_ms="60000")
    clients = [running.connect() for _ in range(100)]
    running.run(55_000)
    busy = running.connect()
    while not any(client.is_closed for client in clients):
        running.clock.advance(1)
        running.node.tick()
    closed = [sum(client.is_closed for client in clients)]
    while closed[-1] < len(clients):
        assert running.node.next_deadline_ms() == running.clock.monotonic_ms() + 1
        running.clock.advance(1)
        running.node.tick()
        closed.append(sum(client.is_closed for client in clients))

    assert closed == [32, 64, 96, 100]
    assert not busy.is_closed


def test_wait_for_memory_does_not_count_as_idle(world: World) -> None:
    """The first two send 64 KiB in time, so they stay; the third is not read, so it cannot show activity."""
    running = world.start_node(connections_max_idle_ms="15000")
    holders = [start_frame(running.connect(), 60 * MIB) for _ in range(2)]
    running.run(14_000)
    waiter = start_frame(running.connect(), 60 * MIB)
    for _ in range(5):
        for holder in holders:
            trickle(holder, b"x" * 65_536)
        running.run(5_000)
    assert waiting([*holders, waiter]) == [False, False, True]
    running.run(20_000)

    assert not waiter.is_closed
    assert waiter.peer.is_read_from, "the holders were closed when they fell silent"


def test_slow_frame_does_not_count_as_idle(world: World) -> None:
    running = world.start_node(connections_max_idle_ms="15000")
    slow = start_frame(running.connect(), 60 * MIB)
    for _ in range(6):
        running.run(10_000)
        slow.send_bytes(b"x")
    assert not slow.is_closed
    running.run(30_000)

    assert slow.is_closed


def test_frame_that_waited_is_not_read_while_its_peer_reads_no_responses(world: World) -> None:
    running = world.start_node(ottla_acks_fsync="true")
    client = running.connect()
    create_topic(client, "t")
    holders = [start_frame(running.connect(), 60 * MIB) for _ in range(2)]
    client.peer.takes_bytes = False
    running.network.queued_size_bytes_max = 10
    data = PartitionProduceData(index=0, records=batch_of(client, [b"value"]))
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    client.send_bytes(client.frame(request, 9) + (60 * MIB).to_bytes(4, "big"))
    running.run(10)
    assert client.peer.queued, "responded to, and the response is not read"
    running.node.closed(holders[0].peer.connection, "gone")
    assert waiting([client]) == [True]

    running.network.take(client.peer)
    running.node.drained(client.peer.connection)

    assert waiting([client]) == [False]


@pytest.mark.parametrize(
    ("overrides", "listener", "is_bounded"),
    [
        pytest.param({}, "PLAINTEXT", True, id="clients"),
        pytest.param({}, "CONTROLLER", False, id="the-quorum"),
        pytest.param(
            {
                "listeners": "PLAINTEXT://localhost:9092,INSIDE://localhost:9094,CONTROLLER://localhost:9093",
                "advertised_listeners": "PLAINTEXT://localhost:9092,INSIDE://localhost:9094",
                "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter_broker_listener_name": "INSIDE",
            },
            "INSIDE",
            False,
            id="between-brokers",
        ),
    ],
)
def test_inter_broker_traffic_does_not_wait_for_clients(
    world: World, overrides: dict[str, str], listener: str, is_bounded: bool
) -> None:
    running = world.start_node(**overrides)
    for _ in range(3):
        start_frame(running.connect(), 60 * MIB)
    held_bytes = running.node.connections.memories.clients.held_bytes

    insider = start_frame(running.connect(listener), 60 * MIB)

    assert waiting([insider]) == [is_bounded]
    assert (running.node.connections.memories.clients.held_bytes > held_bytes) is is_bounded


def test_pipelined_requests_are_served_one_by_one_while_parked_bytes_fill_their_share(world: World) -> None:
    """Frames are read one by one, and no response is lost or out of order."""
    running = world.start_node(queued_max_request_bytes=str(MIB), socket_request_max_bytes=str(MIB))
    running.node.connections.memories.clients.park(1)
    assert running.node.connections.memories.clients.is_read_frame_by_frame
    client = running.connect()

    client.send_bytes(b"".join(client.frame(MetadataRequest(topics=[]), 9) for _ in range(10)))

    frames = [client.take_frame() for _ in range(10)]
    assert [frame is not None and int.from_bytes(frame[:4], "big") for frame in frames] == list(range(1, 11))
    assert running.node.connections.memories.clients.held_bytes == 1


def test_bytes_behind_a_pending_request_are_counted(running: RunningNode) -> None:
    client = running.connect()
    client.peer.takes_bytes = False
    running.network.queued_size_bytes_max = 10
    request = client.frame(MetadataRequest(topics=[]), 9)

    client.send_bytes(request * 3)
    assert running.node.connections.memories.clients.held_bytes == 2 * len(request)
    running.node.closed(client.peer.connection, "gone")

    assert running.node.connections.memories.clients.held_bytes == 0


def test_peers_that_hang_up_while_their_fetch_waits_leave_nothing_behind(running: RunningNode) -> None:
    good = running.connect()
    create_topic(good, "t")
    patient = running.connect()
    request = fetch_request("t", 0)
    request.max_wait_ms, request.min_bytes = 2**31 - 1, 1
    patient.send(request, 12)
    purgatory = running.node.services.replicas.fetch_purgatory

    for _ in range(50):
        client = running.connect()
        client.send(request, 12)
        running.node.closed(client.peer.connection, "closed by the peer")

    assert len(purgatory) == 1
    assert produce(good, "t", batch_of(good, [b"news"])).error_code == ErrorCode.NONE
    running.run(10)
    assert patient.take_frame() is not None, "the client that did not hang up is served"


def test_request_that_waits_for_memory_is_served_after_its_sender_hung_up(running: RunningNode) -> None:
    holders = [start_frame(running.connect(), 64 * MIB) for _ in range(2)]
    waiter = start_frame(running.connect(), 64 * MIB)
    assert not waiter.peer.is_read_from

    assert running.node.serves_rest(waiter.peer.connection)
    running.node.closed(holders[0].peer.connection, "gone")
    assert waiter.peer.is_read_from
