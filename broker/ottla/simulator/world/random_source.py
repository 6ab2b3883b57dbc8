"""Randomness from one seed, as `ports.Random`: the same seed gives the same run."""

import random

from ottla.types import Uuid, format_uuid


class SeededRandom:
    """Python's Mersenne twister: fast, and the same on every platform."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - predictable on purpose
        self._draw_bits = self._random.getrandbits

    def randrange(self, stop: int) -> int:
        # As `random.Random.randrange`, without its checks of arguments: every network event draws twice.
        assert stop > 0, "there is no number below it"
        bits = stop.bit_length()
        value = self._draw_bits(bits)
        while value >= stop:
            value = self._draw_bits(bits)
        return value

    def uuid(self) -> Uuid:
        while True:
            value = Uuid(self._random.randbytes(16))
            if not format_uuid(value).startswith("-"):
                return value
