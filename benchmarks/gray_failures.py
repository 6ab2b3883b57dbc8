"""Nodes that are sick rather than dead: how long records wait, by whether the node led their partition.

    python -m benchmarks.gray_failures --seconds 25

Three nodes as in `benchmarks.replicated`, six partitions of three replicas, acks=all, idempotent librdkafka with its
defaults. One node at a time is sick for ``--seconds``, once one that leads the quorum and once another:

- ``disk frozen``, ``slow``, ``full``, ``read-only`` and ``fails``: its log.dirs are on a file system of their own
  (`benchmarks.file_systems`; root is needed)
- ``one of two disks``: the second of its two log.dirs; the metadata is in the first
- ``stopped``: SIGSTOP
- ``clock``: its wall clock is set (`benchmarks.wall_clocks`); one that is behind rejects records of its future
- others: of its network, whose hosts are namespaces (`benchmarks.sick_network`; root is needed)

A stall is the longest that a record waited for its acknowledgement which was sent up to the end of the failure. After
each case the process of the sick node is killed and started again.
Requests that a stopped process has received wait for the client's own time-out; no broker can change that.
"""

import argparse
import os
import re
import shlex
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from benchmarks import compare, file_systems, measure, results, sick_network, steady_load, three_nodes, wall_clocks
from benchmarks.sick_network import CALLER, CUT, Impairment, Network
from benchmarks.three_nodes import NODE_IDS, Cluster, View
from benchmarks.wall_clocks import WallClock
from confluent_kafka.admin import AdminClient

PARTITIONS = 6
RATE_PER_S = 500
CALM_S = 3.0
SLOW_DISKS = {"disk slow 0.2 s": 0.2, "disk slow 2 s": 2.0}
"""How long writes to the disk wait, at most."""

FAILED_DISKS = {
    "disk fails": file_systems.fail,
    "disk read-only": file_systems.make_read_only,
    "one of two disks fails": file_systems.fail,
}
TWO_DISKS_KINDS = ("one of two disks frozen", "one of two disks fails")
ONE_DISK_KINDS = ("disk frozen", *SLOW_DISKS, "disk full", "disk fails", "disk read-only")
CLOCKS_H = {"clock 5 h ahead": 5, "clock 0.9 h behind": -0.9}
"""How far ahead of the true time it is set: no more behind than message.timestamp.after.max.ms, which is an hour."""

ONE_DIRECTORY_KINDS = (*ONE_DISK_KINDS, "stopped", *CLOCKS_H)
PROCESS_KINDS = (*ONE_DIRECTORY_KINDS, *TWO_DISKS_KINDS)
NETWORK_KINDS = (
    "hears nothing",
    "is not heard",
    "cut off",
    "hears no node",
    "is not heard by nodes",
    "cut off from nodes",
    "cut off from one other node",
    "loses 30 % of packets",
    "0.5 s to one other node",
)
KINDS = (*PROCESS_KINDS, *NETWORK_KINDS)
JARS_KINDS = {*TWO_DISKS_KINDS, *NETWORK_KINDS}
"""JVM Kafka's nodes are run from its jars."""
SECTIONS = {"Gray failures": PROCESS_KINDS, "Gray failures of networks": NETWORK_KINDS}


@contextmanager
def stopped(cluster: Cluster, node: int) -> Iterator[None]:
    process = cluster.processes[node]
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@contextmanager
def clock_set(cluster: Cluster, node: int, ahead_h: float) -> Iterator[None]:
    cluster.clocks[node].set_ahead(ahead_h * 3600)
    try:
        yield
    finally:
        cluster.clocks[node].set_ahead(0)


def fault(cluster: Cluster, kind: str, node: int, other: int) -> AbstractContextManager[None]:
    """Return the failure of ``node``; the one of a link is between it and ``other``."""
    if cluster.network is not None:
        return sick(cluster.network, kind, node, other)
    if kind == "stopped":
        return stopped(cluster, node)
    if kind in CLOCKS_H:
        return clock_set(cluster, node, CLOCKS_H[kind])
    disk = disk_of(cluster, node)
    if kind in FAILED_DISKS:
        return failed_disk(cluster, kind, node)
    if kind in SLOW_DISKS:
        return file_systems.slow(disk, SLOW_DISKS[kind])
    return file_systems.full(disk) if kind == "disk full" else file_systems.frozen(disk)


