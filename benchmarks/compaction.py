"""Compaction of one partition, Ottla next to JVM Kafka: time, CPU, memory, and the latency of produce meanwhile.

    export OTTLA_KAFKA_LIBS=...      # a folder with Kafka's jars
    python -m benchmarks.compaction --mebibytes 2048

The partition has records of 1 KB, a tenth as many keys as records, and segments of 64 MiB. It is filled while its dirty
ratio forbids compaction; then that is lowered, and the time counts until cleaner-offset-checkpoint has the offset of
the active segment. A steady producer of another topic gives the latencies: meanwhile, and for 8 s before and after it,
which is quiet. Both systems have the same server.properties, with log.cleaner.backoff.ms=1000: part of the time.
"""

import base64
import os
import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks import either_system, measure, startup, steady_load
from benchmarks.measure import Figure, Node
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

HOST = "127.0.0.1"
TOPIC, QUIET_TOPIC = "compacted", "beside"
RECORDS_PER_KEY = 10
SEGMENT_BYTES = 64 * 1024 * 1024
RATE_PER_S = 500
QUIET_S = 8
SETTLE_S = 1
TIMEOUT_S = 1_800
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={host}:{controller}
listeners=CLEAR://{host}:{clear},SASL://{host}:{sasl},C://{host}:{controller}
listener.security.protocol.map=CLEAR:PLAINTEXT,SASL:SASL_PLAINTEXT,C:PLAINTEXT
inter.broker.listener.name=CLEAR
controller.listener.names=C
log.dirs={directory}/data
log.cleaner.backoff.ms=1000
offsets.topic.replication.factor=1
"""


def fill(bootstrap_server: str, mebibytes: int, record_bytes: int) -> None:
    """Produce the records, with random values so that nothing compresses."""
    producer = Producer({"bootstrap.servers": bootstrap_server, "linger.ms": 20, "acks": "1", "log_level": 0})
    count = mebibytes * 1024 * 1024 // record_bytes
    key_count = count // RECORDS_PER_KEY
    source = random.Random(1)
    values = [source.randbytes(record_bytes - 12) for _ in range(100)]
    for number in range(count):
        while True:
            try:
                producer.produce(TOPIC, values[number % 100], key=b"%012d" % source.randrange(key_count), partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush(TIMEOUT_S)


def wait_until_compacted(directory: Path) -> None:
    data = directory / "data"
    active_offset = max(int(path.stem) for path in (data / f"{TOPIC}-0").glob("*.log"))
    deadline = time.monotonic() + TIMEOUT_S
    checkpoint = data / "cleaner-offset-checkpoint"
    while not (checkpoint.exists() and f"{TOPIC} 0 {active_offset}" in checkpoint.read_text().splitlines()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{TOPIC} was not compacted up to {active_offset}")
        time.sleep(0.05)


def size_mib(directory: Path) -> float:
    return sum(path.stat().st_size for path in (directory / "data" / f"{TOPIC}-0").glob("*.log")) / 2**20


def run(system: str, mebibytes: int, record_bytes: int, libs: str) -> list[Figure]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{system}-")))
        ports = {name: startup.free_port() for name in ("clear", "sasl", "controller")}
        properties = PROPERTIES.format(host=HOST, directory=directory, **ports) + either_system.SCRAM_PROPERTIES
        password = base64.b64encode(os.urandom(12)).decode()
        node = either_system.running(
            system, directory, properties, port=ports["clear"], user="bench", password=password, libs=libs
        )
        process = Node(stack.enter_context(node))
        address = f"{HOST}:{ports['clear']}"
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        settings = {
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            "min.cleanable.dirty.ratio": "1.0",
        }
        topics = [NewTopic(TOPIC, 1, 1, config=settings), NewTopic(QUIET_TOPIC, 1, 1)]
        for created in admin.create_topics(topics).values():
            created.result(timeout=60)
        measure.progress(f"{system}: fills {mebibytes} MiB")
        fill(address, mebibytes, record_bytes)
        before_mib, memory_mib = size_mib(directory), process.settled_rss_mib()
        with steady_load.running(address, QUIET_TOPIC, partitions=1, rate_per_s=RATE_PER_S, linger_ms=0) as load:
            time.sleep(SETTLE_S)
            quiet_s, quiet_cpu_s = time.perf_counter(), process.cpu_s()
            time.sleep(QUIET_S)
            measure.progress(f"{system}: compacts")
            started_s, cpu_s = time.perf_counter(), process.cpu_s()
            quiet_cpu_share = (cpu_s - quiet_cpu_s) / (started_s - quiet_s)
            ratio = ConfigEntry("min.cleanable.dirty.ratio", "0.0", incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[ratio])
            admin.incremental_alter_configs([resource])[resource].result(timeout=60)
            wait_until_compacted(directory)
            ended_s, cpu_s = time.perf_counter(), process.cpu_s() - cpu_s
            memory_mib = process.rss_peak_mib() - memory_mib
            time.sleep(QUIET_S)
            outcome = load.stop()
        net_cpu_s = cpu_s - quiet_cpu_share * (ended_s - started_s)
        waits = list(zip(outcome.sent_at_s, outcome.waited_ms, strict=True))
        first_s = outcome.sent_at_s[0] + SETTLE_S
        quiet = [ms for at_s, ms in waits if first_s <= at_s < started_s - SETTLE_S or at_s >= ended_s + SETTLE_S]
        meanwhile = [ms for at_s, ms in waits if started_s <= at_s < ended_s]
        return [
            Figure(name="time", value=ended_s - started_s, unit="s", better="lower"),
            Figure(name="CPU of the node", value=cpu_s, unit="s", better="lower"),
            Figure(name="CPU of the node, without that for the producer", value=net_cpu_s, unit="s", better="lower"),
            Figure(name="memory above that before, peak", value=memory_mib, unit="MiB"),
            Figure(name="size before", value=before_mib, unit="MiB"),
            Figure(name="size after", value=size_mib(directory), unit="MiB"),
            *(
                Figure(
                    name=f"produce {name}, {when}", value=measure.percentile(waits_ms, share), unit="ms", better="lower"
                )
                for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
                for when, waits_ms in (("quiet", quiet), ("meanwhile", meanwhile))
            ),
        ]


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--mebibytes", type=int, default=256, help="size of the partition")
    options.add_argument("--record-bytes", type=int, default=1_000, help="size of key and value; at least 12")
    options.add_argument("--system", choices=either_system.SYSTEMS, action="append", help="default: both")
    arguments = options.parse_args()
    libs = os.environ["OTTLA_KAFKA_LIBS"]
    for system in arguments.system or either_system.SYSTEMS:
        figures = run(system, arguments.mebibytes, arguments.record_bytes, libs)
        print(f"{system}, {arguments.mebibytes} MiB, records of {arguments.record_bytes} B")
        measure.report(figures, arguments.json)


if __name__ == "__main__":
    main()
