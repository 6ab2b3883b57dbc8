"""Other people's codecs as oracles: Kafka's own classes, kio and kafka-python."""

import base64
import json
import os
import subprocess
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.codec import Message


class MessagesOracle:
    """One JVM for all tests: MessagesOracle.java beside this file, asked line by line."""

    def __init__(self, libs: str) -> None:
        source = Path(__file__).with_name("MessagesOracle.java")
        self.process = subprocess.Popen(
            ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def encode_again(self, message_type: type[Message], version: int, *encoded: bytes) -> list[bytes | str]:
        """Return what Kafka makes of each of ``encoded``: its bytes again, or the text of its error."""
        answer = self._ask(message_type, version, encoded)
        return [entry["error"] if isinstance(entry, dict) else base64.b64decode(entry) for entry in answer["again"]]

    def default(self, message_type: type[Message], version: int) -> bytes | None:
        """Return a new message's bytes, None where the version cannot carry it."""
        answer = self._ask(message_type, version, ())["default"]
        return None if answer is None else base64.b64decode(answer)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=30)

    def _ask(self, message_type: type[Message], version: int, encoded: tuple[bytes, ...]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        data = [base64.b64encode(data).decode() for data in encoded]
        request = {"name": message_type.__name__, "version": version, "data": data}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@pytest.fixture(scope="session")
def jvm() -> Iterator[MessagesOracle]:
    libs = os.environ.get("OTTLA_KAFKA_LIBS")
    if not libs:
        pytest.skip("OTTLA_KAFKA_LIBS names no folder of Kafka's jars")
    oracle = MessagesOracle(libs)
    yield oracle
    oracle.close()


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
