"""`Charge`: the cost of one request to its client's quotas. The pipeline creates one if there are limits at all.

A request is charged once, just before its response is sent: Produce by the bytes of the request, Fetch by the bytes of
the response, each by its time on the loop. The longest throttle time counts; it is sent in the response and enforced.
Fetch charges before it fills the response, because the response is empty if the quota is exceeded; then only its time
is charged. ShareFetch has acquired its records by then, and returns and charges them.

Source: KafkaApis.handleProduceRequest, .handleFetchRequest and RequestHandlerHelper of Apache Kafka 4.3; KIP-124,
KIP-219.
"""

from typing import TYPE_CHECKING, Final

from ottla.metadata.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

if TYPE_CHECKING:
    from ottla.security.quotas.client_quotas import ClientQuotas

_NANOSECONDS_PER_PERCENT: Final = 10_000_000
"""One percent of a second."""


class Charge:
    """Cost of one request; see the module. ``user`` is the principal's name; requests between nodes are exempt."""

    __slots__ = (
        "_began_ns",
        "_fetched_bytes",
        "_handled_ns",
        "_is_settled",
        "_quotas",
        "client_id",
        "is_exempt",
        "user",
    )

    def __init__(self, quotas: "ClientQuotas", user: str, client_id: str, *, is_exempt: bool) -> None:
        self._quotas = quotas
        self.user = user
        self.client_id = client_id
        self.is_exempt = is_exempt
        self._began_ns = quotas.clock.monotonic_ns()
        self._handled_ns: int | None = None
        self._is_settled = False
        self._fetched_bytes = 0

    def record_handler_return(self) -> None:
        """Record that the handler has returned: the time until a delayed response completes is not charged."""
        self._handled_ns = self._quotas.clock.monotonic_ns() - self._began_ns

    def add_work_time(self, nanoseconds: int) -> None:
        """Add time after the handler has returned: of a slice on the loop, or of work in the background."""
        if self._is_settled:
            self._record_time(nanoseconds)
        elif self._handled_ns is None:
            self._began_ns -= nanoseconds
        else:
            self._handled_ns += nanoseconds

    def fetch_bytes_max(self) -> int | None:
        """Return the most bytes that one Fetch may ever return within the quota; None for no limit."""
        return self._quotas.fetch_bytes_max(self.user, self.client_id)

    def charge_fetch(self, size_bytes: int) -> int:
        """Return the throttle time, with which the response is empty; 0 if ``size_bytes`` are charged and allowed."""
        self._is_settled = True
        if self.is_exempt:
            return 0
        quotas = self._quotas
        bytes_throttle_ms = quotas.record(CONSUMER_BYTE_RATE, self.user, self.client_id, size_bytes)
        time_throttle_ms = self._charge_time()
        if max(bytes_throttle_ms, time_throttle_ms) > 0:
            quotas.undo_record(CONSUMER_BYTE_RATE, self.user, self.client_id, size_bytes)
        return self._record_throttle({CONSUMER_BYTE_RATE: bytes_throttle_ms, REQUEST_PERCENTAGE: time_throttle_ms})

    def add_fetched_bytes(self, size_bytes: int) -> None:
        """Charge records that are returned whatever the quota: later requests wait in their place."""
        self._fetched_bytes += size_bytes

    def settle(self, *, produced_bytes: int = 0, has_response: bool = True, controller_throttle_ms: int = 0) -> int:
        """Charge the request and return the throttle time.

        Args:
            produced_bytes: the size of a Produce request.
            has_response: False for acks=0, whose time is not charged.
            controller_throttle_ms: the throttle time that the controller has put into the response.
        """
        if self._is_settled:
            return controller_throttle_ms
        self._is_settled = True
        if self.is_exempt:
            return 0
        waits_ms = {CONTROLLER_MUTATION_RATE: controller_throttle_ms}
        if produced_bytes:
            waits_ms[PRODUCER_BYTE_RATE] = self._quotas.record(
                PRODUCER_BYTE_RATE, self.user, self.client_id, produced_bytes
            )
        if self._fetched_bytes:
            waits_ms[CONSUMER_BYTE_RATE] = self._quotas.record(
                CONSUMER_BYTE_RATE, self.user, self.client_id, self._fetched_bytes
            )
        waits_ms[REQUEST_PERCENTAGE] = self._charge_time() if has_response else 0
        return self._record_throttle(waits_ms)

    def record_response_write(self, began_ns: int) -> None:
        """Record the time since ``began_ns``, spent on writing the response; it only affects later requests."""
        self._record_time(self._quotas.clock.monotonic_ns() - began_ns)

    def _record_time(self, nanoseconds: int) -> None:
        if not self.is_exempt:
            percents = nanoseconds / _NANOSECONDS_PER_PERCENT
            self._quotas.record(REQUEST_PERCENTAGE, self.user, self.client_id, percents)

    def _charge_time(self) -> int:
        if self._handled_ns is None:
            self.record_handler_return()
            assert self._handled_ns is not None
        percents = self._handled_ns / _NANOSECONDS_PER_PERCENT
        return self._quotas.record(REQUEST_PERCENTAGE, self.user, self.client_id, percents)

    def _record_throttle(self, waits_ms: dict[str, int]) -> int:
        kind, throttle_ms = max(waits_ms.items(), key=lambda each: each[1])
        if throttle_ms > 0:
            self._quotas.record_throttle(kind, throttle_ms, self.user, self.client_id)
        return throttle_ms
