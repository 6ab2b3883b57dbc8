"""From an error to what it means for the object: wait and try again, or tell the user to change something."""

from ottla.errors import ErrorCode, KafkaError
from ottla_operator.errors import NAMESPACE_TERMINATING, ApiError, BrokerUnreachableError, HostError, QuorumLostError
from ottla_operator.model.conditions import QUORUM_LOST, Refused, Waiting

# Not retriable for a client, and yet gone at the next look: somebody else was faster, or is still busy.
_PASSING_CODES = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)

_REFUSING_STATUSES = frozenset({400, 401, 403, 405, 413, 422})

_UNKNOWN_FIELD = "field not declared in schema"
"""What an API server says, with status 500, of an apply with a field that its kind has not."""

EXPECTED_ERRORS = (KafkaError, BrokerUnreachableError, HostError, ApiError, OSError, TimeoutError)
"""What ports may raise; anything else is a bug of ours and must not be read as the world's state."""


def readiness_of_error(error: Exception, doing: str) -> Waiting | Refused:
    """Return what ``error``, met while ``doing`` (an infinitive, such as "create topic x"), means."""
    message = f"could not {doing}: {_words(error)}"
    match error:
        case KafkaError(code=code):
            reason = camel_case(code.name)
            return Waiting(reason, message) if code.is_retriable or code in _PASSING_CODES else Refused(reason, message)
        case QuorumLostError():
            return Waiting(QUORUM_LOST, message)
        case BrokerUnreachableError():
            return Waiting("BrokerUnreachable", message)
        case HostError(reason=reason):
            return Refused(reason, message)
        case ApiError(is_terminating=True):
            # Nobody has to change anything: soon there is no object to say it of.
            return Waiting(NAMESPACE_TERMINATING, message)
        case ApiError() if _UNKNOWN_FIELD in str(error):
            return Refused("Invalid", message)
        case ApiError(status=status, reason=reason):
            return Refused(reason, message) if status in _REFUSING_STATUSES else Waiting(reason, message)
        case _:
            return Waiting("HostUnavailable", message)


def camel_case(name: str) -> str:
    """Return ``INVALID_CONFIG`` as ``InvalidConfig``, the form of a condition's reason."""
    return "".join(word.capitalize() for word in name.removesuffix("_EXCEPTION").split("_"))


def _words(error: Exception) -> str:
    if isinstance(error, KafkaError):
        return error.message or error.code.name
    return str(error) or type(error).__name__
