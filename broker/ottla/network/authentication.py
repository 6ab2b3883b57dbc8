"""`Authentication`: the SASL exchanges of all connections of a node, with time-outs and delayed failures.

A connection on a listener with SASL has a `SaslAuthenticator` from its first byte on. If it is not authenticated after
`AUTHENTICATION_MS_MAX`, it is closed; after a failure it is closed with a delay that slows down password guessing.

Source: SaslServerAuthenticator, KafkaChannel and Selector of Apache Kafka 4.3.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.config.sasl_settings import SaslListener
from ottla.log_lines import LineLimit
from ottla.metadata.scram import ScramImage
from ottla.network.connection import Connection
from ottla.network.sasl_authenticator import SaslAuthenticator
from ottla.network.signing_keys import IssuerKeys
from ottla.ports import Clock, ConnectionId, KeySource, Network, Random
from ottla.purgatory import Delayed
from ottla.quoting import one_line, quoted
from ottla.sasl.exchange import ServerExchange
from ottla.sasl.registry import MECHANISMS, ServerCredentials
from ottla.sasl.scram import new_nonce
from ottla.security.delegation_tokens import DelegationTokens
from ottla.wire.codec import Message

logger = logging.getLogger(__name__)

AUTHENTICATION_MS_MAX: Final = 30_000
"""From the connection to the end of the SASL exchange, which takes a few round trips."""
_CLOSINGS_PER_TICK: Final = 32
"""Of exchanges that took too long; closing the many of a connection storm at once would delay other connections."""


@dataclass(slots=True)
class AuthenticationCounters:
    """Counters of one listener and mechanism, which only grow; the mechanism is empty if none was chosen."""

    successes: int = 0
    failures: int = 0
    renewals: int = 0


@dataclass(frozen=True, slots=True)
class _DelayedFailure:
    """A failed exchange: at ``due_ms``, ``response``, if any, is sent and the connection closed."""

    due_ms: int
    connection: Connection
    result: Delayed[Message]
    response: Message | None


class Authentication:
    """The SASL exchanges of all connections of a node.

    Args of the constructor:
        listeners: the listeners with SASL.
        failure_delay_ms: connection.failed.authentication.delay.ms.
        key_source: fetches the keys that verify tokens; None if no listener offers OAUTHBEARER.
        scram: returns the current SCRAM credentials.
        tokens: the delegation tokens that clients may log in with.
        on_authenticated: receives a connection whose first exchange is complete.
        on_close: closes a connection that violated the protocol, and logs the reason.
        on_end: closes a connection without a log line.
    """

    def __init__(
        self,
        *,
        listeners: Mapping[str, SaslListener],
        failure_delay_ms: int,
        clock: Clock,
        random: Random,
        network: Network,
        key_source: KeySource | None,
        scram: Callable[[], ScramImage],
        tokens: DelegationTokens,
        on_authenticated: Callable[[Connection], None],
        on_close: Callable[[Connection, str], None],
        on_end: Callable[[Connection], None],
    ) -> None:
        self.clock = clock
        self.network = network
        self.on_authenticated = on_authenticated
        self.on_close = on_close
        self.on_end = on_end
        self._failure_delay_ms = failure_delay_ms
        self._random = random
        self._scram = scram
        self._tokens = tokens
        self._key_source = key_source
        self._issuers: dict[str, IssuerKeys] = {}
        self.use(listeners)
        self._decoy_secret = new_nonce(random.randrange).encode()
        """Used until the first user has a credential, which creates the cluster's own secret."""
        self._pending: dict[ConnectionId, SaslAuthenticator] = {}
        """Exchanges that are not complete yet, oldest first."""
        self._delayed_failures: deque[_DelayedFailure] = deque()
        self._failure_lines = LineLimit(clock)
        self.counters: dict[tuple[str, str], AuthenticationCounters] = {}
        self.expired_sessions = 0
        self.timed_out = 0

    def __len__(self) -> int:
        """Return how many connections are not authenticated yet."""
        return len(self._pending)

    def use(self, listeners: Mapping[str, SaslListener]) -> None:
        """Apply new settings; sessions continue, and the keys of unchanged issuers are kept."""
        self.listeners = listeners
        kept, self._issuers = self._issuers, {}
        for name, listener in listeners.items():
            if listener.oauth is None or self._key_source is None:
                continue
            issuer = kept.get(name)
            if issuer is None or issuer.settings != listener.oauth:
                issuer = IssuerKeys(listener.oauth, clock=self.clock, source=self._key_source)
            self._issuers[name] = issuer

    def start(self, connection: Connection) -> None:
        """Guard a new connection if its listener has SASL."""
        if connection.info.listener in self.listeners:
            authenticator = SaslAuthenticator(self, connection, connection.last_active_ms + AUTHENTICATION_MS_MAX)
            connection.guard = connection.info.authenticator = authenticator
            self._pending[connection.info.connection] = authenticator

    def remove(self, connection: ConnectionId) -> None:
        """Remove a connection that has ended or is authenticated; no error if it has no exchange."""
        self._pending.pop(connection, None)

    def new_exchange(self, listener_name: str, mechanism: str) -> ServerExchange:
        return MECHANISMS[mechanism].new_server(self._credentials(listener_name, mechanism))

    def _credentials(self, listener_name: str, mechanism: str) -> ServerCredentials:
        issuer = self._issuers.get(listener_name)
        return ServerCredentials(
            password_of=self.listeners[listener_name].jaas_users.get(mechanism, {}).get,
            validate_token=None if issuer is None else issuer.validate,
            scram_credential_of=lambda kind, user: self._scram().credential(kind, user),
            scram_decoy_of=lambda kind, user: self._scram().decoy(kind, user, default_secret=self._decoy_secret),
            delegation_token_of=self._tokens.credential_of,
            randrange=self._random.randrange,
        )

    def count(self, listener: str, mechanism: str) -> AuthenticationCounters:
        return self.counters.setdefault((listener, mechanism), AuthenticationCounters())

    def delay_failure(self, connection: Connection, response: Message | None) -> Delayed[Message]:
        """Send ``response``, if any, and close the connection after the delay that slows down guessing."""
        failure = _DelayedFailure(self.clock.monotonic_ms() + self._failure_delay_ms, connection, Delayed(), response)
        self._delayed_failures.append(failure)
        return failure.result

    def log_failure(self, connection: Connection, user: str | None, mechanism: str, reason: str) -> None:
        if not self._failure_lines.take_permit():
            return
        logger.warning(
            "authentication of %s on %s%s%s failed: %s (%d failed so far)",
            connection.info.peer,
            connection.info.listener,
            f" as {quoted(user)}" if user else "",
            f" with {mechanism}" if mechanism else "",
            one_line(reason),
            sum(each.failures for each in self.counters.values()),
        )

    def tick(self, now_ms: int) -> None:
        """Respond to and close failed exchanges whose delay is over; close those that take too long."""
        for issuer in self._issuers.values():
            issuer.tick(now_ms)
        while self._delayed_failures and self._delayed_failures[0].due_ms <= now_ms:
            self._complete_failure(self._delayed_failures.popleft())
        for _ in range(min(len(self._pending), _CLOSINGS_PER_TICK)):
            authenticator = next(iter(self._pending.values()))
            if authenticator.deadline_ms > now_ms:
                return
            self.timed_out += 1
            authenticator.fail_without_response(
                f"it was not complete after {AUTHENTICATION_MS_MAX} ms", is_delayed=False
            )

    def next_deadline_ms(self) -> int | None:
        if not self._pending and not self._delayed_failures and not self._issuers:
            return None
        deadlines = [next(iter(self._pending.values())).deadline_ms] if self._pending else []
        if self._delayed_failures:
            deadlines.append(self._delayed_failures[0].due_ms)
        deadlines += [due_ms for each in self._issuers.values() if (due_ms := each.next_deadline_ms()) is not None]
        return min(deadlines, default=None)

    def _complete_failure(self, failure: _DelayedFailure) -> None:
        if not failure.connection.is_closed and failure.response is not None:
            failure.result.complete(failure.response)
        if not failure.connection.is_closed:
            self.on_end(failure.connection)
