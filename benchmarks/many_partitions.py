"""Thousands of partitions on three nodes: how long to create them, to restart the cluster, to lose a node; memory.

    python -m benchmarks.many_partitions --system ottla --partitions 10000 --replicas 3
    OTTLA_KAFKA_CLUSTER_COMMAND=... python -m benchmarks.many_partitions --system kafka

A step is complete when Metadata shows that every partition has a leader and its full ISR, or after a kill -9, that none
is led by the node which was lost. Of the event loops of Ottla's other nodes, the longest iteration of that time is
measured: no event waited for longer. It is the bound of a bucket of `ottla_loop_iterations_total`.
"""

import argparse
import math
import os
import re
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks import measure, three_nodes
from benchmarks.measure import Figure
from benchmarks.three_nodes import NODE_IDS, Cluster
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

PARTITIONS_PER_TOPIC = 1000
CALM_SHARE = 0.2
CALM_TIMEOUT_S = 60
ITERATIONS = re.compile(r'^ottla_loop_iterations_total\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


class Partitions:
    """The partitions of all topics, as Metadata describes them."""

    def __init__(self, cluster: Cluster, partitions: int, replicas: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_server, "log_level": 0})
        self._partitions = partitions
        self._replicas = replicas

    def are_in_sync(self) -> bool:
        now = self._now()
        return len(now) == self._partitions and all(leader > 0 and isr == self._replicas for leader, isr in now)

    def do_without(self, node: int) -> bool:
        """Return whether none is led by ``node``; one whose only replica it has is without a leader."""
        now = self._now()
        led = sum(leader > 0 for leader, _ in now)
        expected = self._partitions if self._replicas > 1 else self._partitions * 2 // 3 - 1
        return led >= expected and all(leader != node for leader, _ in now)

    def leaders(self) -> Counter[int]:
        return Counter(leader for leader, _ in self._now())

    def _now(self) -> list[tuple[int, int]]:
        try:
            topics = self._admin.list_topics(timeout=30).topics
        except KafkaException:
            return []
        return [
            (partition.leader, len(partition.isrs))
            for name, topic in topics.items()
            if name.startswith("many-")
            for partition in topic.partitions.values()
        ]


