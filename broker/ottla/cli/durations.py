"""Durations on the command line: ``90s``, ``15m``, ``1h``."""

import re

import click

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def parse_duration_ms(text: str) -> int | None:
    """Return the milliseconds of ``text``; None if it is no duration."""
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d|w)", text)
    return None if match is None else int(match[1]) * _UNITS_MS[match[2]]


def read_duration(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Return the milliseconds of an option's value: the callback of a duration's option."""
    if text is None:
        return None
    duration_ms = parse_duration_ms(text)
    if duration_ms is None:
        raise click.BadParameter(f"{text!r} is no duration; write 90s, 15m or 1h")
    return duration_ms