@contextmanager
def failed_disk(cluster: Cluster, kind: str, node: int) -> Iterator[None]:
    FAILED_DISKS[kind](disk_of(cluster, node))
    yield
    cluster.kill(node)
    file_systems.repair(disk_of(cluster, node))


@contextmanager
def sick(network: Network, kind: str, node: int, other: int) -> Iterator[None]:
    others = network.everyone_but(node, *((CALLER,) if "node" in kind else ()))
    if "other node" in kind:
        others = [other]
    if kind.startswith("0.5 s"):
        impairment = Impairment(delay_s=0.5)
    else:
        impairment = Impairment(loss=0.3) if kind == "loses 30 % of packets" else CUT
    if not kind.startswith("hears"):
        network.impair([node], others, impairment)
    if not kind.startswith("is not heard"):
        network.impair(others, [node], impairment)
    try:
        yield
    finally:
        network.heal()


def disk_of(cluster: Cluster, node: int) -> Path:
    """Return the log directory that has a file system of its own."""
    return cluster.directory / f"node-{node}" / cluster.log_dirs[-1]


@contextmanager
def on_own_disks_and_clocks(cluster: Cluster) -> Iterator[None]:
    """Give every node a file system for its (second) log directory, and a wall clock."""
    for node in NODE_IDS:
        cluster.clocks[node] = WallClock(disk_of(cluster, node).parent)
    with file_systems.mounted_each(disk_of(cluster, node) for node in NODE_IDS):
        yield


def measure_fault(cluster: Cluster, view: View, kind: str, *, leads_quorum: bool, seconds: float) -> list[float]:
    """Return the stalls of partitions that the node led and of others, and how many records failed."""
    topic = re.sub(r"[^a-z0-9]+", "-", f"{kind} {leads_quorum}".lower())
    cluster.create_topic(topic, partitions=PARTITIONS, replicas=3)
    view.wait_until_in_sync(topic, PARTITIONS, 3)
    view.spread_leaders(topic, PARTITIONS)
    leader = cluster.quorum_leader()
    victim = leader if leads_quorum else next(node for node in NODE_IDS if node != leader)
    other = next(node for node in NODE_IDS if node not in (leader, victim))
    led = {partition for partition, (node, _) in view.partitions(topic).items() if node == victim}
    load_of = steady_load.running(
        cluster.bootstrap_server, topic, partitions=PARTITIONS, rate_per_s=RATE_PER_S, linger_ms=5
    )
    with load_of as load:
        time.sleep(CALM_S)
        began_s = time.perf_counter()
        with fault(cluster, kind, victim, other):
            time.sleep(seconds)
        ended_s = time.perf_counter()
        time.sleep(CALM_S)
        outcome = load.stop()
    stalls_s = {True: 0.0, False: 0.0}
    for partition, sent_s, waited_ms in zip(outcome.partitions, outcome.sent_at_s, outcome.waited_ms, strict=True):
        if began_s - 1 <= sent_s <= ended_s:
            stalls_s[partition in led] = max(stalls_s[partition in led], waited_ms / 1000)
    # What nodes have learned about the sick one must not decide the next case.
    if victim in cluster.processes:
        cluster.kill(victim)
    # Topics that are created before the controller knows of the kill would prefer other leaders.
    view.wait_until_out_of_sync(victim, topic)
    cluster.start(victim)
    view.wait_until_in_sync(topic, PARTITIONS, 3)
    return [stalls_s[True], stalls_s[False], len(outcome.errors)]


