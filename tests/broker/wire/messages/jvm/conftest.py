"""Kafka's own message classes in a JVM, if OTTLA_KAFKA_LIBS names a folder of its jars."""

import base64
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.codec import Message

Ask = Callable[[dict[str, Any]], dict[str, Any]]
"""A request to the JVM, and its response."""


class MessagesOracle:
    """Runs MessagesOracle.java of this folder."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def encode_again(self, message_type: type[Message], version: int, *encoded: bytes) -> list[bytes | str]:
        """Return the bytes that Kafka encodes after decoding each of ``encoded``, or its error."""
        response = self._ask_of(message_type, version, encoded)
        return [entry["error"] if isinstance(entry, dict) else base64.b64decode(entry) for entry in response["again"]]

    def default(self, message_type: type[Message], version: int) -> bytes | None:
        """Return a new message's bytes, None if the version cannot represent it."""
        response = self._ask_of(message_type, version, ())["default"]
        return None if response is None else base64.b64decode(response)

    def _ask_of(self, message_type: type[Message], version: int, encoded: tuple[bytes, ...]) -> dict[str, Any]:
        data = [base64.b64encode(data).decode() for data in encoded]
        return self._ask({"name": message_type.__name__, "version": version, "data": data})


@pytest.fixture(scope="session")
def jvm(query_jvm: Callable[[Path], AbstractContextManager[Ask]]) -> Iterator[MessagesOracle]:
    with query_jvm(Path(__file__).with_name("MessagesOracle.java")) as ask:
        yield MessagesOracle(ask)
