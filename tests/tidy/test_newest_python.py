"""The Python of `make unit-newest` is the newest that is newer than its own and runs."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "newest_python.py"
OWN = sys.version_info.minor
WORKS, FAILS = "exit 0", "exit 127"


def found(tmp_path: Path, **scripts: str) -> str:
    """Return the script's output with these interpreters installed: ``path_1`` is one minor version newer."""
    for name, script in scripts.items():
        place, _, newer = name.partition("_")
        folder = tmp_path / ("bin" if place == "path" else f"pyenv/versions/3.{OWN + int(newer)}.0/bin")
        folder.mkdir(parents=True, exist_ok=True)
        command = folder / f"python3.{OWN + int(newer)}"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
    environment = {"PATH": f"{tmp_path / 'bin'}", "PYENV_ROOT": str(tmp_path / "pyenv")}
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip().removeprefix(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({}, ""),
        ({"path_0": WORKS}, ""),
        ({"path_1": WORKS, "path_2": WORKS}, f"bin/python3.{OWN + 2}"),
        ({"path_1": WORKS, "path_2": FAILS}, f"bin/python3.{OWN + 1}"),
        ({"path_2": FAILS, "pyenv_2": WORKS}, f"pyenv/versions/3.{OWN + 2}.0/bin/python3.{OWN + 2}"),
    ],
    ids=["none", "no-newer-one", "newest", "unfinished", "behind-a-shim"],
)
def test_newest_python_that_runs_is_found(tmp_path: Path, installed: dict[str, str], expected: str) -> None:
    assert found(tmp_path, **installed) == expected
