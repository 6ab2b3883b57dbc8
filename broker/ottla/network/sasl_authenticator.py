"""`SaslAuthenticator`: the SASL exchange of one connection, and the requests that are allowed before it is complete.

============ ================================================ =========================================================
state        allowed requests                                 next state
============ ================================================ =========================================================
HANDSHAKE    ApiVersions until it succeeds, SaslHandshake     TOKENS, or BARE_TOKENS after SaslHandshake v0
TOKENS       SaslAuthenticate; SaslHandshake is an error      DONE or FAILED
BARE_TOKENS  frames that are tokens                           DONE or FAILED
DONE         all; SaslHandshake starts a renewal              TOKENS again; closed when the session expires (KIP-368)
FAILED       none, the connection is not read                 closed after connection.failed.authentication.delay.ms
============ ================================================ =========================================================

Only an authentication that expires can be renewed, with the same mechanism and user, and with SaslHandshake v1: bare
tokens cannot be interleaved with responses to other requests.

Source: SaslServerAuthenticator of Apache Kafka 4.3, with its error messages.
"""

import struct
from enum import Enum
from typing import TYPE_CHECKING, Final

from ottla.config.sasl_settings import SaslListener
from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult
from ottla.handlers.catalog import CATALOG
from ottla.network.connection import Connection
from ottla.purgatory import Delayed
from ottla.quoting import cut_message, quoted
from ottla.sasl.exchange import AuthenticationFailedError, ServerExchange
from ottla.wire.codec import Message
from ottla.wire.messages.registry import ApiKey
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.network.authentication import Authentication

RENEWAL_INTERVAL_MS_MIN: Final = 1_000
API_VERSIONS_REQUESTS_MAX: Final = 3
"""Per connection before authentication; a client requests its newest version, then one that the response names."""
_HEADER_START: Final = struct.Struct(">hh")
_VERSION_WITH_SOFTWARE: Final = 3


class _State(Enum):
    """See the table in the module."""

    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    BARE_TOKENS = "bare tokens"
    DONE = "done"
    FAILED = "failed"


# Looked up in their classes for every frame they would cost as much as calls.
_HANDSHAKE, _TOKENS, _BARE_TOKENS, _DONE, _FAILED = _State
_API_VERSIONS, _SASL_HANDSHAKE = ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE
_SASL_AUTHENTICATE = ApiKey.SASL_AUTHENTICATE


