"""How strings that clients and peers sent get into log lines and error messages: on one line, and cut.

A name on the wire has up to 32,767 bytes and any character. Quoted whole, it forges lines of the log, fills the log,
and makes an error message that no response can carry.
"""

import traceback
from typing import Final

_QUOTED_CHARACTERS_MAX: Final = 100
_NAME_CHARACTERS_MAX: Final = 300
MESSAGE_CHARACTERS_MAX: Final = 1_000
_ERROR_CHARACTERS_MAX: Final = 200


def quoted(text: str) -> str:
    """Return what a client sent as a log line may show it: in quotes, in ASCII without line breaks, and cut."""
    return ascii(_cut(text, _QUOTED_CHARACTERS_MAX))


def cut_name(name: str) -> str:
    """Return a name that a client sent as an error message to that client may show it: as it is, but cut.

    Topic names, the longest that Kafka allows anywhere with 249 characters, are never cut.
    """
    return _cut(name, _NAME_CHARACTERS_MAX)


def cut_message(message: str) -> str:
    """Return an error message that each response can carry: in UTF-8 far below the 32,767 bytes of a string."""
    return _cut(message, MESSAGE_CHARACTERS_MAX)


def one_line(text: str) -> str:
    """Return ``text`` for a log line: what is not printable (line breaks, escapes, marks of direction) is escaped.

    For sentences that have strings of a client in them; a string by itself is to be `quoted`.
    """
    return escape_unprintable(_cut(text, MESSAGE_CHARACTERS_MAX))


def escape_unprintable(text: str) -> str:
    """Return ``text`` with everything escaped that is not printable: no character is left that moves a cursor."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def describe_error(error: BaseException) -> str:
    """Return an exception that no code expected, with the place that raised it, as one line of bounded length."""
    message = ascii(_cut(str(error), _ERROR_CHARACTERS_MAX))
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    place = ""
    if frames:
        file_name = frames[0].filename.rpartition("/")[2]
        place = f" at {file_name}:{frames[0].lineno} in {frames[0].name}"
    return f"{type(error).__name__}: {message}{place}"


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else f"{text[:characters_max]}..."
