"""CRC-32C (Castagnoli): the checksum of record batches and of producer state snapshots.

The package ``crc32c`` uses the processor's own instruction where it has one. Where that package cannot be
imported (no wheel for the platform), crcmod computes the same number, some hundred times slower.
Source: DefaultRecordBatch and Crc32C of Kafka; RFC 3720 appendix B.4 for the known values.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

from ottla.ports import Buffer


class Checksum(Protocol):
    """How both implementations are called: data first, and the checksum of what came before it."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _hardware() -> Checksum:
    return cast(Checksum, import_module("crc32c").crc32c)


def _portable() -> Checksum:
    make: Callable[[str], Checksum] = import_module("crcmod.predefined").mkCrcFun
    return make("crc-32c")


def choose_checksum() -> Checksum:
    """Return the fastest implementation that can be imported."""
    try:
        return _hardware()
    except ImportError:
        return _portable()


crc32c: Checksum = choose_checksum()
"""``crc32c(data, value=0) -> int``: the CRC-32C of ``data`` as an unsigned 32-bit number.

``data`` is any contiguous buffer of bytes and is not copied; ``value`` is the checksum of the bytes before
it.
"""
