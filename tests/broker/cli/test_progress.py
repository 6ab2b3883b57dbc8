"""The progress bar, and no output without a terminal."""

import pytest

from ottla.cli.progress import BAR_CELLS, ProgressBar, bar


@pytest.mark.parametrize(
    ("done", "total", "filled", "share"),
    [(0, 10, 0, "  0%"), (5, 10, BAR_CELLS // 2, " 50%"), (10, 10, BAR_CELLS, "100%"), (11, 10, BAR_CELLS, "100%")],
)
def test_bar_is_filled_by_share(done: int, total: int, filled: int, share: str) -> None:
    assert bar(done, total) == f"[{'#' * filled}{'-' * (BAR_CELLS - filled)}] {share}"


def test_unknown_total_is_an_empty_bar() -> None:
    assert bar(5, 0).startswith("[---")


def test_without_a_terminal_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("feed", total=2) as progress:
        progress.update(1)

    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_the_line_is_drawn_and_wiped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("ottla.cli.progress.REDRAW_INTERVAL_S", 0)
    monkeypatch.setenv("NO_COLOR", "1")

    with ProgressBar("feed", total=2) as progress:
        progress.update(1, note="1 of 2")

    err = capsys.readouterr().err
    assert "feed" in err
    assert " 50% 1 of 2" in err
    assert err.endswith("\r\x1b[2K")
