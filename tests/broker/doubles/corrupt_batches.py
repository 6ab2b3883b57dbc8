"""Batches of an internal topic that are corrupt in one way each, with a sound length: the next batch can be found."""

import gzip
from collections.abc import Callable
from functools import cache
from random import Random
from struct import Struct
from typing import Final

import pytest

from ottla.coordinator.loader import LOADED_BATCH_SIZE_BYTES_MAX
from ottla.wire.records import HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, RecordBatch, parse_batch

_LENGTH_AT: Final = 8
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_COUNT_AT: Final = 57
_INT16, _INT32, _UINT32 = Struct(">h"), Struct(">i"), Struct(">I")
_GZIP: Final = 1
_UNKNOWN_CODEC: Final = 7


def parse_log(*batches: bytes) -> list[RecordBatch]:
    """Return the batches with the offsets that a leader gives them, from 0 on."""
    parsed: list[RecordBatch] = []
    for batch in batches:
        parsed.append(parse_batch(bytearray(batch)))
        parsed[-1].patch(parsed[-2].next_offset if len(parsed) > 1 else 0, 0)
    return parsed


def with_flipped_bit(batch: bytes) -> bytes:
    """Flip a bit of the last byte but one, a record's; the CRC stays."""
    changed = bytearray(batch)
    changed[-2] ^= 1
    return bytes(changed)


def with_unknown_codec(batch: bytes) -> bytes:
    return _with_codec(batch, _UNKNOWN_CODEC, batch[HEADER_SIZE_BYTES:])


def with_undecompressible_records(batch: bytes) -> bytes:
    return _with_codec(batch, _GZIP, batch[HEADER_SIZE_BYTES:])


def with_decompression_bomb(batch: bytes) -> bytes:
    return _with_codec(batch, _GZIP, _bomb())


def with_missing_record(batch: bytes) -> bytes:
    """Announce one record more than there is."""
    changed = bytearray(batch)
    _INT32.pack_into(changed, _COUNT_AT, _INT32.unpack_from(batch, _COUNT_AT)[0] + 1)
    return _with_crc(changed)


def with_negative_count(batch: bytes) -> bytes:
    changed = bytearray(batch)
    _INT32.pack_into(changed, _COUNT_AT, -1)
    return _with_crc(changed)


def with_truncated_record(batch: bytes) -> bytes:
    changed = bytearray(batch[:-1])
    _INT32.pack_into(changed, _LENGTH_AT, len(changed) - LOG_OVERHEAD_BYTES)
    return _with_crc(changed)


CORRUPT_BATCHES: Final[list[Callable[[bytes], bytes]]] = [
    with_flipped_bit,
    with_unknown_codec,
    with_undecompressible_records,
    with_decompression_bomb,
    with_missing_record,
    with_negative_count,
    with_truncated_record,
]
each_corrupt_batch = pytest.mark.parametrize(
    "corrupt", [pytest.param(kind, id=kind.__name__.replace("_", "-")) for kind in CORRUPT_BATCHES]
)
"""Parametrizes a test with ``corrupt``: a function from a batch to a corrupt one."""


def change_bytes(source: Random, data: bytes) -> bytes:
    """Return ``data`` with up to two random bytes, sometimes truncated: a key or a value."""
    changed = bytearray(data)
    for _ in range(source.randrange(3)):
        changed[source.randrange(len(changed))] = source.choice((0, 0x7F, 0x80, 0xFF, source.randrange(256)))
    return bytes(changed[: source.randrange(len(changed))] if source.random() < 0.1 else changed)


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(LOADED_BATCH_SIZE_BYTES_MAX + 1), 1)


def _with_codec(batch: bytes, codec: int, payload: bytes) -> bytes:
    changed = bytearray(batch[:HEADER_SIZE_BYTES] + payload)
    _INT32.pack_into(changed, _LENGTH_AT, len(changed) - LOG_OVERHEAD_BYTES)
    _INT16.pack_into(changed, _ATTRIBUTES_AT, _INT16.unpack_from(batch, _ATTRIBUTES_AT)[0] | codec)
    return _with_crc(changed)


def _with_crc(batch: bytearray) -> bytes:
    _UINT32.pack_into(batch, _CRC_AT, parse_batch(batch).compute_crc())
    return bytes(batch)
