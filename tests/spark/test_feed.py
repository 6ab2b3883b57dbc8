"""The feed counts records that the broker has acknowledged, and no others."""

import json
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from ottla_spark import feed as feed_module
from ottla_spark.feed import FeedError, feed, main
from ottla_spark.flights import Event

EVENTS = [Event(b"UA", b"%d" % n, 1_000 + n) for n in range(5_000)]


class FakeMessage:
    def __init__(self, key: bytes, value: bytes) -> None:
        self._key, self._value = key, value

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def partition(self) -> int:
        return 3


class FakeProducer:
    """librdkafka's producer as far as the feed uses it: a bounded queue, settled when it is polled."""

    queue_max = 100
    error_of: Callable[[int], str | None] = staticmethod(lambda nth: None)
    unacknowledged_count = 0

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.queue: list[tuple[Any, Any]] = []
        self.produced: list[tuple[str, bytes, bytes, int]] = []
        self.purged = False
        created.append(self)

    def produce(self, topic: str, value: bytes, key: bytes, *, timestamp: int, on_delivery: Any) -> None:
        if len(self.queue) >= self.queue_max:
            raise BufferError
        error = self.error_of(len(self.produced))
        self.produced.append((topic, key, value, timestamp))
        self.queue.append((on_delivery, (error, FakeMessage(key, value))))

    def poll(self, seconds: float) -> None:
        if seconds:
            self._settle(leave=0)

    def flush(self, seconds: float) -> int:
        self._settle(leave=self.unacknowledged_count)
        return len(self.queue)

    def purge(self) -> None:
        self.purged = True

    def _settle(self, leave: int) -> None:
        while len(self.queue) > leave:
            on_delivery, arguments = self.queue.pop(0)
            on_delivery(*arguments)


created: list[FakeProducer] = []


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> type[FakeProducer]:
    created.clear()

    class Producer(FakeProducer):
        pass

    monkeypatch.setattr(confluent_kafka, "Producer", Producer)
    return Producer


def test_every_event_is_produced_in_order_with_its_time(producer: type[FakeProducer]) -> None:
    fed = feed(EVENTS, bootstrap_servers="h:1", topic="flights")

    assert created[0].produced == [("flights", key, value, time) for key, value, time in EVENTS]
    assert fed.rows == 5_000
    assert fed.size_bytes == sum(len(event.key) + len(event.value) for event in EVENTS)


def test_progress_counts_acknowledged_rows_and_ends_at_all(producer: type[FakeProducer]) -> None:
    seen: list[tuple[int, int]] = []

    fed = feed(EVENTS, bootstrap_servers="h:1", topic="t", on_progress=lambda *counts: seen.append(counts))

    assert [rows for rows, _ in seen] == [2_000, 4_000, 5_000]
    assert seen[-1] == (fed.rows, fed.size_bytes)


def test_caller_s_options_win(producer: type[FakeProducer]) -> None:
    feed([], bootstrap_servers="h:1", topic="t", producer_options={"linger.ms": 5, "acks": "1"})

    assert created[0].options["bootstrap.servers"] == "h:1"
    assert (created[0].options["linger.ms"], created[0].options["acks"]) == (5, "1")


def test_rejected_record_stops_the_feed_and_is_named(producer: type[FakeProducer]) -> None:
    producer.error_of = staticmethod(lambda nth: "topic is read-only" if nth == 150 else None)

    with pytest.raises(FeedError, match=r"h:1 acknowledged \d+ of \d+ .* topic t: partition 3: topic is read-only"):
        feed(EVENTS, bootstrap_servers="h:1", topic="t")
    assert len(created[0].produced) < len(EVENTS)
    assert created[0].purged


def test_record_that_is_never_acknowledged_is_no_success(producer: type[FakeProducer]) -> None:
    producer.unacknowledged_count = 1

    with pytest.raises(FeedError, match=r"acknowledged 4999 of 5000 .* 1 still waiting after 60 s"):
        feed(EVENTS, bootstrap_servers="h:1", topic="t")


def test_command_prints_the_number_of_produced_records(
    producer: type[FakeProducer], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(feed_module, "events", lambda: EVENTS)

    exit_code = main(["--bootstrap-servers", "h:1", "--dirt", "late=5", "--producer-option", "linger.ms=7"])

    printed = json.loads(capsys.readouterr().out)
    assert (exit_code, printed["rows"], printed["dirt"]["late"], printed["topic"]) == (0, 5_005, 5, "flights")
    assert created[0].options["linger.ms"] == "7"


def test_dirt_that_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap-servers", "h:1", "--dirt", "mud"]) == 1
    assert "cannot read dirt 'mud'" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["linger", "=5", ""])
def test_option_that_cannot_be_read_is_wrong_usage(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--bootstrap-servers", "h:1", "--producer-option", option])
    assert "write KEY=VALUE" in capsys.readouterr().err
