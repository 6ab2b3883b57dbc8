"""``cordoned.log.dirs``: directories without new replicas, unless an assignment names the broker (KIP-1066)."""

from collections.abc import Sequence

from ottla.config.key import InvalidConfigError

EVERY_DIRECTORY = "*"


def cordoned_directories(entries: Sequence[str], log_dirs: Sequence[str]) -> tuple[str, ...]:
    """Return which of ``log_dirs`` the value of ``cordoned.log.dirs`` names.

    Raises:
        InvalidConfigError: with Kafka's message: an entry that is none of them, or ``*`` together with others.
    """
    if EVERY_DIRECTORY in entries:
        if len(entries) > 1:
            raise InvalidConfigError("When cordoned.log.dirs is set to *, it must not contain other values")
        return tuple(log_dirs)
    missing = [entry for entry in entries if entry not in log_dirs]
    if missing:
        raise InvalidConfigError(
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : "
            + ", ".join(missing)
        )
    return tuple(entries)
