"""``examples/exactly_once``: the program is killed at random, and each order has exactly one invoice."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

PROGRAM = Path(__file__).parents[2] / "examples" / "exactly_once" / "invoices.py"
PARTITIONS = 4
ORDERS = 3000
KILLS = 4
WITHIN_S = 120
TOPICS = ("orders", "invoices")


@pytest.fixture
def topics(transactions: Any, admin: Any, eventually: Callable[..., object]) -> Iterator[None]:
    """The two topics of the example."""
    del transactions
    created = admin.create_topics([NewTopic(name, num_partitions=PARTITIONS, replication_factor=1) for name in TOPICS])
    for future in created.values():
        future.result(timeout=30)
    eventually(lambda: all(len(admin.list_topics(name, timeout=30).topics[name].partitions) for name in TOPICS))
    yield
    for future in admin.delete_topics(list(TOPICS)).values():
        future.result(timeout=30)


def read_invoices(bootstrap: str, wanted: int) -> list[dict[str, Any]]:
    """Read committed invoices until ``wanted`` have come and no more come for two seconds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("invoices", number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    invoices: list[dict[str, Any]] = []
    deadline = time.monotonic() + WITHIN_S
    try:
        while (message := consumer.poll(2.0)) is not None or len(invoices) < wanted:
            assert time.monotonic() < deadline, f"{len(invoices)} of {wanted} invoices came in {WITHIN_S} s"
            if message is not None:
                assert message.error() is None, message.error()
                invoices.append(json.loads(message.value()))
    finally:
        consumer.close()
    return invoices


@pytest.mark.usefixtures("topics")
def test_each_order_has_one_invoice_although_the_program_is_killed(
    transactions: Any, produce: Callable[..., Any]
) -> None:
    choices = random.Random(20)
    running: dict[int, subprocess.Popen[bytes]] = {}

    def start(instance: int) -> None:
        command = [sys.executable, str(PROGRAM), "-b", transactions.bootstrap, "--instance", str(instance)]
        running[instance] = subprocess.Popen(command)

    try:
        for instance in (1, 2):
            start(instance)
        for part in range(KILLS + 1):
            numbers = range(part, ORDERS, KILLS + 1)
            for partition in range(PARTITIONS):
                produce("orders", [b"%d" % number for number in numbers[partition::PARTITIONS]], partition=partition)
            if part < KILLS:
                time.sleep(choices.uniform(0.5, 2.5))
                instance = choices.choice((1, 2))
                running[instance].kill()
                running[instance].wait()
                start(instance)
        invoices = read_invoices(transactions.bootstrap, ORDERS)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait(30)

    assert Counter(invoice["order"] for invoice in invoices).most_common(1)[0][1] == 1
    assert sorted(invoice["cents"] for invoice in invoices) == sorted(number * 119 // 100 for number in range(ORDERS))
