"""What `ottla dev` does through its own client: prove that the node works, and keep a topic alive."""

import asyncio
import json
import math
import threading
import time
import uuid

from ottla.client.admin import AdminClient
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError, RequestTimeoutError
from ottla.client.producer import Producer
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

CHECK_TIMEOUT_S = 15.0
SAMPLE_TOPIC = "sample"
SAMPLE_PARTITIONS = 3
SAMPLE_INTERVAL_S = 0.5
THERMOMETERS = ("greenhouse", "kitchen", "cellar", "attic", "yard")


def self_check(bootstrap: str) -> None:
    """Make a topic, send a record, read it back, delete the topic.

    Raises:
        OttlaError: any step failed; says which.
    """
    asyncio.run(_self_check(bootstrap))


async def _self_check(bootstrap: str) -> None:
    topic = f"__ottla_self_check_{uuid.uuid4().hex[:8]}"
    where, payload = TopicPartition(topic, 0), b"ready"
    async with AdminClient(bootstrap, request_timeout_s=CHECK_TIMEOUT_S) as admin:
        await admin.create_topic(topic, partitions=1, replication_factor=1)
        try:
            async with Producer(admin.cluster, linger_ms=0, create_topics=True) as producer:
                landed = await (await producer.send(topic, payload, partition=0))
            consumer = Consumer(admin.cluster)
            consumer.assign({where: landed.offset})
            deadline_s = time.monotonic() + CHECK_TIMEOUT_S
            while not (records := await consumer.fetch()):
                if time.monotonic() > deadline_s:
                    raise RequestTimeoutError(f"the record did not come back within {CHECK_TIMEOUT_S:g} s")
            if records[0].value != payload:
                raise ClientError(f"sent {payload!r}, but {records[0].value!r} came back")
        finally:
            await admin.delete_topic(topic)


def feed_samples(bootstrap: str, stopping: threading.Event) -> None:
    """Send readings to the topic ``sample``, two a second, until ``stopping`` is set or the node is gone."""
    try:
        asyncio.run(_feed_samples(bootstrap, stopping))
    except (ClientError, KafkaError):
        if not stopping.is_set():
            raise


async def _feed_samples(bootstrap: str, stopping: threading.Event) -> None:
    async with AdminClient(bootstrap) as admin:
        try:
            await admin.create_topic(SAMPLE_TOPIC, partitions=SAMPLE_PARTITIONS, replication_factor=1)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        async with Producer(admin.cluster, create_topics=True, delivery_timeout_s=5.0) as producer:
            number = 0
            while not stopping.is_set():
                key, value = reading(number, time.time())
                await producer.send(SAMPLE_TOPIC, value, key=key)
                number += 1
                await asyncio.sleep(SAMPLE_INTERVAL_S)


def reading(number: int, at_s: float) -> tuple[bytes, bytes]:
    """Return key and value of the ``number``-th reading: a thermometer and its temperature at a time."""
    index = number % len(THERMOMETERS)
    celsius = 18 + 3 * index + 4 * math.sin(at_s / 60 + index)
    event = {"thermometer": THERMOMETERS[index], "celsius": round(celsius, 1), "at_ms": int(at_s * 1000)}
    return THERMOMETERS[index].encode(), json.dumps(event).encode()
