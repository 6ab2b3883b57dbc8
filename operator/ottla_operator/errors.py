"""What can go wrong around a manifest, and whose turn it is next.

- `ManifestError`: the user's: the manifest is refused before anything is done.
- `HostError`: the place where nodes run refused; waiting will not help.
- `BrokerUnreachableError`: nobody answers at the bootstrap address (yet): try again.
- `QuorumLostError`: somebody answers there, and nobody leads the metadata quorum (yet): try again.
- `ApiError`: the Kubernetes API server's answer, with its HTTP status.
- `LeadershipLostError`: another operator leads; this one must write nothing.
"""

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
    """A manifest that no host would take; ``violations`` has at least one entry."""

    def __init__(self, subject: str, violations: tuple[Violation, ...]) -> None:
        super().__init__(f"{subject} is refused: " + "; ".join(str(violation) for violation in violations))
        self.subject = subject
        self.violations = violations


class HostError(OperatorError):
    """The host cannot do a step; ``reason`` is CamelCase, for a condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class BrokerUnreachableError(OperatorError):
    """No broker answered; the message names the address and what was heard."""


class QuorumLostError(BrokerUnreachableError):
    """A broker answered, and no leader of the metadata quorum did."""


NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause of a refusal, which the client makes its reason: the API server's own is Forbidden."""


class ApiError(OperatorError):
    """The API server answered with an error.

    ``status`` is the HTTP status; ``reason`` its word for it, such as ``Conflict``; ``retry_after_s`` how long it asks
    to be left alone, None when it does not.
    """

    def __init__(self, status: int, reason: str, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_expired(self) -> bool:
        """Tell whether a page or a version that was asked for is too old: begin again."""
        return self.status == 410

    @property
    def is_conflict(self) -> bool:
        return self.status == 409

    @property
    def is_terminating(self) -> bool:
        """Tell whether a creation was refused because its namespace is going."""
        return self.reason == NAMESPACE_TERMINATING


class LeadershipLostError(OperatorError, OSError):
    """This operator does not lead; whoever does will do what this one was about to."""
