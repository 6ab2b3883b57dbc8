"""Consumer groups on several real nodes: the group continues from its commits when its coordinator is killed."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer

PARTITIONS = 3


def consumer_of(cluster: Any, group: str) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "session.timeout.ms": "6000",
            # After a failed commit librdkafka finds the coordinator again. When that request waits behind a Fetch of
            # half a second, the commit is retried meanwhile, and fails again: the client repeated that until its
            # session had timed out.
            "fetch.wait.max.ms": "10",
            "log_level": 0,
        }
    )
    made.subscribe(["t"])
    return made


def take(consumer: Consumer, count: int, *, timeout_s: float = 60) -> list[int]:
    """Return the next ``count`` records' numbers, each committed before the next is polled."""
    numbers: list[int] = []
    deadline = time.monotonic() + timeout_s
    while len(numbers) < count:
        assert time.monotonic() < deadline, f"only {len(numbers)} of {count}"
        message = consumer.poll(1)
        if message is None or message.error() is not None:
            continue
        value = message.value()
        assert isinstance(value, bytes)
        numbers.append(int(value))
        if len(numbers) % 50 == 0 or len(numbers) == count:
            consumer.commit(message=message, asynchronous=False)
    return numbers


def coordinator(cluster: Any, group: str) -> int:
    described = cluster.admin().describe_consumer_groups([group])[group].result(30)
    return int(described.coordinator.id)


def test_group_continues_when_its_coordinator_is_killed(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(offsets_topic_replication_factor="3")
    cluster.start()
    cluster.create_topic("t", partitions=1)
    ledger = cluster.ledger("t")
    ledger.send(400)
    ledger.stop()
    consumer = consumer_of(cluster, "g")
    first = take(consumer, 200)
    victim = coordinator(cluster, "g")
    cluster.nodes[victim].kill()
    second = take(consumer, 200)
    consumer.close()
    cluster.restart(victim)
    again = consumer_of(cluster, "g")
    ledger = cluster.ledger("t")
    ledger.send(10)
    ledger.stop()
    third = take(again, 10)
    again.close()

    assert sorted({*first, *second}) == list(range(400))
    assert third == list(range(10)), "the group had committed everything before"
