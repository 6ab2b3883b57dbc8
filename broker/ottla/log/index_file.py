"""The file of an offset or time index: fixed-size entries, of which the newest are only in memory.

Source: AbstractIndex of Kafka.
"""

from ottla.errors import StorageError, disk_error
from ottla.ports import Disk, File


class IndexFile:
    """Reads, extends and rewrites one index file.

    ``saved_count`` is how many leading entries the file holds as they are in memory; -1 when it must be rewritten.
    ``is_whole`` is whether, when last read or written, the file existed and its size was a multiple of an entry's.
    """

    __slots__ = ("disk", "entry_size_bytes", "is_whole", "path", "saved_count")

    def __init__(self, disk: Disk, path: str, entry_size_bytes: int) -> None:
        self.disk = disk
        self.path = path
        self.entry_size_bytes = entry_size_bytes
        self.saved_count = 0
        self.is_whole = True

    def read_all(self) -> bytes:
        """Return every whole entry; nothing when there is no file."""
        try:
            file = self.disk.open(self.path, read_only=True)
        except FileNotFoundError:
            self.is_whole = False
            self.saved_count = -1
            return b""
        except OSError as error:
            raise disk_error(f"cannot open {self.path}", error) from error
        try:
            count, torn_bytes = divmod(file.size_bytes(), self.entry_size_bytes)
            data = file.pread(count * self.entry_size_bytes, 0)
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error}") from error
        finally:
            file.close()
        self.is_whole = not torn_bytes
        self.saved_count = count
        return data

    def read_last(self) -> bytes | None:
        """Return the last whole entry without reading the others; None when there is none."""
        try:
            file = self.disk.open(self.path, read_only=True)
        except FileNotFoundError:
            self.is_whole = False
            return None
        except OSError as error:
            raise disk_error(f"cannot open {self.path}", error) from error
        try:
            count, torn_bytes = divmod(file.size_bytes(), self.entry_size_bytes)
            self.is_whole = not torn_bytes
            if count == 0:
                return None
            return file.pread(self.entry_size_bytes, (count - 1) * self.entry_size_bytes)
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error}") from error
        finally:
            file.close()

    def write(self, new_entries: bytes) -> None:
        """Write ``new_entries`` after the saved ones, creating the file when it is missing."""
        size_bytes = self.entry_size_bytes
        file = self.open()
        self.is_whole = True
        try:
            if self.saved_count < 0:
                # After a crash the index that recovery builds mostly equals the file: reading is cheaper than a write.
                held_bytes = file.size_bytes()
                if held_bytes == len(new_entries) and file.pread(held_bytes, 0) == new_entries:
                    self.saved_count = held_bytes // size_bytes
                    return
                file.truncate(0)
                self.saved_count = 0
            if new_entries:
                file.pwritev([new_entries], self.saved_count * size_bytes)
                self.saved_count += len(new_entries) // size_bytes
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error}") from error
        finally:
            file.close()

    def open(self) -> File:
        """Return the file, open for writing; create it when it is missing."""
        try:
            return self.disk.open(self.path, create=True)
        except OSError as error:
            raise disk_error(f"cannot open {self.path}", error) from error
