"""`SaslClient`: SASL authentication of a node or a client at a node, request by request, with its renewal (KIP-368).

Source: SaslClientAuthenticator of Apache Kafka.
"""

from collections.abc import Callable, Mapping
from typing import Final

from ottla.errors import ErrorCode
from ottla.sasl.client_login import Login
from ottla.sasl.exchange import AuthenticationFailedError, ClientExchange
from ottla.wire.codec import Message
from ottla.wire.messages.registry import ApiKey
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_RENEWED_FROM_PERCENT: Final = 85
_RENEWED_WITHIN_PERCENT: Final = 10
"""A session is renewed after 85 to 95 % of its time, as Kafka's clients do."""


class SaslClient:
    """Authentication of one connection.

    Attributes:
        renew_at_ms: when to call `start` again; None if the session does not expire.

    Args of the constructor:
        versions: the versions that the peer supports, by API key.
        randrange: returns a random number from 0 up to its argument, exclusive.
    """

    __slots__ = ("_exchange", "_login", "_randrange", "_versions", "renew_at_ms")

    def __init__(self, login: Login, versions: Mapping[int, tuple[int, int]], randrange: Callable[[int], int]) -> None:
        self._login = login
        self._versions = versions
        self._randrange = randrange
        self._exchange: ClientExchange | None = None
        self.renew_at_ms: int | None = None

    @property
    def user(self) -> str:
        return self._login.user

    def start(self) -> Message:
        """Return the first request."""
        self.renew_at_ms = None
        self._exchange = None
        return SaslHandshakeRequest(mechanism=self._login.mechanism)

    def continue_with(self, response: Message, now_ms: int) -> Message | None:
        """Process a response; return the next request, or None when authentication is complete.

        Raises:
            AuthenticationFailedError: the peer rejects it, or fails to authenticate itself.
        """
        if isinstance(response, SaslHandshakeResponse):
            return self._start_exchange(response)
        if not isinstance(response, SaslAuthenticateResponse) or self._exchange is None:
            raise AuthenticationFailedError(f"it responded with {type(response).__name__}")
        if response.error_code != ErrorCode.NONE:
            raise AuthenticationFailedError(response.error_message or f"it responded with error {response.error_code}")
        token = self._exchange.evaluate(bytes(response.auth_bytes))
        if token is not None:
            return SaslAuthenticateRequest(auth_bytes=token)
        if response.session_lifetime_ms > 0:
            percent = _RENEWED_FROM_PERCENT + self._randrange(_RENEWED_WITHIN_PERCENT)
            self.renew_at_ms = now_ms + response.session_lifetime_ms * percent // 100
        return None

    def _start_exchange(self, response: SaslHandshakeResponse) -> Message:
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailedError(
                "it rejects authentication: that listener has no SASL, or the last authentication was within a second"
            )
        if response.error_code != ErrorCode.NONE:
            offered = ", ".join(response.mechanisms) or "none"
            raise AuthenticationFailedError(f"it does not offer {self._login.mechanism}; it offers {offered}")
        if ApiKey.SASL_AUTHENTICATE not in self._versions:
            raise AuthenticationFailedError("it is older than SaslAuthenticate (Kafka 1.0)")
        self._exchange = self._login.new_exchange(self._randrange)
        return SaslAuthenticateRequest(auth_bytes=self._exchange.first())
