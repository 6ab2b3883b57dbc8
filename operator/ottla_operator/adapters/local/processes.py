"""Child processes: those that outlive the command which started them (spawn, identify, stop), and `run`."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_POLL_S = 0.02
# In /proc/PID/stat, counted from the field behind the program's name (proc(5)).
_STATE = 0
_START_TIME = 19
_ENDED = frozenset({"Z", "X", "x"})


def spawn(arguments: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> int:
    """Start a program in a session of its own, its output appended to ``log``; return its process id."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        arguments[0],
        list(arguments),
        dict(os.environ if environment is None else environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


async def run(arguments: Sequence[str]) -> tuple[int, str]:
    """Run a program to its end; return its exit code and everything that it printed.

    It does not outlive its caller: when the call is cancelled, the program is killed.
    """
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        # The loop closes its pipe, and may be about to close itself.
        await process.communicate()
        raise
    assert process.returncode is not None, "its output has ended, and so has it"
    return process.returncode, output.decode("utf-8", "replace")


def birth(pid: int) -> str:
    """Return a value that no later process with the same id has; empty on systems without one."""
    fields = _stat(pid)
    return fields[_START_TIME] if fields else ""


def is_running(pid: int, born: str = "") -> bool:
    """Tell whether the process still runs; ``born`` is what `birth` returned for it.

    A zombie does not: it has ended, and its parent, which need not be this process, has not collected its exit status.
    """
    _reap(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return not born
    fields = _stat(pid)
    if not fields:
        return not born
    if fields[_STATE] in _ENDED:
        _reap(pid)  # it has ended since it was looked for above
        return False
    return born in ("", fields[_START_TIME])


async def stop(pid: int, born: str, *, grace_s: float) -> bool:
    """Send SIGTERM to the process and wait for its end; kill it after ``grace_s`` seconds.

    Returns:
        True if it ended by itself.
    """
    if not is_running(pid, born):
        return True
    with suppress(ProcessLookupError):  # it has ended just now
        os.kill(pid, signal.SIGTERM)
    if await _ended(pid, born, grace_s):
        return True
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    await _ended(pid, born, grace_s)
    return False


async def _ended(pid: int, born: str, timeout_s: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while is_running(pid, born):
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` behind the program's name; empty without such a file."""
    if not sys.platform.startswith("linux"):
        return []
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _reap(pid: int) -> None:
    """Collect the exit status of a child process, which would otherwise look alive as a zombie."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
