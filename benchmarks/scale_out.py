"""Clusters of 1 to 24 small nodes on this host: what does each further node cost?

    python -m benchmarks.scale_out --sizes 1 3 6 --raw scale.json     # measure, and print the table of all runs
    python -m benchmarks.scale_out --system kafka --sizes 1 3 --raw scale.json
    python -m benchmarks.scale_out --sizes 3 --parts load --batches-per-s 200 --raw scale.json
    python -m benchmarks.scale_out --sizes --raw scale.json --publish # measure nothing, write the section of RESULTS.md

The first three nodes are controllers as well; topics have min(3, N) replicas, producers acks=all. The load is fixed for
each broker, not in total, because sizing adds brokers to serve more load: without a cost of scale, CPU per GB is then
the same at every size. Each node has a quota of CPU (`cpu_quota`). CPU is the user and system time of all nodes, from
``/proc``, so it holds on a busy host; latency and times do not. "Net" is without the CPU of the same cluster at rest.
JVM Kafka is run from the jars in ``$OTTLA_KAFKA_LIBS`` with the same configuration and a heap of 1 GiB.
"""

import argparse
import json
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks import (
    background_process,
    compare,
    cpu_quota,
    many_partitions,
    measure,
    results,
    steady_load,
    three_nodes,
)
from benchmarks.three_nodes import Cluster
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from numpy.polynomial import polynomial

SECTION = "Scale-out"
REPLICAS = 3
LOAD_PARTITIONS_PER_NODE = 2
RECORD_BYTES = 1000
BATCH_KILOBYTES = (10, 100)
WARM_UP_S = 4
LATENCY_RATE_PER_S = 500
CHANGES = 60
CHANGE_INTERVAL_S = 0.05
CALM_CORES_PER_NODE = 0.1
CALM_TIMEOUT_S = 40
PARTS = ("latency", "load", "metadata")
OTTLA = ("ottla", "")
FITTED = re.compile(r"at rest.*(core|requests/s|connections)$|CPU net, s/GB$|metadata: CPU net, ms$")
FITTED_NODES_MAX = 24
"""Larger clusters are no part of the fit: they show whether it predicts them."""
REQUESTS = re.compile(r'^kafka_network_requestmetrics_requests_total\{request="([^"]+)".*\} (\S+)$', re.MULTILINE)
BYTES = re.compile(r"^(?:kafka_network_requestmetrics_requestbytes_sum|ottla_response_bytes_total)\{.*\} (\S+)$", re.M)
CONNECTIONS = re.compile(r"^kafka_server_socket_server_metrics_connection_count\{.*\} (\S+)$", re.MULTILINE)

Run = dict[str, Any]
"""``system``, ``nodes``, ``quota``, ``config`` (lines that are not the defaults) and ``figures``: name to value."""

Column = tuple[str, int, str]
"""System, nodes, and the configuration that is not the default."""


class Session:
    """A cluster under measurement, and its figures so far."""

    def __init__(self, cluster: Cluster, seconds: float, quotas: cpu_quota.CpuQuotas | None) -> None:
        self.cluster = cluster
        self.seconds = seconds
        self.quotas = quotas
        self.figures: dict[str, float] = {}
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap_server, "log_level": 0})
        self.replicas = min(REPLICAS, cluster.size)

    def add(self, name: str, value: float) -> None:
        measure.progress(f"  {self.cluster.system} x {self.cluster.size}: {name}: {value:,.3f}")
        self.figures[name] = value

    def create_topic(self, name: str, partitions: int) -> None:
        self.cluster.create_topic(name, partitions=partitions, replicas=self.replicas)
        three_nodes.View(self.admin).wait_until_in_sync(name, partitions, self.replicas)

    def wait_until_calm(self) -> None:
        """Wait until the nodes use little CPU; large clusters of a system with much work at rest may never do."""
        deadline = time.monotonic() + CALM_TIMEOUT_S
        while many_partitions.busy_share(self.cluster, 2) > CALM_CORES_PER_NODE * self.cluster.size:
            if time.monotonic() > deadline:
                return

    def pages(self) -> list[str]:
        """Return every node's metrics; JVM Kafka has none."""
        if self.cluster.system != "ottla":
            return []
        return [self.cluster.metrics(node) for node in self.cluster.node_ids]


