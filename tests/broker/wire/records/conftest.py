"""Inconsistent batches, and kafka-python's record modules."""

import warnings
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace

import pytest

from ottla.wire.records import crc32c
from ottla.wire.records.batch import HEADER


@pytest.fixture(scope="session")
def seal() -> Callable[..., bytes]:
    """Make a batch around any bytes, whatever its header claims, with a CRC that matches."""

    def seal(payload: bytes, **fields: int) -> bytes:
        header = {
            "base_offset": 0,
            "batch_length": 49 + len(payload),
            "leader_epoch": -1,
            "magic": 2,
            "crc": 0,
            "attributes": 0,
            "last_offset_delta": max(fields.get("record_count", 1) - 1, -1),
            "base_timestamp_ms": 1_000,
            "max_timestamp_ms": 1_000,
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "record_count": 1,
        }
        header.update(fields)
        data = bytearray(HEADER.pack(*header.values()) + payload)
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
        return bytes(data)

    return seal


@pytest.fixture(scope="session")
def kafka_python() -> SimpleNamespace:
    """kafka-python's record modules; importing them warns about its own use of importlib."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return SimpleNamespace(
            default_records=import_module("kafka.record.default_records"),
            legacy_records=import_module("kafka.record.legacy_records"),
            util=import_module("kafka.record.util"),
        )
