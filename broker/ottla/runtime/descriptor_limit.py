"""How many sockets and files the process may have open."""

import logging
import resource

logger = logging.getLogger(__name__)


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
