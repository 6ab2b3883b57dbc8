"""The root command: its help is quick and complete, and every failure has its exit code."""

import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from typing import Any

import click
import pytest

from ottla.cli import main as root
from ottla.cli.exit_codes import ExitCode
from ottla.cli.lazy import LazyGroup
from ottla.errors import ConfigurationError, ErrorCode, KafkaError

EXTRAS = root.EXTRAS
DATA_WITHOUT_CODE = {"tzdata"}
COMMANDS = [name for entries in root.SECTIONS.values() for name in entries]


def all_commands() -> list[list[str]]:
    """Return the words of every command, those of groups included."""
    context = click.Context(root.cli)
    found = []
    for name in COMMANDS:
        command = root.cli.get_command(context, name)
        found.append([name])
        if isinstance(command, click.Group):
            found += [[name, inner] for inner in command.commands]
    return found


def test_help_lists_every_command(run: Any) -> None:
    ran = run("--help")

    assert ran.code == ExitCode.OK
    assert all(f"  {name} " in ran.out for name in COMMANDS)


def test_help_imports_no_command_and_no_broker() -> None:
    code = (
        "import sys; from ottla.cli.main import main; main(['--help']); print([m for m in sys.modules if 'ottla' in m])"
    )

    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    loaded = set(eval(out.splitlines()[-1]))
    assert loaded == {
        "ottla",
        "ottla.cli",
        "ottla.cli.exit_codes",
        "ottla.cli.lazy",
        "ottla.cli.main",
        "ottla.errors",
        "ottla.quoting",
    }


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_every_command_explains_itself(words: list[str], run: Any) -> None:
    ran = run(*words, "--help")

    assert ran.code == ExitCode.OK
    assert f"Usage: ottla {' '.join(words)}" in ran.out


@pytest.mark.parametrize("words", [words for words in all_commands() if len(words) == 2], ids=" ".join)
def test_every_inner_command_has_examples(words: list[str], run: Any) -> None:
    assert f"Examples:\n  ottla {' '.join(words)}" in run(*words, "--help").out


def test_entries_of_the_table_exist() -> None:
    assert isinstance(root.cli, LazyGroup)
    assert all(root.cli.get_command(click.Context(root.cli), name) is not None for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["nonsense"], ["topic", "create"], ["--nonsense"]], ids=str)
def test_wrong_usage_ends_with_2(arguments: list[str], run: Any) -> None:
    assert run(*arguments).code == ExitCode.USAGE


def test_version_is_printed(run: Any) -> None:
    ran = run("--version")

    assert ran.code == ExitCode.OK
    assert ran.out.startswith("ottla ")


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        pytest.param(ConfigurationError("x"), ExitCode.ERROR, id="error"),
        pytest.param(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND), ExitCode.NOT_FOUND, id="not-found"),
        pytest.param(KeyboardInterrupt(), ExitCode.INTERRUPTED, id="interrupted"),
        pytest.param(BrokenPipeError(), ExitCode.OK, id="reader-went-away"),
        pytest.param(ModuleNotFoundError("no aiohttp", name="aiohttp.web"), ExitCode.ERROR, id="extra-is-missing"),
    ],
)
def test_failure_becomes_its_code(
    failure: BaseException, code: ExitCode, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise failure

    stdout = sys.stdout
    monkeypatch.setattr(root.cli, "main", fail)

    ran_code = root.main([])
    sys.stdout = stdout

    assert ran_code == code


def test_missing_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ModuleNotFoundError("no pyspark", name="pyspark")

    monkeypatch.setattr(root.cli, "main", fail)
    root.main([])

    assert capsys.readouterr().err == "error: this command needs pyspark; type: pip install 'ottla[spark]'\n"


def test_a_module_of_every_distribution_of_an_extra_is_known() -> None:
    extras: dict[str, set[str]] = {}
    for requirement in requires("ottla") or ():
        if found := re.fullmatch(r"([\w-]+).*; extra == .(\w+).", requirement):
            extras.setdefault(found[1], set()).add(found[2])
    known = {
        distribution.lower().replace("_", "-"): EXTRAS[module]
        for module, distributions in packages_distributions().items()
        if module in EXTRAS
        for distribution in distributions
    }

    assert known.keys() == extras.keys() - DATA_WITHOUT_CODE
    assert all(extra in extras[distribution] for distribution, extra in known.items())


def test_missing_module_of_ottla_itself_names_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ModuleNotFoundError("no such module", name="ottla.nothing")

    monkeypatch.setattr(root.cli, "main", fail)

    with pytest.raises(ModuleNotFoundError):
        root.main([])


@pytest.mark.parametrize("words", [["topic"], ["group"], ["log"], ["quorum"]], ids=" ".join)
def test_short_help_is_not_truncated_in_the_list_of_a_group(words: list[str], run: Any) -> None:
    assert "..." not in run(*words, "--help").out.partition("Commands:")[2]