def measure_rest(session: Session, condition: str) -> float:
    """Measure the cluster without clients; return the cores that it uses."""
    session.wait_until_calm()
    pages, started = session.pages(), time.perf_counter()
    cores = many_partitions.busy_share(session.cluster, session.seconds)
    after, took_s = session.pages(), time.perf_counter() - started
    session.add(f"at rest, {condition}: CPU, % of a core", cores * 100)
    session.add(f"at rest, {condition}: CPU of a node, % of a core", cores * 100 / session.cluster.size)
    session.add(f"at rest, {condition}: memory of a node, MiB", session.cluster.rss_mib() / session.cluster.size)
    if after:
        counts = sum(map(requests_of, after), Counter()) - sum(map(requests_of, pages), Counter())
        session.add(f"at rest, {condition}: requests/s", counts.total() / took_s)
        for kind in ("Fetch", "BrokerHeartbeat"):
            session.add(f"at rest, {condition}: {kind}/s", counts[kind] / took_s)
        transferred = sum(sum_of(BYTES, page) for page in after) - sum(sum_of(BYTES, page) for page in pages)
        session.add(f"at rest, {condition}: traffic, kB/s", transferred / took_s / 1000)
        session.add(f"at rest, {condition}: connections", sum(sum_of(CONNECTIONS, page) for page in after))
    return cores


def measure_load(session: Session, rest_cores: float, batches_per_s: int) -> None:
    """Measure CPU per GB produced, with small and with larger batches."""
    partitions = LOAD_PARTITIONS_PER_NODE * session.cluster.size
    for kilobytes in BATCH_KILOBYTES:
        topic = f"load-{kilobytes}"
        session.create_topic(topic, partitions)
        load = background_process.running(
            produce_steadily,
            session.cluster.bootstrap_server,
            topic,
            partitions,
            kilobytes * 1000,
            batches_per_s * session.cluster.size,
        )
        with load as running:
            time.sleep(WARM_UP_S)
            cpu_s, started = session.cluster.cpu_s(), time.perf_counter()
            time.sleep(session.seconds)
            cpu_s, ended = session.cluster.cpu_s() - cpu_s, time.perf_counter()
            acknowledged, errors = running.stop()
        gigabytes = sum(sent for at_s, sent in acknowledged if started <= at_s < ended) / 1e9
        name = f"produce {batches_per_s} batches/s of {kilobytes} kB for each broker"
        session.add(f"{name}: MB/s", gigabytes * 1000 / (ended - started))
        session.add(f"{name}: CPU, s/GB", cpu_s / gigabytes)
        session.add(f"{name}: CPU net, s/GB", (cpu_s - rest_cores * (ended - started)) / gigabytes)
        if errors:
            session.add(f"{name}: records that failed", errors)


def produce_steadily(
    bootstrap_server: str, topic: str, partitions: int, batch_bytes: int, batches_per_s: int, pipe: Connection
) -> None:
    """Send batches of one size to the partitions in turn.

    The outcome has pairs of a time and the bytes that were acknowledged since the one before, and the errors.
    """
    errors = 0

    def note_delivery(error: KafkaError | None, _: Message) -> None:
        nonlocal errors
        errors += error is not None

    records = batch_bytes // RECORD_BYTES
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_server,
            "acks": "all",
            "linger.ms": 1000,  # a batch is sent when it is full
            "batch.size": 2 * batch_bytes,
            "batch.num.messages": records,
            "delivery.report.only.error": True,
            "on_delivery": note_delivery,
            "log_level": 0,
        }
    )
    batch = [{"value": b"x" * RECORD_BYTES}] * records
    acknowledged: list[tuple[float, int]] = []
    sent = before = 0
    pipe.send("ready")
    started = time.perf_counter()
    while not pipe.poll():
        if (ahead_s := started + sent / batches_per_s - time.perf_counter()) > 0:
            producer.poll(min(ahead_s, 0.01))
            continue
        producer.produce_batch(topic, batch, partition=sent % partitions)
        sent += 1
        done = sent * records - len(producer)
        acknowledged.append((time.perf_counter(), (done - before) * RECORD_BYTES))
        before = done
    errors += producer.flush(60)
    pipe.send((acknowledged, errors))


