"""A broker whose connection broke: fenced at once when its host says that it ended, and never on less than that."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.peers.channel import PeerFailure
from ottla.purgatory import Delayed
from ottla.types import Endpoint

SESSION_MS = 9_000


class Prober:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Endpoint, str]] = []
        self.waiting: list[Delayed[PeerFailure | None]] = []

    def __call__(self, endpoint: Endpoint, listener: str) -> Delayed[PeerFailure | None]:
        self.asked.append((endpoint, listener))
        delayed: Delayed[PeerFailure | None] = Delayed()
        self.waiting.append(delayed)
        return delayed

    def answer(self, failure: PeerFailure | None) -> None:
        waiting, self.waiting = self.waiting, []
        for delayed in waiting:
            delayed.complete(failure)

    def forget(self) -> None:
        self.answer(None)
        self.asked.clear()


@pytest.fixture
def prober() -> Prober:
    return Prober()


@pytest.fixture
def cluster(new_cluster: Callable[..., Any], prober: Prober) -> Any:
    cluster = new_cluster(1, 2, 3, controllers=2, probe=prober)
    cluster.assign("t", [1, 2, 3])
    return cluster


def lose(cluster: Any, broker_id: int) -> None:
    cluster.active.on_broker_connection_lost(broker_id, cluster.epoch_of(broker_id))


def test_a_broker_that_ended_is_fenced_at_once(cluster: Any, prober: Prober) -> None:
    lose(cluster, 1)
    prober.answer(PeerFailure.REFUSED)

    assert prober.asked == [(Endpoint("broker-1", 9092), "PLAINTEXT")]
    assert cluster.broker_of(1).is_fenced
    assert cluster.partition("t").leader == 2
    assert cluster.active.metrics().refused_probes == 1


@pytest.mark.parametrize("failure", [None, *(each for each in PeerFailure if each is not PeerFailure.REFUSED)])
def test_anything_else_leaves_it_to_the_session(cluster: Any, prober: Prober, failure: PeerFailure | None) -> None:
    lose(cluster, 1)
    prober.answer(failure)
    still_there = not cluster.broker_of(1).is_fenced
    cluster.wait(SESSION_MS)

    assert still_there
    assert cluster.broker_of(1).is_fenced


def test_a_heartbeat_that_comes_meanwhile_proves_that_it_is_there(cluster: Any, prober: Prober) -> None:
    lose(cluster, 1)
    cluster.ask(cluster.heartbeat(1))
    prober.answer(PeerFailure.REFUSED)

    assert not cluster.broker_of(1).is_fenced


def test_the_answer_about_one_incarnation_does_not_fence_the_next(cluster: Any, prober: Prober) -> None:
    lose(cluster, 1)
    cluster.fence(1)
    cluster.restart_broker(1, clean=True)
    prober.answer(PeerFailure.REFUSED)

    assert not cluster.broker_of(1).is_fenced


def test_the_loss_of_a_former_incarnation_s_connection_asks_nobody(cluster: Any, prober: Prober) -> None:
    former = cluster.epoch_of(1)
    cluster.fence(1)
    cluster.restart_broker(1, clean=True)

    cluster.active.on_broker_connection_lost(1, former)
    cluster.active.on_broker_connection_lost(9, 0)

    assert prober.asked == []


def test_one_question_at_a_time(cluster: Any, prober: Prober) -> None:
    lose(cluster, 1)
    lose(cluster, 1)
    asked_while_waiting = len(prober.asked)
    prober.answer(None)
    lose(cluster, 1)

    assert (asked_while_waiting, len(prober.asked)) == (1, 2)


def test_a_broker_that_ends_while_it_is_asked_about_a_former_break_is_fenced(cluster: Any, prober: Prober) -> None:
    lose(cluster, 1)
    cluster.ask(cluster.heartbeat(1))
    lose(cluster, 1)
    prober.answer(PeerFailure.REFUSED)

    assert cluster.broker_of(1).is_fenced


def test_who_is_not_the_active_controller_any_more_fences_nobody(cluster: Any, prober: Prober) -> None:
    lose(cluster, 1)
    waiting, prober.waiting = prober.waiting, []
    cluster.elect(102)
    cluster.elect(101)
    for delayed in waiting:
        delayed.complete(PeerFailure.REFUSED)

    assert not cluster.broker_of(1).is_fenced
    cluster.controllers[102].on_broker_connection_lost(1, cluster.epoch_of(1))
    assert cluster.controllers[102].metrics().is_active == 0


def test_a_new_active_controller_asks_every_broker_that_should_be_there(cluster: Any, prober: Prober) -> None:
    cluster.fence(3)

    cluster.elect(102)
    prober.answer(PeerFailure.REFUSED)

    assert [endpoint.host for endpoint, _ in prober.asked] == ["broker-1", "broker-2"]
    assert [cluster.broker_of(each).is_fenced for each in (1, 2, 3)] == [True, True, True]


def false_alarm(cluster: Any, prober: Prober, broker_id: int) -> bool:
    """Let the network say once that the broker ended, though it did not; return whether that was believed."""
    lose(cluster, broker_id)
    prober.answer(PeerFailure.REFUSED)
    was_believed = cluster.broker_of(broker_id).is_fenced
    cluster.unfence(broker_id)
    return was_believed


def stay_alive(cluster: Any, milliseconds: int) -> None:
    """Let time pass with heartbeats."""
    while milliseconds > 0:
        step = min(milliseconds, 2_000)
        cluster.wait(step)
        milliseconds -= step
        for broker_id in (1, 2, 3):
            cluster.ask(cluster.heartbeat(broker_id))


@pytest.mark.parametrize(
    ("false_alarms", "ignored_ms"),
    [
        pytest.param(1, SESSION_MS, id="a-session"),
        pytest.param(2, 2 * SESSION_MS, id="twice-as-long"),
        pytest.param(3, 4 * SESSION_MS, id="and-again"),
    ],
)
def test_after_false_alarms_lost_connections_are_ignored_ever_longer(
    cluster: Any, prober: Prober, false_alarms: int, ignored_ms: int
) -> None:
    for alarm in range(false_alarms):
        assert false_alarm(cluster, prober, 1)
        if alarm + 1 < false_alarms:
            stay_alive(cluster, SESSION_MS << alarm)

    stay_alive(cluster, ignored_ms - 1)
    assert not false_alarm(cluster, prober, 1), "one millisecond early"
    stay_alive(cluster, 1)
    assert false_alarm(cluster, prober, 1), "when the time is over"


def test_a_flapping_network_fences_ever_less_often(cluster: Any, prober: Prober) -> None:
    fenced = 0
    for _ in range(12 * 60):
        fenced += false_alarm(cluster, prober, 1)
        stay_alive(cluster, 5_000)

    assert fenced <= 10, "in an hour of one broken connection every five seconds"


def test_false_alarms_of_one_broker_do_not_count_for_others_or_for_its_next_incarnation(
    cluster: Any, prober: Prober
) -> None:
    assert false_alarm(cluster, prober, 1)
    assert not false_alarm(cluster, prober, 1)

    assert false_alarm(cluster, prober, 2)
    cluster.fence(1)
    cluster.restart_broker(1, clean=True)
    assert false_alarm(cluster, prober, 1)


def test_a_process_that_really_ends_again_and_again_is_fenced_each_time(cluster: Any, prober: Prober) -> None:
    for _ in range(5):
        lose(cluster, 1)
        prober.answer(PeerFailure.REFUSED)
        assert cluster.broker_of(1).is_fenced
        cluster.restart_broker(1, clean=False)


def test_without_a_way_to_ask_nothing_is_suspected(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1)

    lose(cluster, 1)

    assert not cluster.broker_of(1).is_fenced
