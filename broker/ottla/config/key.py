"""One configuration key: a row of a table, and the parsing of its value.

Bounds are written for readers and for the parser:

====================  ==========================================================================================
``""``                anything of the type
``"1.."``             at least 1; ``"0..1"`` at least 0 and at most 1
``"1..9|-1"``         1 to 9, or -1
``"a|b"``             one of these words; ``"i:a|b"`` in any case
``"list"``            any list; ``"list+"`` one that is not empty; ``"list:a|b"``, ``"list+:a|b"`` of these words
``"text+"``           a string that is not empty
``"replicas"``        ``*`` or ``partition:broker,...``
``"offset-reset"``    earliest, latest or ``by_duration:`` with an ISO-8601 duration
====================  ==========================================================================================

The error messages are Kafka's (ConfigDef of Kafka 4.3), because its tools and its users' scripts show them.
"""

import math
import re
from enum import IntEnum, StrEnum
from functools import cache
from typing import NamedTuple, TypeAlias

from ottla.config.durations import parse_duration_ms
from ottla.errors import ErrorCode, KafkaError
from ottla.quoting import cut_name, escape_unprintable

ConfigValue: TypeAlias = "bool | int | float | str | tuple[str, ...] | None"

_PATH_ENDINGS = (".location", ".dir", ".dirs", ".file", ".path")
INTEGER_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}


class ConfigType(IntEnum):
    """The type of a value; the number is ``config_type`` of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Dynamic(StrEnum):
    """Whether the value can be changed on a running broker."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class SupportLevel(StrEnum):
    """How this release treats a key that is set to a value other than its default."""

    ACTED_ON = "acted on"
    KNOWN = "known"
    """Accepted with a warning: ignoring the key harms no data."""
    REJECTED = "rejected"
    """An error: ignoring the key would silently drop a guarantee that the administrator requested."""


class ConfigKey(NamedTuple):
    """One row. ``default`` is written as in ``server.properties``, None if there is none."""

    name: str
    type: ConfigType
    default: str | None
    bounds: str
    unit: str
    dynamic: Dynamic
    support: SupportLevel
    reason: str
    is_unlisted: bool = False
    """Kafka shows it in DescribeConfigs only while it is set."""

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


