"""A group of the consumer protocol (KIP-848): seconds until its members share a topic, and again without one of them.

    python -m benchmarks.consumer_groups --bootstrap-server 127.0.0.1:9092 --members 10

Consumers of librdkafka with its defaults, all in this process, subscribe at the same moment. They share the topic when
each partition has one owner and each member has as many as the others, or one more or less.
"""

import time
from collections.abc import Sequence
from itertools import chain

from benchmarks import measure
from benchmarks.measure import Figure
from confluent_kafka import Consumer

TIMEOUT_S = 120
PARTITIONS_PER_MEMBER = 3


def seconds_until_shared(consumers: Sequence[Consumer], partitions: int) -> float:
    """Poll until the consumers share the topic; return how long that took."""
    started_s = time.perf_counter()
    while time.perf_counter() - started_s < TIMEOUT_S:
        for consumer in consumers:
            consumer.poll(0)
        owned = [[each.partition for each in consumer.assignment()] for consumer in consumers]
        sizes = [len(each) for each in owned]
        if sorted(chain.from_iterable(owned)) == list(range(partitions)) and max(sizes) - min(sizes) <= 1:
            return time.perf_counter() - started_s
        time.sleep(0.01)
    raise RuntimeError(f"{len(consumers)} members do not share {partitions} partitions after {TIMEOUT_S} s")


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--members", type=int, default=10)
    arguments = options.parse_args()
    partitions = PARTITIONS_PER_MEMBER * arguments.members
    with measure.temporary_topic(arguments.bootstrap_server, "shared", partitions) as topic:
        settings = {
            "bootstrap.servers": arguments.bootstrap_server,
            "group.id": topic,
            "group.protocol": "consumer",
            "log_level": 0,
        }
        consumers = [Consumer(settings) for _ in range(arguments.members)]
        for consumer in consumers:
            consumer.subscribe([topic])
        joined_s = seconds_until_shared(consumers, partitions)
        consumers.pop().close()
        left_s = seconds_until_shared(consumers, partitions)
        for consumer in consumers:
            consumer.close()
    measure.report(
        [
            Figure(name=f"{arguments.members} consumers join", value=joined_s, unit="s", better="lower"),
            Figure(name="one leaves", value=left_s, unit="s", better="lower"),
        ],
        arguments.json,
    )


if __name__ == "__main__":
    main()
