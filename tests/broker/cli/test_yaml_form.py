"""YAML that PyYAML and Go (kubectl, helm) read as the same data."""

import json
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
import yaml

from ottla.cli.yaml_form import to_yaml

LETTERS = "0123456789eExXoObBpP_+-.:yYnNaAfFiI~ "
LOOK_ALIKES = [
    "00231987",
    "1e5",
    "1E+5",
    "0o17",
    "0x1F",
    "0b1",
    "1_000",
    "0x1p4",
    "+._5",
    "1:30",
    "y",
    "N",
    "on",
    "~",
    "",
]


def look_alikes() -> list[str]:
    chosen = Random(7)
    return LOOK_ALIKES + ["".join(chosen.choices(LETTERS, k=chosen.randint(1, 6))) for _ in range(20_000)]


def test_strings_stay_strings_and_order_stays() -> None:
    value = {"z": look_alikes(), "a": [1, -2.5, 1e300, True, None, "ä"], "1e5": {"y": "plain words, and: more"}}

    read = yaml.safe_load(to_yaml(value))

    assert read == value
    assert list(read) == ["z", "a", "1e5"]


def test_quotes_are_only_where_they_are_needed() -> None:
    assert (
        to_yaml(["flights", "3.9.1", "2a", "1e5", "y", "yard"]) == "- flights\n- 3.9.1\n- 2a\n- '1e5'\n- 'y'\n- yard\n"
    )


@pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm")
def test_go_reads_the_same(tmp_path: Path) -> None:
    """A random pod name of eight digits, ``00231987``, was once rejected by kubectl as a number."""
    strings = look_alikes()
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: probe\nversion: 0.1.0\n")
    (tmp_path / "templates" / "it.yaml").write_text("kind: It\ndata: {{ .Values.strings | toJson }}\n")
    (tmp_path / "values.yaml").write_text(to_yaml({"strings": strings}))

    done = subprocess.run(("helm", "template", tmp_path), capture_output=True, text=True, check=True)

    (line,) = (line for line in done.stdout.splitlines() if line.startswith("data: "))
    assert json.loads(line.removeprefix("data: ")) == strings
