"""Client metrics with kafka-client-metrics, and with what Java's and librdkafka's clients push."""

import re
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from configured_node import ottla_command
from confluent_kafka import Producer

SERIES = re.compile(r"(ottla_client_(?:counter_total|gauge|info)){(.*)} (\S+)")


@dataclass(frozen=True)
class ReceivingNode:
    """A node that receives client metrics, and its metrics page."""

    bootstrap: str
    admin: str
    output: Path

    def series(self) -> list[tuple[str, dict[str, str], float]]:
        """Return name, labels and value of what clients pushed."""
        with urllib.request.urlopen(f"http://{self.admin}/metrics") as page:
            found = SERIES.findall(page.read().decode())
        return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)) for name, labels, value in found]

    def newest(self, metric: str, client_id: str) -> float:
        return sum(
            value
            for name, labels, value in self.series()
            if name == "ottla_client_gauge" and (labels["metric"], labels["client_id"]) == (metric, client_id)
        )


@pytest.fixture(scope="module")
def receiving(
    new_node: Callable[..., Any], free_port: Callable[[], int], kafka_tool: Callable[..., Any]
) -> ReceivingNode:
    """A node that receives client metrics, with a subscription to all metrics of clients named ``app-...``."""
    admin = f"127.0.0.1:{free_port()}"
    node = new_node(
        command_of=ottla_command(
            free_port(),
            lambda directory: {
                "log.dirs": f"{directory}/data",
                "ottla.admin.listener": admin,
                "ottla.client.metrics.receivers": "metrics,log",
            },
        )
    )
    settings = ("--name", "apps", "--metrics", "*", "--interval", "300", "--match", "client_id=app-.*")
    altered = kafka_tool("kafka-client-metrics", "--bootstrap-server", node.bootstrap, "--alter", *settings)
    assert altered.lines == ["Altered client metrics config for apps."]
    return ReceivingNode(node.bootstrap, admin, node.directory / "node.out")


def test_subscriptions_are_listed_described_and_deleted(
    receiving: ReceivingNode, kafka_tool: Callable[..., Any]
) -> None:
    def run(*args: str) -> list[str]:
        lines: list[str] = kafka_tool("kafka-client-metrics", "--bootstrap-server", receiving.bootstrap, *args).lines
        return lines

    run("--alter", "--name", "spare", "--metrics", "org.apache.kafka.producer.", "--interval", "5000")
    assert sorted(run("--list")) == ["apps", "spare"]
    assert run("--describe", "--name", "spare") == [
        "Client metrics configs for spare are:",
        "  interval.ms=5000",
        "  match=",
        "  metrics=org.apache.kafka.producer.",
    ]

    run("--delete", "--name", "spare")

    assert run("--list") == ["apps"]


def test_apis_are_announced(receiving: ReceivingNode, kafka_tool: Callable[..., Any]) -> None:
    shown = kafka_tool("kafka-broker-api-versions", "--bootstrap-server", receiving.bootstrap).stdout

    assert "GetTelemetrySubscriptions(71): 0 [usable: 0]" in shown
    assert "PushTelemetry(72): 0 [usable: 0]" in shown


def test_metrics_of_a_java_producer_are_pushed(
    receiving: ReceivingNode, kafka_tool: Callable[..., Any], eventually: Callable[..., object], unique: Any
) -> None:
    topic = unique("topic")
    tool = ("kafka-producer-perf-test", "--topic", topic, "--num-records", "40", "--record-size", "100")
    settings = f"bootstrap.servers={receiving.bootstrap} client.id=app-java"

    kafka_tool(*tool, "--throughput", "20", "--producer-props", *settings.split())

    pushes = [line for line in receiving.output.read_text().splitlines() if "'app-java'" in line]
    assert len(pushes) >= 3, "two seconds have six intervals, and the close pushes once more"
    assert "org.apache.kafka.producer." in pushes[-1]


def test_metrics_of_librdkafka_are_pushed_and_end_with_the_client(
    receiving: ReceivingNode, eventually: Callable[..., object], unique: Callable[[str], str]
) -> None:
    topic, client_id = unique("topic"), "app-librdkafka"
    producer = Producer({"bootstrap.servers": receiving.bootstrap, "client.id": client_id})
    deadline = time.monotonic() + 30
    metric = "org.apache.kafka.producer.request.latency.max"
    while receiving.newest(metric, client_id) < 1:
        assert time.monotonic() < deadline, receiving.series()
        producer.produce(topic, b"value")
        producer.poll(0.1)
    (info,) = [labels for name, labels, _ in receiving.series() if name == "ottla_client_info"]
    assert info["client_software_name"] == "confluent-kafka-python"
    producer.flush(30)

    del producer

    eventually(lambda: receiving.series() == [])


def test_clients_that_do_not_match_push_nothing(
    receiving: ReceivingNode, kafka_tool: Callable[..., Any], unique: Callable[[str], str]
) -> None:
    tool = ("kafka-producer-perf-test", "--topic", unique("topic"), "--num-records", "20", "--record-size", "100")
    settings = f"bootstrap.servers={receiving.bootstrap} client.id=other"

    kafka_tool(*tool, "--throughput", "20", "--producer-props", *settings.split())

    assert "'other'" not in receiving.output.read_text()
