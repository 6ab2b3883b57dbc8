"""OAUTHBEARER (RFC 7628, KIP-255): the client presents a token that an issuer has signed.

A successful exchange is one message, ``n,[a=AUTHZID],^A auth=Bearer TOKEN ^A [NAME=VALUE ^A ...] ^A``, with a byte 1
for ``^A``.
The response to an invalid token is ``{"status":"invalid_token"}``; the client acknowledges that with a byte 1,
and then authentication has failed.
Source: OAuthBearerSaslServer, OAuthBearerSaslClient, OAuthBearerClientInitialResponse and
OAuthBearerValidatorCallbackHandler of Apache Kafka 4.3.
"""

import re
from collections.abc import Callable
from typing import Final

from ottla.sasl.exchange import SASL_NAME, AuthenticationFailedError, decode_text, unescape_name
from ottla.sasl.tokens import InvalidTokenError, ValidToken

OAUTHBEARER: Final = "OAUTHBEARER"
_INVALID: Final = '{"status":"invalid_token"}'
_ACKNOWLEDGED: Final = b"\x01"
_NAME_CHARS_MAX: Final = 64
"""The part of a name that an error message shows: the message has to stay short."""

_PAIR = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<authzid>{SASL_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)")
_SENT_TOKEN: Final = re.compile(r"[-_.A-Za-z0-9~+/=]+")
_REASON_CHARS_MAX: Final = 200

ValidateToken = Callable[[str], ValidToken]
"""Returns the claims of a valid token; raises InvalidTokenError."""


class OauthServer:
    """See `exchange.ServerExchange`."""

    __slots__ = ("_rejection", "_validate", "expires_at_ms", "is_complete", "user")
    has_delegation_token = False

    def __init__(self, validate: ValidateToken) -> None:
        self._validate = validate
        self._rejection: str | None = None
        self.user: str | None = None
        self.is_complete = False
        self.expires_at_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """See `exchange.ServerExchange.evaluate`."""
        if self._rejection is not None:
            client_message = _INVALID if token == _ACKNOWLEDGED else None
            raise AuthenticationFailedError(self._rejection, client_message=client_message)
        authorization_id, bearer = _read_first(decode_text(token, OAUTHBEARER))
        try:
            valid = self._validate(bearer)
        except InvalidTokenError as error:
            self._rejection = str(error)
            return _INVALID.encode()
        if authorization_id not in ("", valid.subject):
            raise AuthenticationFailedError(
                "the requested authorization id differs from the token's subject",
                client_message=f"Authentication failed: Client requested an authorization id "
                f"({authorization_id[:_NAME_CHARS_MAX]}) that is different from the token's principal name "
                f"({valid.subject[:_NAME_CHARS_MAX]})",
            )
        self.user = valid.subject
        self.expires_at_ms = valid.expires_at_ms
        self.is_complete = True
        return b""


class OauthClient:
    """See `exchange.ClientExchange`.

    Raises of the constructor:
        AuthenticationFailedError: ``token`` has characters that no bearer token has.
    """

    __slots__ = ("_rejection", "_token", "is_complete")

    def __init__(self, token: str) -> None:
        if _SENT_TOKEN.fullmatch(token) is None:
            raise AuthenticationFailedError(
                "there is no token to present, or it has characters that tokens cannot have"
            )
        self._token = token
        self._rejection: str | None = None
        self.is_complete = False

    def first(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Accept the server's empty challenge; acknowledge a rejection, and raise it upon the next challenge."""
        if self._rejection is not None:
            raise AuthenticationFailedError(f"the server rejected the token: {self._rejection}")
        if challenge:
            self._rejection = challenge.decode("utf-8", errors="replace")[:_REASON_CHARS_MAX]
            return _ACKNOWLEDGED
        self.is_complete = True
        return None


def _read_first(text: str) -> tuple[str, str]:
    """Return the authorization id, "" for none, and the bearer token."""
    first = _FIRST.fullmatch(text)
    if first is None:
        raise AuthenticationFailedError("no OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in first["pairs"].split("\x01") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise AuthenticationFailedError("an OAUTHBEARER client first message without a bearer token")
    return unescape_name(first["authzid"] or ""), auth["token"]
