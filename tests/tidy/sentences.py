"""Sentences that name no actor: they begin with "who", "what", "whoever", "nobody", "somebody" or "where"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sources
from sources import Passage

ACTORLESS = re.compile(r"(who|what|whoever|nobody|somebody|where)\b", re.IGNORECASE)
SHARE_MAX = 0.02
# A sentence ends before a capital letter or a quotation, or with its paragraph.
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'`(\[*_]*[A-Z0-9`])")
PARAGRAPH_END = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|\w+:)\s)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, with its file and the line where its passage begins."""

    path: str
    line: int
    text: str

    @property
    def is_actorless(self) -> bool:
        """Whether it begins with one of the words that stand for an actor."""
        return bool(ACTORLESS.match(self.text.lstrip("-\"'`(*_[ ")))

    def __str__(self) -> str:
        """Return place and beginning."""
        return f"{self.path}:{self.line}: {self.text[:60]}"


def sentences(passage: Passage) -> Iterator[tuple[int, str]]:
    """Yield line and text of each sentence that has a word in it."""
    start = 0
    for paragraph in PARAGRAPH_END.split(passage.text):
        start = passage.text.index(paragraph, start)
        for sentence in SENTENCE_END.split(paragraph):
            line = passage.line + passage.text.count("\n", 0, passage.text.index(sentence, start))
            if re.search(r"[A-Za-z]", sentence):
                yield line, " ".join(sentence.split())
        start += len(paragraph)


def sentences_of_python(text: str, path: str) -> list[Sentence]:
    """Return the sentences of docstrings and comments."""
    source = sources.read_python(text)
    passages = [*source.docstrings, *source.comments]
    return [Sentence(path, line, sentence) for passage in passages for line, sentence in sentences(passage)]


def sentences_of_page(text: str, path: str) -> list[Sentence]:
    """Return the sentences of a page, outside of code."""
    passages = sources.page_prose(text)
    return [Sentence(path, line, sentence) for passage in passages for line, sentence in sentences(passage)]


def package_of(path: Path) -> str:
    """Return the unit that is counted: a package of a distribution's root, a folder of tests, else "pages"."""
    for package in sources.PACKAGES:
        if path.is_relative_to(package):
            parts = path.relative_to(package).parts
            return f"{package.name}.{parts[0]}" if len(parts) > 1 else package.name
    parts = path.relative_to(sources.ROOT).parts
    if path.suffix == ".md":
        return "pages"
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def by_package() -> dict[str, list[Sentence]]:
    """Return all sentences of every package; the pages are one."""
    found: dict[str, list[Sentence]] = {}
    for path in sources.python_files():
        text = path.read_text(encoding="utf-8")
        found.setdefault(package_of(path), []).extend(sentences_of_python(text, sources.relative(path)))
    for path in sources.pages():
        text = path.read_text(encoding="utf-8")
        found.setdefault(package_of(path), []).extend(sentences_of_page(text, sources.relative(path)))
    return found


def actorless(found: list[Sentence]) -> list[Sentence]:
    """Return the offenders, or none of them while they are at most SHARE_MAX of all."""
    offenders = [sentence for sentence in found if sentence.is_actorless]
    return offenders if len(offenders) > SHARE_MAX * len(found) else []


def count_by_package(found: dict[str, list[Sentence]] | None = None) -> dict[str, int]:
    """Return the number of offenders of each package that has too many; ``found`` is `by_package`'s result."""
    counts = {package: len(actorless(each)) for package, each in (found or by_package()).items()}
    return {package: count for package, count in counts.items() if count}
