"""`ConnectionLogin`: the SASL exchange of one connection, and which requests may come before it is complete.

============ ================================================ =========================================================
state        what may come                                    next
============ ================================================ =========================================================
HANDSHAKE    ApiVersions until it is answered, SaslHandshake  TOKENS, or BARE_TOKENS after SaslHandshake v0
TOKENS       SaslAuthenticate; SaslHandshake is an error      DONE or FAILED
BARE_TOKENS  frames that are tokens                           DONE or FAILED
DONE         everything; SaslHandshake begins a renewal       TOKENS again; closed when a session is over (KIP-368)
FAILED       nothing is read                                  closed after connection.failed.authentication.delay.ms
============ ================================================ =========================================================

Only an authentication that expires can be renewed, with the same mechanism and user, and with SaslHandshake v1: bare
tokens have no place among responses that other requests still wait for.

Source: SaslServerAuthenticator of Apache Kafka 4.3, whose error texts these are.
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
VERSIONS_QUESTIONS_MAX: Final = 3
"""Of one connection before its login; a client asks in its newest version, and again in one that the answer names."""
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


class ConnectionLogin:
    """One connection's login; a guard of `Connection`, and what the two SASL handlers ask (`handlers.api.Login`)."""

    __slots__ = (
        "_asked_version",
        "_connection",
        "_exchange",
        "_is_renewal",
        "_lifetime_ms",
        "_mechanism",
        "_owner",
        "_renewal_began_ms",
        "_session_ends_ms",
        "_state",
        "_user",
        "_versions_questions",
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
        self._renewal_began_ms: int | None = None
        self._wrong_mechanism: str | None = None
        self._asked_version: int | None = None
        self._versions_questions = 0
        self._lifetime_ms = 0
        self._session_ends_ms: int | None = None

    @property
    def _listener(self) -> SaslListener:
        return self._owner.listeners[self._connection.info.listener]

    @property
    def is_complete(self) -> bool:
        """See `handlers.api.Login.is_complete`."""
        return self._user is not None

    # --- the guard

    def stops(self, frame: memoryview) -> bool:
        """Return whether ``frame`` must not be served; what is to be done with it instead is done."""
        if self._state is _DONE:
            return self._is_over(frame)
        if self._state is _BARE_TOKENS:
            self._take_bare_token(bytes(frame))
            return True
        if self._state is _FAILED:
            return True
        api_key, version = _HEADER_START.unpack_from(frame)
        if self._state is _TOKENS:
            may_come = api_key in (_SASL_AUTHENTICATE, _SASL_HANDSHAKE)
            return not may_come and self._reject(api_key, "authentication")
        if api_key == _API_VERSIONS:
            self._versions_questions += 1
            is_enough = self._is_versions_answered(version) or self._versions_questions > VERSIONS_QUESTIONS_MAX
            return is_enough and self._reject(api_key, "handshake")
        return api_key != _SASL_HANDSHAKE and self._reject(api_key, "handshake")

    def _is_over(self, frame: memoryview) -> bool:
        """Return whether the session has ended, and end the connection then; only a renewal may still begin."""
        if self._session_ends_ms is None or self._owner.clock.monotonic_ms() <= self._session_ends_ms:
            return False
        api_key, version = _HEADER_START.unpack_from(frame)
        if api_key == _SASL_HANDSHAKE and self._may_renew(version):
            return False
        self._owner.expired_sessions += 1
        self._owner.on_close(self._connection, "its SASL session is over and was not renewed")
        return True

    def _is_versions_answered(self, version: int) -> bool:
        """Note that ApiVersions is asked in ``version``; return whether it had been answered, without error, before."""
        asked, self._asked_version = self._asked_version, version
        if asked is None or asked > CATALOG[_API_VERSIONS].last_version:
            return False
        return asked < _VERSION_WITH_SOFTWARE or self._connection.info.client_software_name != "unknown"

    def _reject(self, api_key: int, stage: str) -> bool:
        name = ApiKey(api_key).name if api_key in ApiKey.__members__.values() else f"key {api_key}"
        self.fail_unanswered(f"Unexpected Kafka request of type {name} during SASL {stage}.", is_late=False)
        return True

    def fail_unanswered(self, reason: str, *, is_late: bool = True) -> None:
        """End the login without an answer; ``is_late`` where something could be guessed by trying again."""
        self._note_failure(reason)
        if not is_late:
            self._owner.on_end(self._connection)
            return
        self._owner.delay_failure(self._connection, None)
        self._connection.is_blocked = True
        self._owner.network.pause_reading(self._connection.info.connection)

    def _take_bare_token(self, token: bytes) -> None:
        try:
            answer = self._evaluate(token)
        except AuthenticationFailedError as error:
            self.fail_unanswered(error.reason)
            return
        connection, network = self._connection, self._owner.network
        if not network.send(connection.info.connection, [len(answer).to_bytes(4, "big"), answer]):
            connection.is_blocked = connection.is_full = True
            network.pause_reading(connection.info.connection)

    # --- what the handlers ask

    def choose(self, mechanism: str, *, version: int) -> HandlerResult:
        """See `handlers.api.Login.choose`."""
        offered = list(self._listener.mechanisms)
        if self._state is _TOKENS:
            reason = "a second SaslHandshake where a token is due"
            return self._fail(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE), reason)
        if self._state is _DONE:
            if not self._may_renew(version):
                self._owner.count(self._connection.info.listener, self._mechanism).failures += 1
                reason = "a renewal that is not due, or within a second of the last"
                self._owner.log_failure(self._connection, self._user, self._mechanism, reason)
                return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            self._is_renewal = True
            self._lifetime_ms = 0
            self._renewal_began_ms = self._owner.clock.monotonic_ms()
            self._connection.guard = self
        if mechanism not in offered:
            response = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
            return self._fail(response, f"it asked for {quoted(mechanism)}; {', '.join(offered)} are offered here")
        self._wrong_mechanism = mechanism if self._is_renewal and mechanism != self._mechanism else None
        if self._wrong_mechanism is None:
            self._mechanism = mechanism
            self._exchange = self._owner.new_exchange(self._connection.info.listener, mechanism)
        self._state = _TOKENS if version > 0 else _BARE_TOKENS
        return SaslHandshakeResponse(mechanisms=offered)

    def authenticate(self, token: bytes) -> HandlerResult:
        """See `handlers.api.Login.authenticate`."""
        if self._state is not _TOKENS:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication",
            )
        try:
            answer = self._evaluate(token)
        except AuthenticationFailedError as error:
            stage = "re-authentication" if self._is_renewal else "authentication"
            message = error.client_message or (
                f"Authentication failed during {stage} due to invalid credentials with SASL mechanism {self._mechanism}"
            )
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=cut_message(message)
            )
            return self._fail(response, error.reason)
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=self._lifetime_ms)

    # --- the exchange

    def _evaluate(self, token: bytes) -> bytes:
        """Give ``token`` to the exchange; when that completes it, the login is done.

        Raises:
            AuthenticationFailedError: as the exchange's, or a renewal changes mechanism or user.
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
        answer = self._exchange.evaluate(token)
        if self._exchange.is_complete:
            self._complete(self._exchange)
        return answer

    def _complete(self, exchange: ServerExchange) -> None:
        assert exchange.user is not None
        if self._is_renewal and exchange.user != self._user:
            raise AuthenticationFailedError(
                "the renewal is another user's",
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
            owner.forget(connection.info.connection)
            owner.on_logged_in(connection)
        lifetime_ms = self._new_lifetime_ms(exchange)
        self._lifetime_ms = lifetime_ms or 0
        self._session_ends_ms = None if lifetime_ms is None else owner.clock.monotonic_ms() + lifetime_ms
        connection.guard = None if lifetime_ms is None else self
        self._exchange = None

    def _new_lifetime_ms(self, exchange: ServerExchange) -> int | None:
        """Return how long the login holds: as long as the token, at most connections.max.reauth.ms; None for ever."""
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
        return self._renewal_began_ms is None or now_ms - self._renewal_began_ms >= RENEWAL_INTERVAL_MS_MIN

    # --- failing

    def _fail(self, response: Message, reason: str) -> Delayed[Message]:
        self._note_failure(reason)
        return self._owner.delay_failure(self._connection, response)

    def _note_failure(self, reason: str) -> None:
        user = self._exchange.user if self._exchange is not None else self._user
        self._state = _FAILED
        self._connection.guard = self
        self._exchange = None
        self._owner.forget(self._connection.info.connection)
        self._owner.count(self._connection.info.listener, self._mechanism).failures += 1
        self._owner.log_failure(self._connection, user, self._mechanism, reason)
