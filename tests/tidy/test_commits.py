"""Subjects of commits: ``area: imperative``, at most 72 characters."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The last commit from before the rule.
LAST_WITHOUT_RULE = "3b85ece1148e76d24abd910fb4a5b13a014d290a"
LENGTH_MAX = 72
SUBJECT = re.compile(r"[a-z0-9][\w ,./+*-]*: (?!\w+(?:ing|ed)\b)[a-z`]\S*( \S+)+", re.ASCII)
# Imperatives that end like a participle.
IMPERATIVES = re.compile(r": (bring|embed|exceed|feed|need|proceed|seed|shed|speed|spring|string|swing)\b")


def git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def commits_under_the_rule() -> list[str]:
    """Return `HASH SUBJECT` of each commit after LAST_WITHOUT_RULE; of all there are in a clone too shallow for it."""
    newer = git("log", "--no-merges", "--format=%h %s", f"{LAST_WITHOUT_RULE}..HEAD")
    if newer is None:
        newer = git("log", "--no-merges", "--format=%h %s") or ""
    return newer.splitlines()


def is_well_formed(subject: str) -> bool:
    """Whether an area, a colon and an imperative are there, in at most LENGTH_MAX characters."""
    is_in_form = SUBJECT.fullmatch(subject) or (IMPERATIVES.search(subject) and re.match(r"[a-z0-9]", subject))
    return len(subject) <= LENGTH_MAX and bool(is_in_form)


def test_subjects_of_commits_are_an_area_and_an_imperative() -> None:
    offenders = [commit for commit in commits_under_the_rule() if not is_well_formed(commit.partition(" ")[2])]

    assert not offenders, "\n".join(offenders)


@pytest.mark.parametrize(
    ("subject", "is_fine"),
    [
        ("fetch: copy a response once", True),
        ("tests/tidy: hold subjects of commits", True),
        ("runtime, server: give the acceptor a 0.5 ms slice", True),
        ("simulator: seed the network", True),
        (f"log: {'a' * 30} {'b' * 36}", True),
        (f"log: {'a' * 30} {'b' * 37}", False),
        ("Changelog", False),
        ("Who comes to a door keeps half a millisecond of a turn", False),
        ("fetch: copied a response once", False),
        ("fetch: copying a response", False),
        ("fetch: Copy a response", False),
        ("fetch:copy a response", False),
        ("fetch: copy", False),
    ],
)
def test_planted_subjects_are_judged(subject: str, is_fine: bool) -> None:
    assert is_well_formed(subject) is is_fine


def test_shallow_clone_checks_its_own_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = ("-c", "user.name=planted", "-c", "user.email=planted@localhost")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    git("init", "-q")
    for subject in ("docs: say more", "Said more"):
        git(*identity, "commit", "-q", "--allow-empty", "-m", subject)

    assert [commit.partition(" ")[2] for commit in commits_under_the_rule()] == ["Said more", "docs: say more"]


def test_copy_without_history_has_nothing_to_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)

    assert commits_under_the_rule() == []
