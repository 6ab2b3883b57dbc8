"""OAUTHBEARER as a client (RFC 7628, KIP-255): shows a token that somebody else has signed.

Source: OAuthBearerSaslClient and OAuthBearerClientInitialResponse of Apache Kafka 4.3.
"""

import re
from collections.abc import Callable
from typing import Final

from ottla.sasl.exchange import AuthenticationFailedError, ClientExchange

OAUTHBEARER: Final = "OAUTHBEARER"
_TOKEN: Final = re.compile(r"[-_.A-Za-z0-9~+/=]+")
_GIVES_UP: Final = b"\x01"
_SHOWN_MAX: Final = 200


class TokenLogin:
    """See `client_login.Login`: ``current_token`` is asked at every login. Never prints itself."""

    __slots__ = ("_current_token",)

    def __init__(self, current_token: Callable[[], str]) -> None:
        self._current_token = current_token

    @property
    def mechanism(self) -> str:
        return OAUTHBEARER

    @property
    def user(self) -> str:
        return ""

    def new_exchange(self, randrange: Callable[[int], int]) -> ClientExchange:
        """See `client_login.Login.new_exchange`; chance plays no part in it."""
        return OauthClient(self._current_token().strip())


class OauthClient:
    """See `exchange.ClientExchange`.

    Raises of the constructor:
        AuthenticationFailedError: ``token`` has characters that no bearer token has.
    """

    __slots__ = ("_refusal", "_token", "is_complete")

    def __init__(self, token: str) -> None:
        if _TOKEN.fullmatch(token) is None:
            raise AuthenticationFailedError("there is no token to show, or one with characters that no token has")
        self._token = token
        self._refusal: str | None = None
        self.is_complete = False

    def first(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Take the server's consent, which is empty; acknowledge a refusal, and report it once that is answered."""
        if self._refusal is not None:
            raise AuthenticationFailedError(f"the server refuses the token: {self._refusal}")
        if challenge:
            self._refusal = challenge.decode("utf-8", errors="replace")[:_SHOWN_MAX]
            return _GIVES_UP
        self.is_complete = True
        return None
