"""What goes wrong between a client and its brokers, in words for the person who types."""

from ottla.errors import ErrorCode, KafkaError, OttlaError


class ClientError(OttlaError):
    """Base of the failures that are no broker's refusal."""


class BrokerUnreachableError(ClientError):
    """No connection to any of the addresses that were tried."""


class ConnectionLostError(ClientError):
    """A connection ended while an answer was awaited: whether the request was carried out is unknown."""


class RequestTimeoutError(ClientError):
    """A broker did not answer, or did not get done, in time."""


class UnsupportedApiError(ClientError):
    """The broker does not serve an API in any version that this client speaks."""


class TlsFailedError(ClientError):
    """TLS could not be agreed on with a broker, for a reason that trying again does not change."""


class LoginFailedError(ClientError):
    """A broker did not let this client in; asking another one would end in the same way."""


class NoTokenError(LoginFailedError):
    """The issuer of this client's tokens gave it none; no broker was asked."""


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
