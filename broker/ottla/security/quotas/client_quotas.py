"""`ClientQuotas`: the limits of this node's clients as the newest metadata has them, and what they have used.

Each node measures what goes through itself; a limit holds on each of them. ``is_enabled`` is all that a request looks
at where there is no limit. When a limit changes, what was used so far stays, and is held against the new one; who is
muted at that moment stays so for the time that was told.

Source: ClientQuotaManager and ClientQuotaMetadataManager of Apache Kafka 4.3.
"""

from dataclasses import dataclass
from typing import Final

from ottla.metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metrics.rate import WindowedRate
from ottla.ports import Clock
from ottla.quoting import quoted
from ottla.security.quotas.charge import Charge
from ottla.security.quotas.connection_rates import ConnectionRates
from ottla.security.quotas.limits import Limits
from ottla.security.quotas.measurements import Measurements
from ottla.security.quotas.mutations import Mutations, TokenBucket
from ottla.security.quotas.throttles import Throttles
from ottla.wire.messages.registry import ApiKey

_RATES: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
_BETWEEN_NODES: Final = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.ENVELOPE,
    }
)
"""What only nodes ask. A follower's Fetch says so itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """quota.window.* and controller.quota.window.*; the defaults are Kafka's."""

    window_count: int = 11
    window_size_seconds: int = 1
    mutation_window_count: int = 11
    mutation_window_size_seconds: int = 1


class ClientQuotas:
    """See the module; a publisher of the metadata loader."""

    def __init__(self, clock: Clock, config: QuotaConfig | None = None) -> None:
        self.clock = clock
        self.is_enabled = False
        self._config = config = config or QuotaConfig()
        self._window_ms = config.window_size_seconds * 1000
        self._limits = {kind: Limits() for kind in (*_RATES, CONTROLLER_MUTATION_RATE)}
        self._rates = {kind: Measurements(self._new_rate) for kind in _RATES}
        self._buckets = Measurements(TokenBucket)
        self.throttles = Throttles(clock)
        self.connection_rates = ConnectionRates(
            new_rate=self._new_rate, throttle_ms_max=self._window_ms, throttles=self.throttles
        )

    def _new_rate(self) -> WindowedRate:
        return WindowedRate(window_count=self._config.window_count, window_ms=self._window_ms)

    def publish(self, delta: MetadataDelta, _: MetadataImage) -> None:
        """Take in limits that were set and removed."""
        for entity, changes in delta.client_quotas.changes.items():
            for key, value in changes.items():
                if key == CONNECTION_CREATION_RATE:
                    self.connection_rates.set_limit(dict(entity).get(IP), value)
                elif key in self._limits:
                    self._limits[key].set(entity, value)
        self.is_enabled = any(self._limits.values())

    def begin(self, api_key: int, principal: str, client_id: str | None, *, is_exempt: bool = False) -> Charge:
        """Return what is held against a request that has just come in. Only to be called where ``is_enabled``."""
        user = principal.partition(":")[2]
        return Charge(self, user, client_id or "", is_exempt=is_exempt or api_key in _BETWEEN_NODES)

    def record(self, kind: str, user: str, client_id: str, value: float) -> int:
        """Record what was used; return for how long its user is to be held back."""
        limit = self._limits[kind].find(user, client_id)
        if limit is None:
            return 0
        now_ms = self.clock.monotonic_ms()
        rate = self._rates[kind].of(limit.shared_by, now_ms)
        rate.record(value, now_ms)
        throttle_ms = rate.wait_ms(limit.rate, now_ms)
        return min(throttle_ms, self._window_ms) if kind == REQUEST_PERCENTAGE else throttle_ms

    def take_back(self, kind: str, user: str, client_id: str, value: float) -> None:
        """Forget that so much was used."""
        limit = self._limits[kind].find(user, client_id)
        if limit is not None:
            now_ms = self.clock.monotonic_ms()
            self._rates[kind].of(limit.shared_by, now_ms).record(-value, now_ms)

    def fetch_bytes_max(self, user: str, client_id: str) -> int | None:
        """Return what a client that has used nothing may fetch at once; more would never be let through."""
        limit = self._limits[CONSUMER_BYTE_RATE].find(user, client_id)
        if limit is None:
            return None
        return int(limit.rate * (self._config.window_count - 1) * self._config.window_size_seconds)

    def mutations(self, principal: str, client_id: str | None, *, is_strict: bool) -> Mutations | None:
        """Return what a request may change of topics; None for anything."""
        limits = self._limits[CONTROLLER_MUTATION_RATE]
        limit = limits.find(principal.partition(":")[2], client_id or "") if limits else None
        if limit is None:
            return None
        bucket = self._buckets.of(limit.shared_by, self.clock.monotonic_ms())
        burst_s = self._config.mutation_window_count * self._config.mutation_window_size_seconds
        return Mutations(bucket, self.clock, rate=limit.rate, burst_s=burst_s, is_strict=is_strict)

    def note(self, kind: str, throttle_ms: int, user: str, client_id: str) -> None:
        self.throttles.note(kind, throttle_ms, f"client {quoted(client_id)} of user {quoted(user)}")

    def forget_idle(self, now_ms: int) -> None:
        """Forget what nobody has used for an hour."""
        for rates in self._rates.values():
            rates.forget_idle(now_ms)
        self._buckets.forget_idle(now_ms)
        self.connection_rates.forget_idle(now_ms)

    def measured(self) -> dict[str, int]:
        """Return how many measurements there are, by kind."""
        counts = {kind: len(measurements) for kind, measurements in self._rates.items()}
        counts[CONTROLLER_MUTATION_RATE] = len(self._buckets)
        counts[CONNECTION_CREATION_RATE] = len(self.connection_rates)
        return counts
