"""`Trace`: the last events, for a report, and a digest of all events, to compare two runs."""

import logging
import traceback
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.simulator.world.clock import SimulatedClock

KEPT_EVENTS = 200
_KEPT_PLACES = 8


class Trace:
    """Notes are for people; the digest covers every byte that arrived anywhere, and when."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.digest = 0
        self.bytes_arrived = 0
        self._clock = clock
        self._notes: deque[tuple[int, str, str]] = deque(maxlen=KEPT_EVENTS)

    def note(self, who: str, what: str) -> None:
        self._notes.append((self._clock.now_ms, who, what))

    def note_error(self, who: str, error: BaseException) -> None:
        """Note the innermost places of a traceback, as one line."""
        frames = traceback.extract_tb(error.__traceback__, limit=-_KEPT_PLACES)
        places = (f"{'/'.join(it.filename.split('/')[-2:])}:{it.lineno} {it.name}" for it in frames)
        self.note(who, " > ".join(places))

    def on_bytes(self, source: str, target: str, data: bytes) -> None:
        """Note bytes that have arrived; see `NetworkFabric`."""
        self.bytes_arrived += len(data)
        where = f"{self._clock.now_ms} {source} {target}".encode()
        self.digest = zlib.crc32(data, zlib.crc32(where, self.digest))

    def last(self) -> list[str]:
        """Return the notes, oldest first, as lines."""
        return [f"{time_ms / 1000:10.3f}  {who:10} {what}" for time_ms, who, what in self._notes]

    @contextmanager
    def of_logs(self, who: Callable[[], str]) -> Iterator[None]:
        """Note the log lines of the nodes; ``who`` returns the node that runs."""
        handler = _Notes(self, who)
        logger = logging.getLogger("ottla")
        before = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]


class _Notes(logging.Handler):
    def __init__(self, trace: Trace, who: Callable[[], str]) -> None:
        super().__init__()
        self._trace = trace
        self._who = who

    def emit(self, record: logging.LogRecord) -> None:
        self._trace.note(self._who(), record.getMessage())
