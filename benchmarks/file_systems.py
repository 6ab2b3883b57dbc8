"""File systems in files, which can be frozen: every write to one then waits. Linux, as root."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOOLS = ("mkfs.ext4", "mount", "umount", "fsfreeze")
SIZE_BYTES = 1024 * 1024 * 1024
"""At most; the file has holes until it is written."""


def missing() -> str | None:
    """Return what is missing to mount and freeze a file system; None if nothing is."""
    if os.geteuid() != 0:
        return "root"
    return ", ".join(tool for tool in TOOLS if shutil.which(tool) is None) or None


@contextmanager
def mounted(directory: Path) -> Iterator[None]:
    """Put what is in ``directory`` on a file system of its own.

    Raises:
        OSError: it cannot be mounted, for example because the kernel has no loop devices.
    """
    contents, image = directory.with_suffix(".contents"), directory.with_suffix(".image")
    directory.rename(contents)
    directory.mkdir()
    image.touch()
    os.truncate(image, SIZE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    command = ["mount", "-o", "loop", str(image), str(directory)]
    mount = subprocess.run(command, check=False, capture_output=True, text=True)
    if mount.returncode != 0:
        raise OSError(f"{directory} cannot be mounted: {mount.stderr.strip()}")
    try:
        # JVM Kafka does not start with a directory in its log.dirs that is no partition's.
        (directory / "lost+found").rmdir()
        shutil.copytree(contents, directory, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@contextmanager
def frozen(directory: Path) -> Iterator[None]:
    """Let every write to the file system wait."""
    subprocess.run(["fsfreeze", "--freeze", str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(directory)], check=True)
