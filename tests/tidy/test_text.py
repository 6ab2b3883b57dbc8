"""Rules about every text in the repository: no paths of a host, no unreadable characters."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

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
FORMATTED = [path for path in TEXTS if path.endswith((".py", ".md", ".sh", ".yaml", ".toml"))]

MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:work|root|home/\w+)/")


def test_no_text_names_a_path_of_a_machine() -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in TEXTS
        if path != "tests/tidy/test_text.py"
        for number, line in lines_of(path)
        if MACHINE_PATH.search(line)
    ]

    assert not found, "\n".join(found)


def test_texts_end_with_one_newline() -> None:
    texts = {path: text_of(path) for path in FORMATTED}

    found = [path for path, text in texts.items() if text and (text[-1] != "\n" or text.endswith("\n\n"))]

    assert not found, "\n".join(found)


def test_no_line_ends_with_blanks() -> None:
    found = [f"{path}:{number}" for path in FORMATTED for number, line in lines_of(path) if line != line.rstrip()]

    assert not found, "\n".join(found)


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def lines_of(path: str) -> Iterable[tuple[int, str]]:
    return enumerate(text_of(path).splitlines(), 1)
