"""Banned words: the table of docs/glossary.md, and where they occur in prose and in names."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sources
from sources import Passage

GLOSSARY = sources.ROOT / "docs/glossary.md"
TABLE_HEADING = "## Words that a check rejects"


@dataclass(frozen=True, slots=True)
class Offender:
    """One banned word in one line of a file."""

    path: str
    line: int
    word: str

    def __str__(self) -> str:
        """Return the offender as editors and grep write a place."""
        return f"{self.path}:{self.line}: {self.word}"


@dataclass(frozen=True, slots=True)
class BannedWords:
    """Patterns of the glossary: ``banned`` matches a word or phrase, ``stays`` the phrases in which it is the term."""

    banned: re.Pattern[str]
    stays: re.Pattern[str] | None

    def occurrences(self, passage: Passage) -> Iterator[tuple[int, str]]:
        """Yield line and word of each occurrence outside of quotes."""
        text = sources.without_quotes(passage.text)
        if self.stays:
            text = self.stays.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
        for found in self.banned.finditer(text):
            line = passage.line + text.count("\n", 0, found.start())
            yield line, " ".join(found.group().lower().split())


def read_glossary(text: str) -> BannedWords:
    """Read the table under TABLE_HEADING: a column of words, one of replacements, one of phrases that stay."""
    table = text.partition(TABLE_HEADING)[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in table.splitlines() if "|" in line]
    assert rows, f"no table under {TABLE_HEADING!r}"
    assert [cell.lower() for cell in rows[0]] == ["not", "but", "stays in"], rows[0]
    words = [word for row in rows[2:] for word in _listed(row[0])]
    stays = [phrase for row in rows[2:] if len(row) > 2 for phrase in _listed(row[2])]
    return BannedWords(_pattern(words), _pattern(stays) if stays else None)


def _listed(cell: str) -> list[str]:
    return [word.strip() for word in cell.split(",") if word.strip()]


def _pattern(phrases: list[str]) -> re.Pattern[str]:
    # Not inside of a dotted or hyphenated name, a path or an option; a phrase may go over the end of a line.
    longest_first = sorted(phrases, key=lambda phrase: (-len(phrase), phrase))
    either = "|".join(re.sub(r"(\\ )+", r"\\s+", re.escape(phrase)) for phrase in longest_first)
    return re.compile(rf"(?<![\w.\-/])(?:{either})(?![\w\-]|\.\w)", re.IGNORECASE)


def offenders_in_python(text: str, path: str, words: BannedWords) -> list[Offender]:
    """Find banned words in docstrings, comments, messages and defined names, and in the file's own name.

    Strings of tests are left out: they are mostly data, and a test expects the messages of the code.
    """
    source = sources.read_python(text)
    passages = [*source.docstrings, *source.comments, *source.names, Passage(1, sources.words_of(Path(path).stem))]
    if not path.startswith("tests/"):
        passages.extend(source.messages)
    return _offenders(passages, path, words)


def offenders_in_page(text: str, path: str, words: BannedWords) -> list[Offender]:
    """Find banned words in the prose of a page and in its name; blocks of code are output of programs."""
    passages = [*sources.page_prose(text), Passage(1, sources.words_of(Path(path).stem))]
    return _offenders(passages, path, words)


def _offenders(passages: list[Passage], path: str, words: BannedWords) -> list[Offender]:
    found = {(line, word): 0 for passage in passages for line, word in words.occurrences(passage)}
    return [Offender(path, line, word) for line, word in sorted(found)]


def all_offenders() -> list[Offender]:
    """Find banned words in every file that is written by hand, except for the glossary, which lists them."""
    words = read_glossary(GLOSSARY.read_text(encoding="utf-8"))
    found: list[Offender] = []
    for path in sources.python_files():
        found += offenders_in_python(path.read_text(encoding="utf-8"), sources.relative(path), words)
    for path in sources.pages():
        if path != GLOSSARY:
            found += offenders_in_page(path.read_text(encoding="utf-8"), sources.relative(path), words)
    return found


def count_by_file(offenders: list[Offender]) -> dict[str, int]:
    """Return how many banned words each file has; files without any are not in it."""
    return dict(Counter(offender.path for offender in offenders))
