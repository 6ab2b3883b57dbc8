"""The repository's files as the checks of `tests/tidy` read them: paths, prose, and names that are defined."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "broker/ottla", ROOT / "operator/ottla_operator", ROOT / "spark-on-k8s/ottla_spark"]
# Written by docs/generate.py: their offenders are in the code, and counted there.
GENERATED_PAGES = {"docs/cli.md", "docs/configuration.md", "docs/metrics.md"}
SKIPPED_FOLDERS = {".venv", "build", "dist", "node_modules", "__pycache__"}

DOCSTRING_OWNERS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
QUOTED = re.compile(r"``[^`]*``|`[^`]*`|\"[^\"\n]*\"|“[^”\n]*”")
# Outside of strings, # starts a comment. `tokenize` finds the same ones, but takes 7 s of CPU for all files, not 0.4.
STRING_OR_COMMENT = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*"""'''
    r"""|'''(?:[^'\\]|\\.|'(?!''))*'''"""
    r"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|#[^\n]*""",
    re.DOTALL,
)
FENCE = re.compile(r"^\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of prose, or a name written as words, and the line where it begins."""

    line: int
    text: str


def python_files() -> list[Path]:
    """Return every Python file that is written by hand, sorted."""
    folders = [*PACKAGES, ROOT / "tests", ROOT / "benchmarks", ROOT / "docs"]
    return sorted(path for folder in folders for path in folder.rglob("*.py") if not SKIPPED_FOLDERS & set(path.parts))


def pages() -> list[Path]:
    """Return every page that is written by hand, sorted."""
    found = (path for path in ROOT.rglob("*.md") if not _is_skipped(path))
    return sorted(path for path in found if relative(path) not in GENERATED_PAGES)


def relative(path: Path) -> str:
    """Return the path from the repository's root, with slashes."""
    return path.relative_to(ROOT).as_posix()


def _is_skipped(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(part in SKIPPED_FOLDERS or (part.startswith(".") and part != ".github") for part in parts)


@dataclass(frozen=True, slots=True)
class PythonSource:
    """Prose of a Python file by kind, and the names that it defines, each as words."""

    docstrings: list[Passage]
    comments: list[Passage]
    messages: list[Passage]
    names: list[Passage]


@cache
def read_python(text: str) -> PythonSource:
    """Collect the prose and the names of a file.

    A message is a string that reads as text (two blanks or more): a log line, an error, the help of a command.
    Only names that the file itself binds count: those of libraries are not ours to choose.
    """
    source = PythonSource([], list(comments(text)), [], [])
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCSTRING_OWNERS) and (docstring := ast.get_docstring(node)):
            source.docstrings.append(Passage(node.body[0].lineno, docstring))
            # A walk is breadth first: the owner of a docstring precedes the string.
            documented.add(id(node.body[0].value))  # type: ignore[attr-defined]
        match node:
            case ast.Constant(value=str(value)) if value.strip().count(" ") >= 2 and id(node) not in documented:
                source.messages.append(Passage(node.lineno, value))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                source.names.append(Passage(node.lineno, words_of(name)))
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                source.names.append(Passage(node.lineno, words_of(name)))
    return source


def comments(text: str) -> Iterator[Passage]:
    """Yield comments; those on consecutive lines, without code on them, are one passage."""
    block: list[str] = []
    first = previous = position = 0
    line = 1
    for token in STRING_OR_COMMENT.finditer(text):
        if not token.group().startswith("#"):
            continue
        line += text.count("\n", position, token.start())
        position = token.start()
        words = token.group().lstrip("#: ").rstrip()
        is_alone = not text[text.rfind("\n", 0, position) + 1 : position].strip()
        if block and is_alone and line == previous + 1:
            block.append(words)
        else:
            if block:
                yield Passage(first, "\n".join(block))
            block, first = [words], line
        # A comment behind code never continues on the next line.
        previous = line if is_alone else -1
    if block:
        yield Passage(first, "\n".join(block))


def words_of(name: str) -> str:
    """Return an identifier or a file's name as words with blanks between them, in lower case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.]+", " ", name).strip().lower()


def page_prose(text: str) -> Iterator[Passage]:
    """Yield the paragraphs, list items and table cells of a page, without blocks of code."""
    is_code = False
    block: list[str] = []
    first = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        is_fence = bool(FENCE.match(line))
        starts_block = is_fence or is_code or not line.strip() or re.match(r"\s*([-*#|>]|\d+\.)\s?", line)
        if starts_block and block:
            yield Passage(first, "\n".join(block))
            block = []
        if is_fence:
            is_code = not is_code
        elif is_code or not line.strip():
            continue
        elif line.lstrip().startswith("|"):
            yield from (Passage(number, cell.strip()) for cell in line.split("|") if cell.strip(" -:"))
        else:
            first = first if block else number
            block.append(re.sub(r"^\s*([-*#>]+|\d+\.)\s+", "", line))


def without_quotes(text: str) -> str:
    """Blank out quotations: code, output and foreign names are not ours to reword. Lines keep their numbers."""
    return QUOTED.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
