"""A share group (KIP-932): records per second that its members acquire and acknowledge.

    export OTTLA_KAFKA_LIBS=...      # a folder with Kafka's jars
    python -m benchmarks.share_groups --bootstrap-server 127.0.0.1:9092 --members 10

Members are Java's, all in one process: Kafka's own ShareConsumerPerformance, which accepts each record. The time starts
when it has joined, and ends with the last record.
"""

import asyncio
import csv
import os
import subprocess

from benchmarks import measure
from benchmarks.measure import Figure
from confluent_kafka import Producer

from ottla.client.admin import AdminClient
from ottla.config.resource_type import ConfigResourceType

PARTITIONS = 6
TOOL = "org.apache.kafka.tools.ShareConsumerPerformance"


def fill(bootstrap: str, topic: str, records: int, size_bytes: int) -> None:
    """Write the records, evenly to all partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    value = os.urandom(size_bytes)
    for number in range(records):
        producer.produce(topic, value, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"the {records} records for topic {topic} were not written within 120 s")


async def reset_to_earliest(bootstrap: str, group: str) -> None:
    """Make the group start with the records that exist."""
    async with AdminClient(bootstrap) as admin:
        await admin.alter_configs(ConfigResourceType.GROUP, group, upserts={"share.auto.offset.reset": "earliest"})


def records_per_s(bootstrap: str, topic: str, records: int, members: int) -> float:
    """Read all records as ``members`` members of a group of the topic's name."""
    command = [
        *("java", "-Xmx1g", "-cp", f"{os.environ['OTTLA_KAFKA_LIBS']}/*", TOOL),
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", topic),
        *("--num-records", str(records), "--threads", str(members), "--timeout", "60000"),
    ]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = list(csv.DictReader(output.splitlines(), skipinitialspace=True))
    if len(rows) != 1 or int(rows[0]["data.consumed.in.nMsg"]) < records:
        raise RuntimeError(f"{TOOL} did not read the {records} records of topic {topic}: {output}")
    return float(rows[0]["nMsg.sec"])


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--members", type=int, default=1)
    options.add_argument("--records", type=int, default=500_000)
    options.add_argument("--size-bytes", type=int, default=100)
    arguments = options.parse_args()
    if "OTTLA_KAFKA_LIBS" not in os.environ:
        options.error("OTTLA_KAFKA_LIBS must name a folder with Kafka's jars")
    bootstrap = arguments.bootstrap_server
    with measure.temporary_topic(bootstrap, "shared", PARTITIONS) as topic:
        fill(bootstrap, topic, arguments.records, arguments.size_bytes)
        asyncio.run(reset_to_earliest(bootstrap, topic))
        value = records_per_s(bootstrap, topic, arguments.records, arguments.members)
    measure.report(
        [Figure(name=f"share group with {arguments.members} members", value=value, unit="records/s", better="higher")],
        arguments.json,
    )


if __name__ == "__main__":
    main()
