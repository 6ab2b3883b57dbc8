"""A simulated cluster of many brokers at rest: which requests its nodes send each other, and the CPU of their code.

    python -m benchmarks.simulated_scale --sizes 3 6 12 24 48 100

The nodes are the real ones in one thread (docs/simulator.md), three of them controllers as well, with a topic of N
partitions and N replicas, so that every broker follows every other: the most connections and fetches that N brokers can
have. Counts are those of the nodes' metrics, per second of simulated time. The CPU is that of this process, with the
simulator's own: no kernel, no switches between processes, warm caches. It is a lower bound, `benchmarks.scale_out` an
upper one.
"""

import argparse
import time
from collections import Counter
from pathlib import Path

from benchmarks import measure, scale_out
from benchmarks.measure import Figure

from ottla.network.metrics import sample_requests
from ottla.simulator.clients.requests import create_topic
from ottla.simulator.runs.campaign import sparing_the_collector
from ottla.simulator.world.cluster import Cluster

CONTROLLERS = 3
SETTLE_MS = 4000
PIECES = 5
PIECE_MS = 2000


def requests_of(cluster: Cluster) -> Counter[str]:
    """Return the requests that all nodes have received so far, by kind."""
    counts: Counter[str] = Counter()
    for place in cluster.nodes.values():
        for sample in sample_requests(place.node.connections):
            counts[sample.api] += sample.requests
    return counts


def measure_rest(size: int, overrides: dict[str, str]) -> list[Figure]:
    """Form a cluster of ``size`` nodes, and measure it once it is at rest."""
    cluster = Cluster(brokers=size, controllers=min(CONTROLLERS, size), overrides=overrides)
    cluster.start()
    cluster.run_until_ready()
    leader = cluster.leader_id()
    assert leader is not None
    create_topic(cluster.connect(leader), "mesh", partitions=size, replicas=size)
    cluster.run(SETTLE_MS)
    before, spent_s = requests_of(cluster), []
    with sparing_the_collector():
        for _ in range(PIECES):
            started_s = time.process_time()
            cluster.run(PIECE_MS)
            spent_s.append(time.process_time() - started_s)
    seconds = PIECES * PIECE_MS / 1000
    counts = requests_of(cluster) - before
    # On a host with other load, the fastest piece is the cost of the code.
    share = min(spent_s) * 1000 / PIECE_MS
    figures = [
        ("requests/s", counts.total() / seconds, "requests/s"),
        ("Fetch/s", counts["Fetch"] / seconds, "requests/s"),
        ("BrokerHeartbeat/s", counts["BrokerHeartbeat"] / seconds, "requests/s"),
        ("requests/s of a node", counts.total() / seconds / size, "requests/s"),
        ("CPU", share * 100, "% of a core"),
        ("CPU of a node", share * 100 / size, "% of a core"),
        ("CPU of a request", share * 1e6 / (counts.total() / seconds), "us"),
    ]
    return [
        Figure(name=f"{size} nodes: {name}", value=value, unit=unit, better="lower") for name, value, unit in figures
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", type=int, nargs="+", default=[3, 6, 12, 24, 48, 100], metavar="N")
    options.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="of every node")
    options.add_argument("--json", type=Path, metavar="FILE")
    given = options.parse_args()
    overrides = dict(line.split("=", 1) for line in given.config)
    figures: list[Figure] = []
    points: list[tuple[int, float]] = []
    for size in given.sizes:
        measure.progress(f"{size} nodes")
        measured = measure_rest(size, overrides)
        figures += measured
        points.append((size, measured[0].value))
    measure.report(figures, given.json)
    known = [point for point in points if point[0] <= scale_out.FITTED_NODES_MAX]
    if len(known) > 3:
        curve = scale_out.fit(known, 2)
        print(f"up to {known[-1][0]} nodes, requests/s = {curve[0]:.2f} + {curve[1]:.3f} N + {curve[2]:.4f} N²")
        for size, value in points[len(known) :]:
            print(f"{size} nodes: measured {value:,.0f}, predicted {scale_out.value_at(curve, size):,.0f} requests/s")


if __name__ == "__main__":
    main()
