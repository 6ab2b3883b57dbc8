"""Small requests: one-record Produce and ApiVersions per second over many connections, one request under way on each.

python -m benchmarks.small_requests --bootstrap-server 127.0.0.1:9092 --pid 4711
"""

import argparse

from benchmarks import frames, measure

PARTITIONS = 6


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--connections", type=int, default=20)
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--warm-up-seconds", type=float, default=8, help="a JVM compiles what it has seen often")
    arguments = options.parse_args()
    address, node = measure.address_of(arguments.bootstrap_server), measure.Node(arguments.pid)
    figures: list[measure.Figure] = []
    with measure.temporary_topic(arguments.bootstrap_server, "small", PARTITIONS) as topic:
        records = frames.batch([b"x" * 100])
        places = [number % PARTITIONS for number in range(arguments.connections)]
        produce = [frames.produce_request(topic, partition, records) for partition in places]
        frames.check_produced(frames.connect(address).exchange(produce[0]))
        figures += run("one-record produce", produce, address, node, arguments)
    figures += run("ApiVersions", [frames.API_VERSIONS_REQUEST] * arguments.connections, address, node, arguments)
    measure.report(figures, arguments.json)


def run(
    name: str, requests: list[bytes], address: tuple[str, int], node: measure.Node, arguments: argparse.Namespace
) -> list[measure.Figure]:
    """Send one of ``requests`` per connection, again and again, after some time to warm up."""
    measure.progress(f"{name} over {len(requests)} connections")
    frames.requests_per_second(address, requests, arguments.warm_up_seconds)
    cpu_s = node.cpu_s()
    served, seconds = frames.requests_per_second(address, requests, arguments.seconds)
    cpu_s = node.cpu_s() - cpu_s
    figures = [measure.Figure(name=name, value=served / seconds, unit="requests/s")]
    if node.pid is not None:
        cost_us = cpu_s / served * 1e6
        figures.append(measure.Figure(name=f"{name}: CPU", value=cost_us, unit="us/request", better="lower"))
    return figures


if __name__ == "__main__":
    main()
