"""Errors of the operator, by who has to act next.

- `ManifestError`: the user: the manifest is rejected before anything is done.
- `HostError`: the user or administrator: the place where nodes run rejected a step; waiting does not help.
- `BrokerUnreachableError`: no broker responds at the bootstrap address (yet): retry.
- `QuorumLostError`: a broker responds, but the metadata quorum has no leader (yet): retry.
- `ApiError`: an error response of the Kubernetes API server, with its HTTP status.
- `CredentialsError`: the administrator: this process has no credentials for the Kubernetes API server.
- `LeadershipLostError`: another operator leads; this one must write nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.errors import OttlaError


class OperatorError(OttlaError):
    """Base of every error of the operator."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong with one field of a manifest."""

    field: str
    """Dotted path from the root, such as ``spec.partitions``; empty for the whole document."""

    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class ManifestError(OperatorError):
    """A manifest that fails validation on every host; ``violations`` has at least one entry."""

    def __init__(self, subject: str, violations: tuple[Violation, ...]) -> None:
        super().__init__(f"{subject} is rejected: " + "; ".join(str(violation) for violation in violations))
        self.subject = subject
        self.violations = violations


class HostError(OperatorError):
    """The host cannot do a step; ``reason`` is CamelCase, for a condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class BrokerUnreachableError(OperatorError):
    """No broker responded; the message names the address and the last failure."""


class QuorumLostError(BrokerUnreachableError):
    """A broker responded, but no leader of the metadata quorum did."""


class CredentialsError(OperatorError):
    """There are no credentials for the Kubernetes API server; the message has the places that were searched."""


NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause of a rejected creation, which the client uses as its reason: the API server's own reason is Forbidden."""


class ApiError(OperatorError):
    """The API server responded with an error.

    ``status`` is the HTTP status; ``reason`` the API's name for it, such as ``Conflict``; ``message`` the server's own;
    ``retry_after_s`` the delay that the server requests before a retry, None without one.
    """

    def __init__(self, status: int, reason: str, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> Mapping[str, str]:
        """The header that the official client's retries read."""
        return {} if self.retry_after_s is None else {"Retry-After": f"{self.retry_after_s:.0f}"}

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_expired(self) -> bool:
        """Tell whether the requested page or resource version is too old: list again."""
        return self.status == 410

    @property
    def is_conflict(self) -> bool:
        return self.status == 409

    @property
    def is_terminating(self) -> bool:
        """Tell whether a creation was rejected because its namespace is being deleted."""
        return self.reason == NAMESPACE_TERMINATING


class LeadershipLostError(OperatorError, OSError):
    """This operator does not lead; the operator that does will take over the pending change."""
