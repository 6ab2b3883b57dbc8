"""The folders that the Makefile names for a target are those whose tests have the marker."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MARKERS = {"CLUSTER": "cluster", "INTEROP": "interop", "E2E": "e2e"}


def folders_of(variable: str) -> list[Path]:
    """Return the folders in a variable of the Makefile."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    found = re.search(rf"^{variable} := (.*)$", text, re.MULTILINE)
    assert found, f"the Makefile sets no {variable}"
    return [ROOT / folder for folder in shlex.split(found[1])]


@pytest.mark.parametrize(("variable", "marker"), MARKERS.items(), ids=MARKERS.values())
def test_folders_of_a_target_are_those_of_its_marker(variable: str, marker: str) -> None:
    """Tests without the marker would run in `make unit` alone, and marked ones elsewhere in no target."""
    folders = folders_of(variable)
    marked = re.compile(rf"\bmark\.{marker}\b")
    others = [folder for name in MARKERS if name != variable for folder in folders_of(name)]
    misplaced = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.parent != Path(__file__).parent
        and not any(path.is_relative_to(folder) for folder in others)
        and bool(marked.search(path.read_text()) or marks_its_folder(path, marked))
        != any(path.is_relative_to(folder) for folder in folders)
    ]

    assert all(folder.is_dir() for folder in folders), folders
    assert not misplaced, "\n".join(misplaced)


def marks_its_folder(path: Path, marked: re.Pattern[str]) -> bool:
    """Whether a conftest.py above a test file gives the marker to its folder."""
    above = [folder / "conftest.py" for folder in path.parents if folder.is_relative_to(ROOT / "tests")]
    return any(conftest.exists() and marked.search(conftest.read_text()) for conftest in above)
