"""The kernel's state of a thread of this process (Linux)."""

from pathlib import Path
from typing import Final

WAITS_FOR_DISK: Final = "D"


def read_thread_state(native_thread: int) -> str:
    """Return the state as /proc has it: D waits for a disk or another device, R runs or waits for a core, S sleeps.

    Empty on other systems than Linux, and for a thread that has ended. Source: proc_pid_stat(5).
    """
    try:
        status = Path(f"/proc/self/task/{native_thread}/stat").read_text()
    except OSError:
        return ""
    return status.rpartition(") ")[2][:1]
