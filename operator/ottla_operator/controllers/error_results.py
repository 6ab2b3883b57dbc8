"""From an error to the readiness of the object: wait and retry, or report what the user has to change."""

from ottla.errors import ErrorCode, KafkaError
from ottla_operator.errors import NAMESPACE_TERMINATING, ApiError, BrokerUnreachableError, HostError, QuorumLostError
from ottla_operator.model.conditions import QUORUM_LOST, Rejected, Waiting

# Not retriable for a client, but transient for the operator: another client was faster, or is still in progress.
_TRANSIENT_CODES = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)

_REJECTION_STATUSES = frozenset({400, 401, 403, 405, 413, 422})

_UNKNOWN_FIELD = "field not declared in schema"
"""The API server's message, with status 500, about an apply with a field that its CRD lacks."""

EXPECTED_ERRORS = (KafkaError, BrokerUnreachableError, HostError, ApiError, OSError, TimeoutError)
"""Errors that ports may raise; any other is a bug, and says nothing about the object."""


def readiness_of_error(error: Exception, doing: str) -> Waiting | Rejected:
    """Return the readiness after ``error`` while ``doing`` (an infinitive, such as "create topic x")."""
    message = f"could not {doing}: {_describe(error)}"
    match error:
        case KafkaError(code=code):
            reason = camel_case(code.name)
            return (
                Waiting(reason, message) if code.is_retriable or code in _TRANSIENT_CODES else Rejected(reason, message)
            )
        case QuorumLostError():
            return Waiting(QUORUM_LOST, message)
        case BrokerUnreachableError():
            return Waiting("BrokerUnreachable", message)
        case HostError(reason=reason):
            return Rejected(reason, message)
        case ApiError(is_terminating=True):
            # The user has nothing to change: the object will be deleted soon, too.
            return Waiting(NAMESPACE_TERMINATING, message)
        case ApiError() if _UNKNOWN_FIELD in str(error):
            return Rejected("Invalid", message)
        case ApiError(status=status, reason=reason):
            return Rejected(reason, message) if status in _REJECTION_STATUSES else Waiting(reason, message)
        case _:
            return Waiting("HostUnavailable", message)


def camel_case(name: str) -> str:
    """Return ``INVALID_CONFIG`` as ``InvalidConfig``, the form of a condition's reason."""
    return "".join(word.capitalize() for word in name.removesuffix("_EXCEPTION").split("_"))


def _describe(error: Exception) -> str:
    if isinstance(error, KafkaError):
        return error.message or error.code.name
    return str(error) or type(error).__name__
