"""`Mutations`: the quota of one request for partitions created and deleted at the active controller (KIP-599).

Each limit is a bucket of tokens that fills at the limit's rate, up to what the controller's window holds (eleven
seconds' worth by default). A request takes one for each partition; what it takes beyond is owed. While tokens are owed,
a strict request is rejected topic by topic, with THROTTLING_QUOTA_EXCEEDED and a throttle time. A permissive request,
of a version without that error, is executed, and its client is muted for the throttle time.

Source: TokenBucket, StrictControllerMutationQuota and PermissiveControllerMutationQuota of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.metrics.rate import WAIT_MS_MAX
from ottla.ports import Clock


class TokenBucket:
    """A token bucket, initially full; ``tokens`` below zero are owed."""

    __slots__ = ("_filled_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens: float | None = None
        self._filled_ms = 0

    def tokens(self, rate: float, burst_s: float, now_ms: int) -> float:
        """Return the tokens in the bucket, which fills at ``rate`` per second for up to ``burst_s``."""
        burst = rate * burst_s
        if self._tokens is None:
            self._tokens = burst
        self._tokens = min(burst, self._tokens + rate * (now_ms - self._filled_ms) / 1000)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, burst_s: float, now_ms: int) -> None:
        self._tokens = self.tokens(rate, burst_s, now_ms) - count


class Mutations:
    """The quota of one request; created by `ClientQuotas.mutations`."""

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
        """Take the tokens for a mutation of ``partition_count`` partitions.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED: the mutation must not be applied now.
        """
        now_ms = self._clock.monotonic_ms()
        if self._is_strict:
            if self._bucket.tokens(self._rate, self._burst_s, now_ms) < 0:
                self._set_throttle(now_ms)
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            self._bucket.take(partition_count, self._rate, self._burst_s, now_ms)
        else:
            self._bucket.take(partition_count, self._rate, self._burst_s, now_ms)
            if self._bucket.tokens(self._rate, self._burst_s, now_ms) < 0:
                self._set_throttle(now_ms)

    def throttle_ms(self) -> int:
        """Return the throttle time that is left."""
        return max(0, self._throttle_ms - (self._clock.monotonic_ms() - self._recorded_ms))

    def _set_throttle(self, now_ms: int) -> None:
        owed = -self._bucket.tokens(self._rate, self._burst_s, now_ms)
        self._throttle_ms = int(min(owed / self._rate * 1000 + 0.5, WAIT_MS_MAX))
        self._recorded_ms = now_ms
