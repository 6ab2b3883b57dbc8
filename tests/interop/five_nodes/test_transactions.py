"""Transactional programs while nodes are killed with SIGKILL and restarted: read_committed output is exact.

The programs are Kafka's TransactionalMessageCopier and kafka-producer-perf-test, and this project's own example.

Environment:
    OTTLA_INTEROP_SEED: another seed for which nodes and programs are killed, and when.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from jvm_kafka import tool_command

INVOICES = Path(__file__).parents[3] / "examples" / "exactly_once" / "invoices.py"
WITHIN_S = 120
NODE_KILLS = 2
SEED = int(os.environ.get("OTTLA_INTEROP_SEED", "21"))

Start = Callable[..., "subprocess.Popen[bytes]"]


def seed(bootstrap: str, topic: str, *, partitions: int, count: int) -> dict[int, list[bytes]]:
    """Write numbers to each partition, and return them by partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    written: dict[int, list[bytes]] = {index: [] for index in range(partitions)}
    for number in range(count):
        written[number % partitions].append(b"%d" % number)
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(WITHIN_S) == 0
    return written


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["assigned", "group"])
def test_transactional_message_copier_copies_each_record_once(
    five: Any,
    start: Start,
    read_committed: Callable[..., Any],
    tmp_path: Path,
    mode: str,
) -> None:
    source, target, choices = f"copy-from-{mode}", f"copy-to-{mode}", random.Random(SEED)
    for topic in (source, target):
        five.create(topic, "--partitions", "2", "--replication-factor", "3", min_insync_replicas="2")
    written = seed(five.bootstrap, source, partitions=2, count=4000)

    def start_copier(index: int) -> subprocess.Popen[bytes]:
        command = tool_command(
            "kafka-transactional-message-copier",
            *("--broker-list", five.bootstrap, "--input-topic", source, "--input-partition", str(index)),
            *("--output-topic", target, "--consumer-group", source, "--transactional-id", f"{target}-{index}"),
            *("--transaction-size", "20", "--enable-random-aborts", "--use-group-metadata"),
            *(["--group-mode"] if mode == "group" else []),
        )
        return start(command, f"copier-{index}")

    copiers = {index: start_copier(index) for index in range(2)}
    for index in range(2):
        five.wait_for(lambda index=index: '"ProcessLoop"' in (tmp_path / f"copier-{index}").read_text())
    for number in range(NODE_KILLS):
        running = [index for index, copier in copiers.items() if copier.poll() is None]
        assert running or number > 0, "both copiers had ended before the first kill"
        if number > 0 and running:
            index = choices.choice(running)
            copiers[index].kill()
            copiers[index].wait()
            copiers[index] = start_copier(index)
        five.kill_and_restart(choices)
    for index, copier in copiers.items():
        assert copier.wait(WITHIN_S) == 0, (tmp_path / f"copier-{index}").read_text()[-3000:]

    records = read_committed(five.bootstrap, target, partitions=2, count=4000)
    for index in range(2):
        assert [each.value() for each in records if each.partition() == index] == written[index]


@pytest.mark.timeout(200)
def test_transactional_perf_producer_writes_each_record_once(
    five: Any, start: Start, read_committed: Callable[..., Any], tmp_path: Path
) -> None:
    choices = random.Random(SEED)
    five.create("perf", "--partitions", "3", "--replication-factor", "3", min_insync_replicas="2")
    command = tool_command(
        "kafka-producer-perf-test",
        *("--bootstrap-server", five.bootstrap, "--topic", "perf", "--num-records", "10000"),
        *("--record-size", "100", "--throughput", "600"),
        *("--transactional-id", "perf", "--transaction-duration-ms", "100"),
    )
    producer = start(command, "perf")
    time.sleep(3)

    five.kill_and_restart(choices)

    assert producer.wait(WITHIN_S) == 0, (tmp_path / "perf").read_text()[-3000:]
    assert "10000 records sent" in (tmp_path / "perf").read_text()
    assert len(read_committed(five.bootstrap, "perf", partitions=3, count=10_000)) == 10_000


@pytest.mark.timeout(300)
def test_example_writes_one_invoice_for_each_order(five: Any, start: Start, read_committed: Callable[..., Any]) -> None:
    choices = random.Random(SEED)
    for topic in ("orders", "invoices"):
        five.create(topic, "--partitions", "4", "--replication-factor", "3", min_insync_replicas="2")

    def start_program(instance: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(INVOICES), "-b", five.bootstrap, "--instance", str(instance)]
        return start(command, f"invoices-{instance}")

    programs = {instance: start_program(instance) for instance in (1, 2)}
    numbers: list[bytes] = []
    for _ in range(NODE_KILLS):
        for values in seed(five.bootstrap, "orders", partitions=4, count=500).values():
            numbers += values
        time.sleep(choices.uniform(0.5, 2))
        five.kill_and_restart(choices)
        instance = choices.choice((1, 2))
        programs[instance].kill()
        programs[instance].wait()
        programs[instance] = start_program(instance)

    records = read_committed(five.bootstrap, "invoices", partitions=4, count=len(numbers))
    invoices = [json.loads(each.value()) for each in records]
    assert len({each["order"] for each in invoices}) == len(numbers)
    assert sorted(each["cents"] for each in invoices) == sorted(int(number) * 119 // 100 for number in numbers)
