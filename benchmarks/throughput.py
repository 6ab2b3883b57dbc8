"""Produce and consume MB/s, acks=1, six partitions, 1,000-byte and 100-byte records.

    python -m benchmarks.throughput --bootstrap-server 127.0.0.1:9092 --pid 4711
    python -m benchmarks.throughput --client frames     # prebuilt requests: the node's maximum
    python -m benchmarks.throughput --client java       # kafka-*-perf-test; OTTLA_KAFKA_LIBS names the jars' folder
    python -m benchmarks.throughput --tls-server localhost:9093 --tls-ca ca.pem    # records over TLS, by librdkafka

``librdkafka`` is the confluent-kafka package: 64 KiB x 16 batches, 5 ms linger, records handed over 5,000 at a time.
"""

import os
import re
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import frames, measure
from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS = 6
BATCH_SIZE_BYTES = 1_000_000
RECORD_OVERHEAD_BYTES = 10
FETCH_SIZE_BYTES = 8 << 20
JAVA_FLAGS = ["-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xmx512m"]


def tls_settings(ca: Path | None) -> dict[str, str]:
    """Return librdkafka's settings to trust a node; ``ca``: the issuer of the node's certificate, None without TLS."""
    return {} if ca is None else {"security.protocol": "SSL", "ssl.ca.location": str(ca)}


def produce_with_librdkafka(
    bootstrap_server: str, topic: str, record_size_bytes: int, count: int, acks: str = "1", tls_ca: Path | None = None
) -> None:
    settings = {
        **tls_settings(tls_ca),
        "bootstrap.servers": bootstrap_server,
        "acks": acks,
        "linger.ms": 5,
        "batch.size": BATCH_SIZE_BYTES,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 256 * 1024,
    }
    producer = Producer(settings)
    value = os.urandom(record_size_bytes)
    sent = 0
    while sent < count:
        wanted = min(5000, count - sent)
        accepted = producer.produce_batch(topic, [{"value": value} for _ in range(wanted)])
        sent += accepted
        producer.poll(0 if accepted == wanted else 0.01)
    if producer.flush(120) != 0:
        raise RuntimeError("records were left unsent after 120 s")


