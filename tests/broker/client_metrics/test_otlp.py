"""Our decoder of pushes beside protobuf's own, on messages of all kinds and on bytes that are none."""

import math
import random

import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, NumberDataPoint

from ottla.client_metrics.otlp import FIELDS_MAX, Point, decode_points
from ottla.errors import ProtocolError
from ottla.purgatory.steps import run_to_end


def decoded(data: bytes) -> list[Point]:
    points: list[Point] = []
    run_to_end(decode_points(data, points.append))
    return points


def expected(data: MetricsData) -> list[Point]:
    """Return the points as protobuf's own classes have them."""
    points = []
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind not in ("gauge", "sum"):
                    continue
                is_delta = kind == "sum" and metric.sum.aggregation_temporality == 1
                is_counter = kind == "sum" and metric.sum.is_monotonic
                for point in getattr(metric, kind).data_points:
                    number = point.WhichOneof("value")
                    if number is not None:
                        attributes = [*resource.resource.attributes, *point.attributes]
                        labels = tuple((each.key, shown(each.value)) for each in attributes)
                        points.append(Point(metric.name, labels, float(getattr(point, number)), is_counter, is_delta))
    return points


def shown(value: object) -> str:
    kind = value.WhichOneof("value")  # type: ignore[attr-defined]
    if kind not in ("string_value", "bool_value", "int_value", "double_value"):
        return ""
    plain = getattr(value, kind)
    return plain if isinstance(plain, str) else str(plain).lower() if isinstance(plain, bool) else repr(plain)


def random_push(rng: random.Random) -> MetricsData:
    data = MetricsData()
    for _ in range(rng.randrange(3)):
        resource = data.resource_metrics.add(schema_url="http://schema")
        if rng.random() < 0.5:
            resource.resource.attributes.add(key="group_id").value.string_value = "g"
        for _ in range(rng.randrange(3)):
            scope = resource.scope_metrics.add()
            scope.scope.name = "scope"
            for _ in range(rng.randrange(4)):
                fill(scope.metrics.add(name=f"m{rng.randrange(5)}.ü", description="d", unit="1"), rng)
    return data


def fill(metric: Metric, rng: random.Random) -> None:
    kind = rng.choice(["gauge", "sum", "histogram", "none"])
    if kind == "histogram":
        metric.histogram.data_points.add(count=3, sum=1.0, bucket_counts=[1, 2], explicit_bounds=[1.0])
    elif kind != "none":
        for _ in range(rng.randrange(4)):
            fill_point(getattr(metric, kind).data_points.add(), rng)
        if kind == "sum":
            metric.sum.aggregation_temporality = rng.randrange(3)
            metric.sum.is_monotonic = rng.random() < 0.5


def fill_point(point: NumberDataPoint, rng: random.Random) -> None:
    point.start_time_unix_nano = rng.getrandbits(63)
    point.flags = 1
    if rng.random() < 0.5:
        point.as_double = rng.choice([0.0, -1.5, math.inf, rng.random()])
    elif rng.random() < 0.9:
        point.as_int = rng.randrange(-(1 << 53), 1 << 53)
    for number in range(rng.randrange(4)):
        value = point.attributes.add(key=f"k{number}").value
        kind = rng.randrange(5)
        if kind == 0:
            value.string_value = "text ü"
        elif kind == 1:
            value.bool_value = rng.random() < 0.5
        elif kind == 2:
            value.int_value = rng.randrange(-(1 << 63), 1 << 63)
        elif kind == 3:
            value.double_value = rng.random()
        else:
            value.bytes_value = b"bytes"


@pytest.mark.parametrize("seed", range(20))
def test_random_pushes_are_decoded_as_by_protobuf(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        push = random_push(rng)

        assert decoded(push.SerializeToString()) == expected(push)


def test_mutated_pushes_raise_only_protocol_errors() -> None:
    rng = random.Random(7)
    rejected = 0
    for _ in range(2_000):
        data = bytearray(random_push(rng).SerializeToString() or b"\x0a\x00")
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            decoded(bytes(data[: rng.randrange(len(data)) + 1]))
        except ProtocolError:
            rejected += 1

    assert rejected > 500


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0a\x05\x00", id="length-beyond-the-end"),
        pytest.param(b"\x0a", id="ends-within-a-field"),
        pytest.param(b"\x0a" + b"\xff" * 11, id="varint-of-eleven-bytes"),
        pytest.param(b"\x0b", id="group"),
        pytest.param(b"\x00\x00", id="field-zero"),
        pytest.param(b"\x0a\x06\x12\x04\x12\x02\x0a\xff", id="nested-length-beyond-the-end"),
    ],
)
def test_malformed_push_is_rejected_as_by_protobuf(data: bytes) -> None:
    with pytest.raises(DecodeError):
        MetricsData.FromString(data)
    with pytest.raises(ProtocolError):
        decoded(data)


def test_push_of_empty_messages_stops_at_the_limit_of_fields() -> None:
    assert decoded(b"\x0a\x00" * FIELDS_MAX) == []
    with pytest.raises(ProtocolError, match="fields"):
        decoded(b"\x0a\x00" * (FIELDS_MAX + 1))


def test_decoder_yields_at_every_depth() -> None:
    deep = MetricsData()
    metric = deep.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    for number in range(500):
        metric.gauge.data_points.add(as_double=number).attributes.add(key="k").value.string_value = "v"

    steps = decode_points(deep.SerializeToString(), lambda _: None)

    assert sum(1 for _ in steps) > 500 * 6 // 64
