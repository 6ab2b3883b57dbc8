"""Files of cases with the results of Kafka's own classes: one line of JSON each, for tests that need no JVM."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest


def read_recorded(file: Path) -> list[tuple[Any, Any]]:
    """Return the cases, each with Kafka's result."""
    return [tuple(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def write_recorded(file: Path, recorded: Iterable[tuple[Any, Any]]) -> None:
    lines = [json.dumps(each, ensure_ascii=False) for each in recorded]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def recorded_params(file: Path) -> list[Any]:
    """Return the cases as parameters of a test; the id is the line number."""
    return [pytest.param(*each, id=str(number)) for number, each in enumerate(read_recorded(file), 1)]
