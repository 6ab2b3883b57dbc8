"""Every message class, and a strategy that fills any of them: the declared fields are the grammar.

A test that takes ``message_type`` runs for every class; one that takes ``message_version`` too,
for each of its versions. Kafka's own classes are run in a JVM, if OTTLA_KAFKA_LIBS names a folder of its jars.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from hypothesis import strategies as st

import ottla.wire.messages
from ottla.wire.codec import Message, Struct
from ottla.wire.codec.fields import Field

FIRST_UNKNOWN_TAG = 10_000
"""Above every tag that a message has: what a later release might send."""
LAST_UNKNOWN_TAG = 2**31 - 2
"""Kafka keeps the very last one for itself."""

INTEGERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **INTEGERS,
    "boolean": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": st.text(max_size=6) | st.sampled_from(["", "a" * 127, "\u00e9" * 64]),
    "bytes": st.binary(max_size=6),
    "records": st.binary(max_size=6),
}
Ask = Callable[[dict[str, Any]], dict[str, Any]]
Override = Callable[[str, Field], st.SearchStrategy[Any] | None]


class MessageStrategies:
    """Strategies for whole messages; ``override`` may give another strategy for a field, by its name."""

    def __init__(self, *, with_unknown_tags: bool = True, override: Override = lambda key, field: None) -> None:
        self._with_unknown_tags = with_unknown_tags
        self._override = override
        self._made: dict[tuple[type[Struct], int], st.SearchStrategy[Any]] = {}

    def of(self, message_type: type[Message], version: int) -> st.SearchStrategy[Any]:
        return self._struct(message_type, version, is_flexible=version in message_type.flexible)

    def _struct(self, struct_type: type[Struct], version: int, *, is_flexible: bool) -> st.SearchStrategy[Any]:
        made = self._made.get((struct_type, version))
        if made is None:
            fields = {
                key: self._field(key, field, version, is_flexible=is_flexible)
                for key, field in struct_type.fields.items()
                if version in field.versions or version in field.tagged
            }
            made = st.builds(struct_type, **fields)
            if is_flexible and self._with_unknown_tags:
                made = st.builds(_with_tags, made, st.none() | UNKNOWN_TAGS)
            self._made[struct_type, version] = made
        return made

    def _field(self, key: str, field: Field, version: int, *, is_flexible: bool) -> st.SearchStrategy[Any]:
        made = self._override(key, field)
        if made is None and field.kind == "struct":
            assert field.struct_type is not None
            made = self._struct(field.struct_type, version, is_flexible=is_flexible)
        elif made is None and field.kind == "array":
            element = (
                VALUES[field.element]
                if field.struct_type is None
                else self._struct(field.struct_type, version, is_flexible=is_flexible)
            )
            made = st.lists(element, max_size=2)
        elif made is None:
            made = VALUES[field.kind]
        return st.none() | made if version in field.nullable else made


UNKNOWN_TAGS = st.dictionaries(
    st.integers(FIRST_UNKNOWN_TAG, LAST_UNKNOWN_TAG), st.binary(max_size=4), min_size=1, max_size=2
).map(lambda tags: dict(sorted(tags.items())))


def _with_tags(struct: Struct, tags: dict[int, bytes] | None) -> Struct:
    struct.unknown_tags = tags
    return struct


def all_message_types() -> list[type[Message]]:
    found = {
        value
        for module in iter_modules(ottla.wire.messages.__path__, "ottla.wire.messages.")
        for value in vars(import_module(module.name)).values()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    }
    return sorted(found, key=lambda message_type: message_type.__name__)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "message_version" in metafunc.fixturenames:
        metafunc.parametrize(
            ("message_type", "message_version"),
            [
                pytest.param(message_type, version, id=f"{message_type.__name__}-v{version}")
                for message_type in all_message_types()
                for version in range(message_type.versions.first, message_type.versions.last + 1)
            ],
        )
    elif "message_type" in metafunc.fixturenames:
        metafunc.parametrize("message_type", all_message_types(), ids=lambda message_type: message_type.__name__)


@pytest.fixture(scope="session")
def kafka_libs() -> str:
    """The folder of Kafka's jars."""
    libs = os.environ.get("OTTLA_KAFKA_LIBS")
    if not libs:
        pytest.skip("OTTLA_KAFKA_LIBS names no folder of Kafka's jars")
    return libs


@pytest.fixture(scope="session")
def query_jvm(kafka_libs: str) -> Callable[[Path], AbstractContextManager[Ask]]:
    """Return a function that runs a Java program, which responds to each line of JSON with another."""

    @contextmanager
    def run_java(source: Path) -> Iterator[Ask]:
        command = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_libs}/*", str(source)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            requests, responses = process.stdin, process.stdout
            assert requests is not None
            assert responses is not None

            def ask(request: dict[str, Any]) -> dict[str, Any]:
                requests.write(json.dumps(request) + "\n")
                requests.flush()
                response: dict[str, Any] = json.loads(responses.readline())
                return response

            yield ask
            requests.close()
            process.wait(timeout=30)

    return run_java


@pytest.fixture(scope="session")
def message_types() -> list[type[Message]]:
    return all_message_types()


@pytest.fixture(scope="session")
def messages() -> MessageStrategies:
    """Strategies with unknown tags among the known ones."""
    return MessageStrategies()


@pytest.fixture(scope="session")
def make_message_strategies() -> type[MessageStrategies]:
    """For oracles that need some fields narrower than their kind."""
    return MessageStrategies
