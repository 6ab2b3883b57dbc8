"""Durations are read as by Java; the results are those of JDK 17. Kafka rejects negative ones."""

import pytest

from ottla.config.durations import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT0S", 0),
        ("pt1s", 1_000),
        ("PT1.5S", 1_500),
        ("PT1.05S", 1_050),
        ("PT0.0004S", 0),
        ("PT1.123456789S", 1_123),
        ("P1DT2H3M4.5S", 93_784_500),
        ("PT000000000000000000000001M", 60_000),
        ("P106751991167300D", 9_223_372_036_854_720_000_000),
        ("+PT11M", 660_000),
        ("PT+1H", 3_600_000),
        ("PT-1H+70M", 600_000),
        ("P-1DT48H", 86_400_000),
        ("-PT-1.5S", 1_500),
        ("PT2M-0.5S", 119_500),
        ("PT1,5S", 1_500),
        ("PT1.S", 1_000),
        ("-PT0S", 0),
        ("P7Dt", 604_800_000),
    ],
)
def test_duration_has_the_milliseconds_of_java(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1H",
        "P",
        "PT",
        "P1DT",
        "Pt",
        "P+-1D",
        "-P1D",
        "PT-0.5S",
        "P1DT-9223372036854775808S",
        "PT1.1234567890S",
        pytest.param("PT\u0661S", id="arabic-digit"),
        "P106751991167301D",
        "P106751991167300DT24H",
        pytest.param(f"P{'9' * 5_000}D", id="5000-digits"),
    ],
)
def test_other_text_is_no_duration(text: str) -> None:
    assert parse_duration_ms(text) is None
