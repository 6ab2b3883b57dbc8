"""Limits out of the metadata held against requests: both sides of each edge, changes while somebody is held back."""

from collections.abc import Callable

import pytest

from ottla.metadata.client_quotas import quota_record
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.security.quotas.client_quotas import ClientQuotas, QuotaConfig
from ottla.security.quotas.measurements import IDLE_MS_MAX
from ottla.simulator.world.clock import SimulatedClock
from ottla.wire.messages.registry import ApiKey

SetLimit = Callable[..., None]


class WorkingClock(SimulatedClock):
    """One whose nanoseconds pass as the test says."""

    worked_ns = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.worked_ns


@pytest.fixture
def clock() -> WorkingClock:
    return WorkingClock()


@pytest.fixture
def quotas(clock: WorkingClock) -> ClientQuotas:
    return ClientQuotas(clock)


@pytest.fixture
def set_limit(quotas: ClientQuotas) -> SetLimit:
    def change(entity: dict[str, str | None], key: str, value: float | None) -> None:
        delta = MetadataDelta(EMPTY_IMAGE)
        delta.replay(quota_record(frozenset(entity.items()), key, value).message)
        quotas.publish(delta, MetadataImage())

    return change


def produce(quotas: ClientQuotas, size_bytes: int, user: str = "u", client_id: str = "c") -> int:
    return quotas.begin(ApiKey.PRODUCE, f"User:{user}", client_id).settle(produced_bytes=size_bytes)


