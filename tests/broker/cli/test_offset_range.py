"""rpk's notation for offsets."""

import click
import pytest

from ottla.cli.offset_range import END, START, OffsetRange, Position, parse_offset_range

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
NEW_YEAR_MS = 1_767_225_600_000  # 2026-01-01 UTC


def at(timestamp_ms: int) -> Position:
    return Position(timestamp_ms=timestamp_ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", OffsetRange(START)),
        ("end", OffsetRange(END)),
        (":end", OffsetRange(START, END)),
        ("47", OffsetRange(Position(offset=47))),
        ("47:", OffsetRange(Position(offset=47))),
        ("10:20", OffsetRange(Position(offset=10), Position(offset=20))),
        (":20", OffsetRange(START, Position(offset=20))),
        ("10:end", OffsetRange(Position(offset=10), END)),
        ("+5", OffsetRange(Position(after_start=5))),
        ("-5", OffsetRange(Position(before_end=5))),
        ("-5:end", OffsetRange(Position(before_end=5), END)),
        ("@1700000000000", OffsetRange(at(1_700_000_000_000))),
        ("@1700000000", OffsetRange(at(1_700_000_000_000))),
        ("@2026-01-01", OffsetRange(at(NEW_YEAR_MS))),
        ("@2026-01-01T01:00:00", OffsetRange(at(NEW_YEAR_MS + 3_600_000))),
        ("@2026-01-01T01:00:00Z:2026-01-02", OffsetRange(at(NEW_YEAR_MS + 3_600_000), at(NEW_YEAR_MS + DAY_MS))),
        ("@2026-01-01:", OffsetRange(at(NEW_YEAR_MS))),
        ("@-1h", OffsetRange(at(NOW_MS - 3_600_000))),
        ("@-1h:end", OffsetRange(at(NOW_MS - 3_600_000), END)),
        ("@-2d:-1d", OffsetRange(at(NOW_MS - 2 * DAY_MS), at(NOW_MS - DAY_MS))),
    ],
)
def test_notation_is_read(text: str, expected: OffsetRange) -> None:
    assert parse_offset_range(text, now_ms=NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "begin", "1:x", "--5", "1.5"])
def test_other_text_is_rejected(text: str) -> None:
    if not text:
        assert parse_offset_range(text, now_ms=NOW_MS) == OffsetRange(START)
        return
    with pytest.raises(click.BadParameter, match="is not an offset"):
        parse_offset_range(text, now_ms=NOW_MS)


@pytest.mark.parametrize("text", ["@", "@tomorrow", "@-5x"])
def test_other_time_is_rejected(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time"):
        parse_offset_range(text, now_ms=NOW_MS)
