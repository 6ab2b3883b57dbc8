"""Allowances only shrink; package pages and lengths of files, which are held by them."""

from pathlib import Path

import allowances
import package_pages
import pytest
import sources


def test_count_above_its_allowance_is_found() -> None:
    assert allowances.risen({"a": 2, "b": 1, "c": 1}, {"a": 1, "b": 1}) == ["a", "c"]


@pytest.mark.parametrize(("is_exact", "names"), [(True, ["a", "b"]), (False, ["b"])], ids=["exact", "limit"])
def test_allowance_above_its_count_is_found(is_exact: bool, names: list[str]) -> None:
    assert allowances.outdated({"a": 1, "c": 2}, {"a": 2, "b": 1, "c": 2}, is_exact=is_exact) == names


def test_lowering_never_raises() -> None:
    assert allowances.lowered({"a": 3, "b": 1, "d": 4}, {"a": 2, "b": 2, "c": 1}) == {"a": 2, "b": 1}


def test_rebuilding_keeps_to_the_total_of_before() -> None:
    assert allowances.rebuilt({"moved": 3}, {"a": 1, "b": 2}) == {"moved": 3}
    with pytest.raises(ValueError, match="rises from 3 to 4"):
        allowances.rebuilt({"moved": 4}, {"a": 1, "b": 2})


def test_list_is_read_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowances, "FOLDER", tmp_path)
    allowances.write_list("words", {"b with blanks": 2, "a": 1})

    assert allowances.allowed("words") == {"a": 1, "b with blanks": 2}


def test_command_fails_for_a_count_that_rises_and_one_that_fell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(allowances, "FOLDER", tmp_path)
    monkeypatch.setattr(allowances, "CHECKS", {"words": lambda: {"risen": 2, "fell": 1}})
    allowances.write_list("words", {"risen": 1, "fell": 2})

    assert allowances.main([]) == 1
    assert capsys.readouterr().err == "words: risen has 2, allowed 1\nwords: fell has 1: run with --lower\n"
    assert allowances.main(["--lower", "words"]) == 1
    assert allowances.allowed("words") == {"risen": 1, "fell": 1}


def test_packages_have_pages() -> None:
    missing, allowed = package_pages.count_missing(), allowances.allowed("pages")

    offenders = allowances.risen(missing, allowed)
    assert not offenders, "\n".join(["a docstring in __init__.py, or a README.md of one screen", *offenders])
    assert allowances.outdated(missing, allowed, is_exact=True) == [], "python tests/tidy/allowances.py --lower pages"


def test_planted_package_without_page_is_found(tmp_path: Path) -> None:
    for name in ("documented", "bare", "readme"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('"""Said here."""\n' if name == "documented" else "x = 1\n")
    (tmp_path / "readme" / "README.md").write_text("# Said here\n")

    assert package_pages.packages_without_page([tmp_path]) == [tmp_path / "bare"]


def test_files_have_at_most_450_lines() -> None:
    lines, allowed = allowances.lines_over_limit(), allowances.allowed("lines")

    offenders = [f"{name}: {lines[name]} lines" for name in allowances.risen(lines, allowed)]
    assert not offenders, "\n".join(["split it by concept", *offenders])
    assert allowances.outdated(lines, allowed, is_exact=False) == [], "python tests/tidy/allowances.py --lower lines"


@pytest.mark.parametrize(("lines", "is_found"), [(450, False), (451, True)])
def test_planted_long_file_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, is_found: bool
) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text("x = 1\n" * lines)
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(sources, "python_files", lambda: [planted])

    assert allowances.lines_over_limit() == ({"planted.py": 451} if is_found else {})
