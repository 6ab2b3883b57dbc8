"""Signs of life of watches, problems, and silence that is too long."""

import pytest

from ottla_operator.adapters.kubernetes.api_calls import ApiCall
from ottla_operator.runtime.watch_health import WatchHealth


def call(resource: str = "topics", verb: str = "watch", *, namespace: str = "", words: str = "") -> ApiCall:
    return ApiCall(verb, resource, namespace, 0 if words else 200, 0.1, words)


@pytest.fixture
def health() -> WatchHealth:
    return WatchHealth([("topics", ""), ("users", "")], 100)


def test_nothing_is_open_at_the_beginning(health: WatchHealth) -> None:
    assert health.problem == "topics: not opened yet; users: not opened yet"


def test_watches_are_open_once_each_has_a_response(health: WatchHealth) -> None:
    assert health.observe_request(call("topics"), 101) == "the watch of topics is open"
    assert health.problem == "users: not opened yet"
    assert health.observe_request(call("users"), 102) == "the watch of users is open"
    assert health.problem is None


def test_successful_listing_is_a_sign_of_life_and_opens_no_watch(health: WatchHealth) -> None:
    assert health.observe_request(call(verb="list"), 150) is None
    assert health.problem is not None
    assert health.ages_s(160) == {"topics": 10, "users": 60}


def test_errors_and_time_outs_of_the_server_are_signs_of_life_and_problems(health: WatchHealth) -> None:
    health.observe_request(call(), 101)

    assert (
        health.observe_request(call(words="503 Unavailable"), 150) == "the watch of topics is not open: 503 Unavailable"
    )
    assert health.observe_request(call(words="503 Unavailable"), 151) is None
    assert health.ages_s(151)["topics"] == 0


def test_listing_that_fails_is_a_problem(health: WatchHealth) -> None:
    health.observe_request(call(), 101)
    health.observe_request(call(verb="list", words="404 Not Found"), 102)

    assert "topics: 404 Not Found" in (health.problem or "")


def test_quietest_watch_of_a_resource_counts() -> None:
    health = WatchHealth([("topics", "a"), ("topics", "b")], 100)
    health.observe_request(call(namespace="a"), 200)

    assert health.ages_s(210) == {"topics": 110}
    assert health.problem == "topics in b: not opened yet"


def test_event_is_a_sign_of_life_of_its_watch(health: WatchHealth) -> None:
    health.observe_event("topics", "kafka", 200)

    assert health.ages_s(200) == {"topics": 0, "users": 100}


def test_failure_to_start_watches_counts_for_all(health: WatchHealth) -> None:
    health.observe_request(call(), 101)
    health.observe_failure("no CRD", 200)

    assert health.ages_s(201) == {"topics": 1, "users": 1}
    assert health.problem == "no CRD"


@pytest.mark.parametrize("other", [call("secrets"), call(verb="get"), call(namespace="else")])
def test_other_requests_are_not_counted(health: WatchHealth, other: ApiCall) -> None:
    assert health.observe_request(other, 200) is None
    assert health.ages_s(200)["topics"] == 100
