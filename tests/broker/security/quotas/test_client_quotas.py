"""Requests charged to the limits of the metadata: both sides of each edge, changes while a client is throttled."""

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
    """A clock whose nanoseconds advance as the test sets them."""

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
    return quotas.start_charge(ApiKey.PRODUCE, f"User:{user}", client_id).settle(produced_bytes=size_bytes)


def test_without_limits_quotas_are_disabled(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    assert not quotas.is_enabled
    set_limit({"user": "u"}, "producer_byte_rate", 1)
    assert quotas.is_enabled
    set_limit({"user": "u"}, "producer_byte_rate", None)
    assert not quotas.is_enabled
    set_limit({"ip": None}, "connection_creation_rate", 1)
    assert not quotas.is_enabled
    assert quotas.connection_rates.is_enabled


@pytest.mark.parametrize(("size_bytes", "throttle_ms"), [(10_000, 0), (10_001, 1), (20_000, 10_000)])
def test_produce_above_the_rate_is_throttled(
    quotas: ClientQuotas, set_limit: SetLimit, size_bytes: int, throttle_ms: int
) -> None:
    set_limit({"user": "u"}, "producer_byte_rate", 1_000)

    assert produce(quotas, size_bytes) == throttle_ms


def test_clients_of_one_user_share_a_measurement(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    set_limit({"user": None}, "producer_byte_rate", 1_000)
    assert produce(quotas, 10_000, client_id="a") == 0

    assert produce(quotas, 1_000, client_id="b") == 1_000
    assert produce(quotas, 1_000, user="v", client_id="a") == 0


def test_anonymous_is_a_user_like_others(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    set_limit({"user": "ANONYMOUS"}, "producer_byte_rate", 1_000)

    assert produce(quotas, 11_000, user="ANONYMOUS") == 1_000


def test_new_limit_counts_earlier_usage(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    set_limit({"user": "u"}, "producer_byte_rate", 1_000)
    assert produce(quotas, 20_000) == 10_000

    set_limit({"user": "u"}, "producer_byte_rate", 4_000)
    assert produce(quotas, 1) == 0
    set_limit({"user": "u"}, "producer_byte_rate", 2_000)
    assert produce(quotas, 1) == 1
    set_limit({"user": "u"}, "producer_byte_rate", None)
    assert produce(quotas, 1_000_000) == 0


def test_fetch_above_the_rate_is_empty_and_not_charged(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    set_limit({"client-id": "c"}, "consumer_byte_rate", 1_000)
    charge = quotas.start_charge(ApiKey.FETCH, "User:u", "c")
    assert charge.fetch_bytes_max() == 10_000
    assert charge.charge_fetch(10_000) == 0

    assert quotas.start_charge(ApiKey.FETCH, "User:u", "c").charge_fetch(500) == 500
    assert quotas.start_charge(ApiKey.FETCH, "User:u", "c").charge_fetch(500) == 500, "empty response is not counted"
    assert quotas.start_charge(ApiKey.FETCH, "User:u", "d").fetch_bytes_max() is None


def test_fetch_is_charged_once(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    set_limit({"client-id": "c"}, "consumer_byte_rate", 1_000)
    charge = quotas.start_charge(ApiKey.FETCH, "User:u", "c")
    throttle_ms = charge.charge_fetch(11_000)

    assert charge.settle(controller_throttle_ms=throttle_ms) == 1_000
    assert quotas.throttles.by_kind["consumer_byte_rate"].count == 1


@pytest.mark.parametrize(("worked_ms", "throttle_ms"), [(100, 0), (105, 500), (500, 1_000)])
def test_request_time_is_charged_and_throttled_for_at_most_a_sample(
    quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock, worked_ms: int, throttle_ms: int
) -> None:
    set_limit({"user": "u"}, "request_percentage", 1)
    charge = quotas.start_charge(ApiKey.METADATA, "User:u", None)
    clock.worked_ns += worked_ms * 1_000_000
    charge.record_handler_return()
    clock.worked_ns += 10**12

    assert charge.settle() == throttle_ms, "the time until the delayed response does not count"


def test_time_of_writing_a_response_counts_for_the_next_request(
    quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock
) -> None:
    set_limit({"user": "u"}, "request_percentage", 1)
    charge = quotas.start_charge(ApiKey.METADATA, "User:u", None)
    assert charge.settle() == 0
    began_ns = clock.monotonic_ns()
    clock.worked_ns += 105_000_000
    charge.record_response_write(began_ns)

    assert quotas.start_charge(ApiKey.METADATA, "User:u", None).settle() == 500


@pytest.mark.parametrize("api_key", [ApiKey.VOTE, ApiKey.BROKER_HEARTBEAT, ApiKey.ENVELOPE, ApiKey.ALTER_PARTITION])
def test_requests_between_nodes_are_not_throttled(
    quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock, api_key: ApiKey
) -> None:
    set_limit({"user": None}, "request_percentage", 1)
    charge = quotas.start_charge(api_key, "User:ANONYMOUS", "node")
    clock.worked_ns += 10**9
    charge.record_response_write(0)

    assert charge.settle() == 0
    assert quotas.measured()["request_percentage"] == 0


def test_acks_0_is_charged_for_bytes_but_not_for_time(
    quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock
) -> None:
    set_limit({"user": "u"}, "request_percentage", 1)
    set_limit({"user": "u"}, "producer_byte_rate", 1_000)
    charge = quotas.start_charge(ApiKey.PRODUCE, "User:u", "c")
    clock.worked_ns += 10**9

    assert charge.settle(produced_bytes=10_010, has_response=False) == 10


def test_longest_throttle_time_counts(quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock) -> None:
    set_limit({"user": "u"}, "request_percentage", 1)
    set_limit({"user": "u"}, "producer_byte_rate", 1_000)
    charge = quotas.start_charge(ApiKey.PRODUCE, "User:u", "c")
    clock.worked_ns += 105_000_000

    assert charge.settle(produced_bytes=10_010) == 500
    assert quotas.throttles.by_kind["request_percentage"].count == 1
    assert quotas.throttles.by_kind["producer_byte_rate"].count == 0


def test_mutation_quota_is_found_by_user_and_client_id(quotas: ClientQuotas, set_limit: SetLimit) -> None:
    assert quotas.mutations("User:u", "c", is_strict=True) is None
    set_limit({"user": "u", "client-id": "c"}, "controller_mutation_rate", 1)

    assert quotas.mutations("User:u", "d", is_strict=True) is None
    permissive = quotas.mutations("User:u", "c", is_strict=False)
    assert permissive is not None
    permissive.record(12)
    assert permissive.throttle_ms() == 1_000


def test_windows_follow_the_configuration(clock: WorkingClock) -> None:
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


def test_measurements_idle_for_an_hour_are_evicted(
    quotas: ClientQuotas, set_limit: SetLimit, clock: WorkingClock
) -> None:
    set_limit({"client-id": None}, "producer_byte_rate", 1_000)
    for number in range(5):
        produce(quotas, 1, client_id=str(number))
    assert quotas.measured()["producer_byte_rate"] == 5
    clock.advance(IDLE_MS_MAX)
    quotas.evict_idle(clock.monotonic_ms())

    assert set(quotas.measured().values()) == {0}
