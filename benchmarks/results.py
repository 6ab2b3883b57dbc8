"""RESULTS.md: the benchmarks of one node are first, further ones each have a section of their own.

Each benchmark replaces only its own section.
"""

import re
from pathlib import Path

RESULTS = Path(__file__).parent / "RESULTS.md"
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_SUBHEADING = re.compile(r"^### (.*)$", re.MULTILINE)


def write_section(heading: str | None, text: str) -> None:
    """Replace the section below ``## heading``, or add it at the end; without a heading, the text before all of them.

    Its subsections stay.
    """
    sections = _split(_read(), _HEADING)
    subsections = _split(sections.get(heading, ""), _SUBHEADING)
    subsections[None] = text.strip() + "\n"
    sections[heading] = _join(subsections, "###")
    RESULTS.write_text(_join(sections, "##"))


def write_subsection(heading: str, subheading: str, text: str) -> None:
    """Replace the text below ``### subheading`` in the section ``## heading``, or add it at the section's end."""
    sections = _split(_read(), _HEADING)
    subsections = _split(sections.get(heading, ""), _SUBHEADING)
    subsections[subheading] = text.strip() + "\n"
    sections[heading] = _join(subsections, "###")
    RESULTS.write_text(_join(sections, "##"))


def _read() -> str:
    return RESULTS.read_text() if RESULTS.exists() else ""


def _join(sections: dict[str | None, str], marks: str) -> str:
    parts = [body if name is None else f"{marks} {name}\n\n{body}" for name, body in sections.items()]
    return "\n".join(part for part in parts if part.strip())


def _split(text: str, headings: re.Pattern[str]) -> dict[str | None, str]:
    """Heading to text, in the file's order; None for the text before the first heading."""
    first, *rest = headings.split(text)
    sections: dict[str | None, str] = {None: first.strip() + "\n"}
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        sections[name.strip()] = body.strip() + "\n"
    return sections
