"""Package pages: each package says in its docstring or in a README.md what it is for."""

import ast
from collections.abc import Iterable
from pathlib import Path

import sources


def packages_without_page(roots: Iterable[Path]) -> list[Path]:
    """Return each folder with an ``__init__.py`` that has neither a docstring there nor a README.md."""
    found = (init.parent for root in roots for init in root.rglob("__init__.py"))
    return sorted(folder for folder in found if not (folder / "README.md").exists() and not _docstring(folder))


def _docstring(folder: Path) -> str | None:
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))


def count_missing() -> dict[str, int]:
    """Return 1 for each package of the three distributions that has no page."""
    return {sources.relative(folder): 1 for folder in packages_without_page(sources.PACKAGES)}
