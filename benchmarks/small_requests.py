"""Small requests per second: one-record and 16 KiB Produce, Fetch of nothing, and ApiVersions.

A shape such as c20d5 is a number of connections and how many requests are under way on each.

python -m benchmarks.small_requests --bootstrap-server 127.0.0.1:9092 --pid 4711 --shapes c1d1,c1d5,c20d5,c100d2
"""

import argparse
import re
from typing import NamedTuple

from benchmarks import frames, measure

PARTITIONS = 6
EMPTY_PARTITION = PARTITIONS
KINDS = ("produce", "produce16k", "fetch", "versions")
NAMES = {
    "produce": "one-record produce",
    "produce16k": "16 KiB produce",
    "fetch": "fetch of nothing",
    "versions": "ApiVersions",
}


class Shape(NamedTuple):
    """So many connections, with ``depth`` requests under way on each."""

    connections: int
    depth: int


def read_shapes(text: str) -> list[Shape]:
    shapes = [re.fullmatch(r"c(\d+)d(\d+)", word) for word in text.split(",")]
    if not all(shapes):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as c1d1,c20d5")
    return [Shape(int(shape[1]), int(shape[2])) for shape in shapes if shape]


def read_kinds(text: str) -> list[str]:
    kinds = text.split(",")
    if not set(kinds) <= set(KINDS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of some of {', '.join(KINDS)}")
    return kinds


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--shapes", type=read_shapes, default="c20d1")
    options.add_argument("--kinds", type=read_kinds, default="produce,versions", help=f"of {', '.join(KINDS)}")
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--warm-up-seconds", type=float, default=8, help="a JVM compiles what it has seen often")
    arguments = options.parse_args()
    address, node = measure.address_of(arguments.bootstrap_server), measure.Node(arguments.pid)
    figures: list[measure.Figure] = []
    with measure.temporary_topic(arguments.bootstrap_server, "small", PARTITIONS + 1) as topic:
        frames.produce(frames.connect(address), request_of("produce", topic, 0))
        for kind in arguments.kinds:
            warm_up_s = arguments.warm_up_seconds
            for shape in arguments.shapes:
                requests = [request_of(kind, topic, number % PARTITIONS) for number in range(shape.connections)]
                name = NAMES[kind] + ("" if shape == Shape(20, 1) else f" c{shape.connections}d{shape.depth}")
                figures += run(name, requests, shape.depth, address, node, arguments.seconds, warm_up_s)
                warm_up_s = min(warm_up_s, 1.0)
    measure.report(figures, arguments.json)


def request_of(kind: str, topic: str, partition: int) -> bytes:
    """Return a request that a node serves at once."""
    if kind == "versions":
        return frames.API_VERSIONS_REQUEST
    if kind == "fetch":
        return frames.fetch_request(topic, {EMPTY_PARTITION: 0}, 1 << 20, wait_ms=0)
    size_bytes = 100 if kind == "produce" else 16 * 1024
    return frames.produce_request(topic, partition, frames.batch([b"x" * size_bytes]))


def run(
    name: str,
    requests: list[bytes],
    depth: int,
    address: tuple[str, int],
    node: measure.Node,
    seconds: float,
    warm_up_s: float,
) -> list[measure.Figure]:
    """Send each of ``requests`` over a connection of its own, again and again, after some time to warm up."""
    measure.progress(f"{name} over {len(requests)} connections, {depth} under way on each")
    frames.requests_per_second(address, requests, warm_up_s, depth=depth)
    cpu_s = node.cpu_s()
    served, elapsed_s = frames.requests_per_second(address, requests, seconds, depth=depth)
    cpu_s = node.cpu_s() - cpu_s
    figures = [measure.Figure(name=name, value=served / elapsed_s, unit="requests/s")]
    if node.pid is not None:
        cost_us = cpu_s / served * 1e6
        figures.append(measure.Figure(name=f"{name}: CPU", value=cost_us, unit="us/request", better="lower"))
    return figures


if __name__ == "__main__":
    main()