class SaslAuthenticator:
    """Authentication of one connection: its guard, and `handlers.api.Authenticator` for the two SASL handlers."""

    __slots__ = (
        "_api_versions_requests",
        "_connection",
        "_exchange",
        "_is_renewal",
        "_lifetime_ms",
        "_mechanism",
        "_owner",
        "_renewal_started_ms",
        "_requested_version",
        "_session_ends_ms",
        "_state",
        "_user",
        "_wrong_mechanism",
        "deadline_ms",
    )

    def __init__(self, owner: "Authentication", connection: Connection, deadline_ms: int) -> None:
        self._owner = owner
        self._connection = connection
        self.deadline_ms = deadline_ms
        self._state = _HANDSHAKE
        self._mechanism = ""
        self._exchange: ServerExchange | None = None
        self._user: str | None = None
        self._is_renewal = False
        self._renewal_started_ms: int | None = None
        self._wrong_mechanism: str | None = None
        self._requested_version: int | None = None
        self._api_versions_requests = 0
        self._lifetime_ms = 0
        self._session_ends_ms: int | None = None

    @property
    def _listener(self) -> SaslListener:
        return self._owner.listeners[self._connection.info.listener]

    @property
    def is_complete(self) -> bool:
        """See `handlers.api.Authenticator.is_complete`."""
        return self._user is not None

    # --- the guard

    def stops(self, frame: memoryview) -> bool:
        """Return whether ``frame`` must not be served; bare tokens and rejected requests are handled here."""
        if self._state is _DONE:
            return self._is_expired(frame)
        if self._state is _BARE_TOKENS:
            self._take_bare_token(bytes(frame))
            return True
        if self._state is _FAILED:
            return True
        api_key, version = _HEADER_START.unpack_from(frame)
        if self._state is _TOKENS:
            is_allowed = api_key in (_SASL_AUTHENTICATE, _SASL_HANDSHAKE)
            return not is_allowed and self._reject(api_key, "authentication")
        if api_key == _API_VERSIONS:
            self._api_versions_requests += 1
            is_too_many = self._note_api_versions(version) or self._api_versions_requests > API_VERSIONS_REQUESTS_MAX
            return is_too_many and self._reject(api_key, "handshake")
        return api_key != _SASL_HANDSHAKE and self._reject(api_key, "handshake")

    def _is_expired(self, frame: memoryview) -> bool:
        """Return whether the session has expired, and close the connection then; only a renewal may still start."""
        if self._session_ends_ms is None or self._owner.clock.monotonic_ms() <= self._session_ends_ms:
            return False
        api_key, version = _HEADER_START.unpack_from(frame)
        if api_key == _SASL_HANDSHAKE and self._may_renew(version):
            return False
        self._owner.expired_sessions += 1
        self._owner.on_close(self._connection, "its SASL session has expired and was not renewed")
        return True

    def _note_api_versions(self, version: int) -> bool:
        """Note an ApiVersions request in ``version``; return whether an earlier one has succeeded."""
        earlier, self._requested_version = self._requested_version, version
        if earlier is None or earlier > CATALOG[_API_VERSIONS].last_version:
            return False
        return earlier < _VERSION_WITH_SOFTWARE or self._connection.info.client_software_name != "unknown"

    def _reject(self, api_key: int, stage: str) -> bool:
        name = ApiKey(api_key).name if api_key in ApiKey.__members__.values() else f"key {api_key}"
        self.fail_without_response(f"Unexpected Kafka request of type {name} during SASL {stage}.", is_delayed=False)
        return True

    def fail_without_response(self, reason: str, *, is_delayed: bool = True) -> None:
        """Fail without a response; ``is_delayed`` if repeated attempts could guess a password."""
        self._note_failure(reason)
        if not is_delayed:
            self._owner.on_end(self._connection)
            return
        self._owner.delay_failure(self._connection, None)
        self._connection.is_blocked = True
        self._owner.network.pause_reading(self._connection.info.connection)

    def _take_bare_token(self, token: bytes) -> None:
        try:
            challenge = self._evaluate(token)
        except AuthenticationFailedError as error:
            self.fail_without_response(error.reason)
            return
        connection, network = self._connection, self._owner.network
        if not network.send(connection.info.connection, [len(challenge).to_bytes(4, "big"), challenge]):
            connection.is_blocked = connection.is_full = True
            network.pause_reading(connection.info.connection)

    # --- for the handlers

    def choose(self, mechanism: str, *, version: int) -> HandlerResult:
        """See `handlers.api.Authenticator.choose`."""
        offered = list(self._listener.mechanisms)
        if self._state is _TOKENS:
            reason = "a second SaslHandshake instead of SaslAuthenticate"
            return self._fail(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE), reason)
        if self._state is _DONE:
            if not self._may_renew(version):
                self._owner.count(self._connection.info.listener, self._mechanism).failures += 1
                reason = "a renewal of a session that does not expire, or within a second of the last"
                self._owner.log_failure(self._connection, self._user, self._mechanism, reason)
                return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            self._is_renewal = True
            self._lifetime_ms = 0
            self._renewal_started_ms = self._owner.clock.monotonic_ms()
            self._connection.guard = self
        if mechanism not in offered:
            response = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
            return self._fail(response, f"it requested {quoted(mechanism)}; this listener offers {', '.join(offered)}")
        self._wrong_mechanism = mechanism if self._is_renewal and mechanism != self._mechanism else None
        if self._wrong_mechanism is None:
            self._mechanism = mechanism
            self._exchange = self._owner.new_exchange(self._connection.info.listener, mechanism)
        self._state = _TOKENS if version > 0 else _BARE_TOKENS
        return SaslHandshakeResponse(mechanisms=offered)

    def authenticate(self, token: bytes) -> HandlerResult:
        """See `handlers.api.Authenticator.authenticate`."""
        if self._state is not _TOKENS:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication",
            )
        try:
            challenge = self._evaluate(token)
        except AuthenticationFailedError as error:
            stage = "re-authentication" if self._is_renewal else "authentication"
            message = error.client_message or (
                f"Authentication failed during {stage} due to invalid credentials with SASL mechanism {self._mechanism}"
            )
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=cut_message(message)
            )
            return self._fail(response, error.reason)
        return SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=self._lifetime_ms)

    # --- the exchange

    def _evaluate(self, token: bytes) -> bytes:
        """Pass ``token`` to the exchange, and complete the authentication with it; return the next challenge.

        Raises:
            AuthenticationFailedError: the exchange failed, or a renewal changes mechanism or user.
        """
        if self._wrong_mechanism is not None:
            message = (
                f"SASL mechanism '{self._wrong_mechanism}' requested by client is not supported for re-authentication "
                f"of mechanism '{self._mechanism}'"
            )
            raise AuthenticationFailedError(message, client_message=message)
        assert self._exchange is not None
        if len(token) > self._listener.receive_bytes_max:
            raise AuthenticationFailedError(f"a token of {len(token)} bytes")
        challenge = self._exchange.evaluate(token)
        if self._exchange.is_complete:
            self._complete(self._exchange)
        return challenge

    def _complete(self, exchange: ServerExchange) -> None:
        assert exchange.user is not None
        if self._is_renewal and exchange.user != self._user:
            raise AuthenticationFailedError(
                "the renewal is for another user",
                client_message="Cannot change principals during re-authentication from "
                f"User.{self._user}: User.{exchange.user}",
            )
        owner, connection = self._owner, self._connection
        counters = owner.count(connection.info.listener, self._mechanism)
        self._state = _DONE
        if self._is_renewal:
            counters.renewals += 1
        else:
            counters.successes += 1
            self._user = exchange.user
            connection.info.principal = f"User:{exchange.user}"
            owner.remove(connection.info.connection)
            owner.on_authenticated(connection)
        connection.info.is_token_authenticated = exchange.has_delegation_token
        lifetime_ms = self._new_lifetime_ms(exchange)
        self._lifetime_ms = lifetime_ms or 0
        self._session_ends_ms = None if lifetime_ms is None else owner.clock.monotonic_ms() + lifetime_ms
        connection.guard = None if lifetime_ms is None else self
        self._exchange = None

    def _new_lifetime_ms(self, exchange: ServerExchange) -> int | None:
        """Return the session lifetime: the token's, at most connections.max.reauth.ms; None if it never expires."""
        lifetimes = []
        if exchange.expires_at_ms is not None:
            lifetimes.append(exchange.expires_at_ms - self._owner.clock.wall_ms())
        if self._listener.reauth_ms_max.get(self._mechanism, 0) > 0:
            lifetimes.append(self._listener.reauth_ms_max[self._mechanism])
        return max(0, min(lifetimes)) if lifetimes else None

    def _may_renew(self, handshake_version: int) -> bool:
        if self._session_ends_ms is None or handshake_version == 0:
            return False
        now_ms = self._owner.clock.monotonic_ms()
        return self._renewal_started_ms is None or now_ms - self._renewal_started_ms >= RENEWAL_INTERVAL_MS_MIN

    # --- failures

    def _fail(self, response: Message, reason: str) -> Delayed[Message]:
        self._note_failure(reason)
        return self._owner.delay_failure(self._connection, response)

    def _note_failure(self, reason: str) -> None:
        user = self._exchange.user if self._exchange is not None else self._user
        self._state = _FAILED
        self._connection.guard = self
        self._exchange = None
        self._owner.remove(self._connection.info.connection)
        self._owner.count(self._connection.info.listener, self._mechanism).failures += 1
        self._owner.log_failure(self._connection, user, self._mechanism, reason)
