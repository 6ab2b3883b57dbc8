"""Bad input over raw sockets: a clear Kafka error or a closed connection, one log line, and no effect on other clients.

The codes are those of JVM Kafka 4.3; where that is UNKNOWN_SERVER_ERROR, a better one is accepted.
"""

import gzip
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import cramjam
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from crc32c import crc32c

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18
CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, UNKNOWN_TOPIC, INVALID_ACKS = 2, 10, 3, 21
INVALID_TIMESTAMP, UNSUPPORTED_VERSION, INVALID_REQUEST = 32, 35, 42
OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH, INVALID_RECORD = 45, 47, 87
NOT_DECODABLE = {-1, CORRUPT_MESSAGE, 76, INVALID_RECORD}
TIMEOUT_S = 20
RSS_GROWTH_MAX_KB = 64 * 1024


def frame(key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes:
    """A request with its length in front; correlation id 7, client id ``raw``."""
    head = struct.pack(">hhih", key, version, 7, 3) + b"raw" + (b"\x00" if flexible else b"")
    return struct.pack(">i", len(head) + len(body)) + head + body


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def unsigned_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def varint(value: int) -> bytes:
    return unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def record(offset_delta: int = 0, value: bytes = b"v", header_count: int = 0) -> bytes:
    body = b"\x00" + varint(0) + varint(offset_delta) + varint(-1) + varint(len(value)) + value + varint(header_count)
    return varint(len(body)) + body


def batch(payload: bytes | None = None, **lies: int) -> bytes:
    """A record batch v2 of one record, true in everything that ``lies`` does not name."""
    payload = record() if payload is None else payload
    fields = {"attributes": 0, "count": 1, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "magic": 2}
    fields |= {"timestamp": int(time.time() * 1000)} | lies
    fields.setdefault("last_offset_delta", fields["count"] - 1)
    summed = struct.pack(
        ">hiqqqhii",
        *(fields["attributes"], fields["last_offset_delta"], fields["timestamp"], fields["timestamp"]),
        *(fields["producer_id"], fields["producer_epoch"], fields["base_sequence"], fields["count"]),
    )
    summed += payload
    length, crc = fields.get("length", len(summed) + 9), fields.get("crc", crc32c(summed))
    return struct.pack(">qiibI", 0, length, -1, fields["magic"], crc) + summed


def produce_request(records: bytes, *, topic: str, partition: int = 0, acks: int = 1) -> bytes:
    body = (
        struct.pack(">hhii", -1, acks, 1000, 1)
        + text(topic)
        + struct.pack(">iii", 1, partition, len(records))
        + records
    )
    return frame(PRODUCE, 7, body)


@pytest.fixture(scope="module")
def victim(new_node: Callable[..., Any]) -> Any:
    """A node of its own, which these tests may harm. At debug level its log has every close."""
    return new_node("--log-level", "debug")


@pytest.fixture(scope="module")
def topic(victim: Any) -> str:
    admin = AdminClient({"bootstrap.servers": victim.bootstrap})
    admin.create_topics([NewTopic("victim", num_partitions=1, replication_factor=1)])["victim"].result(timeout=30)
    deadline = time.monotonic() + 30
    while produce_error(victim, produce_request(batch(), topic="victim")) != 0:
        assert time.monotonic() < deadline
    return "victim"


@pytest.fixture(scope="module")
def standing(victim: Any) -> Iterator[socket.socket]:
    with socket.create_connection(victim.address, timeout=TIMEOUT_S) as connection:
        yield connection


@pytest.fixture(autouse=True)
def other_client_is_served(standing: socket.socket) -> Iterator[None]:
    """Check before and after each test that another client's open connection is served."""
    assert ask(standing, frame(API_VERSIONS, 0, b""))[4:6] == b"\x00\x00"
    yield
    assert ask(standing, frame(API_VERSIONS, 0, b""))[4:6] == b"\x00\x00"


def ask(connection: socket.socket, request: bytes) -> bytes | None:
    """Send one request; return the response from the correlation id on, or None when the connection is closed."""
    try:
        connection.sendall(request)
        head = receive(connection, 4)
        return receive(connection, struct.unpack(">i", head)[0]) if head else None
    except (ConnectionResetError, BrokenPipeError):
        return None


def receive(connection: socket.socket, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes:
        piece = connection.recv(size_bytes - len(received))
        if not piece:
            return b""
        received += piece
    return received


def ask_on_new_connection(victim: Any, request: bytes) -> bytes | None:
    with socket.create_connection(victim.address, timeout=TIMEOUT_S) as connection:
        return ask(connection, request)


def produce_error(victim: Any, request: bytes) -> int | None:
    """The error code of the only partition; None when the connection was closed."""
    response = ask_on_new_connection(victim, request)
    if response is None:
        return None
    name_length = struct.unpack_from(">h", response, 8)[0]
    code: int = struct.unpack_from(">h", response, 10 + name_length + 8)[0]
    return code


class TestFrames:
    @pytest.mark.parametrize(
        "sent",
        [
            pytest.param(struct.pack(">i", -1) + b"x" * 10, id="length-below-zero"),
            pytest.param(struct.pack(">i", -(2**31)) + b"x" * 10, id="length-lowest"),
            pytest.param(struct.pack(">i", 2**31 - 1) + b"x" * 10, id="length-2-GiB"),
            pytest.param(struct.pack(">i", 100 * 2**20 + 1) + b"x", id="length-one-over-the-limit"),
            pytest.param(struct.pack(">i", 0), id="length-0"),
            pytest.param(struct.pack(">i", 3) + b"abc", id="shorter-than-a-header"),
            pytest.param(bytes.fromhex("1603010200010001fc0303") + bytes(64), id="tls-hello"),
            pytest.param(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", id="http"),
            pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="ssh"),
            pytest.param(frame(9999, 0, b""), id="unknown-api-key"),
            pytest.param(frame(-1, 0, b""), id="api-key-below-zero"),
            pytest.param(frame(METADATA, 99, b""), id="unknown-version"),
            pytest.param(frame(METADATA, -1, b""), id="version-below-zero"),
            pytest.param(frame(PRODUCE, 2, b""), id="version-that-was-removed"),
            pytest.param(frame(METADATA, 1, b"\x00\x00"), id="body-cut-off"),
            pytest.param(frame(METADATA, 1, struct.pack(">i", 2**31 - 1)), id="array-of-2-billion"),
            pytest.param(frame(METADATA, 1, struct.pack(">ih", 1, 30_000) + b"x"), id="string-beyond-the-frame"),
            pytest.param(frame(METADATA, 1, struct.pack(">ih", 1, -7)), id="string-of-length-below-minus-1"),
            pytest.param(frame(METADATA, 9, b"\xff\xff\xff\xff\x0f", flexible=True), id="compact-array-of-4-billion"),
            pytest.param(frame(METADATA, 9, b"\xff" * 12, flexible=True), id="varint-without-end"),
        ],
    )
    def test_connection_is_closed_and_the_log_names_the_peer(
        self, victim: Any, sent: bytes, eventually: Callable[..., Any]
    ) -> None:
        with socket.create_connection(victim.address, timeout=TIMEOUT_S) as connection:
            peer = f"127.0.0.1:{connection.getsockname()[1]}"

            assert ask(connection, sent) is None

        eventually(lambda: peer in victim.log_text())

    def test_frame_that_ends_early_is_dropped(self, victim: Any) -> None:
        whole = frame(METADATA, 1, struct.pack(">i", 0))
        for size_bytes in range(len(whole)):
            with socket.create_connection(victim.address, timeout=TIMEOUT_S) as connection:
                connection.sendall(whole[:size_bytes])
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(1) == b""

    def test_frame_sent_byte_by_byte_is_served(self, victim: Any) -> None:
        with socket.create_connection(victim.address, timeout=TIMEOUT_S) as connection:
            whole = frame(API_VERSIONS, 0, b"")
            for byte in whole[:-1]:
                connection.sendall(bytes([byte]))
            assert ask(connection, whole[-1:]) is not None

    def test_random_bytes_close_the_connection_or_count_as_a_partial_frame(self, victim: Any) -> None:
        random_source = random.Random(20)
        for _ in range(200):
            sent = random_source.randbytes(random_source.randrange(1, 400))
            with (
                socket.create_connection(victim.address, timeout=TIMEOUT_S) as connection,
                suppress(OSError),
            ):
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(1) == b""

    def test_random_bodies_of_every_api_get_a_response_or_close(self, victim: Any) -> None:
        random_source = random.Random(21)
        for key in range(95):
            for version in range(3):
                body = random_source.randbytes(random_source.randrange(60))
                with socket.create_connection(victim.address, timeout=TIMEOUT_S) as connection, suppress(OSError):
                    connection.sendall(frame(key, version, body))
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass

    @pytest.mark.parametrize("surplus", [1, 3, 100])
    def test_bytes_behind_a_request_are_ignored(self, victim: Any, surplus: int) -> None:
        # Kafka reads what the version defines and no further; librdkafka 2.16 sends three bytes too many with the
        # Metadata v13 that requests all topics.
        response = ask_on_new_connection(victim, frame(METADATA, 1, struct.pack(">i", 0) + b"x" * surplus))

        assert response is not None
        assert struct.unpack_from(">ii", response) == (7, 1)


class TestApiVersions:
    def test_unknown_version_gets_the_supported_ones(self, victim: Any) -> None:
        response = ask_on_new_connection(victim, frame(API_VERSIONS, 99, b"", flexible=True))

        assert response is not None
        # In the encoding of v0, which every client can read: its own row is enough to retry with a known version.
        assert struct.unpack_from(">ihi", response) == (7, UNSUPPORTED_VERSION, 1)
        assert struct.unpack_from(">hhh", response, 10) == (API_VERSIONS, 0, 4)

    def test_client_software_name_with_a_space_is_rejected(self, victim: Any) -> None:
        body = b"\x09bad name\x021\x00"

        response = ask_on_new_connection(victim, frame(API_VERSIONS, 3, body, flexible=True))

        assert response is not None
        assert struct.unpack_from(">ih", response) == (7, INVALID_REQUEST)


TWO_RECORDS = record(0) + record(1)


class TestProduce:
    def test_valid_batch_is_accepted(self, victim: Any, topic: str) -> None:
        assert produce_error(victim, produce_request(batch(), topic=topic)) == 0

    @pytest.mark.parametrize(
        ("records", "code"),
        [
            pytest.param(batch(crc=1), CORRUPT_MESSAGE, id="wrong-crc"),
            pytest.param(batch(magic=0), INVALID_RECORD, id="magic-0"),
            pytest.param(batch(magic=1), INVALID_RECORD, id="magic-1"),
            pytest.param(batch(magic=3), CORRUPT_MESSAGE, id="magic-3"),
            pytest.param(batch(magic=-1), CORRUPT_MESSAGE, id="magic-minus-1"),
            pytest.param(batch(count=5), INVALID_RECORD, id="count-too-high"),
            pytest.param(batch(count=5, last_offset_delta=0), INVALID_RECORD, id="count-against-last-offset-delta"),
            pytest.param(batch(TWO_RECORDS, count=1), INVALID_RECORD, id="count-too-low"),
            pytest.param(batch(b"", count=0), INVALID_RECORD, id="count-0"),
            pytest.param(batch(count=-1, last_offset_delta=0), INVALID_RECORD, id="count-below-zero"),
            pytest.param(batch(count=2**31 - 1), INVALID_RECORD, id="count-2-billion"),
            pytest.param(batch(last_offset_delta=7), INVALID_RECORD, id="last-offset-delta"),
            pytest.param(batch(length=5000), INVALID_RECORD, id="length-beyond-the-request"),
            pytest.param(batch(length=10), CORRUPT_MESSAGE, id="length-below-a-header"),
            pytest.param(batch(length=-10), CORRUPT_MESSAGE, id="length-below-zero"),
            pytest.param(batch()[:-3], INVALID_RECORD, id="cut-off"),
            pytest.param(batch()[:30], INVALID_RECORD, id="cut-off-in-the-header"),
            pytest.param(b"\xde\xad\xbe\xef" * 20, CORRUPT_MESSAGE, id="noise"),
            pytest.param(b"", INVALID_RECORD, id="nothing"),
            pytest.param(batch() + batch(), INVALID_RECORD, id="two-batches"),
            pytest.param(batch(attributes=32), INVALID_RECORD, id="control-batch"),
            pytest.param(batch(varint(10**6) + b"x"), INVALID_RECORD, id="record-longer-than-the-batch"),
            pytest.param(batch(varint(-5) + b"x"), INVALID_RECORD, id="record-length-below-zero"),
            pytest.param(batch(record(header_count=2**30)), INVALID_RECORD, id="a-billion-headers"),
            pytest.param(batch(timestamp=2**62), INVALID_TIMESTAMP, id="timestamp-in-the-far-future"),
            pytest.param(batch(record(value=b"x" * 2_000_000)), MESSAGE_TOO_LARGE, id="larger-than-max-message-bytes"),
        ],
    )
    def test_inconsistent_batch_is_rejected(self, victim: Any, topic: str, records: bytes, code: int) -> None:
        assert produce_error(victim, produce_request(records, topic=topic)) == code

    @pytest.mark.parametrize("codec", range(1, 8), ids=["gzip", "snappy", "lz4", "zstd", "5", "6", "7"])
    def test_undecodable_batch_of_any_codec_is_rejected(self, victim: Any, topic: str, codec: int) -> None:
        records = batch(b"noise!" * 8, attributes=codec)

        assert produce_error(victim, produce_request(records, topic=topic)) in NOT_DECODABLE

    @pytest.mark.parametrize(
        ("place", "code"),
        [
            pytest.param({"topic": "no-such-topic-here"}, UNKNOWN_TOPIC, id="topic"),
            pytest.param({"partition": 77}, UNKNOWN_TOPIC, id="partition"),
            pytest.param({"partition": -1}, UNKNOWN_TOPIC, id="partition-below-zero"),
            pytest.param({"acks": 5}, INVALID_ACKS, id="acks"),
        ],
    )
    def test_batch_for_an_unknown_partition_is_rejected(
        self, victim: Any, topic: str, place: dict[str, Any], code: int
    ) -> None:
        assert produce_error(victim, produce_request(batch(), **({"topic": topic} | place))) == code

    def test_decompression_bomb_with_a_wrong_count_is_rejected(self, victim: Any, topic: str) -> None:
        bomb = batch(gzip.compress(bytes(200 * 2**20)), attributes=1)

        assert produce_error(victim, produce_request(bomb, topic=topic)) in NOT_DECODABLE | {MESSAGE_TOO_LARGE}

    def test_rejected_batch_is_not_in_the_log(self, victim: Any, topic: str, eventually: Callable[..., Any]) -> None:
        admin = AdminClient({"bootstrap.servers": victim.bootstrap})
        log = victim.data_dir / f"{topic}-0" / f"{0:020}.log"
        assert produce_error(victim, produce_request(batch(), topic=topic)) == 0
        size_bytes = log.stat().st_size

        assert produce_error(victim, produce_request(batch(crc=1), topic=topic)) == CORRUPT_MESSAGE

        assert log.stat().st_size == size_bytes
        assert admin.list_topics(timeout=30).topics[topic].error is None


class TestHangUps:
    def test_records_sent_with_acks_0_before_a_close_are_kept(
        self, victim: Any, eventually: Callable[..., Any]
    ) -> None:
        """Many pipelined requests wait to be served; their sender waits for nothing."""
        admin = AdminClient({"bootstrap.servers": victim.bootstrap})
        admin.create_topics([NewTopic("left-behind", 1, 1)])["left-behind"].result(timeout=30)
        place = TopicPartition("left-behind", 0)
        request = produce_request(batch(record() + record(1), count=2), topic="left-behind", acks=0)
        eventually(lambda: produce_error(victim, produce_request(batch(), topic="left-behind")) == 0)
        first = end_of(admin, place)

        with socket.create_connection(victim.address, timeout=TIMEOUT_S) as connection:
            connection.sendall(request * 2_000)

        eventually(lambda: end_of(admin, place) >= first + 4_000)
        assert end_of(admin, place) == first + 4_000, "nothing twice"


def end_of(admin: AdminClient, place: TopicPartition) -> int:
    return int(admin.list_offsets({place: OffsetSpec.latest()})[place].result(timeout=30).offset)


class TestProducerState:
    def test_sequences_and_epochs_are_checked(self, victim: Any, topic: str) -> None:
        producer_id = 10_000_000 + os.getpid()

        def send(epoch: int, sequence: int) -> int | None:
            records = batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
            return produce_error(victim, produce_request(records, topic=topic))

        assert send(0, 0) == 0
        assert send(0, 0) == 0, "a duplicate is acknowledged again"
        assert send(0, 5) == OUT_OF_ORDER_SEQUENCE
        assert send(0, 1) == 0
        assert send(1, 5) == OUT_OF_ORDER_SEQUENCE, "a new epoch starts at 0"
        assert send(1, 0) == 0
        assert send(0, 2) == INVALID_PRODUCER_EPOCH
        assert send(1, -1) == INVALID_RECORD


def one_record_bomb(size_bytes: int) -> bytes:
    """Return a batch of one valid record whose value is ``size_bytes`` zeros."""
    return record(value=bytes(size_bytes))


@pytest.mark.skipif(
    "OTTLA_INTEROP_NODE" in os.environ, reason="JVM Kafka allocates what a frame announces, and dies of it"
)
def test_hostile_clients_do_not_make_the_node_grow(
    victim: Any, topic: str, record_property: Callable[..., None]
) -> None:
    codecs: list[tuple[int, Callable[[bytes], Any]]] = [(1, gzip.compress), (4, cramjam.zstd.compress)]
    raw = one_record_bomb(64 * 2**20)
    bombs = [produce_request(batch(bytes(squeeze(raw)), attributes=codec), topic=topic) for codec, squeeze in codecs]
    many = produce_request(
        batch(gzip.compress(record(value=b"") * 1_000_000), attributes=1, count=1_000_000), topic=topic
    )

    def attack() -> None:
        with ExitStack() as connections:
            for _ in range(50):
                connection = connections.enter_context(socket.create_connection(victim.address, timeout=TIMEOUT_S))
                connection.sendall(struct.pack(">i", 90 * 2**20) + bytes(1000))
            assert victim.rss_kb < before_kb + RSS_GROWTH_MAX_KB, "announced bytes were allocated"
        for request in [*bombs, many]:
            ask_on_new_connection(victim, request)

    before_kb = victim.rss_kb
    attack()
    before_kb = victim.rss_kb
    for _ in range(4):
        attack()
    grown_kb = victim.rss_kb - before_kb

    record_property("rss_before_kb", before_kb)
    record_property("rss_grown_kb", grown_kb)
    assert grown_kb < RSS_GROWTH_MAX_KB
