"""The state of a node before `large_requests` are sent to it: topics, the batches that cost it most, and a group."""

import gzip
import struct
import time
from typing import Final, TypeVar

from benchmarks import frames
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.errors import ErrorCode
from ottla.wire.codec import Message
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.registry import ApiKey, request_header_version
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.wire.records import Compression, compress

TOPIC: Final = "large"
PARTITIONS: Final = 6
GROUP: Final = "large"
MEMBER_BYTES: Final = 100_000
PRODUCERS: Final = 200
OLDEST_MS: Final = 1_700_000_000_000
NEWEST_MS: Final = OLDEST_MS + 3_600_000
CLAIMED_AHEAD_MS: Final = 1_800_000
"""How far in the future the newest timestamp is that a header claims: within message.timestamp.after.max.ms."""
TIMED_RECORDS: Final = 250_000
"""Fewer than max.message.bytes lets a batch have."""
TINY_RECORDS: Final = 1_000_000
SMALL_BATCHES: Final = 40_000
_SENT_AHEAD: Final = 200
_TINY_MESSAGE_BYTES_MAX: Final = 8_000_000
_DECOMPRESSED_BYTES: Final = 100_000_000
_SESSION_TIMEOUT_MS: Final = 1_800_000
_LOADING: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


def now_ms() -> int:
    return int(time.time() * 1000)


def create_topic(address: tuple[str, int], config: dict[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": f"{address[0]}:{address[1]}", "log_level": 0})
    topic = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1", **(config or {})})
    admin.create_topics([topic])[TOPIC].result(timeout=60)


def prepare_producers(address: tuple[str, int]) -> None:
    create_topic(address)
    records, times_ms = tiny_records(1), (now_ms(), now_ms())
    with (connection := frames.connect(address)).socket:
        for producer_id in range(PRODUCERS):
            batch = frames.batch_of(records, 1, times_ms=times_ms, producer_id=producer_id)
            frames.produce(connection, frames.produce_request(TOPIC, 0, batch))


def prepare_times(address: tuple[str, int]) -> None:
    """Give every partition a batch in which only the last record is new; headers of even ones claim more."""
    create_topic(address)
    payload = gzip.compress(tiny_records(TIMED_RECORDS, newest_delta_ms=NEWEST_MS - OLDEST_MS))
    with (connection := frames.connect(address)).socket:
        for partition in range(PARTITIONS):
            newest_ms = NEWEST_MS if partition % 2 else now_ms() + CLAIMED_AHEAD_MS
            batch = frames.batch_of(payload, TIMED_RECORDS, times_ms=(OLDEST_MS, newest_ms), codec=Compression.GZIP)
            frames.produce(connection, frames.produce_request(TOPIC, partition, batch))


def prepare_sparse_index(address: tuple[str, int]) -> None:
    create_topic(address, {"index.interval.bytes": str(2**31 - 1)})
    request = frames.produce_request(TOPIC, 0, frames.batch([b"x" * 100]))
    with (connection := frames.connect(address)).socket:
        frames.produce(connection, request)
        for _ in range(SMALL_BATCHES // _SENT_AHEAD):
            connection.exchange_ahead(request, _SENT_AHEAD)


def prepare_tiny_records(address: tuple[str, int]) -> None:
    config = {"compression.type": "zstd", "max.message.bytes": str(_TINY_MESSAGE_BYTES_MAX)}
    _prepare_recompressed(address, config)


def prepare_zeros(address: tuple[str, int]) -> None:
    _prepare_recompressed(address, {"compression.type": "lz4"})


def _prepare_recompressed(address: tuple[str, int], config: dict[str, str]) -> None:
    """Produce a record to every partition, so that the attack's requests find leaders that can append."""
    create_topic(address, config)
    with (connection := frames.connect(address)).socket:
        for partition in range(PARTITIONS):
            frames.produce(connection, frames.produce_request(TOPIC, partition, frames.batch([b"x"])))


def tiny_records(count: int, *, newest_delta_ms: int = 0) -> bytes:
    """Return records without key and value, all of the batch's time but the last."""
    records = bytearray()
    for delta in range(count):
        time_delta = frames.varint(newest_delta_ms if delta == count - 1 else 0)
        body = b"\x00" + time_delta + frames.varint(delta) + b"\x01\x01\x00"
        records += frames.varint(len(body)) + body
    return bytes(records)


def tiny_records_batch() -> bytes:
    payload, times_ms = gzip.compress(tiny_records(TINY_RECORDS)), (now_ms(), now_ms())
    return frames.batch_of(payload, TINY_RECORDS, times_ms=times_ms, codec=Compression.GZIP)


def zeros_batch() -> bytes:
    """Return a batch of one record of 100 MB that is 3 to 10 KB compressed."""
    body = b"\x00\x00\x00\x01" + frames.varint(_DECOMPRESSED_BYTES) + bytes(_DECOMPRESSED_BYTES) + b"\x00"
    payload = compress(Compression.ZSTD, frames.varint(len(body)) + body)
    return frames.batch_of(payload, 1, times_ms=(now_ms(), now_ms()), codec=Compression.ZSTD)


def prepare_group(address: tuple[str, int]) -> None:
    """Have one member with a large subscription and assignment join a group, and leave it there without heartbeats."""
    create_topic(address)
    with (connection := frames.connect(address)).socket:
        _exchange(connection, FindCoordinatorRequest(key=GROUP), 1, FindCoordinatorResponse)
        subscription = JoinGroupRequestProtocol(name="range", metadata=bytes(MEMBER_BYTES // 2))
        join = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_SESSION_TIMEOUT_MS,
            protocol_type="consumer",
            protocols=[subscription],
        )
        joined = _exchange(connection, join, 3, JoinGroupResponse)
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(MEMBER_BYTES // 2))
        sync = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assignment],
        )
        _exchange(connection, sync, 2, SyncGroupResponse)


ResponseT = TypeVar("ResponseT", FindCoordinatorResponse, JoinGroupResponse, SyncGroupResponse)


def _exchange(
    connection: frames.Connection, request: Message, version: int, response_type: type[ResponseT]
) -> ResponseT:
    """Send a request of a version before the flexible encodings; wait until the coordinator has loaded the group."""
    while True:
        response = response_type.decode(connection.exchange(message_frame(request, version)), version, 4)
        if response.error_code == ErrorCode.NONE:
            return response
        if response.error_code not in _LOADING:
            raise RuntimeError(f"{type(request).__name__} failed with error {response.error_code}")
        time.sleep(0.05)


def message_frame(request: Message, version: int) -> bytes:
    """Return the request as it is sent, with its size and header."""
    key = ApiKey(request.api_key)
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=1, client_id="bench")
    body = header.encode(request_header_version(key, version)) + request.encode(version)
    return struct.pack(">i", len(body)) + body
