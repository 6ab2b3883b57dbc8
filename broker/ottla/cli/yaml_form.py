"""YAML that every parser reads as the same data.

PyYAML reads and writes YAML 1.1, where ``1e5`` and ``0o17`` are strings; the Go parsers of kubectl and helm read them
as numbers, and ``y`` as true. They would read a topic of such a name as another type, so such strings are quoted.
"""

import re
from typing import Any

import yaml

# Numbers of YAML 1.2's core schema, with Go's signs and bases, and Go's underscores, which may be anywhere behind the
# first character; and the short booleans of YAML 1.1, which PyYAML lacks.
_NUMBERS = re.compile(
    r"[-+]?_*(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE]_*[-+]?[0-9_]+)?$"
    r"|[-+]?_*0_*(?:[oO][0-7_]+|[bB][01_]+|[xX][0-9a-fA-F_.]+(?:[pP]_*[-+]?[0-9_]+)?)$"
)
_SHORT_BOOLEANS = re.compile(r"[yYnN]$")


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes strings which other parsers read as another type."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBERS, list("-+.0123456789"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", _SHORT_BOOLEANS, list("yYnN"))


def to_yaml(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return ``value`` as YAML, keys in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
