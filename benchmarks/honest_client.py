"""One well-behaved client in a process of its own: a record at a time at a modest rate, produced and fetched again.

Acks=all, plain sockets, one request under way. The samples are the latencies of each record's Produce and Fetch. The
latency of a record that is sent late because the one before it took long counts from the moment when it was due; not so
if this process was not woken in time. Once woken, it has priority over other load (`cores`).

A request that the node rejects, or serves without the record, is repeated, as clients do; the time counts, and so does
the rejection.
"""

import resource
import struct
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TypeVar

from benchmarks import background_process, cores, frames

RECORD = b"x" * 1_000
FETCH_BYTES_MAX = 64 * 1024
_CORRELATION_BYTES = 4
_TIMEOUT_S = 30
"""As clients have it (request.timeout.ms)."""
T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """One record; the moment is of ``time.perf_counter``."""

    at_s: float
    produce_ms: float
    fetch_ms: float
    rejections: int
    """Responses with an error, or without the record, and lost connections."""

    @property
    def ended_s(self) -> float:
        return self.at_s + (self.produce_ms + self.fetch_ms) / 1000


def running(
    address: tuple[str, int], topic: str, rate_per_s: float
) -> AbstractContextManager[background_process.BackgroundProcess[tuple[list[Sample], float]]]:
    """Produce and fetch from now on, on partition 0 of ``topic``; returns control when the first record was read.

    Its outcome is its samples and the CPU seconds that it used.
    """
    return background_process.running(_work, address, topic, rate_per_s)


def _work(address: tuple[str, int], topic: str, rate_per_s: float, pipe: Connection) -> None:
    client = _Client(address, topic, pipe.poll)
    samples: list[Sample] = []
    cores.wake_at_once()
    client.exchange()
    pipe.send("ready")
    started, number, free_s = time.perf_counter(), 0, 0.0
    while number % 16 or not pipe.poll():
        due_s = started + number / rate_per_s
        while (ahead_s := due_s - time.perf_counter()) > 0:
            time.sleep(ahead_s)
        began_s = due_s if free_s > due_s else time.perf_counter()
        produced_s, fetched_s, rejections = client.exchange()
        samples.append(Sample(began_s, (produced_s - began_s) * 1000, (fetched_s - produced_s) * 1000, rejections))
        number, free_s = number + 1, fetched_s
        if client.has_given_up:
            break
    usage = resource.getrusage(resource.RUSAGE_SELF)
    pipe.send((samples, usage.ru_utime + usage.ru_stime))


class _Client:
    """Two connections, one for each kind of request; new ones where the node has closed them.

    A request that is not served when ``is_over`` is true is given up: its latency is the time so far.
    """

    def __init__(self, address: tuple[str, int], topic: str, is_over: Callable[[], bool]) -> None:
        self.has_given_up = False
        self._address = address
        self._topic = topic
        self._is_over = is_over
        self._producer: frames.Connection | None = None
        self._consumer: frames.Connection | None = None
        self._request = frames.produce_request(topic, 0, frames.batch([RECORD]), acks=-1)
        self._rejections = 0

    def exchange(self) -> tuple[float, float, int]:
        """Produce a record and fetch it; return when each had its response, and how often the node rejected either."""
        self._rejections = 0
        offset = self._repeat(self._produce) or 0
        produced_s = time.perf_counter()
        self._repeat(lambda: self._fetch(offset))
        return produced_s, time.perf_counter(), self._rejections

    def _repeat(self, attempt: Callable[[], T | None]) -> T | None:
        while True:
            try:
                result = attempt()
            except OSError:
                self._producer = self._consumer = result = None
            if result is not None:
                return result
            self._rejections += 1
            time.sleep(frames.RETRY_S)
            if self._is_over():
                self.has_given_up = True
                return None

    def _produce(self) -> int | None:
        """Return the record's offset, None for an error."""
        if self._producer is None:
            self._producer = frames.connect(self._address, timeout_s=_TIMEOUT_S)
        response = self._producer.exchange(self._request)
        try:
            frames.check_produced(response)
        except RuntimeError:
            return None
        # Correlation id, one topic, its name, one partition, its number, the error: then the record's offset.
        position = _CORRELATION_BYTES + 4 + 2 + len(self._topic) + 4 + 4 + 2
        return int(struct.unpack_from(">q", response, position)[0])

    def _fetch(self, offset: int) -> bool | None:
        """Return True when the record is there, else None."""
        if self._consumer is None:
            self._consumer = frames.connect(self._address, timeout_s=_TIMEOUT_S)
        response = self._consumer.exchange(frames.fetch_request(self._topic, {0: offset}, FETCH_BYTES_MAX))
        return True if len(response) >= len(RECORD) else None
