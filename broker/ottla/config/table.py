"""Format and parser of the tables of keys: two lines per key.

    name TYPE default bounds unit dynamic support [unlisted]
        Description, or why this release does not support the key.

``-`` stands for no default, no bounds, no unit; ``""`` for a default that is empty.
"""

from collections.abc import Iterator

from ottla.config.key import ConfigKey, ConfigType, Dynamic, SupportLevel

# Some hundred look-ups on every import: dictionaries are faster than the enums' constructors.
_TYPES = {kind.name: kind for kind in ConfigType}
_DYNAMICS = {dynamic.value: dynamic for dynamic in Dynamic}
_SUPPORT_LEVELS = {"acted-on": SupportLevel.ACTED_ON, "known": SupportLevel.KNOWN, "rejected": SupportLevel.REJECTED}


def read_table(rows: str) -> dict[str, ConfigKey]:
    """Return the keys of ``rows`` by name, in their order."""
    return {key.name: key for key in _read_rows(rows)}


def _read_rows(rows: str) -> Iterator[ConfigKey]:
    columns: list[str] = []
    reason: list[str] = []
    for line in rows.strip("\n").split("\n"):
        if line.startswith(" "):
            reason.append(line.strip())
            continue
        if columns:
            yield _make_key(columns, " ".join(reason))
        columns, reason = line.split(), []
    yield _make_key(columns, " ".join(reason))


def _make_key(columns: list[str], reason: str) -> ConfigKey:
    name, type_name, default, bounds, unit, dynamic, support, *flags = columns
    return ConfigKey(
        name,
        _TYPES[type_name],
        None if default == "-" else default.replace('""', ""),
        "" if bounds == "-" else bounds,
        "" if unit == "-" else unit,
        _DYNAMICS[dynamic],
        _SUPPORT_LEVELS[support],
        reason,
        bool(flags),
    )
