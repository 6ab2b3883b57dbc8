"""The decoder of pushes: OpenTelemetry's MetricsData (protobuf), as clients of KIP-714 send it.

It reads what counters and gauges have, and skips everything else: histograms, exemplars, descriptions.

==================  ======================================================================================
message             fields that are read
==================  ======================================================================================
MetricsData         1 resource_metrics
ResourceMetrics     1 resource, 2 scope_metrics
Resource            1 attributes
ScopeMetrics        2 metrics
Metric              1 name, 5 gauge, 7 sum
Gauge, Sum          1 data_points; Sum: 2 aggregation_temporality, 3 is_monotonic
NumberDataPoint     4 as_double, 6 as_int, 7 attributes
KeyValue            1 key, 2 value
AnyValue            1 string_value, 2 bool_value, 3 int_value, 4 double_value
==================  ======================================================================================

Why not the package protobuf: it decodes a push at once and with the interpreter's lock, 21 ms and 34 MB for 1 MiB of
empty messages, and takes 6 MB from its import on. This decoder works in slices, keeps nothing that it does not return,
and stops at `FIELDS_MAX`. The tests compare it with protobuf's.
Source: opentelemetry/proto/metrics/v1/metrics.proto, version 1.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from ottla.errors import ProtocolError
from ottla.purgatory.steps import Steps
from ottla.quoting import cut_name

FIELDS_MAX: Final = 100_000
"""Fields of one push: a client with all metrics and 500 series sends some 12,000."""
_FIELDS_PER_STEP: Final = 64
_ATTRIBUTES_MAX: Final = 16
"""Attributes of a point and its resource; clients send up to six."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DELTA: Final = 1
_DOUBLE, _INT64 = struct.Struct("<d"), struct.Struct("<q")

Attributes: TypeAlias = tuple[tuple[str, str], ...]
_Field: TypeAlias = "tuple[int, int, int, int]"
"""Number, wire type, and for `_BYTES` the start and end of the value, else the value and the end."""


class Point(NamedTuple):
    """One number of one series. ``is_delta``: add it to the former one; ``is_counter``: it never becomes smaller."""

    metric: str
    attributes: Attributes
    value: float
    is_counter: bool
    is_delta: bool


def decode_points(data: bytes, on_point: Callable[[Point], object]) -> Steps[None]:
    """Pass each point of a push to ``on_point``, in order.

    Raises:
        ProtocolError: not a MetricsData, or one with more than `FIELDS_MAX` fields. Points before it were passed on.
    """
    return _Decoder(data, on_point).decode()


