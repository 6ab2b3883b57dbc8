r"""The format of records in `ottla consume -f` and `ottla produce -f`: percent verbs, as in rpk and kcat.

====  =====================================  ====  ==================================
%t    topic                                  %T    length of the topic's name
%k    key                                    %K    length of the key, in bytes
%v    value                                  %V    length of the value, in bytes
%h    headers, as name=value,...             %H    how many headers
%p    partition                              %o    offset
%d    timestamp, milliseconds since 1970     %D    timestamp, ISO 8601 in UTC
%i    number of the record, from 1           %%    a percent sign
====  =====================================  ====  ==================================

Backslash escapes: ``\n``, ``\t``, ``\r``, ``\0``, ``\\``. Keys and values are written as raw bytes.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from ottla.client.consumer import ConsumedRecord

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_LAST_DATE_MS = 253_402_300_799_999
"""The end of the year 9999. Timestamps in microseconds or nanoseconds are beyond it."""
_TIMESTAMP_MS_MAX = (1 << 63) - 1
_PIECE = re.compile(r"%(.)|\\(.)|([^%\\]+)", re.DOTALL)


def iso_time(timestamp_ms: int) -> str:
    """Return ``2013-01-01T05:15:00.000Z``; ``-`` without a timestamp, the number if no date can represent it."""
    if timestamp_ms < 0:
        return "-"
    if timestamp_ms > _LAST_DATE_MS:
        return str(timestamp_ms)
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


_VERBS: "dict[str, Callable[[ConsumedRecord, int], bytes]]" = {
    "t": lambda record, _: record.topic.encode(),
    "T": lambda record, _: b"%d" % len(record.topic.encode()),
    "k": lambda record, _: record.key or b"",
    "K": lambda record, _: b"%d" % len(record.key or b""),
    "v": lambda record, _: record.value or b"",
    "V": lambda record, _: b"%d" % len(record.value or b""),
    "h": lambda record, _: b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
    "H": lambda record, _: b"%d" % len(record.headers),
    "p": lambda record, _: b"%d" % record.partition,
    "o": lambda record, _: b"%d" % record.offset,
    "d": lambda record, _: b"%d" % record.timestamp_ms,
    "D": lambda record, _: iso_time(record.timestamp_ms).encode(),
    "i": lambda _, number: b"%d" % number,
}


def compile_writer(text: str) -> "Callable[[ConsumedRecord, int], bytes]":
    """Return a function that formats a record and its number according to ``text``.

    Raises:
        click.UsageError: an unknown verb or escape.
    """
    pieces: list[bytes | Callable[[ConsumedRecord, int], bytes]] = []
    for verb, literal in _pieces(text):
        if verb and verb not in _VERBS:
            raise click.UsageError(
                f"--format has %{verb}; there are {' '.join(f'%{known}' for known in _VERBS)} and %%"
            )
        pieces.append(_VERBS[verb] if verb else literal)

    def write(record: "ConsumedRecord", number: int) -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else piece(record, number) for piece in pieces)

    return write


class Parsed(NamedTuple):
    """The fields of a line for the record to send; None if it has no such field."""

    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp_ms: int | None


_READ_VERBS = {"k": rb"(?P<k>.*?)", "v": rb"(?P<v>.*?)", "p": rb"(?P<p>\d+)", "d": rb"(?P<d>\d+)"}


def compile_reader(text: str) -> Callable[[bytes], Parsed | None]:
    """Return a function that parses a line (without its end) in the format of ``text``; None if it does not match.

    Raises:
        click.UsageError: a verb that cannot be parsed, or one that occurs twice.
    """
    pattern, seen = b"", set()
    for verb, literal in _pieces(text):
        if not verb:
            pattern += re.escape(literal)
            continue
        if verb not in _READ_VERBS or verb in seen:
            raise click.UsageError(f"--format has %{verb}; each of %k %v %p %d may occur once")
        seen.add(verb)
        pattern += _READ_VERBS[verb]
    compiled = re.compile(pattern, re.DOTALL)

    def read(line: bytes) -> Parsed | None:
        match = compiled.fullmatch(line)
        if match is None:
            return None
        found = match.groupdict()
        if int(found.get("d") or 0) > _TIMESTAMP_MS_MAX:
            return None
        return Parsed(
            key=found.get("k"),
            value=found.get("v"),
            partition=int(found["p"]) if "p" in found else None,
            timestamp_ms=int(found["d"]) if "d" in found else None,
        )

    return read


def unescape(text: str) -> bytes:
    """Return ``text`` as UTF-8 with its backslash escapes resolved."""
    return b"".join(literal for _, literal in _pieces(text.replace("%", "%%")))


def _pieces(text: str) -> list[tuple[str, bytes]]:
    """Return (verb, literal) pairs; one of the two is empty."""
    pieces = []
    matched = 0
    for match in _PIECE.finditer(text):
        matched += len(match[0])
        verb, escape, literal = match.groups()
        if verb == "%":
            pieces.append(("", b"%"))
        elif verb is not None:
            pieces.append((verb, b""))
        elif escape is not None:
            if escape not in _ESCAPES:
                raise click.UsageError(f"--format has \\{escape}; there are {' '.join(chr(92) + e for e in _ESCAPES)}")
            pieces.append(("", _ESCAPES[escape]))
        else:
            pieces.append(("", literal.encode()))
    if matched != len(text):
        raise click.UsageError(f"--format ends in the middle of a verb: {text!r}")
    return pieces
