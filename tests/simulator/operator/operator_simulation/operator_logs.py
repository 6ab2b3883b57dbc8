"""Unexpected errors in the operator's log, and reproducible randomness of its libraries."""

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Failures(logging.Handler):
    """Passes logged exceptions on."""

    def __init__(self, found: Callable[[BaseException], object]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._found(error or RuntimeError(record.getMessage()))


@contextmanager
def failures_in_logs(on_failure: Callable[[BaseException], object]) -> Iterator[None]:
    """Pass unexpected errors in the operator's log to ``on_failure``."""
    handler = _Failures(on_failure)
    logger = logging.getLogger("ottla_operator")
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed Python's own randomness, which spreads the client's retries."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
