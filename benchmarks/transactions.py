"""Transactional produce: records per second, and the latency of a commit, for intervals between commits.

    python -m benchmarks.transactions --bootstrap-server 127.0.0.1:9092
    python -m benchmarks.transactions --bootstrap-server ... --other 127.0.0.1:9093    # two systems, alternately
    python -m benchmarks.transactions --bootstrap-server ... --replicas 3

One librdkafka producer with batches of 16 KiB to six partitions; each transaction is committed before the next begins.
"""

import time
import uuid

from benchmarks import measure
from confluent_kafka import Producer

RECORD = b"x" * 1_000
BATCH_BYTES = 16 * 1024
PARTITIONS = 6
INTERVALS_MS = (100, 10)
TIMEOUT_S = 60


def run(bootstrap_server: str, interval_ms: int, seconds: int, replicas: int = 1) -> tuple[float, list[float]]:
    """Return records per second and the latencies of the commits in ms."""
    with measure.temporary_topic(bootstrap_server, "transactions", PARTITIONS, replicas) as topic:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_server,
                "transactional.id": f"benchmark-{uuid.uuid4()}",
                "linger.ms": 5,
                "batch.size": BATCH_BYTES,
                "acks": "all",
            }
        )
        producer.init_transactions(TIMEOUT_S)
        commits_ms: list[float] = []
        count = 0
        started = now = time.perf_counter()
        while now < started + seconds:
            producer.begin_transaction()
            until = now + interval_ms / 1000
            while time.perf_counter() < until:
                try:
                    producer.produce(topic, RECORD)
                    count += 1
                except BufferError:
                    producer.poll(0.001)
                producer.poll(0)
            producer.flush(TIMEOUT_S)
            flushed = time.perf_counter()
            producer.commit_transaction(TIMEOUT_S)
            now = time.perf_counter()
            commits_ms.append((now - flushed) * 1000)
        return count / (now - started), commits_ms


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--other", help="address of a second system, measured alternately")
    options.add_argument("--seconds", type=int, default=5)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--replicas", type=int, default=1)
    arguments = options.parse_args()
    servers = [arguments.bootstrap_server, *([arguments.other] if arguments.other else [])]
    for interval_ms in INTERVALS_MS:
        rates: dict[str, list[float]] = {server: [] for server in servers}
        latencies: dict[str, list[float]] = {server: [] for server in servers}
        for number in range(arguments.rounds):
            for server in servers if number % 2 == 0 else servers[::-1]:
                measure.progress(f"{server}: a commit each {interval_ms} ms")
                rate, commits_ms = run(server, interval_ms, arguments.seconds, arguments.replicas)
                rates[server].append(rate)
                latencies[server] += commits_ms
        for server in servers:
            name = f"{server}, a commit each {interval_ms} ms"
            figures = [measure.Figure(name=f"{name}: records", value=measure.percentile(rates[server], 0.5), unit="/s")]
            for label, share in (("p50", 0.5), ("p99", 0.99)):
                value = measure.percentile(latencies[server], share)
                figures.append(measure.Figure(name=f"{name}: commit {label}", value=value, unit="ms", better="lower"))
            measure.report(figures, arguments.json)


if __name__ == "__main__":
    main()
