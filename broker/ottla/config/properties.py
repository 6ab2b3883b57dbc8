r"""The syntax of ``server.properties``: Java's.

A line is ``key=value``, ``key:value`` or ``key value``; ``#`` and ``!`` open a comment; a backslash at the end of a
line continues it; ``\t``, ``\n``, ``\uXXXX`` and ``\`` before any character are escapes. The last of two equal
keys counts. Source: java.util.Properties.load.
"""

from collections.abc import Iterator, Mapping

from ottla.errors import ConfigurationError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Return the text's keys and values, in order of first appearance.

    Raises:
        ConfigurationError: a ``\u`` escape without four hexadecimal digits; the message gives the line's number.
    """
    properties: dict[str, str] = {}
    for line_number, line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key, line_number)] = _unescape(value, line_number)
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """Return a text that `parse_properties` reads back as ``properties``, one key per line."""
    return "".join(f"{_escape(key, is_key=True)}={_escape(value)}\n" for key, value in properties.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number of the first line, joined line) without comments and blank lines."""
    joined, first, joining = "", 0, False
    natural_lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, natural in enumerate(natural_lines, start=1):
        line = natural.lstrip(_BLANKS)
        if not joining:
            if not line or line[0] in "#!":
                continue
            first, joined = number, ""
        backslashes = len(line) - len(line.rstrip("\\"))
        joining = backslashes % 2 == 1
        joined += line[:-1] if joining else line
        if not joining:
            yield first, joined
    if joining:
        yield first, joined


def _split(line: str) -> tuple[str, str]:
    """Return the raw key and the raw value of a logical line."""
    end, escaped = len(line), False
    for position, character in enumerate(line):
        if not escaped and character in "=:" + _BLANKS:
            end = position
            break
        escaped = character == "\\" and not escaped
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    out, position = [], 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                    raise ConfigurationError(
                        f"line {line_number}: \\u{digits} is not a character; write \\u and four hexadecimal digits"
                    )
                character = chr(int(digits, 16))
                position += 4
            else:
                character = _ESCAPES.get(character, character)
        out.append(character)
    return "".join(out)


def _escape(text: str, *, is_key: bool = False) -> str:
    out = text.replace("\\", "\\\\")
    for letter, character in _ESCAPES.items():
        out = out.replace(character, "\\" + letter)
    if is_key:
        for character in "=: ":
            out = out.replace(character, "\\" + character)
    elif out.startswith(" "):
        out = "\\" + out
    return out if out[:1] not in ("#", "!") else "\\" + out
