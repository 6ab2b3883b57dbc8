"""The client of `ottla dev`: checks that the node works, and produces to a sample topic."""

import asyncio
import json
import math
import time
from typing import NoReturn

from ottla.client.admin import AdminClient
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError, RequestTimeoutError
from ottla.client.producer import Producer
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

CHECK_TIMEOUT_S = 15.0
CHECK_TOPIC = "__ottla_self_check"
CHECK_PAYLOAD = b"ready"
SAMPLE_TOPIC = "sample"
SAMPLE_PARTITIONS = 3
SAMPLE_INTERVAL_S = 0.5
_POLL_S = 0.02
THERMOMETERS = ("greenhouse", "kitchen", "cellar", "attic", "yard")


async def self_check(bootstrap: str) -> None:
    """Create a topic, produce a record, consume it, delete the topic.

    With persistent data, the topic of an interrupted check still exists; the next check uses and deletes it.

    Raises:
        OttlaError: any step failed, with the step.
    """
    async with AdminClient(bootstrap, request_timeout_s=CHECK_TIMEOUT_S) as admin:
        await _create_unless_there(admin, CHECK_TOPIC, partitions=1)
        async with Producer(admin.cluster, linger_ms=0, create_topics=True) as producer:
            landed = await (await producer.send(CHECK_TOPIC, CHECK_PAYLOAD, partition=0))
        consumer = Consumer(admin.cluster)
        consumer.assign({TopicPartition(CHECK_TOPIC, 0): landed.offset})
        deadline_s = time.monotonic() + CHECK_TIMEOUT_S
        while not (records := await consumer.fetch()):
            if time.monotonic() > deadline_s:
                raise RequestTimeoutError(f"the record did not come back within {CHECK_TIMEOUT_S:g} s")
        if records[0].value != CHECK_PAYLOAD:
            raise ClientError(f"sent {CHECK_PAYLOAD!r}, but {records[0].value!r} came back")
        await admin.delete_topic(CHECK_TOPIC)


async def _create_unless_there(admin: AdminClient, topic: str, *, partitions: int) -> None:
    try:
        await admin.create_topic(topic, partitions=partitions, replication_factor=1)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def make_sample_topic(bootstrap: str) -> None:
    """Create the topic ``sample`` unless it exists; return when clients find it, as the banner suggests to read it.

    Raises:
        OttlaError: the node returned an error, or is gone.
    """
    async with AdminClient(bootstrap, request_timeout_s=CHECK_TIMEOUT_S) as admin:
        await _create_unless_there(admin, SAMPLE_TOPIC, partitions=SAMPLE_PARTITIONS)
        deadline_s = time.monotonic() + CHECK_TIMEOUT_S
        while not await admin.describe_topics([SAMPLE_TOPIC]):
            if time.monotonic() > deadline_s:
                raise RequestTimeoutError(f"topic {SAMPLE_TOPIC} did not appear within {CHECK_TIMEOUT_S:g} s")
            await asyncio.sleep(_POLL_S)


async def feed_samples(bootstrap: str) -> NoReturn:
    """Send readings to the topic ``sample``, two a second, until cancelled.

    Raises:
        OttlaError: the node is gone, or returned an error.
    """
    async with Producer(bootstrap, delivery_timeout_s=5.0) as producer:
        number = 0
        while True:
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