def consume_with_librdkafka(
    bootstrap_server: str, topic: str, record_size_bytes: int, count: int, tls_ca: Path | None = None
) -> None:
    settings = {
        **tls_settings(tls_ca),
        "bootstrap.servers": bootstrap_server,
        "group.id": "benchmark",
        "enable.auto.commit": False,
        "fetch.max.bytes": 64 << 20,
        "max.partition.fetch.bytes": FETCH_SIZE_BYTES,
        "queued.max.messages.kbytes": 256 * 1024,
        "check.crcs": False,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    received = 0
    while received < count:
        received += len(consumer.consume(10_000, timeout=1))
    consumer.close()


def produce_with_frames(bootstrap_server: str, topic: str, record_size_bytes: int, count: int) -> None:
    """Send the same ~1 MB batch again and again, two requests under way on one connection."""
    per_batch = BATCH_SIZE_BYTES // (record_size_bytes + RECORD_OVERHEAD_BYTES)
    records = frames.batch([os.urandom(record_size_bytes)] * per_batch)
    requests = [frames.produce_request(topic, partition, records) for partition in range(PARTITIONS)]
    connection = frames.connect(measure.address_of(bootstrap_server))
    connection.socket.sendall(requests[0])
    for number in range(1, -(-count // per_batch)):
        frames.check_produced(connection.exchange(requests[number % PARTITIONS]))
    frames.check_produced(connection.exchange(b""))


def consume_with_frames(
    bootstrap_server: str,
    topic: str,
    record_size_bytes: int,
    count: int,
    isolation_level: int = 0,
    partitions: Sequence[int] = range(PARTITIONS),
) -> None:
    """Fetch one partition after the other, reading of each response only where its batches end."""
    connection = frames.connect(measure.address_of(bootstrap_server))
    received = 0
    for partition in partitions:
        offset = 0
        while True:
            request = frames.fetch_request(
                topic, {partition: offset}, FETCH_SIZE_BYTES, isolation_level=isolation_level
            )
            response = connection.exchange(request)
            position = 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4
            _, error, _, _, _, aborted = struct.unpack_from(">ihqqqi", response, position)
            if error:
                raise RuntimeError(f"the node responded to a fetch with error {error}")
            position += 34 + 16 * max(aborted, 0) + 4
            size_bytes = struct.unpack_from(">i", response, position)[0]
            start, end = offset, position + 4 + size_bytes
            position += 4
            while position + 61 <= end:
                base, length = struct.unpack_from(">qi", response, position)
                if position + 12 + length > end:
                    break
                offset = base + struct.unpack_from(">i", response, position + 23)[0] + 1
                position += 12 + length
            if offset == start:
                break
            received += offset - start
    if received < count:
        raise RuntimeError(f"{received} of {count} records were there")


def run_java(main_class: str, *arguments: str) -> None:
    libs = os.environ.get("OTTLA_KAFKA_LIBS")
    if not libs:
        raise SystemExit("OTTLA_KAFKA_LIBS does not name a folder with Kafka's jars")
    command = ["java", *JAVA_FLAGS, "-cp", f"{libs}/*", f"org.apache.kafka.tools.{main_class}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not re.search(r"records/sec|nMsg", done.stdout):
        raise RuntimeError(f"{main_class} failed:\n{done.stdout}\n{done.stderr}")


def produce_with_java(
    bootstrap_server: str,
    topic: str,
    record_size_bytes: int,
    count: int,
    properties: tuple[str, ...] = ("acks=1", "linger.ms=5", f"batch.size={BATCH_SIZE_BYTES // 4}"),
) -> None:
    arguments = ["--topic", topic, "--num-records", str(count), "--record-size", str(record_size_bytes)]
    arguments += ["--throughput", "-1", "--bootstrap-server", bootstrap_server]
    # One option for all of them: of several, this tool heeds the last.
    run_java("ProducerPerformance", *arguments, "--command-property", *properties)


def produce_with_java_defaults(bootstrap_server: str, topic: str, record_size_bytes: int, count: int) -> None:
    """Run the same with batches of up to 16 KiB, the default of clients that change nothing but acks."""
    produce_with_java(bootstrap_server, topic, record_size_bytes, count, ("acks=1",))


def consume_with_java(bootstrap_server: str, topic: str, record_size_bytes: int, count: int) -> None:
    arguments = ["--bootstrap-server", bootstrap_server, "--topic", topic, "--num-records", str(count)]
    run_java("ConsumerPerformance", *arguments, "--timeout", "60000")


Client = Callable[[str, str, int, int], None]
CLIENTS: dict[str, tuple[Client, Client]] = {
    "librdkafka": (produce_with_librdkafka, consume_with_librdkafka),
    "frames": (produce_with_frames, consume_with_frames),
    "java": (produce_with_java, consume_with_java),
    "java-defaults": (produce_with_java_defaults, consume_with_java),
}


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--client", choices=list(CLIENTS), default="librdkafka")
    options.add_argument("--megabytes", type=int, default=500, help="how much to produce and consume of each size")
    options.add_argument("--record-sizes", type=int, nargs="+", default=[1000, 100], metavar="BYTES")
    options.add_argument("--tls-server", metavar="HOST:PORT", help="a TLS listener of the same node, for the records")
    options.add_argument("--tls-ca", type=Path, metavar="FILE", help="who signed its certificate, as PEM")
    arguments = options.parse_args()
    if arguments.tls_server and arguments.client != "librdkafka":
        options.error("--tls-server is for --client librdkafka")
    node = measure.Node(arguments.pid)
    figures = []
    for size_bytes in arguments.record_sizes:
        count = arguments.megabytes * 1_000_000 // size_bytes
        with measure.temporary_topic(arguments.bootstrap_server, "throughput", PARTITIONS) as topic:
            for action, run in zip(("produce", "consume"), CLIENTS[arguments.client], strict=True):
                measure.progress(f"{action} {count:,} records of {size_bytes} bytes with {arguments.client}")
                cpu_s, started = node.cpu_s(), time.perf_counter()
                if arguments.tls_server:
                    partial(run, tls_ca=arguments.tls_ca)(arguments.tls_server, topic, size_bytes, count)
                else:
                    run(arguments.bootstrap_server, topic, size_bytes, count)
                seconds, cpu_s = time.perf_counter() - started, node.cpu_s() - cpu_s
                name = f"{action} {size_bytes} B, {arguments.client}{', TLS' * bool(arguments.tls_server)}"
                figures.append(measure.Figure(name=name, value=count * size_bytes / 1e6 / seconds, unit="MB/s"))
                if node.pid is not None:
                    cost = cpu_s / (count * size_bytes / 1e9)
                    figures.append(measure.Figure(name=f"{name}: CPU", value=cost, unit="s/GB", better="lower"))
    measure.report(figures, arguments.json)


if __name__ == "__main__":
    main()
