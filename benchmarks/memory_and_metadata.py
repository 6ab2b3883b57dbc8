"""Memory idle, with 1,000 partitions and under load; and what a Metadata request for 1,000 partitions costs.

    python -m benchmarks.memory_and_metadata --bootstrap-server 127.0.0.1:9092 --pid 4711

Run it against a node that has just started: the first figure is what it has then.
"""

import time

from benchmarks import frames, measure
from benchmarks.throughput import PARTITIONS, produce_with_frames


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--partitions", type=int, default=1000)
    options.add_argument("--seconds", type=float, default=3)
    options.add_argument("--megabytes", type=int, default=500)
    arguments = options.parse_args()
    if arguments.pid is None:
        options.error("--pid is needed: memory is read from /proc")
    address, node = measure.address_of(arguments.bootstrap_server), measure.Node(arguments.pid)
    figures = [measure.Figure(name="memory idle", value=node.rss_mib(), unit="MiB", better="lower")]

    measure.progress(f"a topic of {arguments.partitions:,} partitions")
    count = f"{arguments.partitions} partitions"
    started = time.perf_counter()
    with measure.temporary_topic(arguments.bootstrap_server, "partitions", arguments.partitions) as topic:
        seconds = time.perf_counter() - started
        figures.append(measure.Figure(name=f"{count} created", value=seconds, unit="s", better="lower"))
        name = f"memory with {count}"
        figures.append(measure.Figure(name=name, value=node.rss_mib(), unit="MiB", better="lower"))
        figures += metadata_cost(frames.connect(address), topic, count, node, arguments.seconds)

    measure.progress("load")
    with measure.temporary_topic(arguments.bootstrap_server, "load", PARTITIONS) as topic:
        produce_with_frames(arguments.bootstrap_server, topic, 1000, arguments.megabytes * 1000)
    name = f"memory at its peak, {arguments.megabytes} MB produced"
    figures.append(measure.Figure(name=name, value=node.rss_peak_mib(), unit="MiB", better="lower"))
    measure.report(figures, arguments.json)


def metadata_cost(
    connection: frames.Connection, topic: str, count: str, node: measure.Node, seconds_max: float
) -> list[measure.Figure]:
    measure.progress(f"Metadata of {count}")
    request = frames.metadata_request(topic)
    for _ in range(20):
        connection.exchange(request)
    asked, cpu_s, started = 0, node.cpu_s(), time.perf_counter()
    while (seconds := time.perf_counter() - started) < seconds_max:
        connection.exchange(request)
        asked += 1
    cpu_s = node.cpu_s() - cpu_s
    return [
        measure.Figure(name=f"Metadata of {count}", value=seconds / asked * 1e3, unit="ms", better="lower"),
        measure.Figure(name=f"Metadata of {count}: CPU", value=cpu_s / asked * 1e3, unit="ms", better="lower"),
    ]


if __name__ == "__main__":
    main()
