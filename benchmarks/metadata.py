"""Cost of a Metadata request for a topic of 1,000 partitions over one warm connection.

    python -m benchmarks.metadata --bootstrap-server 127.0.0.1:9092 --pid 4711

The response after a change is a figure of its own: a node may cache the encoded response until then.
"""

import statistics
import time

from benchmarks import frames, measure

CHANGES = 20


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--partitions", type=int, default=1000)
    options.add_argument("--seconds", type=float, default=3)
    arguments = options.parse_args()
    address, node = measure.address_of(arguments.bootstrap_server), measure.Node(arguments.pid)
    count = f"{arguments.partitions} partitions"
    measure.progress(f"Metadata of {count}")
    with measure.temporary_topic(arguments.bootstrap_server, "metadata", arguments.partitions) as topic:
        figures = [after_change(frames.connect(address), arguments.bootstrap_server, topic, count)]
        figures += cost(frames.connect(address), topic, count, node, arguments.seconds)
    measure.report(figures, arguments.json)


def after_change(connection: frames.Connection, bootstrap_server: str, topic: str, count: str) -> measure.Figure:
    """Return the median over changes to the topic; the wait for a change uses another version than ``connection``."""
    request = frames.metadata_request(topic)
    seconds = []
    for _ in range(CHANGES):
        measure.add_partition(bootstrap_server, topic)
        started = time.perf_counter()
        connection.exchange(request)
        seconds.append(time.perf_counter() - started)
    name = f"Metadata of {count}, after a change"
    return measure.Figure(name=name, value=statistics.median(seconds) * 1e3, unit="ms", better="lower")


def cost(
    connection: frames.Connection, topic: str, count: str, node: measure.Node, seconds_max: float
) -> list[measure.Figure]:
    request = frames.metadata_request(topic)
    warm_at = time.perf_counter() + seconds_max
    while time.perf_counter() < warm_at:
        connection.exchange(request)
    asked, cpu_s, started = 0, node.cpu_s(), time.perf_counter()
    while (seconds := time.perf_counter() - started) < seconds_max:
        connection.exchange(request)
        asked += 1
    cpu_s = node.cpu_s() - cpu_s
    name = f"Metadata of {count}"
    figures = [measure.Figure(name=name, value=seconds / asked * 1e3, unit="ms", better="lower")]
    if node.pid is not None:
        figures.append(measure.Figure(name=f"{name}: CPU", value=cpu_s / asked * 1e3, unit="ms", better="lower"))
    return figures


if __name__ == "__main__":
    main()
