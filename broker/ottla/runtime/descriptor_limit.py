"""How many sockets and files the process may have open, and room for them."""

import fcntl
import logging
import os
import resource
from typing import Final

logger = logging.getLogger(__name__)

TABLE_SIZE: Final = 16 * 1024
"""Eight bytes each, in the system's memory."""


def lift_descriptor_limit() -> int:
    """Raise the soft limit to the hard one, which the system's administrator chose, as a JVM does; return the limit.

    The usual soft limit of 1,024 is meant for programs that use `select`, and would keep clients out.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # macOS names no limit and takes none
        logger.debug("the limit of open files stays %d: %s", soft, error)
        return soft
    return hard


def make_descriptor_table(limit: int) -> None:
    """Have the system's table of this process's descriptors made for `TABLE_SIZE` of them, or ``limit``, at once.

    To be called before there are threads. With threads, Linux waits for every core whenever the table has to double,
    and the one who waits would be the loop, for tens of milliseconds, in the moment when a crowd connects.
    """
    highest = (TABLE_SIZE if limit < 0 else min(TABLE_SIZE, limit)) - 1
    descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.close(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, highest))
    except OSError as error:
        logger.debug("the table of descriptors grows as it has to: %s", error)
    finally:
        os.close(descriptor)