def measure_latency(session: Session) -> None:
    partitions = LOAD_PARTITIONS_PER_NODE * session.cluster.size
    session.create_topic("latency", partitions)
    load = steady_load.running(
        session.cluster.bootstrap_server, "latency", partitions=partitions, rate_per_s=LATENCY_RATE_PER_S, linger_ms=0
    )
    throttled_s = session.quotas.throttled_s() if session.quotas else 0
    with load as running:
        time.sleep(WARM_UP_S)
        started = time.perf_counter()
        time.sleep(session.seconds)
        waited_ms = running.stop().since(started)
    for label, share in (("p50", 0.5), ("p99", 0.99)):
        session.add(f"latency {label} at {LATENCY_RATE_PER_S}/s, ms", measure.percentile(waited_ms, share))
    if session.quotas:
        session.add("latency: nodes throttled meanwhile, s", session.quotas.throttled_s() - throttled_s)


def measure_creation(session: Session, partitions: int) -> float:
    """Measure the creation of many partitions, and the cluster at rest with them; return the cores in use then."""
    view = many_partitions.Partitions(session.cluster, partitions, session.replicas)
    cpu_s, started = session.cluster.cpu_s(), time.perf_counter()
    for number in range(0, partitions, 1000):
        count = min(1000, partitions - number)
        session.cluster.create_topic(f"many-{number}", partitions=count, replicas=session.replicas)
    condition = f"create {partitions} partitions"
    session.add(f"{condition}: until acknowledged, s", time.perf_counter() - started)
    three_nodes.wait_until("every partition is in sync", view.are_in_sync)
    session.add(f"{condition}: until in sync, s", time.perf_counter() - started)
    # Metadata has a partition before the nodes have created its files.
    session.wait_until_calm()
    cpu_s, took_s = session.cluster.cpu_s() - cpu_s, time.perf_counter() - started
    rest_cores = measure_rest(session, f"{partitions} partitions")
    session.add(f"{condition}: CPU net, s", cpu_s - rest_cores * took_s)
    return rest_cores


def measure_changes(session: Session, rest_cores: float) -> None:
    """Measure what one change of the metadata costs every node: one record, applied by all of them."""
    cpu_s, started = session.cluster.cpu_s(), time.perf_counter()
    for number in range(CHANGES):
        entry = ConfigEntry("retention.ms", str(10**9 + number), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "first", incremental_configs=[entry])
        session.admin.incremental_alter_configs([resource])[resource].result(30)
        time.sleep(CHANGE_INTERVAL_S)
    cpu_s = session.cluster.cpu_s() - cpu_s - rest_cores * (time.perf_counter() - started)
    session.add("a change of metadata: CPU net, ms", cpu_s * 1000 / CHANGES)
    session.add("a change of metadata: CPU net of a node, ms", cpu_s * 1000 / CHANGES / session.cluster.size)


