"""A broker whose connection broke: fenced at once when a probe has the connection refused, and for no other result."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerFailure
from ottla.purgatory import Delayed
from ottla.types import Endpoint

SESSION_MS = 9_000
UNSTEADY_MS = SESSION_MS // 3


class ScriptedProbe:
    """A probe that completes when the test says so."""

    def __init__(self) -> None:
        self.probed: list[tuple[Endpoint, str]] = []
        self.waiting: list[Delayed[PeerFailure | None]] = []

    def __call__(self, endpoint: Endpoint, listener: str) -> Delayed[PeerFailure | None]:
        self.probed.append((endpoint, listener))
        delayed: Delayed[PeerFailure | None] = Delayed()
        self.waiting.append(delayed)
        return delayed

    def complete(self, failure: PeerFailure | None) -> None:
        waiting, self.waiting = self.waiting, []
        for delayed in waiting:
            delayed.complete(failure)

    def reset(self) -> None:
        self.complete(None)
        self.probed.clear()


@pytest.fixture
def probe() -> ScriptedProbe:
    return ScriptedProbe()


@pytest.fixture
def cluster(new_cluster: Callable[..., Any], probe: ScriptedProbe) -> Any:
    cluster = new_cluster(1, 2, 3, controllers=2, probe=probe)
    cluster.assign("t", [1, 2, 3])
    return cluster


def lose(cluster: Any, broker_id: int) -> None:
    cluster.active.on_broker_connection_lost(broker_id, cluster.epoch_of(broker_id))


def test_broker_whose_process_ended_is_fenced_at_once(cluster: Any, probe: ScriptedProbe) -> None:
    lose(cluster, 1)
    probe.complete(PeerFailure.CONNECTION_REFUSED)

    assert probe.probed == [(Endpoint("broker-1", 9092), "PLAINTEXT")]
    assert cluster.broker_of(1).is_fenced
    assert cluster.partition("t").leader == 2
    assert cluster.active.metrics().failed_probes == 1


@pytest.mark.parametrize(
    "failure", [None, *(each for each in PeerFailure if each is not PeerFailure.CONNECTION_REFUSED)]
)
def test_other_probe_results_leave_the_broker_to_its_session(
    cluster: Any, probe: ScriptedProbe, failure: PeerFailure | None
) -> None:
    lose(cluster, 1)
    probe.complete(failure)
    still_there = not cluster.broker_of(1).is_fenced
    cluster.wait(SESSION_MS)

    assert still_there
    assert cluster.broker_of(1).is_fenced


def test_heartbeat_during_a_probe_prevents_the_fencing(cluster: Any, probe: ScriptedProbe) -> None:
    lose(cluster, 1)
    cluster.ask(cluster.heartbeat(1))
    probe.complete(PeerFailure.CONNECTION_REFUSED)

    assert not cluster.broker_of(1).is_fenced


def test_probe_of_one_incarnation_does_not_fence_the_next(cluster: Any, probe: ScriptedProbe) -> None:
    lose(cluster, 1)
    cluster.fence(1)
    cluster.restart_broker(1, clean=True)
    probe.complete(PeerFailure.CONNECTION_REFUSED)

    assert not cluster.broker_of(1).is_fenced


def test_lost_connection_of_a_former_incarnation_causes_no_probe(cluster: Any, probe: ScriptedProbe) -> None:
    former = cluster.epoch_of(1)
    cluster.fence(1)
    cluster.restart_broker(1, clean=True)

    cluster.active.on_broker_connection_lost(1, former)
    cluster.active.on_broker_connection_lost(9, 0)

    assert probe.probed == []


def test_one_probe_at_a_time(cluster: Any, probe: ScriptedProbe) -> None:
    lose(cluster, 1)
    lose(cluster, 1)
    probed_while_waiting = len(probe.probed)
    probe.complete(None)
    lose(cluster, 1)

    assert (probed_while_waiting, len(probe.probed)) == (1, 2)


def test_broker_that_ends_during_a_probe_is_fenced(cluster: Any, probe: ScriptedProbe) -> None:
    lose(cluster, 1)
    cluster.ask(cluster.heartbeat(1))
    lose(cluster, 1)
    probe.complete(PeerFailure.CONNECTION_REFUSED)

    assert cluster.broker_of(1).is_fenced


def test_former_active_controller_fences_no_broker(cluster: Any, probe: ScriptedProbe) -> None:
    lose(cluster, 1)
    waiting, probe.waiting = probe.waiting, []
    cluster.elect(102)
    cluster.elect(101)
    for delayed in waiting:
        delayed.complete(PeerFailure.CONNECTION_REFUSED)

    assert not cluster.broker_of(1).is_fenced
    cluster.controllers[102].on_broker_connection_lost(1, cluster.epoch_of(1))
    assert cluster.controllers[102].metrics().is_active == 0


def test_new_active_controller_probes_every_unfenced_broker(cluster: Any, probe: ScriptedProbe) -> None:
    cluster.fence(3)

    cluster.elect(102)
    probe.complete(PeerFailure.CONNECTION_REFUSED)

    assert [endpoint.host for endpoint, _ in probe.probed] == ["broker-1", "broker-2"]
    assert [cluster.broker_of(each).is_fenced for each in (1, 2, 3)] == [True, True, True]


def false_alarm(cluster: Any, probe: ScriptedProbe, broker_id: int) -> bool:
    """Let a probe fail once though the broker is alive; return whether the broker was fenced."""
    lose(cluster, broker_id)
    probe.complete(PeerFailure.CONNECTION_REFUSED)
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


def let_alarms_pass(cluster: Any, probe: ScriptedProbe, count: int) -> None:
    """Let broker 1 be fenced and return ``count`` times, each when it has become steady."""
    for alarm in range(count):
        assert false_alarm(cluster, probe, 1)
        stay_alive(cluster, UNSTEADY_MS << alarm)


@pytest.mark.parametrize(
    ("alarms_before", "unsteady_ms"),
    [
        pytest.param(0, UNSTEADY_MS, id="at-first"),
        pytest.param(1, 2 * UNSTEADY_MS, id="twice-as-long"),
        pytest.param(2, 4 * UNSTEADY_MS, id="and-again"),
        pytest.param(9, 10 * 60 * 1_000, id="at-most"),
    ],
)
def test_broker_that_returns_is_not_fenced_again_for_doubling_times(
    cluster: Any, probe: ScriptedProbe, alarms_before: int, unsteady_ms: int
) -> None:
    let_alarms_pass(cluster, probe, alarms_before)
    assert false_alarm(cluster, probe, 1)

    stay_alive(cluster, unsteady_ms - 1)
    assert not false_alarm(cluster, probe, 1), "one millisecond early"
    stay_alive(cluster, unsteady_ms - 1)
    assert not false_alarm(cluster, probe, 1), "its failure has restarted the time"
    stay_alive(cluster, unsteady_ms)
    assert false_alarm(cluster, probe, 1), "when the time has passed"


def test_broker_that_was_steady_for_an_hour_begins_with_the_shortest_time(cluster: Any, probe: ScriptedProbe) -> None:
    let_alarms_pass(cluster, probe, 4)
    stay_alive(cluster, 60 * 60 * 1_000)
    assert false_alarm(cluster, probe, 1)

    stay_alive(cluster, UNSTEADY_MS)
    assert false_alarm(cluster, probe, 1)


def test_unsteady_broker_joins_only_in_sync_sets_that_lack_members(cluster: Any, probe: ScriptedProbe) -> None:
    """Two members, and min.insync.replicas."""
    cluster.assign("needs-all", [2, 3, 1], **{"min.insync.replicas": "3"})
    cluster.assign("alone", [2, 1])
    assert cluster.active.metrics().unsteady_brokers == 0
    assert false_alarm(cluster, probe, 1)
    assert cluster.active.metrics().unsteady_brokers == 1
    assert [cluster.partition(each).isr for each in ("t", "needs-all", "alone")] == [(2, 3), (2, 3), (2,)]

    enough = cluster.alter_partition("t", [2, 3, 1])
    needs_all = cluster.alter_partition("needs-all", [2, 3, 1])
    alone = cluster.alter_partition("alone", [2, 1])
    assert (enough.error_code, needs_all.error_code, alone.error_code) == (ErrorCode.INELIGIBLE_REPLICA, 0, 0)

    stay_alive(cluster, UNSTEADY_MS)
    assert cluster.alter_partition("t", [2, 3, 1]).error_code == ErrorCode.NONE
    assert cluster.active.metrics().unsteady_brokers == 0


def test_unsteady_broker_stays_in_the_sets_that_have_it(cluster: Any, probe: ScriptedProbe) -> None:
    cluster.assign("needs-all", [2, 3, 1], **{"min.insync.replicas": "3"})
    assert false_alarm(cluster, probe, 1)
    cluster.alter_partition("needs-all", [2, 3, 1])

    assert cluster.alter_partition("needs-all", [1, 2, 3]).error_code == ErrorCode.NONE


def test_flapping_network_fences_at_a_falling_rate(cluster: Any, probe: ScriptedProbe) -> None:
    fenced = 0
    for _ in range(12 * 60):
        fenced += false_alarm(cluster, probe, 1)
        stay_alive(cluster, 5_000)

    assert fenced <= 10, "in an hour of one broken connection every five seconds"


def test_false_alarms_of_one_broker_do_not_count_for_others_or_for_its_next_incarnation(
    cluster: Any, probe: ScriptedProbe
) -> None:
    assert false_alarm(cluster, probe, 1)
    assert not false_alarm(cluster, probe, 1)

    assert false_alarm(cluster, probe, 2)
    assert cluster.active.metrics().unsteady_brokers == 2
    cluster.fence(1)
    cluster.restart_broker(1, clean=True)
    assert cluster.active.metrics().unsteady_brokers == 1
    assert false_alarm(cluster, probe, 1)


def test_process_that_repeatedly_ends_is_fenced_each_time(cluster: Any, probe: ScriptedProbe) -> None:
    for _ in range(5):
        lose(cluster, 1)
        probe.complete(PeerFailure.CONNECTION_REFUSED)
        assert cluster.broker_of(1).is_fenced
        cluster.restart_broker(1, clean=False)


def test_without_a_probe_no_broker_is_suspected(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1)

    lose(cluster, 1)

    assert not cluster.broker_of(1).is_fenced
