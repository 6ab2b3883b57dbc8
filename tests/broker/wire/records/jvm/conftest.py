"""Kafka's own record classes in a JVM, if OTTLA_KAFKA_LIBS names a folder of its jars."""

import base64
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.records import Record

Ask = Callable[[dict[str, Any]], dict[str, Any]]
"""A request to the JVM, and its response."""


class RecordsOracle:
    """Runs RecordsOracle.java of this folder."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def ask(self, **request: Any) -> dict[str, Any]:
        return self._ask(request)

    def write(self, records: list[Record], *, magic: int = 2, codec: str = "none", **options: Any) -> bytes:
        request = {
            "base_offset": 0,
            "is_append_time": False,
            "log_append_time_ms": -1,
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "is_transactional": False,
            "leader_epoch": -1,
            **options,
        }
        response = self.ask(
            op="write", magic=magic, codec=codec, records=[_to_json(record) for record in records], **request
        )
        return self._data(response)

    def write_marker(self, **request: Any) -> bytes:
        return self._data(self.ask(op="marker", **request))

    def read(self, data: bytes) -> list[dict[str, Any]]:
        """Return the fields of each batch, its ``records`` as `Record`."""
        response = self.ask(op="read", data=base64.b64encode(data).decode())
        assert "error" not in response, response["error"]
        batches: list[dict[str, Any]] = response["batches"]
        for batch in batches:
            batch["records"] = [_from_json(record) for record in batch["records"]]
        return batches

    def error_for(self, data: bytes) -> str | None:
        """Return the JVM's error for ``data``, None when it reads them."""
        error: str | None = self.ask(op="read", data=base64.b64encode(data).decode()).get("error")
        return error

    @staticmethod
    def _data(response: dict[str, Any]) -> bytes:
        assert "error" not in response, response["error"]
        return base64.b64decode(response["data"])


def _to_json(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _encode(record.key),
        "value": _encode(record.value),
        "headers": [[name, _encode(value)] for name, value in record.headers],
    }


def _from_json(fields: dict[str, Any]) -> Record:
    return Record(
        fields["offset"],
        fields["timestamp_ms"],
        _decode(fields["key"]),
        _decode(fields["value"]),
        tuple((name, _decode(value)) for name, value in fields["headers"]),
    )


def _encode(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _decode(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


@pytest.fixture(scope="session")
def jvm(query_jvm: Callable[[Path], AbstractContextManager[Ask]]) -> Iterator[RecordsOracle]:
    with query_jvm(Path(__file__).with_name("RecordsOracle.java")) as ask:
        yield RecordsOracle(ask)
