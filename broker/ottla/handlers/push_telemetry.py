"""PushTelemetry (api key 72, v0): a client sends its metrics (KIP-714).

Metrics that cannot be decompressed within telemetry.max.bytes, or decoded, get INVALID_RECORD, as where Kafka's
receiver fails. No permission is needed, as in Kafka. Served only if this node has a receiver of client metrics.
Source: ClientMetricsManager.processPushTelemetryRequest of Apache Kafka 4.3.
"""

from typing import Final

from ottla.client_metrics.instance import ClientInstance
from ottla.client_metrics.otlp import Point, decode_points
from ottla.errors import CorruptRecordError, ErrorCode, ProtocolError
from ottla.handlers.api import CloseConnection, RequestContext, serves
from ottla.handlers.client_attributes import client_labels, find_instance, rejection_without_receivers
from ottla.purgatory.steps import Steps
from ottla.types import ONE_UUID, ZERO_UUID
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.wire.records import Compression
from ottla.wire.records.compression import decompress_bounded

_POINTS_MAX: Final = 5_000
"""Points of one push that are kept: more than any client's series, and 3.2 MB."""
_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
"""Java's clients compress with zstd's default level, whose window is 2 MiB."""


@serves(api_key=72, versions=range(0, 1))
def push_telemetry(
    context: RequestContext, request: PushTelemetryRequest
) -> Steps[PushTelemetryResponse | CloseConnection]:
    """Check the push against the client's subscription; decode it, and pass it to the receivers.

    One at a time: without that, a thousand connections would each hold a push as it is decompressed and decoded.
    """
    rejection = rejection_without_receivers(context)
    if rejection is not None:
        return rejection
    manager = context.services.client_metrics
    if request.client_instance_id in (ZERO_UUID, ONE_UUID):
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    if manager.is_overloaded:
        manager.count(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        return PushTelemetryResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    size_bytes = len(request.metrics)
    if size_bytes > manager.bytes_max:
        # It is rejected after the other checks, in Kafka's order. Its bytes must not wait for that.
        request.metrics = b""
    slot = context.off_loop()._replace(memory=manager.push_slot).hold(1)
    try:
        yield from slot.acquire()
        error = yield from _push(context, request, size_bytes)
    finally:
        slot.release()
    return PushTelemetryResponse(error_code=error)


def _push(context: RequestContext, request: PushTelemetryRequest, size_bytes: int) -> Steps[ErrorCode]:
    manager = context.services.client_metrics
    instance = yield from find_instance(context, request.client_instance_id)
    error = instance.on_push(
        request.subscription_id,
        compression_type=request.compression_type,
        size_bytes=size_bytes,
        bytes_max=manager.bytes_max,
        is_last=request.terminating,
        now_ms=context.services.clock.monotonic_ms(),
    )
    manager.count(error)
    if error is ErrorCode.NONE and size_bytes:
        error = yield from _receive(context, request, instance)
        instance.last_error = error
    return error


def _receive(context: RequestContext, request: PushTelemetryRequest, instance: ClientInstance) -> Steps[ErrorCode]:
    manager = context.services.client_metrics
    points: list[Point] = []

    def keep(point: Point) -> None:
        if len(points) < _POINTS_MAX:
            points.append(point)
        else:
            manager.dropped_values += 1

    try:
        data = yield from _decompress(context, Compression(request.compression_type), bytes(request.metrics))
        yield from decode_points(data, keep)
    except (CorruptRecordError, ProtocolError):
        manager.failed_pushes += 1
        return ErrorCode.INVALID_RECORD
    yield from manager.receive(instance, client_labels(context, instance.instance_id), points)
    return ErrorCode.NONE


def _decompress(context: RequestContext, kind: Compression, data: bytes) -> Steps[bytes]:
    """Return the push decompressed, off the loop and within telemetry.max.bytes.

    Raises:
        CorruptRecordError: see `decompress_bounded`.
    """
    if kind is Compression.NONE:
        return data
    bytes_max = context.services.client_metrics.bytes_max
    buffer_bytes_max = max(bytes_max, _WINDOW_BYTES_MAX)
    memory = context.off_loop().hold(buffer_bytes_max + bytes_max)
    try:
        yield from memory.acquire()
        return (
            yield from memory.work(
                lambda: decompress_bounded(kind, data, size_bytes_max=bytes_max, buffer_bytes_max=buffer_bytes_max)
            )
        )
    finally:
        memory.release()
