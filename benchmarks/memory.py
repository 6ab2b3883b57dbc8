"""Memory of a node that has settled: idle, with 1,000 partitions, and at its peak under load.

    python -m benchmarks.memory --bootstrap-server 127.0.0.1:9092 --pid 4711

Run it against a node that has just started: the first figure is its memory then. Parts that a node loads after
its first response, such as its HTTP pages, belong to idle and not to the partitions, so each reading waits until the
memory is stable.
"""

import time

from benchmarks import measure
from benchmarks.throughput import PARTITIONS, produce_with_frames


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--partitions", type=int, default=1000)
    options.add_argument("--megabytes", type=int, default=500)
    arguments = options.parse_args()
    if arguments.pid is None:
        options.error("--pid is needed: memory is read from /proc")
    node = measure.Node(arguments.pid)
    measure.progress("waiting for the node to settle")
    idle_mib = node.settled_rss_mib()

    measure.progress(f"a topic of {arguments.partitions:,} partitions")
    count = f"{arguments.partitions} partitions"
    started = time.perf_counter()
    with measure.temporary_topic(arguments.bootstrap_server, "partitions", arguments.partitions):
        seconds = time.perf_counter() - started
        full_mib = node.settled_rss_mib()

    measure.progress("load")
    with measure.temporary_topic(arguments.bootstrap_server, "load", PARTITIONS) as topic:
        produce_with_frames(arguments.bootstrap_server, topic, 1000, arguments.megabytes * 1000)
    memory = {
        "memory idle": idle_mib,
        f"memory with {count}": full_mib,
        f"memory that {count} add": full_mib - idle_mib,
        f"memory at its peak, {arguments.megabytes} MB produced": node.rss_peak_mib(),
    }
    figures = [measure.Figure(name=name, value=mib, unit="MiB", better="lower") for name, mib in memory.items()]
    figures.append(measure.Figure(name=f"{count} created", value=seconds, unit="s", better="lower"))
    measure.report(figures, arguments.json)


if __name__ == "__main__":
    main()
