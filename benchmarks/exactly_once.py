"""Exactly once next to JVM Kafka: transactions with three replicas, a Streams count, fetches of committed records.

    export OTTLA_KAFKA_LIBS=...               # a folder with Kafka's jars, Kafka Streams in ../ecosystem
    export OTTLA_KAFKA_CLUSTER_COMMAND=...    # see benchmarks.replicated
    python -m benchmarks.exactly_once --rounds 3

Both clusters, of three nodes each, run all the time and are measured alternately. The figures are medians of rounds.
"""

import os
import subprocess
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import measure, throughput, transactions
from benchmarks.three_nodes import NODE_IDS, Cluster
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

SYSTEMS: Final = ("ottla", "kafka")
PROGRAM: Final = Path(__file__).parent.parent / "tests" / "interop" / "five_nodes" / "CountWords.java"
WORDS: Final = 1_000
COUNTED: Final = 200_000
"""Words of a Streams run: its program needs some seconds before it counts the first one."""
FETCHED_RECORD_BYTES: Final = 1_000
FETCHED_RECORDS: Final = 300_000
RECORDS_PER_TRANSACTION: Final = 5_000
TIMEOUT_S: Final = 120
PARTS: Final = ("transactions", "streams", "isolation")

Figures = dict[str, dict[str, list[float]]]


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=int, default=5, help="of each stretch of transactions")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = options.parse_args()
    figures: Figures = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clusters = [start(system, folder / system, 20092 + 1000 * index) for index, system in enumerate(SYSTEMS)]
        for cluster in clusters:
            stack.callback(cluster.kill_all)
        for cluster in clusters:
            cluster.wait_until_every_node_serves()
        for number in range(arguments.rounds):
            parts = {
                "transactions": partial(run_transactions, seconds=arguments.seconds),
                "streams": partial(count_words, folder=folder, name=f"count{number}"),
                "isolation": fetch_both_ways,
            }
            for part in arguments.parts:
                for cluster in clusters if number % 2 == 0 else clusters[::-1]:
                    measure.progress(f"round {number + 1}: {part} with {cluster.system}")
                    for name, value in parts[part](cluster).items():
                        measure.progress(f"  {name}: {value:,.2f}")
                        figures[name][cluster.system].append(value)
    for name, by_system in figures.items():
        medians = {system: measure.percentile(values, 0.5) for system, values in by_system.items()}
        print(f"{name:<60} " + "  ".join(f"{system} {value:>12,.2f}" for system, value in medians.items()))


def start(system: str, directory: Path, port_base: int) -> Cluster:
    cluster = Cluster(
        system=system,
        directory=directory,
        port_base=port_base,
        kafka_command=os.environ.get("OTTLA_KAFKA_CLUSTER_COMMAND"),
    )
    cluster.format()
    for node in NODE_IDS:
        cluster.start(node)
    return cluster


def run_transactions(cluster: Cluster, seconds: int) -> dict[str, float]:
    """Return records per second, and latencies of commits, for each interval between commits."""
    figures = {}
    for interval_ms in transactions.INTERVALS_MS:
        name = f"a commit each {interval_ms} ms"
        measured = transactions.run(cluster.bootstrap_server, interval_ms, seconds, replicas=len(NODE_IDS))
        figures[f"{name}: records/s"], commits_ms = measured
        for share in (0.5, 0.99):
            figures[f"{name}: commit p{share * 100:.0f}, ms"] = measure.percentile(commits_ms, share)
    return figures


def count_words(cluster: Cluster, folder: Path, name: str) -> dict[str, float]:
    """Run a program that counts words which are there already; return words per second from its first result on."""
    home = Path(os.environ["OTTLA_KAFKA_LIBS"]).parent
    for suffix in ("in", "out"):
        cluster.create_topic(f"{name}-{suffix}", partitions=transactions.PARTITIONS, replicas=3)
    settings = {"linger.ms": 5, "acks": "all", "queue.buffering.max.messages": COUNTED}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_server, **settings})
    for index in range(COUNTED):
        producer.produce(f"{name}-in", f"word-{index * 7919 % WORDS}")
        producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("words were left unsent")
    command = ["java", *throughput.JAVA_FLAGS, "-cp", f"{home}/ecosystem/*:{home}/libs/*", str(PROGRAM)]
    state = folder / f"{cluster.system}-{name}"
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_server,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(f"{name}-out", partition, 0) for partition in range(transactions.PARTITIONS)])
    program = subprocess.Popen(
        [*command, cluster.bootstrap_server, name, str(state)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        return {"Kafka Streams count, exactly_once_v2: words/s": _results_per_second(consumer)}
    finally:
        program.kill()
        program.wait()
        consumer.close()


def _results_per_second(consumer: Consumer) -> float:
    first_s, first_count, count = None, 0, 0
    deadline = time.monotonic() + TIMEOUT_S
    while count < COUNTED:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} of {COUNTED} words were counted in {TIMEOUT_S} s")
        records = [record for record in consumer.consume(5_000, 0.1) if record.error() is None]
        count += len(records)
        if records and first_s is None:
            first_s, first_count = time.perf_counter(), count
    assert first_s is not None
    return (count - first_count) / (time.perf_counter() - first_s)


def fetch_both_ways(cluster: Cluster) -> dict[str, float]:
    """Return the nodes' CPU seconds per GB at both isolation levels, over transactions of which one in ten aborts."""
    with measure.temporary_topic(cluster.bootstrap_server, "isolation", throughput.PARTITIONS) as topic:
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_server,
                "transactional.id": topic,
                "linger.ms": 5,
                "batch.size": 256 * 1024,
            }
        )
        producer.init_transactions(TIMEOUT_S)
        value = os.urandom(FETCHED_RECORD_BYTES)
        for number in range(FETCHED_RECORDS // RECORDS_PER_TRANSACTION):
            producer.begin_transaction()
            for index in range(RECORDS_PER_TRANSACTION):
                producer.produce(topic, value, partition=index % throughput.PARTITIONS)
                producer.poll(0)
            producer.flush(TIMEOUT_S)
            (producer.abort_transaction if number % 10 == 9 else producer.commit_transaction)(TIMEOUT_S)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_server})
        leaders = {
            index: it.leader for index, it in admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions.items()
        }
        costs: dict[str, list[float]] = defaultdict(list)
        for _ in range(3):
            for level, name in enumerate(("read_uncommitted", "read_committed")):
                before_s = cluster.cpu_s()
                for partition, node in leaders.items():
                    server = f"127.0.0.1:{cluster.port(node)}"
                    throughput.consume_with_frames(server, topic, FETCHED_RECORD_BYTES, 1, level, [partition])
                costs[name].append((cluster.cpu_s() - before_s) / (FETCHED_RECORDS * FETCHED_RECORD_BYTES / 1e9))
        return {f"fetch at {name}: CPU s/GB": measure.percentile(values, 0.5) for name, values in costs.items()}


if __name__ == "__main__":
    main()
