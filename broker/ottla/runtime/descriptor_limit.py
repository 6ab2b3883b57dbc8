"""Limit of file descriptors (sockets and files) of this process, and the size of the kernel's table for them."""

import fcntl
import logging
import os
import resource
from typing import Final

logger = logging.getLogger(__name__)

TABLE_SIZE: Final = 16 * 1024
"""Eight bytes each, in the kernel's memory."""


def lift_descriptor_limit() -> int:
    """Raise the soft limit to the hard limit, which the administrator chose, as a JVM does; return the limit.

    The usual soft limit of 1,024 is meant for programs that use `select`, and is too low for a broker's clients.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # macOS reports an infinite limit, but does not accept it
        logger.debug("the limit of open files stays %d: %s", soft, error)
        return soft
    return hard


def presize_descriptor_table(limit: int) -> None:
    """Have the kernel allocate this process's descriptor table for `TABLE_SIZE` descriptors, or ``limit``, at once.

    Call it before threads are started. With threads, Linux waits for every core whenever it doubles the table, which
    would block the loop for tens of milliseconds just when many clients connect.
    """
    highest = (TABLE_SIZE if limit < 0 else min(TABLE_SIZE, limit)) - 1
    descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.close(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, highest))
    except OSError as error:
        logger.debug("the descriptor table was not pre-sized and grows on demand: %s", error)
    finally:
        os.close(descriptor)
