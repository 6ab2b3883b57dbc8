"""`benchmarks.gray_failures` checks that everything is there before it measures."""

import argparse

import pytest
from benchmarks import gray_failures


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """Run the benchmark without its rounds; return the systems that it would measure."""
    measured: list[str] = []

    def run_round(system: str, arguments: argparse.Namespace) -> list[tuple[str, float]]:
        measured.append(system)
        return []

    for module in ("file_systems", "sick_network", "wall_clocks"):
        monkeypatch.setattr(f"benchmarks.{module}.missing", lambda: None)
    monkeypatch.setattr(gray_failures, "run_round", run_round)
    monkeypatch.setattr("sys.argv", ["gray_failures", "--kafka-command", "kafka {dir} {port}", *arguments])
    gray_failures.main()
    return measured


@pytest.mark.parametrize("kind", ["one of two disks fails", "cut off"])
def test_missing_jars_are_an_error_before_the_first_round(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    monkeypatch.delenv("OTTLA_KAFKA_LIBS", raising=False)

    with pytest.raises(SystemExit):
        run(monkeypatch, "--kinds", "stopped", kind)

    assert "OTTLA_KAFKA_LIBS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "systems"),
    [
        pytest.param(["--kinds", "stopped"], ["ottla", "kafka"], id="one-directory-and-no-network"),
        pytest.param(["--kinds", "cut off", "--only", "ottla"], ["ottla"], id="ottla-only"),
    ],
)
def test_jars_are_not_needed_for_nodes_that_do_not_run_from_them(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], systems: list[str]
) -> None:
    monkeypatch.delenv("OTTLA_KAFKA_LIBS", raising=False)

    assert run(monkeypatch, *arguments) == systems
