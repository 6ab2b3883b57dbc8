"""Limits on new connections per second: by node, by listener, by address."""

import pytest

from ottla.metrics.rate import WindowedRate
from ottla.security.quotas.connection_rates import RATE_UNLIMITED, ConnectionRates
from ottla.security.quotas.throttles import BROKER_CONNECTION_RATE, Throttles
from ottla.simulator.world.clock import SimulatedClock


@pytest.fixture
def throttles() -> Throttles:
    return Throttles(SimulatedClock())


@pytest.fixture
def rates(throttles: Throttles) -> ConnectionRates:
    return ConnectionRates(
        new_rate=lambda: WindowedRate(window_count=11, window_ms=1_000), throttle_ms_max=1_000, throttles=throttles
    )


def test_connection_above_its_address_rate_is_closed_and_not_counted(
    rates: ConnectionRates, throttles: Throttles
) -> None:
    rates.set_limit("10.0.0.1", 2)
    waits = [rates.close_after_ms("10.0.0.1", 0) for _ in range(23)]

    assert waits == [0] * 20 + [500, 500, 500]
    assert rates.close_after_ms("10.0.0.2", 0) == 0
    assert throttles.by_kind["connection_creation_rate"].count == 3


def test_default_applies_to_each_address_unless_it_has_its_own_limit(rates: ConnectionRates) -> None:
    rates.set_limit(None, 1)
    rates.set_limit("10.0.0.1", 2)

    assert sum(not rates.close_after_ms("10.0.0.1", 0) for _ in range(30)) == 20
    assert sum(not rates.close_after_ms("10.0.0.2", 0) for _ in range(30)) == 10
    assert sum(not rates.close_after_ms("10.0.0.3", 0) for _ in range(30)) == 10
    assert len(rates) == 3


def test_removed_limit_no_longer_applies(rates: ConnectionRates) -> None:
    rates.set_limit("10.0.0.1", 1)
    assert rates.is_enabled
    rates.set_limit("10.0.0.1", None)

    assert not rates.is_enabled
    assert not any(rates.close_after_ms("10.0.0.1", 0) for _ in range(30))


def test_accepting_pauses_above_the_nodes_rate(rates: ConnectionRates, throttles: Throttles) -> None:
    rates.set_rates(1, {})
    waits = [rates.accept_wait_ms("CLIENTS", 0, is_privileged=False) for _ in range(12)]

    assert waits == [0] * 10 + [1_000, 1_000], "a sample's length at most"
    assert rates.accept_wait_ms("NODES", 0, is_privileged=True) == 0
    assert throttles.by_kind[BROKER_CONNECTION_RATE].time_ms == 2_000


def test_listener_has_its_own_rate(rates: ConnectionRates) -> None:
    rates.set_rates(RATE_UNLIMITED, {"CLIENTS": 10})

    assert [rates.accept_wait_ms("CLIENTS", 0, is_privileged=False) for _ in range(101)] == [0] * 100 + [100]
    assert not any(rates.accept_wait_ms("OTHERS", 0, is_privileged=False) for _ in range(101))


@pytest.mark.parametrize(
    ("named", "peer"),
    [
        pytest.param("2001:DB8::1", "2001:db8::1", id="capitals"),
        pytest.param("0:0:0:0:0:0:0:1", "::1", id="as-java-writes-it"),
        pytest.param("::ffff:10.0.0.1", "10.0.0.1", id="mapped"),
    ],
)
def test_spellings_of_one_address_share_a_limit(rates: ConnectionRates, named: str, peer: str) -> None:
    rates.set_limit(named, 1)

    assert any(rates.close_after_ms(peer, 0) for _ in range(30))
    rates.set_limit(peer, None)
    assert not rates.is_enabled
