"""`Mutations`: what one request may change at the active controller: partitions created and deleted (KIP-599).

Each limit is a bucket of tokens that fills at the limit's rate, up to what the controller's window holds (eleven
seconds' worth by default). A request takes one for each partition; what it takes beyond is owed. While a bucket owes, a
strict request is refused topic by topic, with THROTTLING_QUOTA_EXCEEDED and how long to wait. A permissive one, of a
version that does not know that error, is let through, and its client muted for as long.

Source: TokenBucket, StrictControllerMutationQuota and PermissiveControllerMutationQuota of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.metrics.rate import WAIT_MS_MAX
from ottla.ports import Clock


class TokenBucket:
    """Full at the begin; ``tokens`` below zero are owed."""

    __slots__ = ("_filled_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens: float | None = None
        self._filled_ms = 0

    def tokens(self, rate: float, burst_s: float, now_ms: int) -> float:
        """Return what is in it, under a limit of ``rate`` a second that may be saved up for ``burst_s``."""
        burst = rate * burst_s
        if self._tokens is None:
            self._tokens = burst
        self._tokens = min(burst, self._tokens + rate * (now_ms - self._filled_ms) / 1000)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, burst_s: float, now_ms: int) -> None:
        self._tokens = self.tokens(rate, burst_s, now_ms) - count


class Mutations:
    """One request's; ask for it with `ClientQuotas.mutations`."""

    __slots__ = ("_bucket", "_burst_s", "_clock", "_is_strict", "_rate", "_recorded_ms", "_throttle_ms")

    def __init__(self, bucket: TokenBucket, clock: Clock, *, rate: float, burst_s: float, is_strict: bool) -> None:
        self._bucket = bucket
        self._clock = clock
        self._rate = rate
        self._burst_s = burst_s
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._recorded_ms = 0

    def record(self, partition_count: int) -> None:
        """Take the tokens for a change of so many partitions.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED: it is not to be made now.
        """
        now_ms = self._clock.monotonic_ms()
        if self._is_strict:
            if self._bucket.tokens(self._rate, self._burst_s, now_ms) < 0:
                self._hold_back(now_ms)
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            self._bucket.take(partition_count, self._rate, self._burst_s, now_ms)
        else:
            self._bucket.take(partition_count, self._rate, self._burst_s, now_ms)
            if self._bucket.tokens(self._rate, self._burst_s, now_ms) < 0:
                self._hold_back(now_ms)

    def throttle_ms(self) -> int:
        """Return how long the client is to wait from now on."""
        return max(0, self._throttle_ms - (self._clock.monotonic_ms() - self._recorded_ms))

    def _hold_back(self, now_ms: int) -> None:
        owed = -self._bucket.tokens(self._rate, self._burst_s, now_ms)
        self._throttle_ms = int(min(owed / self._rate * 1000 + 0.5, WAIT_MS_MAX))
        self._recorded_ms = now_ms
