"""The operator's own settings, from ``OTTLA_OPERATOR_*`` in its environment; the chart sets them."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ottla_operator.errors import OperatorError

_PREFIX = "OTTLA_OPERATOR_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How this operator runs."""

    default_image: str = "ottla/broker:0.1.0"
    """The broker image of a Cluster that names none."""

    watch_namespaces: tuple[str, ...] = ()
    """Where it looks for objects; empty: everywhere, which needs a ClusterRole."""

    http_host: str = "0.0.0.0"  # noqa: S104 - the pod's own network
    http_port: int = 8080
    """/healthz, /readyz and /metrics."""

    workers: int = 4
    """Objects reconciled at the same time; one at a time per cluster."""

    resync_s: float = 300.0
    """Every object is looked at again after this many seconds: repairs what no event told of, and frozen watches."""

    stall_s: float = 120.0
    """The liveness probe fails when a key has been waiting for a worker for longer than this."""

    log_level: str = "info"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings.

        Raises:
            OperatorError: a value cannot be used; the message names its variable.
        """
        values: dict[str, object] = {}
        for name, read in _READERS.items():
            variable = _PREFIX + name.upper()
            if variable not in environment:
                continue
            try:
                values[name] = read(environment[variable])
            except ValueError as error:
                raise OperatorError(f"{variable} is {environment[variable]!r}: {error}") from error
        return replace(cls(), **values)  # type: ignore[arg-type]  # each reader gives its field's type


def _names(text: str) -> tuple[str, ...]:
    return tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError("it must be a positive number")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("it must be at least 1")
    return number


def _log_level(text: str) -> str:
    if text.lower() not in ("debug", "info", "warning", "error"):
        raise ValueError("it must be debug, info, warning or error")
    return text.lower()


_READERS: Mapping[str, Callable[[str], object]] = {
    "default_image": str,
    "watch_namespaces": _names,
    "http_host": str,
    "http_port": _count,
    "workers": _count,
    "resync_s": _positive,
    "stall_s": _positive,
    "log_level": _log_level,
}
