"""Fetch the connector's and Delta's jars by fixed coordinates into a folder, once, each checked against its SHA-256.

Ways, in this order: a plain HTTPS GET from Maven Central or from the mirror of it that ``~/.m2/settings.xml`` names
(the usual proxy and certificate variables are honoured), then ``mvn dependency:copy`` where Maven is installed.

Usage: ``python -m ottla_spark.jars [FOLDER]`` (an image build calls it with ``$SPARK_HOME/jars``)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
_COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_GET_SECONDS_MAX = 60.0
_MAVEN_SECONDS_MAX = 300.0


class JarsError(RuntimeError):
    """A jar could not be fetched, or is not the one that this version was tested with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """Maven coordinates, and the checksum of the file."""

    group: str
    artifact: str
    version: str
    size_bytes: int
    sha256: str

    @property
    def filename(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.filename}"

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def pinned_jars() -> list[Jar]:
    """Return the coordinates and checksums of ``jars.toml``."""
    text = files("ottla_spark").joinpath("jars.toml").read_text(encoding="utf-8")
    return [Jar(**entry) for entry in tomllib.loads(text)["jar"]]


def default_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/ottla/jars`` (``~/.cache/ottla/jars``)."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home) / "ottla" / "jars"


def resolve_jars(folder: Path | None = None, on_progress: Callable[[str], None] | None = None) -> list[Path]:
    """Return the paths of all pinned jars, fetching those that ``folder`` lacks.

    Args:
        folder: where they are kept; `default_folder` unless given. Other files in it are left alone.
        on_progress: called with the coordinates of each jar before it is fetched.

    Raises:
        JarsError: no source has the jar, or its checksum differs; the message has the attempts and the remedy.
    """
    folder = folder or default_folder()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for jar in pinned_jars():
        path = folder / jar.filename
        if not _is_whole(path, jar):
            if on_progress:
                on_progress(jar.coordinates)
            _fetch(jar, path)
        paths.append(path)
    return paths


def repository_url(settings: Path | None = None) -> str:
    """Return Maven Central's URL, or that of the mirror for it in Maven's user settings."""
    settings = settings or Path.home() / ".m2" / "settings.xml"
    try:
        root = ElementTree.parse(settings).getroot()  # noqa: S314 - the user's own file
    except (OSError, ElementTree.ParseError):
        return MAVEN_CENTRAL
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    for mirror in root.iter("mirror"):
        mirror_of = [part.strip() for part in (mirror.findtext("mirrorOf") or "").split(",")]
        stands_for_central = "!central" not in mirror_of and {"central", "*", "external:*"} & set(mirror_of)
        if stands_for_central and (url := (mirror.findtext("url") or "").strip()):
            return url.rstrip("/")
    return MAVEN_CENTRAL


def _is_whole(path: Path, jar: Jar) -> bool:
    if not path.is_file() or path.stat().st_size != jar.size_bytes:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == jar.sha256


def _fetch(jar: Jar, path: Path) -> None:
    failures = []
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as scratch:
        for way in (_get, _copy_with_maven):
            arrived = Path(scratch) / jar.filename
            try:
                way(jar, arrived)
            except (OSError, subprocess.SubprocessError, JarsError) as failure:
                failures.append(str(failure))
                continue
            if _is_whole(arrived, jar):
                # Renamed, so that an interrupted run never leaves half a jar under the final name.
                arrived.replace(path)
                return
            failures.append(f"{way.__name__.strip('_')}: {arrived.stat().st_size} bytes with another SHA-256")
            arrived.unlink()
    raise JarsError(
        f"could not fetch {jar.coordinates}: {'; '.join(failures)}. Check the network (https_proxy is honoured), or "
        f"name a mirror of Central in ~/.m2/settings.xml, "
        f"or put {jar.filename} into {path.parent}; its SHA-256 is {jar.sha256}"
    )


def _get(jar: Jar, path: Path) -> None:
    url = f"{repository_url()}/{jar.path}"
    if not url.startswith(("https://", "http://")):
        raise JarsError(f"{url}: not an HTTP address")
    try:
        with urllib.request.urlopen(url, timeout=_GET_SECONDS_MAX) as response, path.open("wb") as out:  # noqa: S310
            shutil.copyfileobj(response, out)
    except OSError as failure:
        raise JarsError(f"GET {url}: {failure}") from failure


def _copy_with_maven(jar: Jar, path: Path) -> None:
    if (maven := shutil.which("mvn")) is None:
        raise JarsError("Maven is not installed, so mvn dependency:copy was not tried")
    subprocess.run(
        [maven, "-q", "-B", _COPY_GOAL, f"-Dartifact={jar.coordinates}", f"-DoutputDirectory={path.parent}"],
        check=True,
        cwd=path.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_MAVEN_SECONDS_MAX,
    )
    if not path.is_file():
        raise JarsError(f"{maven} dependency:copy ended well, but brought no file")


def main(arguments: list[str] | None = None) -> int:
    """Fetch the jars into the folder named first, print their paths; return 0, or 1 with a message on stderr."""
    arguments = sys.argv[1:] if arguments is None else arguments
    folder = Path(arguments[0]) if arguments else None
    try:
        paths = resolve_jars(folder, on_progress=lambda jar: print(f"fetching {jar}", file=sys.stderr))
    except JarsError as failure:
        sys.stderr.write(f"error: {failure}\n")
        return 1
    sys.stdout.writelines(f"{path}\n" for path in paths)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
