"""Partition mutations as tokens of a bucket: strict requests are rejected, permissive ones are throttled."""

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.security.quotas.mutations import Mutations, TokenBucket
from ottla.simulator.world.clock import SimulatedClock


def mutations(bucket: TokenBucket, clock: SimulatedClock, *, is_strict: bool, rate: float = 2) -> Mutations:
    return Mutations(bucket, clock, rate=rate, burst_s=11, is_strict=is_strict)


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


def test_strict_request_may_overdraw_once_and_is_then_rejected(clock: SimulatedClock) -> None:
    bucket = TokenBucket()
    first = mutations(bucket, clock, is_strict=True)
    first.record(22)
    first.record(10)
    assert first.throttle_ms() == 0

    with pytest.raises(KafkaError) as rejected:
        first.record(1)

    assert rejected.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert rejected.value.message is None
    assert first.throttle_ms() == 5_000
    clock.advance(2_000)
    assert first.throttle_ms() == 3_000, "time that has passed since is subtracted"


def test_strict_request_is_allowed_when_no_tokens_are_owed(clock: SimulatedClock) -> None:
    bucket = TokenBucket()
    mutations(bucket, clock, is_strict=True).record(32)
    clock.advance(4_000)
    with pytest.raises(KafkaError):
        mutations(bucket, clock, is_strict=True).record(1)

    clock.advance(1_000)
    mutations(bucket, clock, is_strict=True).record(1)


def test_permissive_request_is_executed_and_throttled(clock: SimulatedClock) -> None:
    bucket = TokenBucket()
    permissive = mutations(bucket, clock, is_strict=False)
    permissive.record(22)
    assert permissive.throttle_ms() == 0
    permissive.record(1)

    assert permissive.throttle_ms() == 500


def test_bucket_never_exceeds_its_burst(clock: SimulatedClock) -> None:
    bucket = TokenBucket()
    clock.advance(1_000_000)

    assert bucket.tokens(2, 11, clock.monotonic_ms()) == 22


def test_throttle_time_fits_its_field(clock: SimulatedClock) -> None:
    permissive = mutations(TokenBucket(), clock, is_strict=False, rate=1e-9)
    permissive.record(100_000)

    assert permissive.throttle_ms() == 2**31 - 1
