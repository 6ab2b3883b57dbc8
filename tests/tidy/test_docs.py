"""Generated pages equal the code, which a check compares."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCREEN = re.compile(r"^```console\n(\$ kubectl get .*?)```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?:\]\(|src=\")(?!https?:)([^)#\"]+)")


def test_generated_pages_are_current() -> None:
    made = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)

    assert made.returncode == 0, made.stderr


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]

    assert not broken, "\n".join(broken)


def test_screens_in_the_pages_are_those_of_the_last_run() -> None:
    shown = SCREEN.findall((ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8"))
    screens = (ROOT / "docs" / "screens" / "kubernetes.txt").read_text(encoding="utf-8")

    assert shown
    assert [screen for screen in shown if screen not in screens] == []
