"""Files of recorded scenarios: requests, and the responses under each ``transaction.version``.

Lines: ``# comment``; ``topics NAME=PARTITIONS ...``; ``versions 1 2`` (of transaction.version; default: 0 1 2);
``wait MS``; ``> API vN {request}``; ``< {response}``, or ``<02 {response}`` where only those versions have it;
``ours {response}``, Ottla's where it differs on purpose, with a comment that says why.
``>! `` does not repeat a request whose response is CONCURRENT_TRANSACTIONS; ``> `` does, as clients do.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

ALL_VERSIONS = (0, 1, 2)


@dataclass
class Step:
    """One line that is not a response, with the responses that follow it."""

    line: str
    responses: dict[int, str] = field(default_factory=dict)
    """transaction.version to response."""
    ours: str | None = None

    def expected_of_ottla(self, transaction_version: int) -> str:
        return self.responses[transaction_version] if self.ours is None else self.ours

    @property
    def wait_ms(self) -> int | None:
        return int(self.line.split()[1]) if self.line.startswith("wait ") else None

    @property
    def is_request(self) -> bool:
        return self.line.startswith(">")

    @property
    def is_repeated(self) -> bool:
        return not self.line.startswith(">!")

    def request(self) -> tuple[str, int, dict[str, Any]]:
        """Return the API, its version and the request's fields."""
        match = re.fullmatch(r">!? (\w+) v(\d+) (.*)", self.line)
        if match is None:
            raise ValueError(f"not a request: {self.line}")
        return match[1], int(match[2]), yaml.safe_load(match[3])


@dataclass
class Scenario:
    """A parsed file."""

    steps: list[Step]
    topics: dict[str, int]
    versions: tuple[int, ...]


def parse(text: str) -> Scenario:
    steps: list[Step] = []
    topics: dict[str, int] = {}
    versions = ALL_VERSIONS
    for line in text.splitlines():
        if match := re.fullmatch(r"<(\d*) (.*)", line):
            for version in map(int, match[1]) if match[1] else versions:
                steps[-1].responses[version] = match[2]
            continue
        if line.startswith("ours "):
            steps[-1].ours = line.removeprefix("ours ")
            continue
        if line.startswith("topics "):
            topics = {name: int(count) for name, count in (pair.split("=") for pair in line.split()[1:])}
        if line.startswith("versions "):
            versions = tuple(int(version) for version in line.split()[1:])
        steps.append(Step(line))
    return Scenario(steps, topics, versions)


def show(scenario: Scenario) -> str:
    """Return the text of the file."""
    return "\n".join(line for step in scenario.steps for line in _lines(step, scenario.versions)) + "\n"


def _lines(step: Step, versions: tuple[int, ...]) -> Iterator[str]:
    yield step.line
    by_response: dict[str, list[int]] = {}
    for version, response in sorted(step.responses.items()):
        by_response.setdefault(response, []).append(version)
    for response, having in by_response.items():
        mark = "" if tuple(having) == versions else "".join(map(str, having))
        yield f"<{mark} {response}"
    if step.ours is not None:
        yield f"ours {step.ours}"


def response_line(response: dict[str, Any]) -> str:
    """Return a response as one line of YAML."""
    text: str = yaml.safe_dump(response, default_flow_style=True, sort_keys=False, width=2**31)
    return text.strip()
