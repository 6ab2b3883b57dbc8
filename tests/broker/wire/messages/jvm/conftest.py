"""Kafka's own message classes in a JVM, where OTTLA_KAFKA_LIBS names a folder of its jars."""

import base64
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.codec import Message

Ask = Callable[[dict[str, Any]], dict[str, Any]]
"""One question to a JVM, and its answer."""


class MessagesOracle:
    """MessagesOracle.java beside this file."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def encode_again(self, message_type: type[Message], version: int, *encoded: bytes) -> list[bytes | str]:
        """Return what Kafka makes of each of ``encoded``: its bytes again, or the text of its error."""
        answer = self._ask_of(message_type, version, encoded)
        return [entry["error"] if isinstance(entry, dict) else base64.b64decode(entry) for entry in answer["again"]]

    def default(self, message_type: type[Message], version: int) -> bytes | None:
        """Return a new message's bytes, None where the version cannot carry it."""
        answer = self._ask_of(message_type, version, ())["default"]
        return None if answer is None else base64.b64decode(answer)

    def _ask_of(self, message_type: type[Message], version: int, encoded: tuple[bytes, ...]) -> dict[str, Any]:
        data = [base64.b64encode(data).decode() for data in encoded]
        return self._ask({"name": message_type.__name__, "version": version, "data": data})


@pytest.fixture(scope="session")
def jvm(ask_jvm: Callable[[Path], AbstractContextManager[Ask]]) -> Iterator[MessagesOracle]:
    with ask_jvm(Path(__file__).with_name("MessagesOracle.java")) as ask:
        yield MessagesOracle(ask)
