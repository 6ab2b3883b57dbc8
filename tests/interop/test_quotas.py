"""Quotas: set and shown with Kafka's tools, and librdkafka's clients held to them."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

RATE = 100_000
"""Bytes a second. A window of Kafka's defaults lets ten seconds' worth through at once."""
SECONDS = 6


@pytest.fixture
def quotas(kafka: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Return ``quotas("--add-config", what, *entity)``; its settings are removed at the end."""
    changed: list[tuple[str, tuple[str, ...]]] = []

    def run(how: str, what: str, *entity: str) -> Any:
        keys = ",".join(pair.split("=")[0] for pair in what.split(","))
        changed.append((keys, entity))
        return kafka("kafka-configs", "--alter", how, what, *entity)

    yield run
    for keys, entity in changed:
        kafka("kafka-configs", "--alter", "--delete-config", keys, *entity, code=None)


USER = ("--entity-type", "users", "--entity-name", "alice")
DEFAULT_USER = ("--entity-type", "users", "--entity-default")
CLIENT = ("--entity-type", "clients", "--entity-name", "c1")
DEFAULT_CLIENT = ("--entity-type", "clients", "--entity-default")
ADDRESS = ("--entity-type", "ips", "--entity-name", "10.0.0.9")
DEFAULT_ADDRESS = ("--entity-type", "ips", "--entity-default")


@pytest.mark.parametrize(
    ("entity", "what", "whom", "shown"),
    [
        pytest.param(USER, "producer_byte_rate=1024", "user-principal 'alice'", "producer_byte_rate=1024.0", id="user"),
        pytest.param(
            DEFAULT_USER,
            "request_percentage=12.5",
            "the default user-principal",
            "request_percentage=12.5",
            id="default-user",
        ),
        pytest.param(CLIENT, "consumer_byte_rate=7", "client-id 'c1'", "consumer_byte_rate=7.0", id="client"),
        pytest.param(
            DEFAULT_CLIENT,
            "controller_mutation_rate=0.5",
            "the default client-id",
            "controller_mutation_rate=0.5",
            id="default-client",
        ),
        pytest.param(
            (*USER, *CLIENT),
            "producer_byte_rate=5",
            "user-principal 'alice', client-id 'c1'",
            "producer_byte_rate=5.0",
            id="user-and-client",
        ),
        pytest.param(
            ADDRESS,
            "connection_creation_rate=50000",
            "ip '10.0.0.9'",
            "connection_creation_rate=50000.0",
            id="address",
        ),
        pytest.param(
            DEFAULT_ADDRESS,
            "connection_creation_rate=60000",
            "the default ip",
            "connection_creation_rate=60000.0",
            id="default-address",
        ),
    ],
)
def test_kafka_configs_sets_and_shows_a_limit(
    kafka: Callable[..., Any],
    quotas: Callable[..., Any],
    eventually: Callable[..., object],
    entity: tuple[str, ...],
    what: str,
    whom: str,
    shown: str,
) -> None:
    altered = quotas("--add-config", what, *entity)

    def described() -> list[str]:
        lines: list[str] = kafka("kafka-configs", "--describe", *entity).lines
        return lines

    assert [line for line in altered.lines if "Completed" in line]
    eventually(lambda: described() == [f"Quota configs for {whom} are {shown}"])
    quotas("--delete-config", what.split("=", maxsplit=1)[0], *entity)
    eventually(lambda: described() == [])


class Throttle:
    """The longest throttle time in librdkafka's statistics."""

    def __init__(self) -> None:
        self.max_ms = 0
        self.settings = {"statistics.interval.ms": 200, "stats_cb": self._take}

    def _take(self, text: str) -> None:
        throttles = [broker["throttle"]["max"] for broker in json.loads(text)["brokers"].values()]
        self.max_ms = max(self.max_ms, *throttles)


def test_producer_is_held_to_its_limit_and_sees_the_throttle_time(
    broker: Any, quotas: Callable[..., Any], new_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic, client_id = new_topic(), unique("producer")
    quotas("--add-config", f"producer_byte_rate={RATE}", "--entity-type", "clients", "--entity-name", client_id)
    throttle = Throttle()
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "client.id": client_id, "batch.size": 20_000, **throttle.settings}
    )
    sent_bytes = 0

    def on_delivery(error: object, message: Any) -> None:
        nonlocal sent_bytes
        sent_bytes += 0 if error else len(message.value())

    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if len(producer) < 200:
            producer.produce(topic, b"x" * 5_000, on_delivery=on_delivery)
        producer.poll(0 if len(producer) < 200 else 0.05)
    producer.purge()
    producer.flush(10)

    assert RATE * 9 <= sent_bytes <= RATE * (10 + SECONDS) * 1.1
    assert throttle.max_ms > 0


def test_consumer_is_held_to_its_limit_and_sees_the_throttle_time(
    broker: Any,
    quotas: Callable[..., Any],
    new_topic: Callable[..., str],
    unique: Callable[[str], str],
    produce: Callable[..., Any],
) -> None:
    topic, client_id = new_topic(), unique("consumer")
    produce(topic, [b"x" * 5_000] * 600, {"batch.size": 20_000})
    quotas("--add-config", f"consumer_byte_rate={RATE}", "--entity-type", "clients", "--entity-name", client_id)
    throttle = Throttle()
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "group.id": unique("group"),
            "fetch.message.max.bytes": 100_000,
            **throttle.settings,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    received_bytes = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        received_bytes += sum(len(message.value()) for message in consumer.consume(100, 0.1) if not message.error())
    consumer.close()

    assert RATE * 7 <= received_bytes <= RATE * (10 + SECONDS) * 1.1
    assert throttle.max_ms > 0
