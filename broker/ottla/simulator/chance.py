"""Chance from one seed, as `ports.Random`: the same seed gives the same run."""

import random

from ottla.types import Uuid, format_uuid


class SeededRandom:
    """Python's Mersenne twister: fast, and the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - predictable on purpose

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def uuid(self) -> Uuid:
        while True:
            value = Uuid(self._random.randbytes(16))
            if not format_uuid(value).startswith("-"):
                return value
