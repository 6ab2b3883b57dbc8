"""What the command's exit code says, which failure leads to which, and what to do next about some."""

from enum import IntEnum

from ottla.errors import ErrorCode, KafkaError, OttlaError


class ExitCode(IntEnum):
    """Numbers that scripts may rely on."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    DENIED = 4
    TIMEOUT = 5
    UNHEALTHY = 10
    INTERRUPTED = 130


_NOT_FOUND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    }
)
_NOT_ALLOWED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
_DENIED = _NOT_ALLOWED | {ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.POLICY_VIOLATION}
# Named, not imported: most commands never need the client.
_NO_ANSWER = frozenset({"BrokerUnreachableError", "RequestTimeoutError"})


class NotFoundError(OttlaError):
    """What the command was asked for does not exist."""


class UnhealthyError(OttlaError):
    """The command worked; what it looked at does not."""


def exit_code_of(error: OttlaError) -> ExitCode:
    """Return the exit code that a failure ends the command with."""
    if isinstance(error, KafkaError):
        if error.code in _NOT_FOUND:
            return ExitCode.NOT_FOUND
        if error.code in _DENIED:
            return ExitCode.DENIED
        return ExitCode.TIMEOUT if error.code is ErrorCode.REQUEST_TIMED_OUT else ExitCode.ERROR
    if isinstance(error, NotFoundError):
        return ExitCode.NOT_FOUND
    if isinstance(error, UnhealthyError):
        return ExitCode.UNHEALTHY
    if type(error).__name__ == "LoginFailedError":
        return ExitCode.DENIED
    return ExitCode.TIMEOUT if type(error).__name__ in _NO_ANSWER else ExitCode.ERROR


def advice_on(error: OttlaError) -> str | None:
    """Return what to do next about a failure whose words do not say it; None where there is nothing to add."""
    if isinstance(error, KafkaError) and error.code in _NOT_ALLOWED:
        return "`ottla doctor` (--topic, --group) says what this user may do; `ottla acl add` allows more"
    return None
