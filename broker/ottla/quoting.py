"""Quoting of strings from clients and peers in log lines and error messages: on one line, and truncated.

A name on the wire has up to 32,767 bytes and any character. Unescaped, it could forge log lines, fill the log, and make
an error message too long for any response.
"""

import traceback
from typing import Final

_QUOTED_CHARACTERS_MAX: Final = 100
_NAME_CHARACTERS_MAX: Final = 300
MESSAGE_CHARACTERS_MAX: Final = 1_000
_ERROR_CHARACTERS_MAX: Final = 200


def quoted(text: str) -> str:
    """Return a client's string for a log line: in quotes, in ASCII without line breaks, and truncated."""
    return ascii(_cut(text, _QUOTED_CHARACTERS_MAX))


def cut_name(name: str) -> str:
    """Return a client's name for an error message to that client: unescaped, but truncated.

    Topic names, the longest valid ones with 249 characters, are never truncated.
    """
    return _cut(name, _NAME_CHARACTERS_MAX)


def cut_message(message: str) -> str:
    """Return an error message that fits every response: in UTF-8 far below the 32,767 bytes of a string."""
    return _cut(message, MESSAGE_CHARACTERS_MAX)


def one_line(text: str) -> str:
    """Return ``text`` for a log line: unprintable characters (line breaks, escapes, direction marks) are escaped.

    For sentences with strings of a client in them; use `quoted` for a string by itself.
    """
    return escape_unprintable(_cut(text, MESSAGE_CHARACTERS_MAX))


def escape_unprintable(text: str) -> str:
    """Return ``text`` with all unprintable characters escaped, so that none can move a cursor."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def describe_error(error: BaseException) -> str:
    """Return an unexpected exception, with the location that raised it, as one line of bounded length."""
    message = ascii(_cut(str(error), _ERROR_CHARACTERS_MAX))
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    place = ""
    if frames:
        file_name = frames[0].filename.rpartition("/")[2]
        place = f" at {file_name}:{frames[0].lineno} in {frames[0].name}"
    return f"{type(error).__name__}: {message}{place}"


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else f"{text[:characters_max]}..."