class _Decoder:
    def __init__(self, data: bytes, on_point: Callable[[Point], object]) -> None:
        self._data = data
        self._on_point = on_point
        self._fields_left = FIELDS_MAX

    def decode(self) -> Steps[None]:
        for number, kind, start, end in self._fields(0, len(self._data)):
            if self._is_slice_over:
                yield None
            if (number, kind) == (1, _BYTES):
                yield from self._resource_metrics(start, end)

    @property
    def _is_slice_over(self) -> bool:
        return self._fields_left % _FIELDS_PER_STEP == 0

    def _resource_metrics(self, start: int, end: int) -> Steps[None]:
        attributes: list[tuple[str, str]] = []
        # A resource may come after its metrics on the wire.
        for number, kind, first, last in self._fields(start, end):
            if self._is_slice_over:
                yield None
            if (number, kind) == (1, _BYTES):
                yield from self._attributes(first, last, 1, attributes)
        for number, kind, first, last in self._fields(start, end):
            if self._is_slice_over:
                yield None
            if (number, kind) == (2, _BYTES):
                yield from self._scope_metrics(first, last, attributes)

    def _scope_metrics(self, start: int, end: int, attributes: list[tuple[str, str]]) -> Steps[None]:
        for number, kind, first, last in self._fields(start, end):
            if self._is_slice_over:
                yield None
            if (number, kind) == (2, _BYTES):
                yield from self._metric(first, last, attributes)

    def _metric(self, start: int, end: int, attributes: list[tuple[str, str]]) -> Steps[None]:
        name = ""
        values: list[tuple[bool, int, int]] = []
        for number, kind, first, last in self._fields(start, end):
            if self._is_slice_over:
                yield None
            if (number, kind) == (1, _BYTES):
                name = self._text(first, last)
            elif kind == _BYTES and number in (5, 7):
                # One of a kind: of several the last counts.
                values = [(number == 7, first, last)]
        for is_sum, first, last in values:
            yield from self._points(name, is_sum, first, last, attributes)

    def _points(self, name: str, is_sum: bool, start: int, end: int, attributes: list[tuple[str, str]]) -> Steps[None]:
        is_delta = is_monotonic = False
        if is_sum:
            for number, kind, value, _ in self._fields(start, end):
                if self._is_slice_over:
                    yield None
                if (number, kind) == (2, _VARINT):
                    is_delta = value == _DELTA
                elif (number, kind) == (3, _VARINT):
                    is_monotonic = value != 0
        for number, kind, first, last in self._fields(start, end):
            if self._is_slice_over:
                yield None
            if (number, kind) == (1, _BYTES):
                own = list(attributes)
                value_of_point = yield from self._point(first, last, own)
                if value_of_point is not None:
                    self._on_point(Point(name, tuple(own), value_of_point, is_monotonic, is_delta))

    def _point(self, start: int, end: int, attributes: list[tuple[str, str]]) -> Steps[float | None]:
        """Return the number, None for a point without one, and add the point's attributes."""
        value: float | None = None
        for number, kind, first, _ in self._fields(start, end):
            if self._is_slice_over:
                yield None
            if (number, kind) == (4, _FIXED64):
                (value,) = _DOUBLE.unpack(first.to_bytes(8, "little"))
            elif (number, kind) == (6, _FIXED64):
                (integer,) = _INT64.unpack(first.to_bytes(8, "little"))
                value = float(integer)
        yield from self._attributes(start, end, 7, attributes)
        return value

    def _attributes(self, start: int, end: int, field: int, into: list[tuple[str, str]]) -> Steps[None]:
        """Add the attributes in ``field`` of the message; those beyond `_ATTRIBUTES_MAX` are skipped."""
        for number, kind, first, last in self._fields(start, end):
            if self._is_slice_over:
                yield None
            if (number, kind) == (field, _BYTES) and len(into) < _ATTRIBUTES_MAX:
                key = value = ""
                for part, part_kind, part_first, part_last in self._fields(first, last):
                    if self._is_slice_over:
                        yield None
                    if (part, part_kind) == (1, _BYTES):
                        key = self._text(part_first, part_last)
                    elif (part, part_kind) == (2, _BYTES):
                        value = yield from self._any_value(part_first, part_last)
                into.append((key, value))

    def _any_value(self, start: int, end: int) -> Steps[str]:
        text = ""
        for number, kind, first, last in self._fields(start, end):
            if self._is_slice_over:
                yield None
            if (number, kind) == (1, _BYTES):
                text = self._text(first, last)
            elif (number, kind) == (2, _VARINT):
                text = "true" if first else "false"
            elif (number, kind) == (3, _VARINT):
                text = str(first - (1 << 64) if first >> 63 else first)
            elif (number, kind) == (4, _FIXED64):
                text = repr(_DOUBLE.unpack(first.to_bytes(8, "little"))[0])
        return text

    def _text(self, start: int, end: int) -> str:
        try:
            return cut_name(str(memoryview(self._data)[start:end], "utf-8"))
        except UnicodeDecodeError as error:
            raise ProtocolError(f"a string of a push is not UTF-8: {error.reason}") from None

    # --- the wire format of protobuf

    def _fields(self, position: int, end: int) -> Iterator[_Field]:
        """Yield the fields of one message.

        Raises:
            ProtocolError: see `decode_points`.
        """
        while position < end:
            if self._fields_left == 0:
                raise ProtocolError(f"a push with more than {FIELDS_MAX} fields")
            self._fields_left -= 1
            tag, position = self._varint(position, end)
            number, kind = tag >> 3, tag & 7
            if number == 0:
                raise ProtocolError("a push has a field with number 0")
            if kind == _VARINT:
                value, position = self._varint(position, end)
                yield number, kind, value, position
                continue
            if kind == _BYTES:
                size, position = self._varint(position, end)
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
            else:
                raise ProtocolError(f"a push has a field of wire type {kind}")
            start, position = position, position + size
            if position > end:
                raise ProtocolError(f"a field of a push claims {size} bytes with {end - start} left")
            if kind == _BYTES:
                yield number, kind, start, position
            else:
                yield number, kind, int.from_bytes(self._data[start:position], "little"), position

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        """Return an unsigned 64-bit number, and the position after it."""
        value = shift = 0
        while position < end and shift < 70:
            byte = self._data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, position
            shift += 7
        raise ProtocolError("a push ends within a number, or has one of more than ten bytes")
