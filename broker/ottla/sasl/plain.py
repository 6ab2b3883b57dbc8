"""PLAIN (RFC 4616): the client sends its name and its password; only for encrypted or trusted connections.

A token is ``authorization id NUL user NUL password``.
Source: PlainSaslServer and PlainServerCallbackHandler of Apache Kafka 4.3, whose error texts these are.
"""

import hmac
from collections.abc import Callable
from typing import Final

from ottla.sasl.exchange import AuthenticationFailedError, decode_text

PLAIN: Final = "PLAIN"

PasswordOf = Callable[[str], str | None]
"""Returns a user's password; None for an unknown user."""


class PlainServer:
    """See `exchange.ServerExchange`."""

    __slots__ = ("_password_of", "expires_at_ms", "is_complete", "user")
    has_delegation_token = False

    def __init__(self, password_of: PasswordOf) -> None:
        self._password_of = password_of
        self.user: str | None = None
        self.is_complete = False
        self.expires_at_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """See `exchange.ServerExchange.evaluate`."""
        parts = decode_text(token, PLAIN).split("\0")
        if len(parts) != 3:
            message = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise AuthenticationFailedError(message, client_message=message)
        authorization_id, user, password = parts
        if not user:
            raise _failure("username not specified")
        self.user = user
        if not password:
            raise _failure("password not specified")
        expected = self._password_of(user)
        # An unknown user takes as long as a wrong password: the time must not reveal which users exist.
        is_right = hmac.compare_digest((password if expected is None else expected).encode(), password.encode())
        if expected is None or not is_right:
            raise _failure("Invalid username or password")
        if authorization_id not in ("", user):
            raise _failure("Client requested an authorization id that is different from username")
        self.is_complete = True
        return b""


class PlainClient:
    """See `exchange.ClientExchange`."""

    __slots__ = ("_token", "is_complete")

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()
        self.is_complete = False

    def first(self) -> bytes:
        return self._token

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Accept the server's empty challenge."""
        if challenge:
            raise AuthenticationFailedError("the server responded to PLAIN with a challenge")
        self.is_complete = True
        return None


def _failure(why: str) -> AuthenticationFailedError:
    text = f"Authentication failed: {why}"
    return AuthenticationFailedError(text, client_message=text)
