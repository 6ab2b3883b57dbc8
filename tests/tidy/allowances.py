"""Allowances of the checks of `tests/tidy`: lists of counts, one for each check, that only shrink.

``python tests/tidy/allowances.py`` prints where the lists and the files differ. ``--lower`` writes lower counts and
removes entries; it never raises one. ``--rebuild`` writes the lists again from the files. That is for files that were
moved or merged: it fails where the total of a list would rise above that of the list in git's HEAD.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import package_pages
import sentences
import sources
import words

FOLDER = Path(__file__).parent / "allowed"
LINES_MAX = 450


def lines_over_limit() -> dict[str, int]:
    """Return the number of lines of each Python file that has more than LINES_MAX."""
    lines = {sources.relative(path): path.read_text(encoding="utf-8").count("\n") for path in sources.python_files()}
    return {path: count for path, count in lines.items() if count > LINES_MAX}


CHECKS: dict[str, Callable[[], Mapping[str, int]]] = {
    "words": lambda: words.count_by_file(words.all_offenders()),
    "sentences": sentences.count_by_package,
    "pages": package_pages.count_missing,
    "lines": lines_over_limit,
}
# A file that is still too long may get shorter without a change of its list; only its end there is demanded.
EXACT = {"words", "sentences", "pages"}


def read_list(text: str) -> dict[str, int]:
    """Parse lines of ``COUNT NAME``; lines that begin with # are comments."""
    rows = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: int(count) for count, name in rows}


def allowed(check: str) -> dict[str, int]:
    """Return the list of a check."""
    return read_list((FOLDER / f"{check}.txt").read_text(encoding="utf-8"))


def risen(counts: Mapping[str, int], allowance: Mapping[str, int]) -> list[str]:
    """Return the names that have more than they are allowed."""
    return sorted(name for name, count in counts.items() if count > allowance.get(name, 0))


def outdated(counts: Mapping[str, int], allowance: Mapping[str, int], *, is_exact: bool) -> list[str]:
    """Return the names whose allowance is to be lowered or removed."""
    return sorted(
        name
        for name, count in allowance.items()
        if counts.get(name, 0) == 0 or (is_exact and counts.get(name, 0) < count)
    )


def lowered(counts: Mapping[str, int], allowance: Mapping[str, int]) -> dict[str, int]:
    """Return the allowance with each count at most what the files have, without those that have none."""
    lower = {name: min(count, counts.get(name, 0)) for name, count in allowance.items()}
    return {name: count for name, count in lower.items() if count}


def list_in_head(check: str) -> dict[str, int] | None:
    """Return a list as of git's HEAD; None where there is none."""
    path = sources.relative(FOLDER / f"{check}.txt")
    shown = subprocess.run(["git", "show", f"HEAD:{path}"], cwd=sources.ROOT, capture_output=True, text=True)
    return read_list(shown.stdout) if shown.returncode == 0 else None


def rebuilt(counts: Mapping[str, int], before: Mapping[str, int] | None) -> dict[str, int]:
    """Return the counts of the files as the new list.

    Raises:
        ValueError: the total is higher than that of ``before``.
    """
    total = sum(counts.values())
    if before is not None and total > sum(before.values()):
        raise ValueError(f"the total rises from {sum(before.values())} to {total}: mend the files, then rebuild")
    return dict(counts)


def write_list(check: str, counts: Mapping[str, int]) -> None:
    """Write a list, sorted by name."""
    FOLDER.mkdir(exist_ok=True)
    header = "# Only shrinks; see tests/tidy/allowances.py.\n"
    rows = "".join(f"{count} {name}\n" for name, count in sorted(counts.items()))
    (FOLDER / f"{check}.txt").write_text(header + rows, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Compare, lower or rebuild the lists; return 1 where something is wrong with one of them."""
    parser = argparse.ArgumentParser(description="The lists of what tests/tidy still allows.")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--lower", action="store_true", help="write lower counts, never higher ones")
    how.add_argument("--rebuild", action="store_true", help="after moves and merges: the counts of the files")
    parser.add_argument("check", nargs="*", help=f"of {', '.join(CHECKS)}; all of them unless given")
    chosen = parser.parse_args(arguments)
    failed = False
    for check in chosen.check or CHECKS:
        counts = CHECKS[check]()
        if chosen.rebuild:
            try:
                write_list(check, rebuilt(counts, list_in_head(check)))
            except ValueError as error:
                failed = True
                print(f"{check}: {error}", file=sys.stderr)
            continue
        if chosen.lower:
            write_list(check, lowered(counts, allowed(check)))
        for name in risen(counts, allowed(check)):
            failed = True
            print(f"{check}: {name} has {counts[name]}, allowed {allowed(check).get(name, 0)}", file=sys.stderr)
        for name in outdated(counts, allowed(check), is_exact=check in EXACT):
            failed = True
            print(f"{check}: {name} has {counts.get(name, 0)}: run with --lower", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
