"""Other people's codecs as oracles: Kafka's own classes, kio and kafka-python."""

import base64
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib import import_module
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


@pytest.fixture(scope="session")
def kafka_python_types() -> dict[str, Any]:
    """kafka-python's message classes by Kafka's names; importing them warns about its own use of importlib."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        modules = [
            import_module(f"kafka.protocol.{name}") for name in ("admin", "consumer", "metadata", "producer", "sasl")
        ]
        modules.append(import_module("kafka.protocol.api_header"))
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and getattr(value, "_struct", None) is not None
    }
