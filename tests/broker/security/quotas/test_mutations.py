"""Changes of partitions as tokens of a bucket: what strict requests are refused, and permissive ones pay for."""

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.security.quotas.mutations import Mutations, TokenBucket
from ottla.simulator.world.clock import SimulatedClock


def mutations(bucket: TokenBucket, clock: SimulatedClock, *, is_strict: bool, rate: float = 2) -> Mutations:
    return Mutations(bucket, clock, rate=rate, burst_s=11, is_strict=is_strict)


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


def test_a_strict_request_may_overdraw_once_and_then_waits(clock: SimulatedClock) -> None:
    bucket = TokenBucket()
    first = mutations(bucket, clock, is_strict=True)
    first.record(22)
    first.record(10)
    assert first.throttle_ms() == 0

    with pytest.raises(KafkaError) as refused:
        first.record(1)

    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused.value.message is None
    assert first.throttle_ms() == 5_000
    clock.advance(2_000)
    assert first.throttle_ms() == 3_000, "what has passed since need not be waited for again"


def test_a_bucket_that_owes_nothing_lets_a_strict_request_through(clock: SimulatedClock) -> None:
    bucket = TokenBucket()
    mutations(bucket, clock, is_strict=True).record(32)
    clock.advance(4_000)
    with pytest.raises(KafkaError):
        mutations(bucket, clock, is_strict=True).record(1)

    clock.advance(1_000)
    mutations(bucket, clock, is_strict=True).record(1)


def test_a_permissive_request_is_let_through_and_pays(clock: SimulatedClock) -> None:
    bucket = TokenBucket()
    permissive = mutations(bucket, clock, is_strict=False)
    permissive.record(22)
    assert permissive.throttle_ms() == 0
    permissive.record(1)

    assert permissive.throttle_ms() == 500


def test_no_more_is_saved_up_than_a_window_holds(clock: SimulatedClock) -> None:
    bucket = TokenBucket()
    clock.advance(1_000_000)

    assert bucket.tokens(2, 11, clock.monotonic_ms()) == 22


def test_a_wait_fits_the_field_that_carries_it(clock: SimulatedClock) -> None:
    permissive = mutations(TokenBucket(), clock, is_strict=False, rate=1e-9)
    permissive.record(100_000)

    assert permissive.throttle_ms() == 2**31 - 1
