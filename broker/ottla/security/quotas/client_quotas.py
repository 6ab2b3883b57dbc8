"""`ClientQuotas`: the limits of this node's clients in the newest metadata, and their usage.

Each node measures its own traffic; a limit applies to each node by itself. Without limits a request only reads
``is_enabled``. When a limit changes, the usage so far counts towards the new limit; a connection that is muted at that
moment stays muted for the throttle time that was sent.

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
"""APIs that only nodes call. A follower's Fetch is recognized by its replica id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """quota.window.* and controller.quota.window.*; the defaults are Kafka's."""

    window_count: int = 11
    window_size_seconds: int = 1
    mutation_window_count: int = 11
    mutation_window_size_seconds: int = 1


class ClientQuotas:
    """Limits and usage of this node's clients; see the module. A publisher of the metadata loader."""

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
        """Apply the limits that were set and removed."""
        for entity, changes in delta.client_quotas.changes.items():
            for key, value in changes.items():
                if key == CONNECTION_CREATION_RATE:
                    self.connection_rates.set_limit(dict(entity).get(IP), value)
                elif key in self._limits:
                    self._limits[key].set(entity, value)
        self.is_enabled = any(self._limits.values())

    def start_charge(self, api_key: int, principal: str, client_id: str | None, *, is_exempt: bool = False) -> Charge:
        """Return the charge of a request that has just arrived. Only to be called while ``is_enabled``."""
        user = principal.partition(":")[2]
        return Charge(self, user, client_id or "", is_exempt=is_exempt or api_key in _BETWEEN_NODES)

    def record(self, kind: str, user: str, client_id: str, value: float) -> int:
        """Record usage; return the throttle time."""
        limit = self._limits[kind].find(user, client_id)
        if limit is None:
            return 0
        now_ms = self.clock.monotonic_ms()
        rate = self._rates[kind].of(limit.shared_by, now_ms)
        rate.record(value, now_ms)
        throttle_ms = rate.wait_ms(limit.rate, now_ms)
        return min(throttle_ms, self._window_ms) if kind == REQUEST_PERCENTAGE else throttle_ms

    def undo_record(self, kind: str, user: str, client_id: str, value: float) -> None:
        """Subtract usage that was recorded."""
        limit = self._limits[kind].find(user, client_id)
        if limit is not None:
            now_ms = self.clock.monotonic_ms()
            self._rates[kind].of(limit.shared_by, now_ms).record(-value, now_ms)

    def fetch_bytes_max(self, user: str, client_id: str) -> int | None:
        """Return the most that an idle client may fetch at once; a larger response would always be throttled."""
        limit = self._limits[CONSUMER_BYTE_RATE].find(user, client_id)
        if limit is None:
            return None
        return int(limit.rate * (self._config.window_count - 1) * self._config.window_size_seconds)

    def mutations(self, principal: str, client_id: str | None, *, is_strict: bool) -> Mutations | None:
        """Return the quota for a request's partition mutations; None for no limit."""
        limits = self._limits[CONTROLLER_MUTATION_RATE]
        limit = limits.find(principal.partition(":")[2], client_id or "") if limits else None
        if limit is None:
            return None
        bucket = self._buckets.of(limit.shared_by, self.clock.monotonic_ms())
        burst_s = self._config.mutation_window_count * self._config.mutation_window_size_seconds
        return Mutations(bucket, self.clock, rate=limit.rate, burst_s=burst_s, is_strict=is_strict)

    def record_throttle(self, kind: str, throttle_ms: int, user: str, client_id: str) -> None:
        self.throttles.record(kind, throttle_ms, f"client {quoted(client_id)} of user {quoted(user)}")

    def evict_idle(self, now_ms: int) -> None:
        """Evict measurements that have been idle for an hour."""
        for rates in self._rates.values():
            rates.evict_idle(now_ms)
        self._buckets.evict_idle(now_ms)
        self.connection_rates.evict_idle(now_ms)

    def measured(self) -> dict[str, int]:
        """Return the number of measurements by kind."""
        counts = {kind: len(measurements) for kind, measurements in self._rates.items()}
        counts[CONTROLLER_MUTATION_RATE] = len(self._buckets)
        counts[CONNECTION_CREATION_RATE] = len(self.connection_rates)
        return counts
