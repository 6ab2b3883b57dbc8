"""End-to-end latency: from produce() to the record in a waiting consumer's hands, at a steady rate, by acks.

    python -m benchmarks.latency --bootstrap-server 127.0.0.1:9092 --rate 1000

Producer (linger 0) and consumer are librdkafka, each in a process of its own; both read the same monotonic clock.
"""

import multiprocessing
import struct
import time
from multiprocessing.connection import Connection

from benchmarks import measure
from confluent_kafka import Consumer, Producer, TopicPartition


def receive(bootstrap_server: str, topic: str, count: int, results: Connection) -> None:
    settings = {"bootstrap.servers": bootstrap_server, "group.id": "benchmark", "enable.auto.commit": False}
    consumer = Consumer(settings | {"fetch.wait.max.ms": 500, "fetch.error.backoff.ms": 10})
    consumer.assign([TopicPartition(topic, 0, 0)])
    latencies_ms: list[float] = []
    while len(latencies_ms) < count:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            now_ns = time.perf_counter_ns()
            latencies_ms.append((now_ns - struct.unpack_from(">q", message.value())[0]) / 1e6)
            if len(latencies_ms) == 1:
                results.send("ready")
    consumer.close()
    results.send(latencies_ms)


def send(bootstrap_server: str, topic: str, acks: str, rate_per_s: int, count: int, ready: Connection) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_server, "linger.ms": 0, "acks": acks})
    padding = b"x" * 92

    def produce() -> None:
        producer.produce(topic, struct.pack(">q", time.perf_counter_ns()) + padding, partition=0)
        producer.poll(0)

    produce()
    ready.recv()
    started = time.perf_counter()
    for number in range(count):
        while (ahead_s := started + number / rate_per_s - time.perf_counter()) > 0:
            time.sleep(ahead_s)
        produce()
    producer.flush(60)


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--rate", type=int, default=1000, help="records per second")
    options.add_argument("--seconds", type=int, default=5)
    arguments = options.parse_args()
    count = arguments.rate * arguments.seconds
    figures = []
    for acks in ("1", "all"):
        measure.progress(f"{count:,} records at {arguments.rate:,}/s, acks={acks}")
        with measure.temporary_topic(arguments.bootstrap_server, "latency", 1) as topic:
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            reader = context.Process(target=receive, args=(arguments.bootstrap_server, topic, count + 1, theirs))
            reader.start()
            send(arguments.bootstrap_server, topic, acks, arguments.rate, count, ours)
            latencies_ms = ours.recv()[1:]
            reader.join()
        for label, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
            value = measure.percentile(latencies_ms, share)
            name = f"latency {label} at {arguments.rate}/s, acks={acks}"
            figures.append(measure.Figure(name=name, value=value, unit="ms", better="lower"))
    measure.report(figures, arguments.json)


if __name__ == "__main__":
    main()
