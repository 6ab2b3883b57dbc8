"""Rules about every text in the repository: nothing of the machine that it was written on, nothing unreadable."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACKED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
).stdout.splitlines()
BINARY = {".png", ".jar", ".gif", ".ico", ".crc", ".bin"}
TEXTS = [path for path in TRACKED if Path(path).suffix not in BINARY and (ROOT / path).is_file()]

MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:work|root|home/\w+)/")


@pytest.mark.parametrize("path", TEXTS)
def test_a_text_names_no_path_of_a_machine(path: str) -> None:
    found = [line for line in (ROOT / path).read_text(encoding="utf-8").splitlines() if MACHINE_PATH.search(line)]

    assert not found or path == "tests/tidy/test_text.py", found[:3]


@pytest.mark.parametrize("path", [path for path in TEXTS if path.endswith((".py", ".md", ".sh", ".yaml", ".toml"))])
def test_a_text_ends_with_one_newline_and_no_line_with_blanks(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")

    assert not text or (text.endswith("\n") and not text.endswith("\n\n"))
    assert not [number for number, line in enumerate(text.splitlines(), 1) if line != line.rstrip()]
