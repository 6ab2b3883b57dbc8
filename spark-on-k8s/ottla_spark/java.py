"""Java 17 or newer, which Spark needs and pip cannot install: find it, or report how to install it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

VERSION_MIN = 17
# Newest long-term release first; a distribution usually packages one or two of them.
_DEBIAN_PACKAGES = ("openjdk-21-jre-headless", "openjdk-17-jre-headless")
_INSTALL_SECONDS_MAX = 600.0


class JavaMissingError(RuntimeError):
    """No Java that Spark can use; the message has the package to install."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its executable, and its feature version (17, 21, ...)."""

    executable: Path
    version: int


def find_java() -> Java | None:
    """Return the Java that Spark would start (``$JAVA_HOME/bin/java``, else ``java`` on PATH), whatever its version."""
    java_home = os.environ.get("JAVA_HOME")
    executable = str(Path(java_home, "bin", "java")) if java_home else shutil.which("java")
    if executable is None:
        return None
    try:
        result = subprocess.run([executable, "-version"], check=True, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    version = parse_version(result.stderr + result.stdout)
    return Java(Path(executable), version) if version else None


def parse_version(text: str) -> int | None:
    """Return the feature version in the output of ``java -version``: 17 for ``"17.0.15"``, 8 for ``"1.8.0_442"``."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def ensure_java(*, install: bool = False, on_progress: Callable[[str], None] | None = None) -> Java:
    """Return a Java of version 17 or newer.

    Args:
        install: when none is found, install one with apt if that is possible here (as root, on Debian or Ubuntu).
        on_progress: called with the name of the package that is being installed.

    Raises:
        JavaMissingError: none is found or could be installed; the message has the found version and a command.
    """
    java = find_java()
    if java and java.version >= VERSION_MIN:
        return java
    if install and _can_install():
        _install_with_apt(on_progress)
        java = find_java()
        if java and java.version >= VERSION_MIN:
            return java
    if java:
        found = f"{java.executable} is Java {java.version}"
    elif java_home := os.environ.get("JAVA_HOME"):
        found = f"JAVA_HOME is {java_home}, where no bin/java runs"
    else:
        found = "there is no java on PATH"
    raise JavaMissingError(f"Spark needs Java {VERSION_MIN} or newer; {found}. Install it with: {_advice()}")


def _can_install() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def _install_with_apt(on_progress: Callable[[str], None] | None) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    _apt(["apt-get", "-q", "update"], environment)
    for package in _DEBIAN_PACKAGES:
        known = subprocess.run(["apt-cache", "show", package], check=False, capture_output=True)
        if known.returncode == 0:
            if on_progress:
                on_progress(package)
            _apt(["apt-get", "-q", "install", "-y", "--no-install-recommends", package], environment)
            return


def _apt(command: list[str], environment: dict[str, str]) -> None:
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment, timeout=_INSTALL_SECONDS_MAX
        )
    except subprocess.CalledProcessError as failure:
        last_words = failure.stderr.strip().splitlines()[-1:] or [f"exit status {failure.returncode}"]
        raise _not_installed(command, last_words[0]) from failure
    except subprocess.TimeoutExpired as failure:
        raise _not_installed(command, f"no end within {failure.timeout:g} s") from failure


def _not_installed(command: list[str], reason: str) -> JavaMissingError:
    return JavaMissingError(
        f"could not install Java: {' '.join(command)}: {reason}. Install Java {VERSION_MIN} or newer by hand"
    )


def _advice() -> str:
    if platform.system() == "Darwin":
        return "brew install openjdk@21, then export JAVA_HOME=$(brew --prefix openjdk@21)"
    for tool, command in {
        "apt-get": "sudo apt-get install -y openjdk-17-jre-headless",
        "dnf": "sudo dnf install -y java-21-openjdk-headless",
        "zypper": "sudo zypper install -y java-21-openjdk-headless",
        "pacman": "sudo pacman -S jre21-openjdk-headless",
        "apk": "apk add openjdk21-jre-headless",
    }.items():
        if shutil.which(tool):
            return command
    return "your system's package manager, or from https://adoptium.net"
