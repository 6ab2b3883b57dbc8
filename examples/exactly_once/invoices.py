"""Writes an invoice for each order, exactly once: invoices and offsets are in the same transactions."""

import argparse
import json
import signal
import sys
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

VAT_PERCENT = 19


def main() -> None:
    """Run until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-server", default="127.0.0.1:9092")
    parser.add_argument("--instance", default="1", help="Different for each process that runs at the same time.")
    options = parser.parse_args()
    common = {"bootstrap.servers": options.bootstrap_server}
    producer = Producer(common | {"transactional.id": f"invoices-{options.instance}"})
    consumer = Consumer(
        common
        | {"group.id": "invoices", "isolation.level": "read_committed", "enable.auto.commit": False}
        | {"auto.offset.reset": "earliest", "session.timeout.ms": 6000}
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    orders: list[Message] = []
    # A partition of another member now: that one reads these orders again, from the committed offset.
    consumer.subscribe(["orders"], on_revoke=lambda *_: orders.clear())
    producer.init_transactions()
    try:
        while True:
            collect(consumer, orders)
            if orders:
                write_invoices(producer, consumer, orders)
                orders.clear()
    finally:
        consumer.close()


def collect(consumer: Consumer, orders: list[Message], count_max: int = 500, timeout_s: float = 1.0) -> None:
    """Add the next orders; `Consumer.consume` would return some of partitions that were revoked meanwhile."""
    while len(orders) < count_max and (message := consumer.poll(0.05 if orders else timeout_s)) is not None:
        if message.error() is None:
            orders.append(message)


def write_invoices(producer: Producer, consumer: Consumer, orders: list[Message]) -> None:
    """Write the invoices and the offsets after the orders, or nothing of both."""
    producer.begin_transaction()
    try:
        ends: dict[tuple[str, int], int] = {}
        for order in orders:
            cents = int(order.value()) * (100 + VAT_PERCENT) // 100
            source = f"{order.topic()}-{order.partition()}@{order.offset()}"
            producer.produce("invoices", json.dumps({"order": source, "cents": cents}), order.key())
            ends[order.topic(), order.partition()] = order.offset() + 1
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
        group = consumer.consumer_group_metadata()
        repeat(lambda: producer.send_offsets_to_transaction(offsets, group))
        repeat(producer.commit_transaction)
    except KafkaException as failure:
        if not failure.args[0].txn_requires_abort():
            raise
        repeat(producer.abort_transaction)
        for partition in consumer.committed(consumer.assignment()):
            consumer.seek(TopicPartition(partition.topic, partition.partition, max(partition.offset, 0)))


def repeat(call: Callable[[], None]) -> None:
    """Call until it succeeds or fails for a reason that a repetition does not change."""
    while True:
        try:
            return call()
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise


if __name__ == "__main__":
    main()
