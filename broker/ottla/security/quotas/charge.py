"""`Charge`: one request, as quotas hold it against its client. The pipeline makes one where there are limits at all.

An answer is charged once, just before it leaves: a Produce by the bytes of its request, a Fetch by those of its answer,
each by the time it took on the loop. The longest wait counts, and is both told and kept. A Fetch asks before it fills
its answer, because one that is too much is given out empty; it is then charged for its time alone.

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
"""Of one second."""


class Charge:
    """See the module. ``user`` is the principal's name; ``is_exempt`` for what nodes ask of each other."""

    __slots__ = ("_began_ns", "_handled_ns", "_is_settled", "_quotas", "client_id", "is_exempt", "user")

    def __init__(self, quotas: "ClientQuotas", user: str, client_id: str, *, is_exempt: bool) -> None:
        self._quotas = quotas
        self.user = user
        self.client_id = client_id
        self.is_exempt = is_exempt
        self._began_ns = quotas.clock.monotonic_ns()
        self._handled_ns: int | None = None
        self._is_settled = False

    def handled(self) -> None:
        """The handler has returned: what passes until the answer is there is nobody's time."""
        self._handled_ns = self._quotas.clock.monotonic_ns() - self._began_ns

    def work(self, nanoseconds: int) -> None:
        """Count time on the loop, or off it, behind `handled`: of a slice, or of work in the background."""
        if self._is_settled:
            self._record_time(nanoseconds)
        elif self._handled_ns is None:
            self._began_ns -= nanoseconds
        else:
            self._handled_ns += nanoseconds

    def fetch_bytes_max(self) -> int | None:
        """Return how much one Fetch may bring without being too much at once; None for no limit."""
        return self._quotas.fetch_bytes_max(self.user, self.client_id)

    def charge_fetch(self, size_bytes: int) -> int:
        """Return for how long the client is held back, and gets nothing; 0: ``size_bytes`` are charged."""
        self._is_settled = True
        if self.is_exempt:
            return 0
        quotas = self._quotas
        by_bytes_ms = quotas.record(CONSUMER_BYTE_RATE, self.user, self.client_id, size_bytes)
        by_time_ms = self._charge_time()
        if max(by_bytes_ms, by_time_ms) > 0:
            quotas.take_back(CONSUMER_BYTE_RATE, self.user, self.client_id, size_bytes)
        return self._note({CONSUMER_BYTE_RATE: by_bytes_ms, REQUEST_PERCENTAGE: by_time_ms})

    def settle(self, *, produced_bytes: int = 0, is_answered: bool = True, by_controller_ms: int = 0) -> int:
        """Return for how long the client is held back.

        Args:
            produced_bytes: of a Produce request.
            is_answered: False for acks=0, whose time is not counted.
            by_controller_ms: what the answer says already.
        """
        if self._is_settled:
            return by_controller_ms
        self._is_settled = True
        if self.is_exempt:
            return 0
        waits_ms = {CONTROLLER_MUTATION_RATE: by_controller_ms}
        if produced_bytes:
            waits_ms[PRODUCER_BYTE_RATE] = self._quotas.record(
                PRODUCER_BYTE_RATE, self.user, self.client_id, produced_bytes
            )
        waits_ms[REQUEST_PERCENTAGE] = self._charge_time() if is_answered else 0
        return self._note(waits_ms)

    def sent(self, began_ns: int) -> None:
        """Count the time since ``began_ns``, in which the answer was written; nobody is held back for it yet."""
        self._record_time(self._quotas.clock.monotonic_ns() - began_ns)

    def _record_time(self, nanoseconds: int) -> None:
        if not self.is_exempt:
            percents = nanoseconds / _NANOSECONDS_PER_PERCENT
            self._quotas.record(REQUEST_PERCENTAGE, self.user, self.client_id, percents)

    def _charge_time(self) -> int:
        if self._handled_ns is None:
            self.handled()
            assert self._handled_ns is not None
        percents = self._handled_ns / _NANOSECONDS_PER_PERCENT
        return self._quotas.record(REQUEST_PERCENTAGE, self.user, self.client_id, percents)

    def _note(self, waits_ms: dict[str, int]) -> int:
        kind, throttle_ms = max(waits_ms.items(), key=lambda each: each[1])
        if throttle_ms > 0:
            self._quotas.note(kind, throttle_ms, self.user, self.client_id)
        return throttle_ms
