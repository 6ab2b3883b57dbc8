"""Dirt is counted, repeatable, in order of arrival, and never replaces an event."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_spark.dirt import CLEAN, DEMO, LATENESS_MINUTES_MAX, Dirt, DirtError, stream
from ottla_spark.flights import MINUTE_MS, Event


def clean_events(count: int) -> list[Event]:
    return [
        Event(
            b"UA",
            json.dumps({"flight_id": f"UA{n}", "event_time": "2013-01-01T10:15:00Z", "origin": "EWR"}).encode(),
            n * MINUTE_MS,
        )
        for n in range(count)
    ]


def kind(event: Event, clean: dict[bytes, int]) -> str:
    """Return the kind of a record as a reader sees it: its event time is in `clean`, by value."""
    if event.value not in clean:
        return "malformed"
    minutes = (event.timestamp_ms - clean[event.value]) // MINUTE_MS
    return "late" if minutes > LATENESS_MINUTES_MAX else "on time"


@given(
    st.builds(
        Dirt,
        duplicates=st.integers(0, 60),
        malformed=st.integers(0, 60),
        late=st.integers(0, 60),
        seed=st.integers(0, 5),
    )
)
def test_stream_has_every_event_and_exactly_the_dirt_in_order(dirt: Dirt) -> None:
    events = clean_events(60)
    clean = {event.value: event.timestamp_ms for event in events}

    dirty = list(stream(events, dirt))

    assert [event.timestamp_ms for event in dirty] == sorted(event.timestamp_ms for event in dirty)
    assert Counter(kind(event, clean) for event in dirty) == Counter(
        {"on time": 60 + dirt.duplicates, "late": dirt.late, "malformed": dirt.malformed}
    )
    assert [event for event in events if event in dirty] == events
    assert dirty == list(stream(events, dirt))


def test_every_flight_arrives_before_its_repeats(flight_events: list[Event]) -> None:
    original = {event.value: event.timestamp_ms for event in flight_events}

    first: dict[bytes, int] = {}
    for event in stream(flight_events, DEMO):
        if event.value in original:
            first.setdefault(event.value, event.timestamp_ms)
    assert first == original


def test_other_seed_gives_other_dirt() -> None:
    events = clean_events(60)

    assert list(stream(events, Dirt(late=5, seed=1))) != list(stream(events, Dirt(late=5, seed=2)))


@pytest.mark.parametrize(
    ("text", "dirt"),
    [
        pytest.param("none", CLEAN, id="none"),
        pytest.param("late=7", Dirt(late=7), id="one-kind"),
        pytest.param(
            "duplicates=1,malformed=2,late=3,seed=4", Dirt(duplicates=1, malformed=2, late=3, seed=4), id="all"
        ),
        pytest.param(str(DEMO), DEMO, id="its-own-text"),
    ],
)
def test_dirt_is_read(text: str, dirt: Dirt) -> None:
    assert Dirt.parse(text) == dirt


@pytest.mark.parametrize("text", ["", "late", "late=-1", "late=1.5", "rain=3", "records=3", "late=1,,"])
def test_unreadable_dirt_is_rejected(text: str) -> None:
    with pytest.raises(DirtError, match="write 'none' or"):
        Dirt.parse(text)


def test_more_dirt_than_events_is_rejected() -> None:
    assert len(list(stream(clean_events(3), Dirt(late=3)))) == 6

    with pytest.raises(DirtError, match="of 3 events"):
        list(stream(clean_events(3), Dirt(late=4)))
