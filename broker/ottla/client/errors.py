"""Failures between a client and its brokers, with messages for interactive users."""

from ottla.errors import ErrorCode, KafkaError, OttlaError


class ClientError(OttlaError):
    """Base of the failures that are not a broker's error response."""


class BrokerUnreachableError(ClientError):
    """No connection to any of the addresses that were tried."""


class ConnectionLostError(ClientError):
    """A connection ended before the response: whether the request was executed is unknown."""


class RequestTimeoutError(ClientError):
    """A broker did not respond, or did not finish, in time."""


class UnsupportedApiError(ClientError):
    """The broker does not serve an API in any version that this client supports."""


class TlsFailedError(ClientError):
    """The TLS handshake with a broker failed for a reason that a retry does not change."""


class LoginFailedError(ClientError):
    """A broker rejected this client's authentication; another broker would do the same."""


class NoTokenError(LoginFailedError):
    """The issuer of this client's tokens returned none; no request was sent to a broker."""


def kafka_error(code: int, message: str | None = None) -> KafkaError:
    """Return the exception for a response's ``error_code``; a code of a newer Kafka becomes UNKNOWN_SERVER_ERROR."""
    known = ErrorCode(code)
    if known != code and not message:
        message = f"error code {code}, which this client lacks"
    return KafkaError(known, message)


def raise_for(code: int, message: str | None = None) -> None:
    """Raise `kafka_error` unless ``code`` is NONE."""
    if code != ErrorCode.NONE:
        raise kafka_error(code, message)
