"""Alarms without a reason: how often healthy nodes are taken for sick ones.

    python -m benchmarks.false_alarms --simulated-hours 1000 --processes 2
    python -m benchmarks.false_alarms --load-minutes 60

Brokers are fenced when they do not respond for a second, leave in-sync sets when they do not fetch, disconnect when
their event loop stands still, and voters give up a leader of the quorum that is silent (docs/operations.md, Gray
failures). None of that should happen here:

- simulated: three combined nodes for an hour per seed, whose network takes 1 to 20 ms, and now and then several times
  as long, and whose clocks differ by up to 200 ppm; a record per partition every ten seconds
- under load: three real nodes on this host with six partitions of three replicas, whose cores are kept busy by
  producers that send as fast as they can with acks=all, and by consumers of all that

The exit code is 1 after an alarm.
"""

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks import background_process, compare, measure, three_nodes
from benchmarks.three_nodes import ADMIN_LISTENER, NODE_IDS
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConsumedPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from ottla.errors import ErrorCode
from ottla.simulator.clients.requests import batch_of, create_topic, produce
from ottla.simulator.faults.network_chaos import NetworkChaos
from ottla.simulator.runs.campaign import sparing_the_collector
from ottla.simulator.world.clock import HostClock
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import TopicPartition

PARTITIONS = 6
HOUR_MS = 3_600_000
SETTLE_MS = 10_000
PAUSE_MS = 10_000
DRIFT_PPM_MAX = 200
FASTEST_MS, SLOWEST_MS = 1, 20
OVERRIDES = {"metadata.max.idle.interval.ms": "5000"}
"""Its default, 0.5 s, doubles the time that the simulation takes, with records that mean nothing."""
CLIENTS = 2
"""Producers, and as many consumers."""
REPORT_S = 60
CONFIG = {"min.insync.replicas": "2", "retention.bytes": "100000000", "segment.bytes": "50000000"}

FENCED = "ottla_brokers_fenced"
SHRINKS = "kafka_server_replicamanager_isrshrinks"
DISCONNECTS = "ottla_loop_stall_disconnects"
EPOCH = "kafka_server_raftmetrics_current_epoch"
ALARMS = {
    FENCED: "fenced brokers",
    SHRINKS: "replicas that left an in-sync set",
    DISCONNECTS: "nodes that disconnected",
    EPOCH: "elections in the quorum",
}
"""By metric, what each means."""

REJECTED = "rejected"
DESCRIPTIONS = ALARMS | {REJECTED: "records that a former leader rejected"}


# --- simulated -------------------------------------------------------------------------------------------------------


def alarms_of(cluster: Cluster) -> Counter[str]:
    """Return the alarms of all nodes so far, by the metrics in `ALARMS`."""
    counts: Counter[str] = Counter()
    for place in cluster.nodes.values():
        node = place.node
        assert node.controller is not None
        metrics = node.controller.metrics()
        counts[FENCED] += metrics.ended_sessions + metrics.failed_probes + metrics.failed_pings
        counts[SHRINKS] += node.replicas.isr_manager.shrinks
        counts[EPOCH] = max(counts[EPOCH], node.raft.leader_and_epoch.epoch)
    return counts


def simulate_hour(seed: int) -> Counter[str]:
    """Run the cluster of one seed for an hour; return its alarms."""
    random = SeededRandom(seed)
    conditions = NetworkChaos(SeededRandom(-seed), fastest_ms=FASTEST_MS, slowest_ms=SLOWEST_MS)
    cluster = Cluster(seed, conditions=conditions, overrides=OVERRIDES)
    for place in cluster.nodes.values():
        place.clock = HostClock(
            cluster.clock,
            started_ms=random.randrange(1_000_000),
            drift_ppm=random.randrange(2 * DRIFT_PPM_MAX + 1) - DRIFT_PPM_MAX,
            skew_ms=random.randrange(2_000),
        )
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", partitions=PARTITIONS, replicas=3)
    cluster.run(SETTLE_MS)
    metadata = cluster.nodes[1].node.metadata
    leaders = [metadata.leader_id(TopicPartition("t", index)) or 0 for index in range(PARTITIONS)]
    clients = {node_id: cluster.connect(node_id) for node_id in cluster.nodes}
    before = alarms_of(cluster)
    rejected: Counter[str] = Counter()
    for _ in range(HOUR_MS // PAUSE_MS):
        for index, leader in enumerate(leaders):
            batch = batch_of(clients[leader], [b"v"])
            response = produce(clients[leader], "t", batch, partition=index, acks=-1)
            if response.error_code != ErrorCode.NONE:
                rejected[REJECTED] += 1
                found = metadata.leader_id(TopicPartition("t", index))
                # While there is no leader, the former one rejects the next record, too.
                leaders[index] = found if found in clients else leader
        cluster.run(PAUSE_MS)
    return alarms_of(cluster) - before + rejected


def simulate(hours: int, processes: int, first_seed: int) -> Counter[str]:
    total: Counter[str] = Counter()
    seeds = range(first_seed, first_seed + hours)
    started_s = time.monotonic()
    with multiprocessing.Pool(processes) as pool, sparing_the_collector():
        for done, (seed, alarms) in enumerate(zip(seeds, pool.imap(simulate_hour, seeds), strict=True), 1):
            total += alarms
            rate = f"{done * HOUR_MS / 1000 / (time.monotonic() - started_s):,.0f} simulated s/s"
            measure.progress(
                f"{done} of {hours} hours, {rate}" + (f"; seed {seed}: {described(alarms)}" * bool(alarms))
            )
    return total


# --- real ------------------------------------------------------------------------------------------------------------


def produce_endlessly(bootstrap_server: str, topic: str, pipe: Connection) -> None:
    """Send records as fast as librdkafka takes them; send how many were acknowledged, and the errors."""
    counts: Counter[str] = Counter()
    producer = Producer(
        {"bootstrap.servers": bootstrap_server, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
    )
    pipe.send("started")
    values = itertools.cycle(b"%0100d" % number for number in range(1000))
    while not pipe.poll():
        for value in itertools.islice(values, 1000):
            try:
                producer.produce(topic, value, on_delivery=lambda error, _: counts.update([str(error)]))
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush(90)
    pipe.send(dict(counts))


def consume_endlessly(bootstrap_server: str, topic: str, pipe: Connection) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_server, "group.id": "reads", "auto.offset.reset": "latest", "log_level": 0}
    )
    consumer.assign([ConsumedPartition(topic, index) for index in range(PARTITIONS)])
    pipe.send("started")
    count = 0
    while not pipe.poll():
        count += sum(message.error() is None for message in consumer.consume(10_000, timeout=0.1))
    consumer.close()
    pipe.send(count)


