"""Cores of the host for the processes of a benchmark, and their priorities.

The measured processes have the highest priority, then the host's other load, then attackers.

A process has a scheduling policy and a niceness, but Linux weighs them within its session only: sessions share the
cores equally, for any number of processes, until they get a niceness of their own (``/proc/PID/autogroup``, sched(7)).
"""

import contextlib
import os
from pathlib import Path
from typing import Final

_FIRST: Final = -20
_LAST: Final = 19


def put_first(pid: int) -> None:
    """Give the session of process ``pid`` priority over any other load of the host (Linux, as root).

    Raises:
        OSError: the system does not allow it, or weighs no sessions.
    """
    _autogroup(pid).write_text(str(_FIRST))


def wake_at_once() -> None:
    """Schedule this process before any other as soon as it is woken (SCHED_RR), if the system allows it.

    Without that Linux now and then leaves the core to attackers until its clock ticks, 4 ms at 250 Hz, although they
    are idle work: such waits, not the node's, were nearly all of a busy node's tail latency.
    """
    if hasattr(os, "SCHED_RR"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))


def put_last() -> None:
    """Run this process as idle work, in a session of its own that yields to its parent's.

    If its parent's session was put first, other load of the host has the same weight as this process.
    """
    if not hasattr(os, "SCHED_IDLE"):
        return
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        niceness = int(_autogroup(os.getpid()).read_text().split()[-1])
        os.setsid()
        _autogroup(os.getpid()).write_text(str(min(_LAST, niceness - _FIRST)))


def shared_out() -> tuple[set[int], set[int]]:
    """Return the core of a node, and those of all other processes; all of them for both on a host with one core."""
    there = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return (set(there[:1]), set(there[1:])) if len(there) > 1 else (set(there), set(there))


def keep_to(these: set[int]) -> None:
    """Run this process, and those it starts from now on, on ``these`` cores only, if the system supports it."""
    if these and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, these)


def _autogroup(pid: int) -> Path:
    return Path(f"/proc/{pid}/autogroup")