class LoopIterations:
    """Iterations of the event loops of Ottla's nodes from now on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._before = {node: self._by_bound(node) for node in NODE_IDS}

    def longest_s(self, *, but: int) -> float:
        """Return the least bound of all iterations, without those of the node ``but``."""
        return max(self._longest_of(node) for node in NODE_IDS if node != but)

    def _longest_of(self, node: int) -> float:
        before, now = self._before[node], self._by_bound(node)
        count = now[math.inf] - before[math.inf]
        return min(bound for bound in now if now[bound] - before[bound] == count)

    def _by_bound(self, node: int) -> dict[float, int]:
        return {float(bound): int(float(count)) for bound, count in ITERATIONS.findall(self._cluster.metrics(node))}


def measure_cluster(cluster: Cluster, partitions: int, replicas: int) -> list[Figure]:
    view = Partitions(cluster, partitions, replicas)
    figures = []
    condition = f"{partitions} partitions x {replicas}"

    def add(name: str, value: float, unit: str) -> None:
        measure.progress(f"  {name}, {condition}: {value:,.2f} {unit}")
        figures.append(Figure(name=f"{name}, {condition}", value=value, unit=unit, better="lower"))

    add("memory before", cluster.rss_mib(), "MiB")
    cpu_s, started = cluster.cpu_s(), time.perf_counter()
    for number in range(0, partitions, PARTITIONS_PER_TOPIC):
        count = min(PARTITIONS_PER_TOPIC, partitions - number)
        cluster.create_topic(f"many-{number}", partitions=count, replicas=replicas)
    add("create: until acknowledged", time.perf_counter() - started, "s")
    three_nodes.wait_until("every partition is in sync", view.are_in_sync)
    add("create: until in sync", time.perf_counter() - started, "s")
    add("create: CPU", cluster.cpu_s() - cpu_s, "s")
    add("memory", cluster.rss_mib(), "MiB")
    measure.progress(f"  leaders by node: {dict(view.leaders())}")
    # Metadata has a partition before the nodes have created its files.
    if become_calm(cluster):
        add("create: until the nodes are calm", time.perf_counter() - started, "s")
    add("create: CPU until then", cluster.cpu_s() - cpu_s, "s")
    add("memory with all logs", cluster.rss_mib(), "MiB")
    add("idle: CPU", busy_share(cluster, 5) * 100, "% of a core")

    def kill(victim: int, name: str) -> None:
        iterations = LoopIterations(cluster) if cluster.system == "ottla" else None
        started = time.perf_counter()
        cluster.kill(victim)
        three_nodes.wait_until(f"nothing is led by node {victim}", lambda: view.do_without(victim), pause_s=0.02)
        add(f"kill -9 of {name}: until another leads", time.perf_counter() - started, "s")
        if iterations is not None:
            time.sleep(1)  # brokers have applied the metadata before they have done all that follows from it
            longest_ms = iterations.longest_s(but=victim) * 1000
            add(f"kill -9 of {name}: longest iteration of the others' event loops, at most", longest_ms, "ms")

    victim = next(node for node in NODE_IDS if node != cluster.quorum_leader())
    kill(victim, "a node")
    started = time.perf_counter()
    cluster.start(victim)
    three_nodes.wait_until("every partition is in sync", view.are_in_sync)
    add("that node's return: until in sync", time.perf_counter() - started, "s")

    victim = cluster.quorum_leader()
    kill(victim, "the quorum's leader")
    cluster.start(victim)
    three_nodes.wait_until("every partition is in sync", view.are_in_sync)

    started = time.perf_counter()
    cluster.stop(next(node for node in NODE_IDS if node != cluster.quorum_leader()))
    add("one node's controlled stop", time.perf_counter() - started, "s")
    # The remaining voters are no majority, so a controlled stop could not finish.
    cluster.kill_all()
    started = time.perf_counter()
    for node in NODE_IDS:
        cluster.start(node)
    three_nodes.wait_until("every partition is in sync", view.are_in_sync)
    add("start of all: until in sync", time.perf_counter() - started, "s")
    add("memory after the start", cluster.rss_mib(), "MiB")
    return figures


def become_calm(cluster: Cluster) -> bool:
    """Wait until the nodes use little CPU; some never do."""
    deadline = time.monotonic() + CALM_TIMEOUT_S
    while time.monotonic() < deadline:
        if busy_share(cluster, 1) < CALM_SHARE:
            return True
    return False


def busy_share(cluster: Cluster, seconds: float) -> float:
    """CPU seconds per second that the nodes use, all together, from now on."""
    cpu_s = cluster.cpu_s()
    time.sleep(seconds)
    return (cluster.cpu_s() - cpu_s) / seconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--system", choices=["ottla", "kafka"], default="ottla")
    options.add_argument("--partitions", type=int, default=10_000)
    options.add_argument("--replicas", type=int, default=1)
    options.add_argument("--port-base", type=int, default=27700)
    options.add_argument("--kafka-command", default=os.environ.get("OTTLA_KAFKA_CLUSTER_COMMAND"))
    options.add_argument("--json", type=Path, metavar="FILE")
    arguments = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix=f"{arguments.system}-", ignore_cleanup_errors=True) as folder,
        three_nodes.running(
            arguments.system,
            Path(folder),
            arguments.port_base,
            arguments.kafka_command,
            properties=three_nodes.ADMIN_LISTENER,
        ) as nodes,
    ):
        figures = measure_cluster(nodes[0], arguments.partitions, arguments.replicas)
        measure.report(figures, arguments.json)


if __name__ == "__main__":
    main()
