"""One well-behaved client in a process of its own: a record at a time at a modest rate, produced and fetched again.

Acks=all, plain sockets, one request under way. What is remembered of each record is how long its Produce and its Fetch
took. One that is sent late because the one before it took long waits from the moment when it was due; one that is
sent late because this process was not woken in time does not. Once woken, it goes before other work (`cores`).

A request that the node rejects, or serves without the record, is repeated, as clients do; the time counts, and so does
the rejection.
"""

import resource
import struct
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from benchmarks import beside, cores, frames

RECORD = b"x" * 1_000
FETCH_BYTES_MAX = 64 * 1024
_CORRELATION_BYTES = 4


@dataclass(frozen=True)
class Sample:
    """One record; the moment is of ``time.perf_counter``."""

    at_s: float
    produce_ms: float
    fetch_ms: float
    rejections: int
    """Answers that were an error, or lacked the record."""

    @property
    def ended_s(self) -> float:
        return self.at_s + (self.produce_ms + self.fetch_ms) / 1000


def running(
    address: tuple[str, int], topic: str, rate_per_s: float
) -> AbstractContextManager[beside.Beside[tuple[list[Sample], float]]]:
    """Produce and fetch from now on, on partition 0 of ``topic``; returns control when the first record was read.

    Its outcome is what it saw, and the CPU seconds that it used.
    """
    return beside.running(_work, address, topic, rate_per_s)


def _work(address: tuple[str, int], topic: str, rate_per_s: float, pipe: Connection) -> None:
    producer, consumer = frames.connect(address), frames.connect(address)
    request = frames.produce_request(topic, 0, frames.batch([RECORD]), acks=-1)
    samples: list[Sample] = []
    cores.wake_at_once()
    _exchange(producer, consumer, topic, request)
    pipe.send("ready")
    started, number, free_s = time.perf_counter(), 0, 0.0
    while number % 16 or not pipe.poll():
        due_s = started + number / rate_per_s
        while (ahead_s := due_s - time.perf_counter()) > 0:
            time.sleep(ahead_s)
        began_s = due_s if free_s > due_s else time.perf_counter()
        produced_s, fetched_s, rejections = _exchange(producer, consumer, topic, request)
        samples.append(Sample(began_s, (produced_s - began_s) * 1000, (fetched_s - produced_s) * 1000, rejections))
        number, free_s = number + 1, fetched_s
    usage = resource.getrusage(resource.RUSAGE_SELF)
    pipe.send((samples, usage.ru_utime + usage.ru_stime))


def _exchange(
    producer: frames.Connection, consumer: frames.Connection, topic: str, request: bytes
) -> tuple[float, float, int]:
    """Produce a record and fetch it; return when each was answered, and how often the node rejected either."""
    answer, rejections = frames.produce(producer, request)
    produced_s = time.perf_counter()
    # Correlation id, one topic, its name, one partition, its number, the error: then the record's offset.
    (offset,) = struct.unpack_from(">q", answer, _CORRELATION_BYTES + 4 + 2 + len(topic) + 4 + 4 + 2)
    fetch = frames.fetch_request(topic, {0: offset}, FETCH_BYTES_MAX)
    while len(consumer.exchange(fetch)) < len(RECORD):
        rejections += 1
        time.sleep(frames.RETRY_S)
    return produced_s, time.perf_counter(), rejections
