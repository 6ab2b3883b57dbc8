"""The exit codes, their failures, and remedies for some."""

from enum import IntEnum

from ottla.errors import ErrorCode, KafkaError, OttlaError


class ExitCode(IntEnum):
    """Exit codes, stable for scripts."""

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
_NO_RESPONSE_ERRORS = frozenset({"BrokerUnreachableError", "RequestTimeoutError"})


class NotFoundError(OttlaError):
    """The requested object does not exist."""


class UnhealthyError(OttlaError):
    """The command succeeded and found something unhealthy."""


def exit_code_of(error: OttlaError) -> ExitCode:
    """Return the exit code of a failure."""
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
    return ExitCode.TIMEOUT if type(error).__name__ in _NO_RESPONSE_ERRORS else ExitCode.ERROR


def is_not_allowed(error: KafkaError) -> bool:
    """Tell whether the user lacks a right."""
    return error.code in _NOT_ALLOWED


def advice_on(error: OttlaError) -> str | None:
    """Return a remedy for a failure whose message has none; None if there is nothing to add."""
    if isinstance(error, KafkaError) and is_not_allowed(error):
        return "`ottla doctor` (--topic, --group) shows this user's permissions; `ottla acl add` allows more"
    return None
