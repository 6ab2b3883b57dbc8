"""Log lines: neither a message nor an exception can forge a line that starts with a time."""

import logging
import re
import sys

import pytest

from ottla.runtime.log_format import LogFormatter

FORGED = "2026-01-01T00:00:00.000Z ERROR   ottla.node.node: forged"
HEAD = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    ottla\.test: ")


def formatted(message: str, error: Exception | None = None) -> list[str]:
    info = None
    if error is not None:
        try:
            raise error
        except type(error):
            info = sys.exc_info()
    record = logging.LogRecord("ottla.test", logging.INFO, __file__, 1, "%s", (message,), info)
    return LogFormatter().format(record).split("\n")


def test_line_has_time_level_logger_and_message() -> None:
    (line,) = formatted("caf\u00e9 is open")

    assert HEAD.match(line)
    assert line.endswith(": caf\u00e9 is open")


@pytest.mark.parametrize("break_", ["\n", "\r", "\r\n", "\x85", "\u2028", "\x0b"])
def test_message_with_line_breaks_is_one_line(break_: str) -> None:
    (line,) = formatted(f"a{break_}{FORGED}\x1b[31m")

    assert HEAD.match(line)
    assert line.isprintable()


def test_long_message_is_truncated() -> None:
    (line,) = formatted("x" * 100_000)

    assert len(line) < 8_100
    assert line.endswith("[...]")


def test_every_line_of_a_traceback_is_indented_also_those_of_the_exception() -> None:
    head, *traceback = formatted("it failed", ValueError(f"a\n{FORGED}\n\x1b[2J\r{FORGED}"))

    assert HEAD.match(head)
    assert all(line.startswith("    ") and line.isprintable() for line in traceback)
    assert any("ValueError" in line for line in traceback)


def test_long_traceback_is_truncated_in_its_middle() -> None:
    lines = formatted("it failed", ValueError("x" * 100_000 + "the end"))

    assert sum(map(len, lines)) < 17_000
    assert "Traceback" in lines[1]
    assert lines[-1].endswith("the end")
