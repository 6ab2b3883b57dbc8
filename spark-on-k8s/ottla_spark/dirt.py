"""Dirt of the kinds that real streams carry, added to clean events: counted, seeded, and never in place of an event.

Every dirty record is an addition to the stream, derived from a real event:

- a *duplicate* repeats the event byte for byte within the lateness that the pipeline allows (a producer's retry);
- a *late* record repeats it hours or days after that (a gateway that sends its old buffer once more);
- a *malformed* record is a corrupt copy just before the event's own record (truncated, a wrong type, not text, ...).

So the set of flights is always exactly the CSV's, and the expected counts of each stage follow from these three.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from ottla_spark.flights import MINUTE_MS, Event

# Later than this after its event time, a record is late. The pipeline's default and the line between the two repeats.
LATENESS_MINUTES_MAX = 120
LATE_DAYS_MAX = 5


class DirtError(ValueError):
    """A ``--dirt`` argument that cannot be read, or more dirt of a kind than there are events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirt:
    """How many records of each kind to add."""

    duplicates: int = 0
    malformed: int = 0
    late: int = 0
    seed: int = 2013

    @property
    def records(self) -> int:
        return self.duplicates + self.malformed + self.late

    @classmethod
    def parse(cls, text: str) -> Dirt:
        """Read ``none`` or ``duplicates=N,malformed=N,late=N[,seed=N]``; a kind that is not named is zero.

        Raises:
            DirtError: an unknown name, or a count that is not a whole number from zero up.
        """
        if text == "none":
            return cls()
        counts: dict[str, int] = {}
        for part in text.split(","):
            name, _, number = part.partition("=")
            if name not in cls.__slots__ or not number.isdecimal():
                raise DirtError(
                    f"cannot read dirt {part!r}: write 'none' or 'duplicates=N,malformed=N,late=N[,seed=N]'"
                )
            counts[name] = int(number)
        return cls(**counts)

    def __str__(self) -> str:
        return ",".join(f"{name}={number}" for name, number in asdict(self).items())


CLEAN = Dirt()
DEMO = Dirt(duplicates=3_000, malformed=1_500, late=750)


def stream(events: Sequence[Event], dirt: Dirt) -> Iterator[Event]:
    """Yield ``events`` with the dirt among them, in order of record timestamps; deterministic for the same arguments.

    Args:
        events: clean events in order of their timestamps.
        dirt: the counts to add; each kind picks different events, an event may get several kinds.

    Raises:
        DirtError: more dirt of one kind than there are events.
    """
    if max(dirt.duplicates, dirt.malformed, dirt.late) > len(events):
        raise DirtError(f"cannot make {dirt} of {len(events)} events: at most one of each kind per event")
    random_source = random.Random(dirt.seed)  # noqa: S311 - reproducible, not secret
    repeats = [_repeat(events[at], random_source) for at in _sample(random_source, events, dirt.duplicates)]
    repeats += [_late(events[at], random_source) for at in _sample(random_source, events, dirt.late)]
    malformed = [_corrupt(events[at], kind) for kind, at in enumerate(_sample(random_source, events, dirt.malformed))]
    # On equal timestamps heapq.merge keeps the order of its arguments: corrupt copy, event, repeat.
    yield from heapq.merge(sorted(malformed, key=_by_time), events, sorted(repeats, key=_by_time), key=_by_time)


def _by_time(event: Event) -> int:
    return event.timestamp_ms


def _sample(random_source: random.Random, events: Sequence[Event], count: int) -> list[int]:
    return random_source.sample(range(len(events)), count)


def _repeat(event: Event, random_source: random.Random) -> Event:
    minutes = random_source.randint(0, LATENESS_MINUTES_MAX)
    return event._replace(timestamp_ms=event.timestamp_ms + minutes * MINUTE_MS)


def _late(event: Event, random_source: random.Random) -> Event:
    minutes = random_source.randint(LATENESS_MINUTES_MAX + 1, LATE_DAYS_MAX * 24 * 60)
    return event._replace(timestamp_ms=event.timestamp_ms + minutes * MINUTE_MS)


def _truncate(value: bytes) -> bytes:
    return value[: len(value) // 2]


def _wrong_type(value: bytes) -> bytes:
    fields = json.loads(value)
    fields["dep_delay"] = "soon"
    return json.dumps(fields, separators=(",", ":")).encode()


def _field_missing(value: bytes) -> bytes:
    fields = json.loads(value)
    del fields["origin"]
    return json.dumps(fields, separators=(",", ":")).encode()


def _not_text(value: bytes) -> bytes:
    return b"\xff\xfe\x00" + value[3:]


def _wrong_time(value: bytes) -> bytes:
    fields = json.loads(value)
    fields["event_time"] = "yesterday"
    return json.dumps(fields, separators=(",", ":")).encode()


_DAMAGES = (_truncate, _wrong_type, _field_missing, _not_text, _wrong_time)


def _corrupt(event: Event, kind: int) -> Event:
    return event._replace(value=_DAMAGES[kind % len(_DAMAGES)](event.value))
