"""Three nodes of Ottla next to three of JVM Kafka, one cluster at a time: the section "Three nodes" of RESULTS.md.

    export OTTLA_KAFKA_CLUSTER_COMMAND='.../up 3 --dir {dir} --port-base {port}'
    python -m benchmarks.replicated
    python -m benchmarks.replicated --only ottla --parts stalls roll     # one system, no results file

The JVM command formats three nodes with ``--format-only`` and becomes node I with ``--node I --foreground``. Topics
have three replicas and min.insync.replicas=2, producers acks=all; a stall is the longest that any record waited for
its acknowledgement.
"""

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks import compare, measure, results, steady_load, three_nodes, throughput
from benchmarks.measure import Figure
from benchmarks.three_nodes import NODE_IDS, Cluster, View
from confluent_kafka.admin import AdminClient

SECTION = "Three nodes"
PARTITIONS = 6
LATENCY_RATE_PER_S = 5000
STALL_RATE_PER_S = 1000
WARM_UP_S = 3
LATENCY_S = 10
CALM_S = 2


class Session:
    """A cluster under measurement, and the figures so far."""

    def __init__(self, cluster: Cluster, megabytes: int, kills: int) -> None:
        self.cluster = cluster
        self.megabytes = megabytes
        self.kills = kills
        self.figures: list[Figure] = []
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_server, "log_level": 0})
        self.view = View(admin)

    def add(self, name: str, value: float, unit: str, better: str = "lower") -> None:
        measure.progress(f"  {self.cluster.system}: {name}: {value:,.2f} {unit}")
        self.figures.append(Figure(name=name, value=value, unit=unit, better=better))

    def topic(self, name: str) -> str:
        """A new topic of three replicas, all in sync, its leaders spread evenly."""
        self.cluster.create_topic(name, partitions=PARTITIONS, replicas=3)
        self.view.wait_until_in_sync(name, PARTITIONS, 3)
        return name

    def start_again(self, node: int, topic: str) -> None:
        self.cluster.start(node)
        self.view.wait_until_in_sync(topic, PARTITIONS, 3)


def measure_throughput(session: Session) -> None:
    for size_bytes in (1000, 100):
        topic = session.topic(f"throughput-{size_bytes}")
        count = session.megabytes * 1_000_000 // size_bytes
        cpu_s, started = session.cluster.cpu_s(), time.perf_counter()
        throughput.produce_with_librdkafka(session.cluster.bootstrap_server, topic, size_bytes, count, acks="all")
        seconds, cpu_s = time.perf_counter() - started, session.cluster.cpu_s() - cpu_s
        name = f"produce {size_bytes} B, acks=all"
        session.add(name, count * size_bytes / 1e6 / seconds, "MB/s", "higher")
        session.add(f"{name}: CPU of the three nodes", cpu_s / (count * size_bytes / 1e9), "s/GB")


def measure_latency(session: Session) -> None:
    for linger_ms in (5, 0):
        topic = session.topic(f"latency-{linger_ms}")
        with steady_load.running(
            session.cluster.bootstrap_server,
            topic,
            partitions=PARTITIONS,
            rate_per_s=LATENCY_RATE_PER_S,
            linger_ms=linger_ms,
        ) as load:
            time.sleep(WARM_UP_S)
            cpu_s, started = session.cluster.cpu_s(), time.perf_counter()
            time.sleep(LATENCY_S)
            cpu_s, seconds = session.cluster.cpu_s() - cpu_s, time.perf_counter() - started
            waited_ms = load.stop().since(started)
        condition = f"at {LATENCY_RATE_PER_S}/s, linger {linger_ms} ms"
        for label, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
            session.add(f"latency {label} {condition}", measure.percentile(waited_ms, share), "ms")
        session.add(f"CPU of the three nodes {condition}", cpu_s / seconds * 100, "% of a core")
        if len(waited_ms) < 0.95 * LATENCY_RATE_PER_S * seconds:
            measure.progress(f"  only {len(waited_ms) / seconds:,.0f} records/s were sent and acknowledged")


def measure_stalls(session: Session) -> None:
    """Kill nodes that lead partitions, then nodes that lead the quorum as well; restart each afterwards."""
    for who in ("a broker", "the quorum's leader"):
        topic = session.topic(f"stall-{who[-6:].strip()}")
        stalls_s, failed = [], 0
        for number in range(session.kills):
            leader = session.cluster.quorum_leader()
            victim = leader if who.startswith("the") else next(node for node in NODE_IDS if node != leader)
            with _load(session, topic) as load:
                # Clients check their partitions once a second: vary the moment within it.
                time.sleep(CALM_S + number / session.kills)
                killed = time.perf_counter()
                session.cluster.kill(victim)
                session.view.wait_until_led_without(victim, topic)
                time.sleep(CALM_S)
                outcome = load.stop()
            stalls_s.append(outcome.longest_wait_s(killed - 1))
            failed += len(outcome.errors)
            session.start_again(victim, topic)
            session.view.spread_leaders(topic, PARTITIONS)
        session.add(f"kill -9 of {who}: longest stall of {session.kills}", max(stalls_s), "s")
        session.add(f"kill -9 of {who}: records that failed", failed, "records")


