"""Connection attempts to an address that stands for many nodes: repeated until one succeeds."""

import asyncio
import errno
from typing import Any

import pytest

from ottla.client import connect_attempts
from ottla.client.connect_attempts import open_stream
from ottla.client.connection import Connection
from ottla.client.errors import BrokerUnreachableError
from ottla.types import Endpoint

UNREACHABLE = OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 9092)")


class Writer:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Network:
    """The scripted network: one outcome for each attempt, after so many seconds of the loop's time."""

    def __init__(self, *outcomes: tuple[float, Exception | None]) -> None:
        self.outcomes = list(outcomes)
        self.writers: list[Writer] = []
        self.cancelled = 0

    async def connect(self, host: str, port: int) -> Any:
        after_s, error = self.outcomes.pop(0)
        try:
            await asyncio.sleep(after_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if error is not None:
            raise error
        self.writers.append(Writer())
        return None, self.writers[-1]


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that scripts the outcomes of attempts; another attempt starts after 10 ms."""
    monkeypatch.setattr(connect_attempts, "ATTEMPT_INTERVAL_S", 0.01)

    def put(*outcomes: tuple[float, Exception | None]) -> Network:
        made = Network(*outcomes)
        monkeypatch.setattr(asyncio, "open_connection", made.connect)
        return made

    return put


@pytest.mark.parametrize(
    "first",
    [pytest.param((60.0, None), id="hangs"), pytest.param((0.015, UNREACHABLE), id="fails-during-the-next-attempt")],
)
def test_hanging_attempt_is_followed_by_another(behind: Any, first: tuple[float, Exception | None]) -> None:
    made = behind(first, (60.0, None), (0.0, None))
    _, writer = asyncio.run(open_stream("service", 9092))

    assert writer is made.writers[0]
    assert not writer.is_closed
    assert made.cancelled == (2 if first[1] is None else 1), "no attempt is left"


def test_immediate_failure_is_raised_at_once(behind: Any) -> None:
    made = behind((0.0, UNREACHABLE), (0.0, None))
    with pytest.raises(OSError, match="Connect call failed"):
        asyncio.run(open_stream("host", 9092))
    assert len(made.outcomes) == 1


def test_second_of_two_simultaneous_connections_is_closed(behind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = behind((0.02, None), (0.01, None))

    async def run() -> Any:
        real = asyncio.wait

        async def late(attempts: Any, **options: Any) -> Any:
            if len(attempts) == 2:
                await asyncio.sleep(0.05)
            return await real(attempts, **options)

        monkeypatch.setattr(asyncio, "wait", late)
        return await open_stream("service", 9092)

    _, kept = asyncio.run(run())
    assert sorted(writer.is_closed for writer in made.writers) == [False, True]
    assert not kept.is_closed


def test_attempts_end_with_the_callers_timeout(behind: Any) -> None:
    made = behind(*[(60.0, None)] * 100)
    with pytest.raises(BrokerUnreachableError, match=r"did not accept a connection within 0\.05 s"):
        asyncio.run(Connection.open(Endpoint("h", 9092), timeout_s=0.05))
    assert made.cancelled == 100 - len(made.outcomes) > 1


def test_connection_error_has_the_systems_message(behind: Any) -> None:
    behind((0.0, UNREACHABLE))
    with pytest.raises(BrokerUnreachableError, match=r"^cannot connect to h:9092: No route to host$"):
        asyncio.run(Connection.open(Endpoint("h", 9092)))
