"""The system's randomness as `ports.Random`."""

import random
import uuid

from ottla.types import Uuid, format_uuid

_RESERVED_BELOW = 100
"""Kafka keeps the ids 0 to 99 for itself (Uuid.RESERVED)."""


_source = random.SystemRandom()


class SystemRandom:
    """The system's source, as `secrets` uses it: importing that would load OpenSSL for its hashes as well."""

    __slots__ = ()

    def randrange(self, stop: int) -> int:
        if stop & (stop - 1) == 0:
            # Of a power of two no draw need be thrown away; `randrange` throws away every other one.
            return _source.getrandbits(stop.bit_length() - 1)
        return _source.randrange(stop)

    def uuid(self) -> Uuid:
        while True:
            made = uuid.uuid4()
            value = Uuid(made.bytes)
            # A leading dash would be read as an option on command lines.
            if made.int >= _RESERVED_BELOW and not format_uuid(value).startswith("-"):
                return value
