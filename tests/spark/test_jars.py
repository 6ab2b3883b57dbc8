"""Jars are fetched completely or not at all: by HTTP from Central or its mirror, else by Maven, and always checked."""

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla_spark import jars
from ottla_spark.jars import MAVEN_CENTRAL, Jar, JarsError, pinned_jars, repository_url, resolve_jars

CONTENT = b"a jar of bytes"
JAR = Jar(
    group="org.example.deep",
    artifact="thing_2.13",
    version="1.2.3",
    size_bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository of one jar, that a home's settings.xml names as Central's mirror; Maven is not installed."""
    root = tmp_path / "repository"
    path = root / "org/example/deep/thing_2.13/1.2.3/thing_2.13-1.2.3.jar"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    handler = functools.partial(QuietHandler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        settings = tmp_path / "home/.m2/settings.xml"
        settings.parent.mkdir(parents=True)
        settings.write_text(mirror("central", f"http://127.0.0.1:{server.server_port}/"))
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(jars, "pinned_jars", lambda: [JAR])
        yield path
        server.shutdown()
        thread.join()


def mirror(mirror_of: str, url: str) -> str:
    return (
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror><id>m</id>'
        f"<mirrorOf>{mirror_of}</mirrorOf><url>{url}</url></mirror></mirrors></settings>"
    )


def fake_maven(folder: Path, script: str) -> None:
    folder.mkdir(exist_ok=True)
    maven = folder / "mvn"
    maven.write_text(f"#!/bin/sh\n{script}\n")
    maven.chmod(0o755)


def test_jar_is_fetched_once(repository: Path, tmp_path: Path) -> None:
    fetched: list[str] = []

    [path] = resolve_jars(tmp_path / "jars", on_progress=fetched.append)
    repository.unlink()
    again = resolve_jars(tmp_path / "jars", on_progress=fetched.append)

    assert path.read_bytes() == CONTENT
    assert again == [path]
    assert fetched == ["org.example.deep:thing_2.13:1.2.3"]
    assert [entry.name for entry in (tmp_path / "jars").iterdir()] == ["thing_2.13-1.2.3.jar"]


@pytest.mark.parametrize("damage", [CONTENT[:-1], b"b" + CONTENT[1:]], ids=["cut-off", "one-byte-wrong"])
def test_corrupt_jar_is_fetched_again(damage: bytes, repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / JAR.filename).write_bytes(damage)

    [path] = resolve_jars(folder)

    assert path.read_bytes() == CONTENT


def test_repository_with_another_checksum_is_rejected(repository: Path, tmp_path: Path) -> None:
    repository.write_bytes(b"b" + CONTENT[1:])

    with pytest.raises(JarsError, match=r"another SHA-256; .*Maven is not installed"):
        resolve_jars(tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []


def test_maven_is_the_second_way(repository: Path, tmp_path: Path) -> None:
    repository.unlink()
    fake_maven(
        tmp_path / "bin",
        'for a in "$@"; do\n'
        'case $a in -DoutputDirectory=*) d=${a#*=} ;; -Dartifact=*) echo "$a" >>"$0.log" ;; esac; done\n'
        f"printf '{CONTENT.decode()}' >\"$d/{JAR.filename}\"",
    )

    [path] = resolve_jars(tmp_path / "jars")

    assert path.read_bytes() == CONTENT
    assert (tmp_path / "bin/mvn.log").read_text() == "-Dartifact=org.example.deep:thing_2.13:1.2.3\n"


def test_failed_download_error_has_the_attempts_and_the_remedy(repository: Path, tmp_path: Path) -> None:
    repository.unlink()
    fake_maven(tmp_path / "bin", "exit 1")

    with pytest.raises(JarsError) as raised:
        resolve_jars(tmp_path / "jars")
    message = str(raised.value)
    assert "404" in message
    assert "mvn" in message
    assert f"put {JAR.filename} into {tmp_path / 'jars'}" in message
    assert JAR.sha256 in message


def test_maven_without_a_result_is_a_failure(repository: Path, tmp_path: Path) -> None:
    repository.unlink()
    fake_maven(tmp_path / "bin", "exit 0")

    with pytest.raises(JarsError, match="brought no file"):
        resolve_jars(tmp_path / "jars")


@pytest.mark.parametrize(
    ("mirror_of", "is_used"),
    [
        pytest.param("central", True, id="central"),
        pytest.param("*", True, id="everything"),
        pytest.param("external:*", True, id="everything-external"),
        pytest.param("other, central", True, id="in-a-list"),
        pytest.param("*,!central", False, id="everything-but-central"),
        pytest.param("external:http:*", False, id="plain-http-only"),
        pytest.param("other", False, id="another-repository"),
    ],
)
def test_mirror_of_central_in_the_settings_is_used(mirror_of: str, is_used: bool, tmp_path: Path) -> None:
    settings = tmp_path / "settings.xml"
    settings.write_text(mirror(mirror_of, "https://mirror.example/maven/"))

    assert repository_url(settings) == ("https://mirror.example/maven" if is_used else MAVEN_CENTRAL)


@pytest.mark.parametrize(
    "text", [None, "", "<settings>", "<settings/>"], ids=["none", "empty", "cut-off", "no-mirrors"]
)
def test_unreadable_settings_select_maven_central(text: str | None, tmp_path: Path) -> None:
    settings = tmp_path / "settings.xml"
    if text is not None:
        settings.write_text(text)

    assert repository_url(settings) == MAVEN_CENTRAL


def test_pinned_jars_are_the_connector_and_delta_for_one_spark_and_scala() -> None:
    pinned = {jar.artifact: jar for jar in pinned_jars()}

    assert set(pinned) == {
        "spark-sql-kafka-0-10_2.13",
        "spark-token-provider-kafka-0-10_2.13",
        "kafka-clients",
        "commons-pool2",
        "delta-spark_4.2_2.13",
        "delta-storage",
    }
    assert all(len(jar.sha256) == 64 and jar.size_bytes > 0 for jar in pinned.values())
    assert pinned["delta-spark_4.2_2.13"].version == pinned["delta-storage"].version