def test_without_limits_nobody_asks(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    assert not quotas.is_enabled
    set_limit({"user": "u"}, "producer_byte_rate", 1)
    assert quotas.is_enabled
    set_limit({"user": "u"}, "producer_byte_rate", None)
    assert not quotas.is_enabled
    set_limit({"ip": None}, "connection_creation_rate", 1)
    assert not quotas.is_enabled
    assert quotas.connection_rates.is_enabled


@pytest.mark.parametrize(("size_bytes", "throttle_ms"), [(10_000, 0), (10_001, 1), (20_000, 10_000)])
def test_a_produce_above_the_rate_waits(
    quotas: ClientQuotas, set_limit: SetLimit, size_bytes: int, throttle_ms: int
) -> None:
    set_limit({"user": "u"}, "producer_byte_rate", 1_000)

    assert produce(quotas, size_bytes) == throttle_ms


def test_a_user_shares_one_measurement_and_others_do_not(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    set_limit({"user": None}, "producer_byte_rate", 1_000)
    assert produce(quotas, 10_000, client_id="a") == 0

    assert produce(quotas, 1_000, client_id="b") == 1_000
    assert produce(quotas, 1_000, user="v", client_id="a") == 0


def test_nobody_is_anonymous_a_user_like_others(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    set_limit({"user": "ANONYMOUS"}, "producer_byte_rate", 1_000)

    assert produce(quotas, 11_000, user="ANONYMOUS") == 1_000


def test_a_new_limit_judges_what_was_used_before(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    set_limit({"user": "u"}, "producer_byte_rate", 1_000)
    assert produce(quotas, 20_000) == 10_000

    set_limit({"user": "u"}, "producer_byte_rate", 4_000)
    assert produce(quotas, 1) == 0
    set_limit({"user": "u"}, "producer_byte_rate", 2_000)
    assert produce(quotas, 1) == 1
    set_limit({"user": "u"}, "producer_byte_rate", None)
    assert produce(quotas, 1_000_000) == 0


def test_a_fetch_above_the_rate_gets_nothing_and_is_not_charged(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    set_limit({"client-id": "c"}, "consumer_byte_rate", 1_000)
    charge = quotas.begin(ApiKey.FETCH, "User:u", "c")
    assert charge.fetch_bytes_max() == 10_000
    assert charge.charge_fetch(10_000) == 0

    assert quotas.begin(ApiKey.FETCH, "User:u", "c").charge_fetch(500) == 500
    assert quotas.begin(ApiKey.FETCH, "User:u", "c").charge_fetch(500) == 500, "what was not given out does not count"
    assert quotas.begin(ApiKey.FETCH, "User:u", "d").fetch_bytes_max() is None


def test_a_fetch_is_charged_once(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    set_limit({"client-id": "c"}, "consumer_byte_rate", 1_000)
    charge = quotas.begin(ApiKey.FETCH, "User:u", "c")
    throttle_ms = charge.charge_fetch(11_000)

    assert charge.settle(by_controller_ms=throttle_ms) == 1_000
    assert quotas.throttles.by_kind["consumer_byte_rate"].count == 1


@pytest.mark.parametrize(("worked_ms", "throttle_ms"), [(100, 0), (105, 500), (500, 1_000)])
def test_time_on_the_loop_is_a_share_of_one_second_and_the_wait_a_sample_at_most(
    quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock, worked_ms: int, throttle_ms: int
) -> None:
    set_limit({"user": "u"}, "request_percentage", 1)
    charge = quotas.begin(ApiKey.METADATA, "User:u", None)
    clock.worked_ns += worked_ms * 1_000_000
    charge.handled()
    clock.worked_ns += 10**12

    assert charge.settle() == throttle_ms, "what passes until the answer is there does not count"


def test_the_time_of_writing_an_answer_counts_for_the_next(
    quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock
) -> None:
    set_limit({"user": "u"}, "request_percentage", 1)
    charge = quotas.begin(ApiKey.METADATA, "User:u", None)
    assert charge.settle() == 0
    began_ns = clock.monotonic_ns()
    clock.worked_ns += 105_000_000
    charge.sent(began_ns)

    assert quotas.begin(ApiKey.METADATA, "User:u", None).settle() == 500


@pytest.mark.parametrize("api_key", [ApiKey.VOTE, ApiKey.BROKER_HEARTBEAT, ApiKey.ENVELOPE, ApiKey.ALTER_PARTITION])
def test_nodes_are_not_held_back(
    quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock, api_key: ApiKey
) -> None:
    set_limit({"user": None}, "request_percentage", 1)
    charge = quotas.begin(api_key, "User:ANONYMOUS", "node")
    clock.worked_ns += 10**9
    charge.sent(0)

    assert charge.settle() == 0
    assert quotas.measured()["request_percentage"] == 0


def test_acks_0_is_charged_for_bytes_but_not_for_time(
    quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock
) -> None:
    set_limit({"user": "u"}, "request_percentage", 1)
    set_limit({"user": "u"}, "producer_byte_rate", 1_000)
    charge = quotas.begin(ApiKey.PRODUCE, "User:u", "c")
    clock.worked_ns += 10**9

    assert charge.settle(produced_bytes=10_010, is_answered=False) == 10


def test_the_longest_wait_counts(quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock) -> None:
    set_limit({"user": "u"}, "request_percentage", 1)
    set_limit({"user": "u"}, "producer_byte_rate", 1_000)
    charge = quotas.begin(ApiKey.PRODUCE, "User:u", "c")
    clock.worked_ns += 105_000_000

    assert charge.settle(produced_bytes=10_010) == 500
    assert quotas.throttles.by_kind["request_percentage"].count == 1
    assert quotas.throttles.by_kind["producer_byte_rate"].count == 0


def test_mutations_are_asked_for_by_user_and_client_id(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    assert quotas.mutations("User:u", "c", is_strict=True) is None
    set_limit({"user": "u", "client-id": "c"}, "controller_mutation_rate", 1)

    assert quotas.mutations("User:u", "d", is_strict=True) is None
    permissive = quotas.mutations("User:u", "c", is_strict=False)
    assert permissive is not None
    permissive.record(12)
    assert permissive.throttle_ms() == 1_000


def test_the_windows_are_those_of_the_configuration(clock: WorkingClock) -> None:
    quotas = ClientQuotas(clock, QuotaConfig(window_count=3, window_size_seconds=2, mutation_window_count=5))
    delta = MetadataDelta(EMPTY_IMAGE)
    for key in ("producer_byte_rate", "controller_mutation_rate"):
        delta.replay(quota_record(frozenset({("user", "u")}), key, 10).message)
    quotas.publish(delta, MetadataImage())

    assert produce(quotas, 41) == 100
    permissive = quotas.mutations("User:u", "c", is_strict=False)
    assert permissive is not None
    permissive.record(51)
    assert permissive.throttle_ms() == 100


def test_what_nobody_has_used_for_an_hour_is_forgotten(
    quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock
) -> None:
    set_limit({"client-id": None}, "producer_byte_rate", 1_000)
    for number in range(5):
        produce(quotas, 1, client_id=str(number))
    assert quotas.measured()["producer_byte_rate"] == 5
    clock.advance(IDLE_MS_MAX)
    quotas.forget_idle(clock.monotonic_ms())

    assert set(quotas.measured().values()) == {0}
