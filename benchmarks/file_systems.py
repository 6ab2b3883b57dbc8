"""File systems in files, which can be frozen, slow, full, read-only or broken. Linux, as root."""

import errno
import fcntl
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

TOOLS = ("mkfs.ext4", "mount", "umount", "sync")
SIZE_BYTES = 1024 * 1024 * 1024
"""At most; the file has holes until it is written."""

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
EXT4_IOC_SHUTDOWN = 0x8004587D
"""Requests of ioctl(2), from linux/fs.h and fs/ext4/ext4.h."""

NO_ARGUMENT = bytes(4)
WITHOUT_JOURNAL = (2).to_bytes(4, "little")
"""Flag of EXT4_IOC_SHUTDOWN: what the journal has not committed is lost, as with a disk that fails."""

THAWED_S = 0.01
BLOCK_BYTES = 4096


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
    contents, image = directory.with_suffix(".contents"), _image(directory)
    directory.rename(contents)
    directory.mkdir()
    image.touch()
    os.truncate(image, SIZE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    _mount(directory)
    try:
        # JVM Kafka does not start with a directory in its log.dirs that is no partition's.
        (directory / "lost+found").rmdir()
        shutil.copytree(contents, directory, dirs_exist_ok=True)
        subprocess.run(["sync", "--file-system", str(directory)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@contextmanager
def mounted_each(directories: Iterable[Path]) -> Iterator[None]:
    """Put each of the directories on a file system of its own; see `mounted`."""
    with ExitStack() as stack:
        for directory in directories:
            stack.enter_context(mounted(directory))
        yield


@contextmanager
def frozen(directory: Path) -> Iterator[None]:
    """Let every write to the file system wait."""
    _ioctl(directory, FIFREEZE, NO_ARGUMENT)
    try:
        yield
    finally:
        _ioctl(directory, FITHAW, NO_ARGUMENT)


@contextmanager
def slow(directory: Path, wait_s: float) -> Iterator[None]:
    """Let every write to the file system wait for up to ``wait_s``: it is frozen, except for `THAWED_S` in between."""
    done = threading.Event()
    thread = threading.Thread(target=_freeze_again_and_again, args=(directory, wait_s, done))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _freeze_again_and_again(directory: Path, wait_s: float, done: threading.Event) -> None:
    while not done.wait(THAWED_S):
        with frozen(directory):
            done.wait(wait_s)


@contextmanager
def full(directory: Path) -> Iterator[None]:
    """Leave no block on the file system: a file without a name has them."""
    filler = os.open(directory, os.O_TMPFILE | os.O_WRONLY)
    try:
        step = SIZE_BYTES
        while step >= BLOCK_BYTES:
            try:
                os.posix_fallocate(filler, os.fstat(filler).st_size, step)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                step //= 2
        yield
    finally:
        os.close(filler)


def make_read_only(directory: Path) -> None:
    """Let the kernel remount the file system read-only, as it does after an error of its metadata; see `repair`."""
    device = _device(directory)
    Path(f"/sys/fs/ext4/{device.name}/trigger_fs_error").write_text("1")


def fail(directory: Path) -> None:
    """Let every read, write and sync of the file system fail with EIO, until `repair`."""
    _ioctl(directory, EXT4_IOC_SHUTDOWN, WITHOUT_JOURNAL)


def repair(directory: Path) -> None:
    """Mount the file system again after `fail` or `make_read_only`; no process may have files of it open.

    A mount namespace that was made meanwhile, by whatever program, keeps the old mount; the same image would be mounted
    with its failed file system. So a copy is mounted: what the disk had stored.
    """
    subprocess.run(["umount", str(directory)], check=True)
    image = _image(directory)
    copy = image.with_suffix(".copy")
    subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)
    copy.replace(image)
    _mount(directory)


def _ioctl(directory: Path, request: int, argument: bytes) -> None:
    opened = os.open(directory, os.O_RDONLY)
    try:
        fcntl.ioctl(opened, request, argument)
    finally:
        os.close(opened)


def _image(directory: Path) -> Path:
    return directory.with_suffix(".image")


def _mount(directory: Path) -> None:
    command = ["mount", "-o", "loop,errors=remount-ro", str(_image(directory)), str(directory)]
    mount = subprocess.run(command, check=False, capture_output=True, text=True)
    if mount.returncode != 0:
        raise OSError(f"{directory} cannot be mounted: {mount.stderr.strip()}")


def _device(directory: Path) -> Path:
    for line in Path("/proc/mounts").read_text().splitlines():
        device, mounted_on = line.split()[:2]
        if mounted_on == str(directory):
            return Path(device)
    raise OSError(errno.ENODEV, "no file system is mounted here", str(directory))
