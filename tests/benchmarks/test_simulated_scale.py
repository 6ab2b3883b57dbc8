"""The simulated cluster at rest of `benchmarks.simulated_scale`, small."""

from benchmarks import simulated_scale


def figures(overrides: dict[str, str]) -> dict[str, float]:
    return {figure.name: figure.value for figure in simulated_scale.measure_rest(3, overrides)}


def test_followers_at_rest_fetch_twice_a_second_from_every_leader() -> None:
    measured = figures({})

    metadata = 8  # of the two nodes that do not lead the quorum: after each no-op record, and after its commit
    assert measured["3 nodes: Fetch/s"] == 2 * 3 * 2 + metadata
    assert 0 < measured["3 nodes: BrokerHeartbeat/s"] < 2


def test_longer_waits_of_followers_are_fewer_requests_at_rest() -> None:
    # The metadata log has a no-op record every 500 ms all the same.
    assert figures({"replica.fetch.wait.max.ms": "2000"})["3 nodes: Fetch/s"] < 12