def run_round(system: str, arguments: argparse.Namespace) -> Iterator[tuple[str, float]]:
    if kinds := [kind for kind in arguments.kinds if kind in ONE_DIRECTORY_KINDS]:
        yield from run_kinds(system, arguments, kinds, None)
    if kinds := [kind for kind in arguments.kinds if kind in TWO_DISKS_KINDS]:
        yield from run_kinds(system, arguments, kinds, None, log_dirs=("data", "more"))
    if kinds := [kind for kind in arguments.kinds if kind in NETWORK_KINDS]:
        with sick_network.running(NODE_IDS) as network:
            yield from run_kinds(system, arguments, kinds, network)


def run_kinds(
    system: str,
    arguments: argparse.Namespace,
    kinds: list[str],
    network: Network | None,
    log_dirs: Sequence[str] = ("data",),
) -> Iterator[tuple[str, float]]:
    with tempfile.TemporaryDirectory(prefix=f"{system}-", ignore_cleanup_errors=True) as temporary:
        nodes = three_nodes.running(
            system,
            Path(temporary),
            arguments.port_base,
            arguments.kafka_command,
            prepare=on_own_disks_and_clocks if network is None else nullcontext,
            network=network,
            log_dirs=log_dirs,
        )
        with nodes as (cluster, _):
            view = View(AdminClient({"bootstrap.servers": cluster.bootstrap_server, "log_level": 0}))
            for kind in kinds:
                for leads_quorum in (False, True):
                    who = "the quorum's leader" if leads_quorum else "another node"
                    measure.progress(f"{system}: {kind}, {who}, load average {os.getloadavg()[0]:.1f}")
                    led_s, others_s, failed = measure_fault(
                        cluster, view, kind, leads_quorum=leads_quorum, seconds=arguments.seconds
                    )
                    yield f"{kind}, {who}: stall of partitions that it led", led_s
                    yield f"{kind}, {who}: stall of others", others_s
                    yield f"{kind}, {who}: records that failed", failed


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--seconds", type=float, default=25.0)
    options.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    three_nodes.add_options(options, port_base=27700)
    arguments = options.parse_args()
    if (missing := file_systems.missing() or sick_network.missing() or wall_clocks.missing()) is not None:
        options.error(f"file systems are frozen, hosts are network namespaces, clocks are set: needs {missing}")
    systems = three_nodes.systems_of(arguments, options)
    if "kafka" in systems and JARS_KINDS & set(arguments.kinds) and "OTTLA_KAFKA_LIBS" not in os.environ:
        options.error("OTTLA_KAFKA_LIBS must name a folder with Kafka's jars, for two disks and sick networks")
    figures: compare.Figures = defaultdict(lambda: defaultdict(list))
    facts: compare.Facts = {}
    for _ in range(arguments.rounds):
        for system in systems:
            for name, value in run_round(system, arguments):
                facts[name] = {"unit": "records" if "failed" in name else "s", "better": "lower"}
                figures[name][system].append(value)
                measure.progress(f"  {name}: {value:.2f}")
    if arguments.only:
        return
    for title, section_kinds in SECTIONS.items():
        measured = [kind for kind in section_kinds if kind in arguments.kinds]
        names = [name for name in facts if name.split(",")[0] in measured]
        if names:
            table = compare.table({name: figures[name] for name in names}, {name: facts[name] for name in names})
            print(table)
            results.write_section(title, section(arguments, measured, table))
            measure.progress(f"written: {results.RESULTS}")


def section(arguments: argparse.Namespace, kinds: list[str], table: str) -> str:
    return f"""Medians of {arguments.rounds} rounds, each node sick for {arguments.seconds:.0f} s: {compare.machine()}.
Three combined nodes with their system's defaults, six partitions, three replicas, acks=all, idempotent librdkafka,
{RATE_PER_S} records/s. A stall is the longest that a record waited for its acknowledgement.

{table}

Made by

    export OTTLA_KAFKA_CLUSTER_COMMAND=...   # formats and runs JVM Kafka nodes; see `benchmarks.replicated`
    export OTTLA_KAFKA_LIBS=...              # Kafka's jars: its nodes with two disks, and on hosts of a sick network
    python -m benchmarks.gray_failures --rounds {arguments.rounds} --seconds {arguments.seconds:.0f} \\
        --kinds {shlex.join(kinds)}
"""


if __name__ == "__main__":
    main()
