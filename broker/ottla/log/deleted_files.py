"""Deleted files of a log, which stay on disk for a while for reads in progress.

A file is renamed to ``*.deleted`` at once and removed ``file.delete.delay.ms`` later. Files that a crash leaves behind
are removed when the log is opened again.

Source: LocalLog.deleteSegmentFiles of Kafka.
"""

from ottla.errors import StorageError
from ottla.log.file_names import DELETED_SUFFIX
from ottla.ports import Disk


def remove_file(disk: Disk, path: str) -> bool:
    """Remove a file at once; return whether it was there.

    Raises:
        StorageError: an I/O error.
    """
    try:
        disk.remove(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {error}") from error
    return True


class DeletedFiles:
    """See the module."""

    __slots__ = ("_disk", "_waiting")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # Most logs never have any: an empty list is small.
        self._waiting: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def mark(self, path: str, *, due_ms: int) -> None:
        """Rename a file now and remove it at ``due_ms`` of the monotonic clock; a missing file is not an error.

        Raises:
            StorageError: an I/O error.
        """
        marked = path + DELETED_SUFFIX
        try:
            self._disk.rename(path, marked)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"cannot rename {path} to {marked}: {error}") from error
        self._waiting.append((due_ms, marked))

    def remove_due(self, now_ms: int) -> int:
        """Remove the files whose delay has passed; return how many.

        Raises:
            StorageError: an I/O error.
        """
        # Not the first ones alone: a file.delete.delay.ms that was lowered must not wait for a longer one before it.
        due = [path for due_ms, path in self._waiting if due_ms <= now_ms]
        self._waiting = [each for each in self._waiting if each[0] > now_ms]
        return sum(remove_file(self._disk, path) for path in due)

    def move_to(self, source: str, target: str) -> None:
        """Follow the files to the directory ``target``, into which ``source`` has been renamed."""
        self._waiting = [(due_ms, path.replace(source, target, 1)) for due_ms, path in self._waiting]
