"""Workflows do nothing that a command in the Makefile does not."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
MAKE = re.compile(r"make((?: [a-z][a-z0-9-]*)+)")

PLANTED = """
jobs:
  planted:
    steps:
      - uses: actions/checkout@v4
      - run: make test no-such-target
      - run: pip install ottla && make test
"""


def makefile_targets() -> set[str]:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "release.mk"))
    return set(re.findall(r"^([a-z][a-z0-9-]*):(?!=)", text, re.MULTILINE))


def offending_commands(workflow: str, targets: set[str]) -> Iterator[str]:
    """Yield each command of a workflow that is not ``make`` with targets that exist."""
    for job in yaml.safe_load(workflow)["jobs"].values():
        for step in job["steps"]:
            command = step.get("run", "make test").strip()
            called = MAKE.fullmatch(command)
            if not called or not set(called[1].split()) <= targets:
                yield command


def test_workflows_call_targets_of_the_makefile() -> None:
    targets = makefile_targets()
    offenders = [f"{path.name}: {run}" for path in WORKFLOWS for run in offending_commands(path.read_text(), targets)]

    assert {"ci.yml", "release.yml"} <= {path.name for path in WORKFLOWS}
    assert offenders == []


def test_planted_commands_are_found() -> None:
    assert list(offending_commands(PLANTED, {"test"})) == ["make test no-such-target", "pip install ottla && make test"]


def test_other_forms_on_github_are_valid_yaml() -> None:
    forms = [*(ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"), ROOT / ".pre-commit-config.yaml"]

    assert len(forms) == 4
    assert [form.name for form in forms if not yaml.safe_load(form.read_text(encoding="utf-8"))] == []
