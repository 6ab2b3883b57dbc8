"""Lean load: requests built once and sent over plain sockets, so that the generator's own cost stays small.

A client library spends more on a small request than a broker does; on a host that both share, it would be measured
instead. These frames use versions before the flexible encodings, which every broker since Kafka 2.1 speaks.
"""

import select
import socket
import struct
import time
from dataclasses import dataclass, field

from crc32c import crc32c

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
RETRY_S = 0.01


def frame(api_key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", api_key, version, 1, 5) + b"bench"
    return struct.pack(">i", len(head) + len(body)) + head + body


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def varint(value: int) -> bytes:
    zigzag, encoded = (value << 1) ^ (value >> 63), bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*encoded, zigzag])


def batch(values: list[bytes]) -> bytes:
    """One record batch v2 without compression; no keys, all timestamps now."""
    records = bytearray()
    for delta, value in enumerate(values):
        body = b"\x00\x00" + varint(delta) + varint(-1) + varint(len(value)) + value + b"\x00"
        records += varint(len(body)) + body
    now_ms = int(time.time() * 1000)
    return batch_of(records, len(values), times_ms=(now_ms, now_ms))


def batch_of(
    payload: bytes | bytearray, count: int, *, times_ms: tuple[int, int], codec: int = 0, producer_id: int = -1
) -> bytes:
    """One record batch v2 with a header that gives ``count`` records, and these base and newest timestamps.

    ``codec`` is bits 0 to 2 of the attributes, the compression of ``payload``. A batch with a producer id is its first
    one.
    """
    producer = (-1, -1, -1) if producer_id < 0 else (producer_id, 0, 0)
    summed = struct.pack(">hiqqqhii", codec, count - 1, *times_ms, *producer, count) + payload
    return struct.pack(">qiibI", 0, len(summed) + 9, -1, 2, crc32c(summed)) + summed


def produce_request(topic: str, partition: int, records: bytes, *, acks: int = 1) -> bytes:
    """Produce v7; ``acks``: -1 for all replicas in sync."""
    head = struct.pack(">hhii", -1, acks, 30_000, 1) + text(topic)
    return frame(PRODUCE, 7, head + struct.pack(">iii", 1, partition, len(records)) + records)


def fetch_request(
    topic: str, offsets: dict[int, int], size_bytes_max: int, *, wait_ms: int = 500, isolation_level: int = 0
) -> bytes:
    """Fetch v11 outside a session, from the given offset of each partition; isolation level 1 is read_committed."""
    body = (
        struct.pack(">iiiibii", -1, wait_ms, 1, size_bytes_max, isolation_level, 0, -1)
        + struct.pack(">i", 1)
        + text(topic)
    )
    body += struct.pack(">i", len(offsets))
    for partition, offset in offsets.items():
        body += struct.pack(">iiqqi", partition, -1, offset, -1, size_bytes_max)
    return frame(FETCH, 11, body + struct.pack(">i", 0) + text(""))


def metadata_request(topic: str) -> bytes:
    """Metadata v1 for one topic."""
    return frame(METADATA, 1, struct.pack(">i", 1) + text(topic))


API_VERSIONS_REQUEST = frame(API_VERSIONS, 0, b"")


@dataclass(slots=True)
class Connection:
    """A socket with one request under way at a time."""

    socket: socket.socket
    buffer: bytearray = field(default_factory=lambda: bytearray(1 << 20))

    def exchange(self, request: bytes) -> memoryview:
        """Send a request; return its response from the correlation id on, valid until the next exchange."""
        self.socket.sendall(request)
        size_bytes = struct.unpack(">i", self._receive(4))[0]
        if size_bytes > len(self.buffer):
            self.buffer = bytearray(size_bytes)
        return self._receive(size_bytes)

    def exchange_ahead(self, request: bytes, count: int) -> None:
        """Send a request ``count`` times in one go, then read as many responses."""
        self.socket.sendall(request * count)
        for _ in range(count):
            self._receive(struct.unpack(">i", self._receive(4))[0])

    def _receive(self, size_bytes: int) -> memoryview:
        view = memoryview(self.buffer)
        filled = 0
        while filled < size_bytes:
            count = self.socket.recv_into(view[filled:size_bytes])
            if count == 0:
                raise ConnectionError("the node closed the connection")
            filled += count
        return view[:size_bytes]


def connect(address: tuple[str, int], *, timeout_s: float = 60) -> Connection:
    connection = socket.create_connection(address, timeout=timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(connection)


def check_produced(response: memoryview) -> None:
    """Raise when the only partition of a Produce response has an error."""
    name_length = struct.unpack_from(">h", response, 8)[0]
    code = struct.unpack_from(">h", response, 10 + name_length + 8)[0]
    if code != 0:
        raise RuntimeError(f"the node rejected a batch with error {code}")


def produce(connection: Connection, request: bytes) -> None:
    """Produce to one partition; wait until its leader can append."""
    while True:
        try:
            check_produced(connection.exchange(request))
        except RuntimeError:
            time.sleep(RETRY_S)
            continue
        return


@dataclass(slots=True)
class _Pipelined:
    """A connection with some requests under way; every response to ``request`` has the same size."""

    socket: socket.socket
    request: bytes
    response_size_bytes: int
    unread_bytes: int = 0

    def receive(self) -> int:
        """Read what is there; send as many requests as responses have become complete, and return their number."""
        received = len(self.socket.recv(1 << 20))
        if not received:
            raise ConnectionError("the node closed the connection")
        served, self.unread_bytes = divmod(self.unread_bytes + received, self.response_size_bytes)
        if served:
            self.socket.sendall(self.request * served)
        return served


def requests_per_second(
    address: tuple[str, int], requests: list[bytes], seconds: float, *, depth: int = 1
) -> tuple[int, float]:
    """Keep ``depth`` requests under way on each of ``len(requests)`` connections; return (requests served, seconds)."""
    by_descriptor = {}
    poll = select.epoll()
    for request in requests:
        connection = connect(address)
        size_bytes = 4 + len(connection.exchange(request))
        by_descriptor[connection.socket.fileno()] = _Pipelined(connection.socket, request, size_bytes)
        poll.register(connection.socket.fileno(), select.EPOLLIN)
    for pipelined in by_descriptor.values():
        pipelined.socket.sendall(pipelined.request * depth)
    served, started = 0, time.perf_counter()
    deadline = started + seconds
    while (now := time.perf_counter()) < deadline:
        for descriptor, _ in poll.poll(1):
            served += by_descriptor[descriptor].receive()
    poll.close()
    for pipelined in by_descriptor.values():
        pipelined.socket.close()
    return served, now - started
