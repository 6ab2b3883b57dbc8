"""A SASL exchange: tokens between a client and a server, one side at a time, without I/O.

The server evaluates each token that it receives and returns the one to send; the client sends first. Either side ends
with success or with an `AuthenticationFailedError`, whatever bytes it receives.

Source: RFC 4422; SaslServer and SaslClient of Java, as Apache Kafka 4.3 uses them.
"""

from typing import Final, Protocol

from ottla.errors import OttlaError

TOKEN_BYTES_MAX: Final = 1 << 20
"""Either side rejects longer tokens without parsing; servers have a lower limit, ``sasl.server.max.receive.size``."""

SASL_NAME: Final = r"(?:[^\x00=,]|=2C|=3D)+"
"""A name within a message of SCRAM or OAUTHBEARER, as a pattern: RFC 5802's saslname."""


class AuthenticationFailedError(OttlaError):
    """The other side did not prove its identity, or violated the mechanism's protocol.

    Attributes:
        reason: for this side's log; contains no secret.
        client_message: what the response may say; None for the general message, which reveals nothing.
    """

    def __init__(self, reason: str, *, client_message: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.client_message = client_message


class ServerExchange(Protocol):
    """The server's side of one exchange.

    Attributes:
        user: the user that the client claims to be, once known; proven once ``is_complete``.
        expires_at_ms: wall clock time at which the credentials expire; None if they do not.
    """

    user: str | None
    is_complete: bool
    expires_at_ms: int | None

    @property
    def has_delegation_token(self) -> bool:
        """Whether the client authenticates with a delegation token, and ``user`` is its owner."""

    def evaluate(self, token: bytes) -> bytes:
        """Return what to send for ``token``; never called again after success or failure.

        Raises:
            AuthenticationFailedError: authentication has failed.
        """


class ClientExchange(Protocol):
    """The client's side of one exchange."""

    is_complete: bool

    def first(self) -> bytes:
        """Return the first token of the exchange."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Return what to send for ``challenge``; None when nothing more is to be sent.

        Raises:
            AuthenticationFailedError: the server did not prove its identity, or violated the mechanism's protocol.
        """


def decode_text(token: bytes, mechanism: str) -> str:
    """Return a token decoded as UTF-8.

    Raises:
        AuthenticationFailedError: it is too long, or not UTF-8.
    """
    if len(token) > TOKEN_BYTES_MAX:
        raise AuthenticationFailedError(f"a {mechanism} token of {len(token)} bytes")
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        raise AuthenticationFailedError(f"a {mechanism} token that is not UTF-8") from None


def escape_name(name: str) -> str:
    """Return a name as a `SASL_NAME`."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape_name(text: str) -> str:
    """Return the name that a `SASL_NAME` stands for."""
    return text.replace("=2C", ",").replace("=3D", "=")