def requests_of(page: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for kind, count in REQUESTS.findall(page):
        counts[kind] += int(float(count))
    return counts


def sum_of(pattern: re.Pattern[str], page: str) -> float:
    return sum(float(value) for value in pattern.findall(page))


def measure_size(system: str, size: int, given: argparse.Namespace) -> Run:
    """Start a cluster of ``size`` nodes, measure it, and end it."""
    with (
        tempfile.TemporaryDirectory(prefix=f"{system}-", ignore_cleanup_errors=True) as folder,
        cpu_quota.available(given.quota) as quotas,
    ):
        if quotas is None:
            measure.progress("control groups are not writable: nodes have no quota of CPU")

        def limit(cluster: Cluster, node: int) -> None:
            if quotas is not None:
                quotas.limit(f"node-{node}", cluster.processes[node].pid)

        properties = three_nodes.ADMIN_LISTENER + "".join(f"{line}\n" for line in given.config)
        nodes = three_nodes.running(system, Path(folder), given.port_base, None, properties, size=size, on_start=limit)
        with nodes as (cluster, took_s):
            session = Session(cluster, given.seconds, quotas)
            session.add("from start to ready, s", took_s)
            rest_cores = measure_rest(session, "no partitions")
            if "latency" in given.parts:
                measure_latency(session)
            if "load" in given.parts:
                measure_load(session, rest_cores, given.batches_per_s)
            if "metadata" in given.parts:
                rest_cores = measure_creation(session, given.partitions)
                measure_changes(session, rest_cores)
        return {
            "system": system,
            "nodes": size,
            "config": " ".join(given.config),
            "quota": given.quota if quotas is not None else None,
            "figures": session.figures,
        }


def fit(points: Sequence[tuple[float, float]], degree: int) -> list[float]:
    """Return the coefficients a, b, ... of the a + b*x + c*x**2 + ... with the least squared errors."""
    xs, ys = zip(*points, strict=True)
    return [float(each) for each in polynomial.polyfit(xs, ys, degree)]


def value_at(coefficients: Sequence[float], x: float) -> float:
    return sum(coefficient * x**power for power, coefficient in enumerate(coefficients))


def lowest(runs: Sequence[Run]) -> dict[str, dict[Column, float]]:
    """Return figure name to column to the lowest of its runs, in the order of the figures.

    Other load of the host adds to CPU and times: it never lowers them.
    """
    found: dict[str, dict[Column, float]] = {}
    for run in runs:
        key = column_of(run)
        for name, value in run["figures"].items():
            by_column = found.setdefault(name, {})
            by_column[key] = min(value, by_column.get(key, value))
    return found


def column_of(run: Run) -> Column:
    return run["system"], run["nodes"], run.get("config", "")


def table(runs: Sequence[Run]) -> str:
    """Return a table of Markdown: a row for each figure, a column for each system and size."""
    columns = sorted({column_of(run) for run in runs}, key=lambda column: (column[0] != "ottla", column))
    titles = {"ottla": "Ottla", "kafka": "JVM Kafka"}
    heads = [f"{titles[system]} x {nodes}{f', {config}' if config else ''}" for system, nodes, config in columns]
    lines = ["| | " + " | ".join(heads) + " |", "|-|" + "-:|" * len(columns)]
    for name, values in lowest(runs).items():
        cells = [f"{values[column]:,.2f}" if column in values else "-" for column in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fits(runs: Sequence[Run]) -> str:
    """Return the curves of Ottla's figures that grow, with measured and predicted values of larger clusters."""
    lines = ["| with N nodes | a + b N + c N² | larger clusters: measured (predicted) |", "|-|-|-|"]
    for name, values in lowest(runs).items():
        if not FITTED.search(name):
            continue
        points = sorted(
            (nodes, value) for (system, nodes, config), value in values.items() if (system, config) == OTTLA
        )
        least = REPLICAS if "s/GB" in name else 1  # fewer nodes have fewer replicas
        known = [(nodes, value) for nodes, value in points if least <= nodes <= FITTED_NODES_MAX]
        degree = 1 if "s/GB" in name or "of a node" in name else 2
        if len(known) <= degree + 1:
            continue
        curve = fit(known, degree)
        terms = " + ".join(
            f"{value:,.4f}{power}" for value, power in zip(curve, ("", " N", " N²")[: degree + 1], strict=True)
        )
        larger = [f"{n}: {value:,.2f} ({value_at(curve, n):,.2f})" for n, value in points if n > FITTED_NODES_MAX]
        lines.append(f"| {name} | {terms.replace('+ -', '- ')} | {', '.join(larger) or '-'} |")
    return "\n".join(lines)


def section(runs: Sequence[Run], seconds: float) -> str:
    sizes = {
        system: " ".join(
            str(nodes) for name, nodes, config in sorted(set(map(column_of, runs))) if (name, config) == (system, "")
        )
        for system in ("ottla", "kafka")
    }
    quotas = " or ".join(f"{quota:g}" for quota in sorted({run["quota"] or 0 for run in runs}))
    small, large = BATCH_KILOBYTES
    return f"""Clusters of N nodes on one host, with their clients: {compare.machine()}.
The first three nodes are controllers as well; min({REPLICAS}, N) replicas, acks=all. The load has batches of {small} or
{large} kB of {RECORD_BYTES:,}-byte records, {LOAD_PARTITIONS_PER_NODE} partitions for each broker, and as many batches
per second for each broker as the row says; latency is that of {LATENCY_RATE_PER_S} records/s in all. Each node has a
quota of {quotas} cores. CPU is that of all nodes, unless the row says "of a node"; "net" is without that of the same
cluster at rest. Each figure is of {seconds:g} s, and the lowest of its runs. "Net" figures of a cluster that uses the
whole host are too low: its CPU at rest is too high.

{table(runs)}

Least squares of Ottla's figures up to {FITTED_NODES_MAX} nodes (of CPU per GB, from {REPLICAS} nodes on):

{fits(runs)}

Made by

    export OTTLA_KAFKA_LIBS=...      # a folder with Kafka's jars
    python -m benchmarks.scale_out --sizes {sizes["ottla"]} --raw scale.json
    python -m benchmarks.scale_out --system kafka --sizes {sizes["kafka"]} --raw scale.json
    python -m benchmarks.scale_out --sizes 3 --parts load --batches-per-s 200 --quota 1 --raw scale.json
    python -m benchmarks.scale_out --sizes 12 --parts metadata --partitions 10000 --raw scale.json
    python -m benchmarks.scale_out --sizes 24 48 --parts metadata --raw scale.json \\
        --config replica.fetch.wait.max.ms=2000
    python -m benchmarks.scale_out --sizes --raw scale.json --publish
"""


def read_runs(raw: Path | None) -> list[Run]:
    return [json.loads(line) for line in raw.read_text().splitlines()] if raw and raw.exists() else []


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--system", choices=["ottla", "kafka"], default="ottla")
    options.add_argument("--sizes", type=int, nargs="*", default=[1, 3, 6, 12, 24], metavar="N")
    options.add_argument("--partitions", type=int, default=1000, help="of the topics that the metadata figures use")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options.add_argument("--batches-per-s", type=int, default=20, help="load of each broker")
    options.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="of nodes of Ottla")
    options.add_argument("--quota", type=float, default=0.5, help="cores of each node")
    options.add_argument("--seconds", type=float, default=10, help="length of each measurement")
    options.add_argument("--port-base", type=int, default=24000)
    options.add_argument("--raw", type=Path, metavar="FILE", help="append each run to FILE, and report all of it")
    options.add_argument("--publish", action="store_true", help="write the section of RESULTS.md")
    given = options.parse_args()
    # The nodes and their control groups must not outlive a benchmark that is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    runs = read_runs(given.raw)
    for size in given.sizes:
        runs.append(measure_size(given.system, size, given))
        if given.raw:
            with given.raw.open("a") as out:
                out.write(json.dumps(runs[-1]) + "\n")
    print(f"{table(runs)}\n\n{fits(runs)}")
    if given.publish:
        results.write_section(SECTION, section(runs, given.seconds))
        measure.progress(f"written: {results.RESULTS}")


if __name__ == "__main__":
    main()
