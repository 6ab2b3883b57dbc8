"""Java is found, checked for its version, installed where that is possible, and else named in an error."""

import os
from pathlib import Path

import pytest

from ottla_spark import java
from ottla_spark.java import Java, JavaMissingError, ensure_java, find_java, parse_version


def fake(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def fake_java(folder: Path, version: str) -> Path:
    return fake(folder, "java", f"echo 'openjdk version \"{version}\" 2026-01-01' >&2")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, without root."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return tmp_path / "bin"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param('openjdk version "17.0.15" 2025-04-15', 17, id="17"),
        pytest.param('openjdk version "21" 2023-09-19', 21, id="first-release"),
        pytest.param('java version "25.0.1" 2025-10-21 LTS', 25, id="oracle"),
        pytest.param('openjdk version "1.8.0_442"', 8, id="1.8-is-8"),
        pytest.param('openjdk version "22-ea" 2024-03-19', 22, id="early-access"),
        pytest.param("sh: java: not found", None, id="no-java"),
    ],
)
def test_version_is_read(text: str, version: int | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2"])
def test_java_on_the_path_is_enough(version: str, folder: Path) -> None:
    path = fake_java(folder, version)

    assert ensure_java() == Java(path, int(version[:2]))


def test_java_home_comes_first_as_for_spark(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(folder, "17.0.1")
    chosen = fake_java(tmp_path / "jdk/bin", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))

    assert find_java() == Java(chosen, 21)


@pytest.mark.parametrize(
    ("arrange", "says"),
    [
        pytest.param(lambda folder: None, "there is no java on PATH", id="none"),
        pytest.param(lambda folder: fake_java(folder, "16.0.2"), "is Java 16", id="too-old"),
        pytest.param(lambda folder: fake(folder, "java", "exit 1"), "there is no java on PATH", id="broken"),
    ],
)
@pytest.mark.parametrize(
    ("tool", "command"),
    [
        pytest.param("apt-get", "sudo apt-get install -y openjdk-17-jre-headless", id="debian"),
        pytest.param("dnf", "sudo dnf install -y java-21-openjdk-headless", id="fedora"),
        pytest.param("none", "https://adoptium.net", id="unknown"),
    ],
)
def test_error_has_the_found_version_and_the_command_to_run(
    arrange: object, says: str, tool: str, command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java.platform, "system", lambda: "Linux")
    fake(folder, tool, "exit 1")
    arrange(folder)  # type: ignore[operator]

    with pytest.raises(JavaMissingError) as raised:
        ensure_java(install=True)
    assert "17 or newer" in str(raised.value)
    assert says in str(raised.value)
    assert command in str(raised.value)


def test_java_home_without_java_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))

    with pytest.raises(JavaMissingError, match=r"JAVA_HOME is .*gone"):
        ensure_java()


def test_on_a_mac_homebrew_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.platform, "system", lambda: "Darwin")

    with pytest.raises(JavaMissingError, match="brew install"):
        ensure_java()


def test_root_on_debian_gets_the_newest_packaged_java(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fake(folder, "apt-cache", '[ "$2" = openjdk-17-jre-headless ]')
    # The fake apt installs a fake java, with shell builtins only.
    fake(
        folder,
        "apt-get",
        f'case "$*" in *install*openjdk-17-jre-headless) f="{folder}/java"; '
        'printf \'#!/bin/sh\\necho openjdk version \\\\"17.0.15\\\\"\\n\' >"$f"; /bin/chmod +x "$f" ;; esac',
    )
    installed: list[str] = []

    found = ensure_java(install=True, on_progress=installed.append)

    assert found.version == 17
    assert installed == ["openjdk-17-jre-headless"]


def test_nothing_is_installed_without_consent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fake(folder, "apt-get", f"echo touched >'{folder}/touched'")

    with pytest.raises(JavaMissingError):
        ensure_java()
    assert not (folder / "touched").exists()


def test_failed_installation_reports_the_last_lines_of_apt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fake(folder, "apt-get", "echo 'E: no network' >&2; exit 100")

    with pytest.raises(JavaMissingError, match="E: no network"):
        ensure_java(install=True)


def test_installation_that_does_not_end_times_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(folder, "apt-get", "while :; do :; done")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("ottla_spark.java._INSTALL_SECONDS_MAX", 0.05)

    with pytest.raises(JavaMissingError, match=r"could not install Java: apt-get -q update: .*0\.05 s"):
        ensure_java(install=True)