def measure_roll(session: Session) -> None:
    """Stop and start one node after the other, the active controller last."""
    topic = session.topic("roll")
    leader = session.cluster.quorum_leader()
    with _load(session, topic) as load:
        time.sleep(CALM_S)
        started = time.perf_counter()
        for node in sorted(NODE_IDS, key=lambda each: each == leader):
            stopped_s = session.cluster.stop(node)
            session.start_again(node, topic)
            measure.progress(f"  node {node} took {stopped_s:.1f} s to stop")
        seconds = time.perf_counter() - started
        time.sleep(CALM_S)
        outcome = load.stop()
    session.add("controlled roll: longest stall", outcome.longest_wait_s(started), "s")
    session.add("controlled roll: records that failed", len(outcome.errors), "records")
    session.add("controlled roll of three nodes", seconds, "s")
    for error in sorted(set(outcome.errors)):
        measure.progress(f"  a record failed: {error}")


def measure_election(session: Session) -> None:
    """Kill the quorum's leader; how long until another topic can be created through a node that is left."""
    topic = session.topic("election")
    leader = session.cluster.quorum_leader()
    via = next(node for node in NODE_IDS if node != leader)
    killed = time.perf_counter()
    session.cluster.kill(leader)
    session.cluster.create_topic("elected", partitions=1, replicas=1, via=via)
    session.add("kill -9 of the quorum's leader: until a topic is created", time.perf_counter() - killed, "s")
    session.start_again(leader, topic)


def _load(session: Session, topic: str) -> AbstractContextManager[steady_load.Load]:
    return steady_load.running(
        session.cluster.bootstrap_server, topic, partitions=PARTITIONS, rate_per_s=STALL_RATE_PER_S, linger_ms=5
    )


PARTS: dict[str, Callable[[Session], None]] = {
    "throughput": measure_throughput,
    "latency": measure_latency,
    "stalls": measure_stalls,
    "roll": measure_roll,
    "election": measure_election,
}


def run_round(system: str, parts: list[str], arguments: argparse.Namespace) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix=f"{system}-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        if arguments.keep_logs:
            directory = arguments.keep_logs / f"{system}-{time.time_ns()}"
            directory.mkdir(parents=True)
        nodes = three_nodes.running(system, directory, arguments.port_base, arguments.kafka_command)
        with nodes as (cluster, took_s):
            session = Session(cluster, arguments.megabytes, arguments.kills)
            session.add("three nodes from start to ready", took_s, "s")
            session.add("memory of three nodes at the start", cluster.rss_mib(), "MiB")
            for part in parts:
                measure.progress(f"{system}: {part}, load average {os.getloadavg()[0]:.1f}")
                PARTS[part](session)
            return session.figures


def section(rounds: int, figures: compare.Figures, facts: compare.Facts) -> str:
    return f"""Medians of {rounds} rounds, one cluster at a time, its three nodes and the client on the same machine:
{compare.machine()}. Every node is broker and controller with its system's defaults; six partitions, three
replicas, min.insync.replicas=2, acks=all, librdkafka. A stall is the longest that any record waited for its
acknowledgement, at {STALL_RATE_PER_S:,} records/s.

{compare.table(figures, facts)}

Made by

    export OTTLA_KAFKA_CLUSTER_COMMAND=...   # formats and runs JVM Kafka nodes; see the module
    python -m benchmarks.replicated --rounds {rounds}
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--megabytes", type=int, default=300, help="how much to produce of each record size")
    options.add_argument("--kills", type=int, default=3, help="how often each kind of node is killed")
    options.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    three_nodes.add_options(options, port_base=27400)
    options.add_argument("--raw", type=Path, metavar="FILE", help="keep every figure of every round as JSON")
    options.add_argument("--keep-logs", type=Path, metavar="DIR", help="keep the nodes' directories there")
    arguments = options.parse_args()
    systems = three_nodes.systems_of(arguments, options)
    figures: compare.Figures = defaultdict(lambda: defaultdict(list))
    facts: compare.Facts = {}
    for _ in range(arguments.rounds):
        for system in systems:
            for figure in run_round(system, arguments.parts, arguments):
                facts[figure.name] = {"unit": figure.unit, "better": figure.better}
                figures[figure.name][system].append(figure.value)
                if arguments.raw is not None:
                    arguments.raw.write_text(json.dumps({"figures": figures, "facts": facts}, indent=1))
    if not arguments.only:
        print(compare.table(figures, facts))
        results.write_section(SECTION, section(arguments.rounds, figures, facts))
        measure.progress(f"written: {results.RESULTS}")


if __name__ == "__main__":
    main()
