"""The system's randomness as `ports.Random`."""

import random
import uuid

from ottla.types import Uuid, format_uuid

_RESERVED_BELOW = 100
"""Kafka keeps the ids 0 to 99 for itself (Uuid.RESERVED)."""


_source = random.SystemRandom()


class SystemRandom:
    """The system's source, which `secrets` uses too; importing `secrets` would load OpenSSL for its hashes."""

    __slots__ = ()

    def randrange(self, stop: int) -> int:
        if stop & (stop - 1) == 0:
            # For a power of two no draw has to be rejected; `randrange` rejects every other one.
            return _source.getrandbits(stop.bit_length() - 1)
        return _source.randrange(stop)

    def uuid(self) -> Uuid:
        while True:
            candidate = uuid.uuid4()
            value = Uuid(candidate.bytes)
            # Command lines would parse a leading dash as an option.
            if candidate.int >= _RESERVED_BELOW and not format_uuid(value).startswith("-"):
                return value
