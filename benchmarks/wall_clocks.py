"""Wall clocks that are set back and forth under running processes, each process's own. Linux, with a C compiler."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

COMPILER = "cc"
SOURCE = Path(__file__).with_name("wall_clock.c")
SECOND_NS = 1_000_000_000


def missing() -> str | None:
    """Return what is missing to give a process a clock of its own; None if nothing is."""
    if not sys.platform.startswith("linux"):
        return "Linux"
    return None if shutil.which(COMPILER) else f"a C compiler ({COMPILER})"


class WallClock:
    """A clock in ``directory``, which starts with the machine's time."""

    def __init__(self, directory: Path) -> None:
        self._library = directory / "wall_clock.so"
        self._path = directory / "wall-clock"
        subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", "-o", self._library, SOURCE, "-ldl"], check=True)
        self._path.write_bytes(bytes(8))

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command whose process has this clock."""
        return ["env", f"LD_PRELOAD={self._library}", f"OTTLA_WALL_CLOCK={self._path}", *command]

    def set_ahead(self, seconds: float) -> None:
        """Set the clock ahead of the machine's time, or behind it, at once."""
        with self._path.open("r+b") as file:
            os.pwrite(file.fileno(), int(seconds * SECOND_NS).to_bytes(8, sys.byteorder, signed=True), 0)