class InvalidConfigError(KafkaError):
    """A value is not valid for its key; ``message`` is Kafka's."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


def parse_value(key: ConfigKey, text: str | None) -> ConfigValue:
    """Return the value of ``text``: a bool, int, float, str, or a tuple for a list (None for no value).

    Raises:
        InvalidConfigError: with Kafka's message, e.g. ``Invalid value -5 for configuration retention.ms: Value must be
            at least -1``.
    """
    if text is None:
        return None
    value = _parse_type(key, text)
    if "\0" in text and key.name.endswith(_PATH_ENDINGS):
        # No system call accepts NUL, and Python's `open` raises a ValueError for it, not an OSError.
        raise _invalid(key, escape_unprintable(text), "A path cannot contain a NUL character")
    _check_bounds(key, value)
    return value


def _invalid(key: ConfigKey, value: object, why: str) -> InvalidConfigError:
    shown = "[hidden]" if key.is_sensitive else _java_double(value) if isinstance(value, float) else value
    return InvalidConfigError(f"Invalid value {cut_name(str(shown))} for configuration {cut_name(key.name)}: {why}")


def _parse_type(key: ConfigKey, text: str) -> ConfigValue:
    trimmed = text.strip()
    if key.type is ConfigType.BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise _invalid(key, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if key.type.name in INTEGER_BITS:
        return _parse_integer(key, text)
    if key.type is ConfigType.DOUBLE:
        try:
            return float(trimmed)
        except ValueError:
            raise _invalid(key, text, "Not a number of type DOUBLE") from None
    if key.type is ConfigType.LIST:
        # A repeated entry counts once, as in Kafka.
        return tuple(dict.fromkeys(entry.strip() for entry in trimmed.split(","))) if trimmed else ()
    return trimmed


def _parse_integer(key: ConfigKey, text: str) -> int:
    limit = 1 << (INTEGER_BITS[key.type.name] - 1)
    if re.fullmatch(r"[+-]?[0-9]+", text.strip()) is None or not -limit <= int(text) < limit:
        raise _invalid(key, text, f"Not a number of type {key.type.name}")
    return int(text)


class _Bounds(NamedTuple):
    """The parsed `ConfigKey.bounds`."""

    lowest: float | None = None
    highest: float | None = None
    exception: int | None = None
    words: tuple[str, ...] = ()
    any_case: bool = False
    may_be_empty: bool = True


_RANGE = r"(?P<lowest>-?[\d.]*\d)\.\.(?P<highest>-?[\d.]*\d)?(?:\|(?P<exception>-?\d+))?"


@cache
def _read_bounds(bounds: str) -> _Bounds:
    match = re.fullmatch(_RANGE, bounds)
    if match is not None:
        return _Bounds(
            _number(match["lowest"]),
            None if match["highest"] is None else _number(match["highest"]),
            None if match["exception"] is None else int(match["exception"]),
        )
    kind, colon, words = bounds.partition(":")
    if kind in ("list", "list+", "i"):
        chosen = tuple(words.split("|")) if colon else ()
        return _Bounds(words=chosen, any_case=kind == "i", may_be_empty=kind != "list+")
    if bounds == "text+":
        return _Bounds(may_be_empty=False)
    return _Bounds(words=tuple(bounds.split("|")) if "|" in bounds else ())


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _check_bounds(key: ConfigKey, value: ConfigValue) -> None:
    if key.bounds == "replicas":
        _check_throttled_replicas(key, value)
    elif key.bounds == "offset-reset":
        _check_offset_reset(key, value)
    elif isinstance(value, tuple):
        _check_list(key, value, _read_bounds(key.bounds))
    elif isinstance(value, str):
        _check_text(key, value, _read_bounds(key.bounds))
    elif isinstance(value, (int, float)):
        _check_range(key, value, _read_bounds(key.bounds))


def _check_range(key: ConfigKey, value: float, bounds: _Bounds) -> None:
    if bounds.lowest is None or value == bounds.exception:
        return
    if bounds.exception is not None and bounds.highest is not None and not bounds.lowest <= value <= bounds.highest:
        why = f"Value must be between {bounds.lowest} and {bounds.highest} or equal to {bounds.exception}"
        raise _invalid(key, value, why)
    if value < bounds.lowest:
        raise _invalid(key, value, f"Value must be at least {bounds.lowest}")
    if bounds.highest is not None and value > bounds.highest:
        raise _invalid(key, value, f"Value must be no more than {bounds.highest}")


def _check_text(key: ConfigKey, value: str, bounds: _Bounds) -> None:
    if not value and not bounds.may_be_empty:
        raise _invalid(key, value, "String must be non-empty")
    if not bounds.words:
        return
    allowed = [word.lower() for word in bounds.words] if bounds.any_case else list(bounds.words)
    if (value.lower() if bounds.any_case else value) not in allowed:
        case = " (case insensitive)" if bounds.any_case else ""
        raise _invalid(key, value, f"String must be one of{case}: {', '.join(bounds.words)}")


def _check_list(key: ConfigKey, value: tuple[str, ...], bounds: _Bounds) -> None:
    if not value and not bounds.may_be_empty:
        valid = f"[{', '.join(bounds.words)}]" if bounds.words else "any non-empty value"
        raise InvalidConfigError(f"Configuration '{key.name}' must not be empty. Valid values include: {valid}")
    for entry in value:
        if not entry:
            raise InvalidConfigError(f"Configuration '{key.name}' values must not be empty.")
        if bounds.words and entry not in bounds.words:
            raise _invalid(key, entry, f"String must be one of: {', '.join(bounds.words)}")


def _check_throttled_replicas(key: ConfigKey, value: ConfigValue) -> None:
    assert isinstance(value, tuple)
    if value in ((), ("*",)) or all(re.fullmatch(r"\d+:\d+", entry) for entry in value):
        return
    form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    raise _invalid(
        key,
        f"[{', '.join(value)}]",
        f"{key.name} must be the literal '*' or a list of replicas in the following format: {form}",
    )


def _check_offset_reset(key: ConfigKey, value: ConfigValue) -> None:
    assert isinstance(value, str)
    strategy, _, duration = value.partition(":")
    if value in ("earliest", "latest") or (strategy == "by_duration" and parse_duration_ms(duration) is not None):
        return
    why = (
        f"Invalid value `{cut_name(value)}` for configuration {key.name}. The value must be either 'earliest', "
        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )
    raise _invalid(key, value, why)


def format_value(value: ConfigValue) -> str | None:
    """Return ``value`` as DescribeConfigs shows it; None stays None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _java_double(value)
    return None if value is None else str(value)


def _java_double(value: float) -> str:
    """Return ``value`` as Java's Double.toString writes it: ``0.5``, ``1.0E7``, ``1.7976931348623157E308``."""
    if value == 0 or not math.isfinite(value) or 1e-3 <= abs(value) < 1e7:
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN" if math.isnan(value) else repr(value))
    from decimal import Decimal

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "the value is finite"
    first, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"
