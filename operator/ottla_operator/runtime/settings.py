"""The operator's own settings, from ``OTTLA_OPERATOR_*`` in its environment; the chart sets them."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ottla_operator.errors import OperatorError
from ottla_operator.model.objects.network_policy import OperatorPods

_PREFIX = "OTTLA_OPERATOR_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of this operator."""

    default_image: str = "ottla/broker:0.1.0"
    """The broker image of a Cluster that names none."""

    watch_namespaces: tuple[str, ...] = ()
    """The namespaces that it watches; empty: all, which needs a ClusterRole."""

    http_host: str = "0.0.0.0"  # noqa: S104 - the pod's own network
    http_port: int = 8080
    """/healthz, /readyz and /metrics."""

    workers: int = 4
    """Objects reconciled at the same time; one at a time per cluster."""

    resync_s: float = 300.0
    """The interval in which every object is reconciled without an event: covers lost events and frozen watches."""

    stall_s: float = 120.0
    """The liveness probe fails after no worker has taken a key for longer than this, although one was waiting."""

    watch_stall_s: float = 300.0
    """It also fails after a watch gave no sign of life for so long; see `watches.WATCH_S`."""

    lease_namespace: str = ""
    """The namespace of the Lease for the leader election; empty: this is the only operator, without a Lease."""

    lease_name: str = "ottla-operator"

    pod_name: str = ""
    """Its identity in the Lease; the host name when empty."""

    own_namespace: str = ""
    """The namespace of its own pods, which have the labels of ``own_labels``: network policies admit these."""

    own_labels: tuple[tuple[str, str], ...] = ()

    log_level: str = "info"

    @property
    def name(self) -> str:
        """The name of all replicas of this operator, as ``namespace/lease``; empty without a Lease."""
        return f"{self.lease_namespace}/{self.lease_name}" if self.lease_namespace else ""

    @property
    def pods(self) -> OperatorPods | None:
        """Namespace and labels of its own pods; None if unknown, as outside Kubernetes."""
        if not self.own_namespace or not self.own_labels:
            return None
        return OperatorPods(namespace=self.own_namespace, labels=dict(self.own_labels))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings.

        Raises:
            OperatorError: a value is invalid; the message names its variable.
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


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    """Read ``name=value,name=value``."""
    found = [entry.strip().partition("=") for entry in text.split(",") if entry.strip()]
    if not all(name and is_pair for name, is_pair, _ in found):
        raise ValueError("it must be name=value,name=value")
    return tuple((name, value) for name, _, value in found)


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
    "watch_stall_s": _positive,
    "lease_namespace": str,
    "lease_name": str,
    "pod_name": str,
    "own_namespace": str,
    "own_labels": _labels,
    "log_level": _log_level,
}