def alarms_on(page: str) -> Counter[str]:
    """Return the alarms on a node's metrics page.

    Raises:
        RuntimeError: the page lacks one of the metrics, whose alarms would go unnoticed.
    """
    counts: Counter[str] = Counter()
    for family in text_string_to_metric_families(page):
        if family.name in ALARMS:
            counts[family.name] += sum(int(sample.value) for sample in family.samples)
    if missing := ALARMS.keys() - counts.keys():
        raise RuntimeError(f"the metrics page lacks {', '.join(sorted(missing))}")
    return counts


def alarms_of_all(cluster: three_nodes.Cluster) -> Counter[str]:
    counts: Counter[str] = Counter()
    for node in NODE_IDS:
        found = alarms_on(cluster.metrics(node))
        epoch = max(counts[EPOCH], found.pop(EPOCH, 0))
        counts += found
        counts[EPOCH] = epoch
    return counts


def run_under_load(minutes: float, port_base: int) -> Counter[str]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        nodes = three_nodes.running("ottla", directory, port_base, None, properties=ADMIN_LISTENER)
        cluster, _ = stack.enter_context(nodes)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_server})
        admin.create_topics([NewTopic("t", PARTITIONS, 3, config=CONFIG)])["t"].result(30)
        three_nodes.View(admin).wait_until_in_sync("t", PARTITIONS, 3)
        before = alarms_of_all(cluster)
        works = [
            stack.enter_context(background_process.running(work, cluster.bootstrap_server, "t"))
            for work in (produce_endlessly, consume_endlessly)
            for _ in range(CLIENTS)
        ]
        ends_s, host_s, cpu_s = time.monotonic() + minutes * 60, host_cpu_s(), cluster.cpu_s()
        while (left_s := ends_s - time.monotonic()) > 0:
            time.sleep(min(left_s, REPORT_S))
            busy = (host_cpu_s() - host_s) / (time.monotonic() - ends_s + minutes * 60) / (os.cpu_count() or 1)
            alarms = alarms_of_all(cluster) - before
            measure.progress(
                f"{max(left_s - REPORT_S, 0) / 60:.0f} min left; cores {busy:.0%} busy; {described(alarms)}"
            )
        outcomes = [work.stop() for work in works]
        nodes_s = cluster.cpu_s() - cpu_s
        print(f"{minutes:g} minutes, cores of the host {busy:.1%} busy, {nodes_s:.0f} s of them by the nodes")
        print(f"records by error: {outcomes[:CLIENTS]}, consumed: {outcomes[CLIENTS:]}")
        return alarms_of_all(cluster) - before


def host_cpu_s() -> float:
    """Return the CPU time that all processes of this host have used since it started."""
    user, nice, system, _, _, irq, soft_irq, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    return (user + nice + system + irq + soft_irq) / measure.TICKS_PER_S


def described(alarms: Counter[str]) -> str:
    return ", ".join(f"{count} {DESCRIPTIONS[name]}" for name, count in alarms.items() if count) or "no alarm"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--simulated-hours", type=int, default=0)
    options.add_argument("--processes", type=int, default=os.cpu_count())
    options.add_argument("--first-seed", type=int, default=1)
    options.add_argument("--load-minutes", type=float, default=0)
    options.add_argument("--port-base", type=int, default=27900)
    arguments = options.parse_args()
    total: Counter[str] = Counter()
    if arguments.simulated_hours:
        alarms = simulate(arguments.simulated_hours, arguments.processes, arguments.first_seed)
        print(f"{arguments.simulated_hours} simulated hours: {described(alarms)}")
        total += alarms
    if arguments.load_minutes:
        alarms = run_under_load(arguments.load_minutes, arguments.port_base)
        print(f"{arguments.load_minutes:g} minutes under load: {described(alarms)} ({compare.machine()})")
        total += alarms
    sys.exit(bool(total))


if __name__ == "__main__":
    main()
