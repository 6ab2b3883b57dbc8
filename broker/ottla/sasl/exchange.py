"""A SASL login as an exchange of tokens, one side at a time, without I/O.

The server's side is given each token that comes and returns the one to send; the client's side begins. Either side ends
with success or with an `AuthenticationFailedError`, whatever bytes it is given.

Source: RFC 4422; SaslServer and SaslClient of Java, as Apache Kafka 4.3 uses them.
"""

from typing import Final, Protocol

from ottla.errors import OttlaError

TOKEN_BYTES_MAX: Final = 1 << 20
"""Longer tokens are refused unread by either side; servers have a lower limit, ``sasl.server.max.receive.size``."""

SASL_NAME: Final = r"(?:[^\x00=,]|=2C|=3D)+"
"""A name within a message of SCRAM or OAUTHBEARER, as a pattern: RFC 5802's saslname."""


class AuthenticationFailedError(OttlaError):
    """The other side did not prove who it is, or did not speak the mechanism.

    Attributes:
        reason: for this side's log; holds no secret.
        told: what the client may be told; None for the one sentence that gives nothing away.
    """

    def __init__(self, reason: str, *, told: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.told = told


class ServerExchange(Protocol):
    """One login, seen from the server.

    Attributes:
        user: whom the client claims to be, as far as is known; proven once ``is_complete``.
        expires_at_ms: wall clock time at which what was shown ends; None where it does not.
    """

    user: str | None
    is_complete: bool
    expires_at_ms: int | None

    def evaluate(self, token: bytes) -> bytes:
        """Return what to send for ``token``; never called again after success or failure.

        Raises:
            AuthenticationFailedError: the login has failed.
        """


class ClientExchange(Protocol):
    """One login, seen from the client."""

    is_complete: bool

    def first(self) -> bytes:
        """Return the token that begins the exchange."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Return what to send for ``challenge``; None when nothing is to be sent any more.

        Raises:
            AuthenticationFailedError: the server did not prove who it is, or does not speak the mechanism.
        """


def decode_text(token: bytes, mechanism: str) -> str:
    """Return a token that has to be text.

    Raises:
        AuthenticationFailedError: it is too long, or no UTF-8.
    """
    if len(token) > TOKEN_BYTES_MAX:
        raise AuthenticationFailedError(f"a {mechanism} token of {len(token)} bytes")
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        raise AuthenticationFailedError(f"a {mechanism} token that is no UTF-8") from None


def escape_name(name: str) -> str:
    """Return a name as a `SASL_NAME`."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape_name(text: str) -> str:
    """Return the name that a `SASL_NAME` stands for."""
    return text.replace("=2C", ",").replace("=3D", "=")
