"""RESULTS.md: the benchmarks of one node come first, further ones each have a section of their own.

Whoever measured replaces only what it measured.
"""

import re
from pathlib import Path

RESULTS = Path(__file__).parent / "RESULTS.md"
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)


def write_section(heading: str | None, text: str) -> None:
    """Replace the section below ``## heading``, or add it at the end; without a heading, what precedes them all."""
    sections = _split(RESULTS.read_text() if RESULTS.exists() else "")
    sections[heading] = text.strip() + "\n"
    parts = [body if name is None else f"## {name}\n\n{body}" for name, body in sections.items()]
    RESULTS.write_text("\n".join(part for part in parts if part.strip()))


def _split(text: str) -> dict[str | None, str]:
    """Heading to text, in the file's order; None for what precedes the first heading."""
    first, *rest = _HEADING.split(text)
    sections: dict[str | None, str] = {None: first.strip() + "\n"}
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        sections[name.strip()] = body.strip() + "\n"
    return sections
