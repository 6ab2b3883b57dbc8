"""Who gets which core of the machine, and who goes first there.

First comes what is measured, then the machine's other work, then crowds of attackers.

A process has a scheduling policy and a niceness, but Linux weighs them within its session only: sessions share the
cores like equals, whatever runs in them, until they get a niceness of their own (``/proc/PID/autogroup``, sched(7)).
"""

import contextlib
import os
from pathlib import Path
from typing import Final

_FIRST: Final = -20
_LAST: Final = 19


def put_first(pid: int) -> None:
    """Give the session of process ``pid`` its cores before any other work of the machine (Linux, as root).

    Raises:
        OSError: the system does not allow it, or weighs no sessions.
    """
    _autogroup(pid).write_text(str(_FIRST))


def wake_at_once() -> None:
    """Have this process take its core from any other work as soon as it is woken (SCHED_RR), where the system lets it.

    Without that Linux now and then leaves the core to a crowd of attackers until its clock ticks, 4 ms at 250 Hz, idle
    work though they are: such waits, not the node's, were nearly all of a busy node's tail.
    """
    if hasattr(os, "SCHED_RR"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))


def put_last() -> None:
    """Have this process run where those that it was started by leave a core, as idle work in a session that yields.

    Where they were put first, other work of the machine is weighed like this one.
    """
    if not hasattr(os, "SCHED_IDLE"):
        return
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        niceness = int(_autogroup(os.getpid()).read_text().split()[-1])
        os.setsid()
        _autogroup(os.getpid()).write_text(str(min(_LAST, niceness - _FIRST)))


def shared_out() -> tuple[set[int], set[int]]:
    """Return the core of a node, and those of everybody else; all of them for both where there is only one."""
    there = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return (set(there[:1]), set(there[1:])) if len(there) > 1 else (set(there), set(there))


def keep_to(these: set[int]) -> None:
    """Have this process, and what it starts from now on, run on ``these`` cores only, where the system can do so."""
    if these and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, these)


def _autogroup(pid: int) -> Path:
    return Path(f"/proc/{pid}/autogroup")
