"""`ConnectionRates`: limits on new connections per second, by node, by listener and by address (KIP-612).

Above the node's or a listener's rate (max.connection.creation.rate) the listener pauses accepting; connections in its
backlog are accepted afterwards. Above the rate of its address a connection is closed after a delay, without reading
from it. Pause and delay are at most one sample of the window. The node's rate does not apply to the inter-broker
listener if clients have another one, nor to the quorum's listeners.

Source: ConnectionQuotas in SocketServer of Apache Kafka 4.3.
"""

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Final

from ottla.metadata.client_quotas import CONNECTION_CREATION_RATE
from ottla.metrics.rate import WindowedRate
from ottla.security.quotas.measurements import Measurements
from ottla.security.quotas.throttles import BROKER_CONNECTION_RATE, Throttles

RATE_UNLIMITED: Final = 2**31 - 1


class ConnectionRates:
    """Limits and measurements of new connections; see the module.

    Args of the constructor:
        new_rate: creates a measurement.
        throttle_ms_max: the longest pause or delay.
        throttles: counts and logs pauses and delays.
    """

    def __init__(self, *, new_rate: Callable[[], WindowedRate], throttle_ms_max: int, throttles: Throttles) -> None:
        self._throttle_ms_max = throttle_ms_max
        self._throttles = throttles
        self.is_enabled = False
        self._by_ip: dict[str | None, float] = {}
        self._of_ips = Measurements(new_rate)
        self._of_listeners = Measurements(new_rate)
        self._broker_rate = RATE_UNLIMITED
        self._listener_rates: Mapping[str, int] = {}

    def __len__(self) -> int:
        """Return the number of measured addresses."""
        return len(self._of_ips)

    def set_limit(self, ip: str | None, rate: float | None) -> None:
        """Set the limit of an address, or the default (``ip`` None); remove it if ``rate`` is None."""
        # An IPv6 address has several spellings; peer addresses have Python's.
        address = None if ip is None else _normalize_address(ip)
        if rate is None:
            self._by_ip.pop(address, None)
        else:
            self._by_ip[address] = rate
        self._update_enabled()

    def set_rates(self, broker_rate: int, listener_rates: Mapping[str, int]) -> None:
        """Set the rates of the configuration, for the whole node and for some listeners."""
        self._broker_rate = broker_rate
        self._listener_rates = listener_rates
        self._update_enabled()

    def _update_enabled(self) -> None:
        self.is_enabled = bool(self._by_ip or self._listener_rates) or self._broker_rate < RATE_UNLIMITED

    def accept_wait_ms(self, listener: str, now_ms: int, *, is_privileged: bool) -> int:
        """Record a new connection; return for how long ``listener`` is to pause accepting."""
        wait_ms = 0
        if self._broker_rate < RATE_UNLIMITED and not is_privileged:
            wait_ms = self._record(self._of_listeners.of(None, now_ms), self._broker_rate, now_ms)
        rate = self._listener_rates.get(listener, RATE_UNLIMITED)
        if rate < RATE_UNLIMITED:
            wait_ms = max(wait_ms, self._record(self._of_listeners.of(listener, now_ms), rate, now_ms))
        if wait_ms:
            self._throttles.record(BROKER_CONNECTION_RATE, wait_ms, f"listener {listener}")
        return wait_ms

    def close_after_ms(self, host: str, now_ms: int) -> int:
        """Record a new connection; return after how long it is to be closed for exceeding ``host``'s rate, else 0."""
        if not self._by_ip:
            return 0
        limit = self._by_ip.get(host, self._by_ip.get(None))
        if limit is None:
            return 0
        rate = self._of_ips.of(host, now_ms)
        wait_ms = self._record(rate, limit, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)
            self._throttles.record(CONNECTION_CREATION_RATE, wait_ms, f"a connection from {host}")
        return wait_ms

    def evict_idle(self, now_ms: int) -> None:
        self._of_ips.evict_idle(now_ms)

    def _record(self, measured: WindowedRate, rate: float, now_ms: int) -> int:
        measured.record(1, now_ms)
        return min(measured.wait_ms(rate, now_ms), self._throttle_ms_max)


def _normalize_address(ip: str) -> str:
    address = ip_address(ip)
    return str(getattr(address, "ipv4_mapped", None) or address)
