"""CRC-32C (Castagnoli): the checksum of record batches and of producer state snapshots.

The package ``crc32c`` uses the processor's own instruction if it has one. If that package cannot be imported (no
wheel for the platform), crcmod computes the same number, some ten to hundred times slower.
Source: Crc32C and DefaultRecordBatch of Kafka; RFC 3720 appendix B.4 for the known values.
"""

from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, Protocol

from ottla.ports import Buffer


class Checksum(Protocol):
    """The signature of both implementations: data, then the checksum of the preceding bytes."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def hardware_checksum() -> Checksum:
    """Return the function of the package ``crc32c``.

    Its extension module is loaded on its own: the package itself imports importlib.metadata and a command line, which
    takes more time than all our imports.

    Raises:
        ImportError: the package is not installed, or not for this platform.
    """
    package = PathFinder.find_spec("crc32c")
    if package is None:
        raise ImportError("the package crc32c is not installed")
    spec = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise ImportError("the package crc32c has no extension module for this platform")
    extension: Any = module_from_spec(spec)
    spec.loader.exec_module(extension)
    checksum: Checksum = extension.crc32c
    return checksum


def portable_checksum() -> Checksum:
    """Return the function of the package crcmod."""
    checksum: Checksum = import_module("crcmod.predefined").mkCrcFun("crc-32c")
    return checksum


def choose_checksum() -> Checksum:
    """Return the fastest implementation that can be imported."""
    try:
        return hardware_checksum()
    except ImportError:
        return portable_checksum()


crc32c: Checksum = choose_checksum()
"""``crc32c(data, value=0) -> int``: the CRC-32C of ``data`` as an unsigned 32-bit number.

``data`` is any contiguous buffer of bytes and is not copied; ``value`` is the checksum of the bytes before it.
"""
