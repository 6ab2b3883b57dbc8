"""A broker that is connected and responds to nothing: fenced long before its session ends, if silence is evidence."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.controller.pings import PING_AFTER_MS
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.purgatory import Delayed
from ottla.types import Endpoint
from ottla.wire.messages.api_versions import ApiVersionsResponse

TIMEOUT_MS = 1_000
SESSION_MS = 9_000
STEP_MS = 50


class Pings:
    """Pings that the brokers respond to within a step, except for those that hang."""

    def __init__(self) -> None:
        self.results: dict[str, PeerResult | None] = {}
        """By host: what pings end with; None for nothing."""
        self.sent: list[str] = []
        self._waiting: list[tuple[str, Delayed[PeerResult]]] = []

    def __call__(self, endpoint: Endpoint, listener: str) -> Delayed[PeerResult]:
        assert listener == "PLAINTEXT"
        self.sent.append(endpoint.host)
        delayed: Delayed[PeerResult] = Delayed()
        self._waiting.append((endpoint.host, delayed))
        return delayed

    def respond(self) -> None:
        waiting, self._waiting = self._waiting, []
        for host, delayed in waiting:
            result = self.results.get(host, ApiVersionsResponse())
            if result is None:
                self._waiting.append((host, delayed))
            else:
                delayed.complete(result)


class World:
    """Brokers 1 to 3 with a partition, and two controllers."""

    def __init__(self, new_cluster: Callable[..., Any], **config: Any) -> None:
        self.pings = Pings()
        self.cluster = new_cluster(1, 2, 3, controllers=2, ping=self.pings, **config)
        self.cluster.assign("t", [1, 2, 3])

    def run(self, milliseconds: int, *, heartbeats_of: tuple[int, ...] = ()) -> None:
        for elapsed_ms in range(0, milliseconds, STEP_MS):
            self.cluster.wait(STEP_MS)
            self.pings.respond()
            if elapsed_ms % 2_000 == 0:
                for broker_id in heartbeats_of:
                    self.cluster.ask(self.cluster.heartbeat(broker_id))

    def hang(self, broker_id: int, result: PeerFailure | None = None) -> None:
        self.pings.results[f"broker-{broker_id}"] = result

    def fenced(self) -> list[int]:
        return [each for each in (1, 2, 3) if self.cluster.broker_of(each).is_fenced]


@pytest.fixture
def world(new_cluster: Callable[..., Any]) -> World:
    return World(new_cluster)


def test_broker_that_stops_responding_is_fenced(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world.run(4_000, heartbeats_of=(1, 2, 3))
    world.hang(1)
    world.run(PING_AFTER_MS + TIMEOUT_MS + 2 * STEP_MS, heartbeats_of=(2, 3))

    assert world.fenced() == [1]
    assert world.cluster.partition("t").leader == 2
    assert world.cluster.active.metrics().failed_pings == 1
    assert "fencing broker 1: it hangs: no response for 1" in caplog.text


def test_response_within_the_time_is_enough(world: World) -> None:
    for _ in range(20):
        world.hang(1)
        world.run(TIMEOUT_MS - STEP_MS)
        world.pings.results.clear()
        world.run(PING_AFTER_MS)

    assert world.cluster.active.metrics().failed_pings == 0


def test_slow_network_extends_the_time_for_responses(world: World) -> None:
    """A response over a new connection takes three of its round trips, here 1.2 s."""
    for broker_id in (1, 2, 3):
        world.hang(broker_id)
    world.cluster.ask(world.cluster.heartbeat(2))
    world.cluster.ask(world.cluster.heartbeat(3))
    world.run(300)
    world.cluster.ask(world.cluster.heartbeat(1))
    world.run(PING_AFTER_MS - 300 + 1_200)
    del world.pings.results["broker-2"], world.pings.results["broker-3"]
    world.run(300)

    assert world.fenced() == []


@pytest.mark.parametrize("late_ms", [1, 20, 300])
def test_late_ticks_of_the_controller_are_not_counted(world: World, late_ms: int) -> None:
    """The response arrives between two ticks, of which the second is late."""
    for _ in range(200):
        world.run(STEP_MS)
        world.cluster.wait(late_ms)

    assert world.cluster.active.metrics().failed_pings == 0


@pytest.mark.parametrize("late_ms", [5, 40])
def test_busy_controller_detects_a_broker_that_hangs(new_cluster: Callable[..., Any], late_ms: int) -> None:
    """A deadline each millisecond, which is always reached late."""
    world = World(new_cluster, idle_interval_ms=1)
    world.run(1_000)
    world.hang(1)
    for _ in range((PING_AFTER_MS + TIMEOUT_MS + 4 * STEP_MS) // late_ms):
        world.cluster.wait(late_ms)
        world.pings.respond()

    assert world.fenced() == [1]


def test_heartbeats_are_responses(world: World) -> None:
    """Whether requests reach the broker does not matter as long as its heartbeats reach the controller."""
    world.run(1_000, heartbeats_of=(1, 2, 3))
    world.hang(1)
    for _ in range(20):
        world.run(TIMEOUT_MS - STEP_MS, heartbeats_of=(1, 2, 3))

    assert world.fenced() == []


def test_broker_that_was_heard_just_now_gets_no_ping(world: World) -> None:
    for _ in range(20):
        for broker_id in (1, 2, 3):
            world.cluster.ask(world.cluster.heartbeat(broker_id))
        world.pings.sent.clear()
        world.run(PING_AFTER_MS - STEP_MS)
        assert world.pings.sent == []


def test_silence_of_all_is_no_evidence(world: World) -> None:
    """The controller may not be able to reach any broker; one that hangs is fenced when its session ends."""
    for broker_id in (1, 2, 3):
        world.hang(broker_id)
    world.run(SESSION_MS - STEP_MS)
    assert world.fenced() == []

    world.run(2 * STEP_MS)
    assert world.fenced() == [1, 2, 3]
    assert world.cluster.active.metrics().failed_pings == 0


def test_responses_of_others_are_evidence_for_a_new_controller(world: World) -> None:
    world.hang(1)
    world.cluster.elect(102)
    world.run(2 * TIMEOUT_MS)

    assert world.fenced() == [1]


def test_new_controller_waits_less_for_the_node_that_was_the_last(new_cluster: Callable[..., Any]) -> None:
    """It was silent for the quorum's fetch timeout; here, controllers are processes of their own with the same ids."""
    world = World(new_cluster)
    world.cluster.elect(3)
    for broker_id in (1, 3):
        world.hang(broker_id)
    world.cluster.elect(102)
    world.run(TIMEOUT_MS // 4 + 6 * STEP_MS)
    assert world.fenced() == [3]

    world.run(TIMEOUT_MS)
    assert world.fenced() == [1, 3]


@pytest.mark.parametrize("failure", [PeerFailure.DISCONNECTED, PeerFailure.CONNECTION_REFUSED])
def test_broken_connections_are_left_to_probe_and_session(world: World, failure: PeerFailure) -> None:
    world.run(1_000)
    world.hang(1, failure)
    world.run(SESSION_MS - 1_000 - 2 * STEP_MS)

    assert world.fenced() == []


def test_pause_of_the_controller_itself_is_not_counted(world: World) -> None:
    world.run(1_000, heartbeats_of=(1, 2, 3))
    for _ in range(5):
        world.run(PING_AFTER_MS, heartbeats_of=(1, 2, 3))
        world.hang(1)
        world.run(TIMEOUT_MS // 2)
        world.cluster.wait(8_000)
        world.run(TIMEOUT_MS // 4)
        world.pings.results.clear()
        world.run(STEP_MS)

    assert world.fenced() == []


def test_unsteady_broker_is_left_to_its_session(world: World) -> None:
    world.run(1_000)
    world.hang(1)
    world.run(2_000, heartbeats_of=(2, 3))
    assert world.fenced() == [1]
    world.cluster.unfence(1)

    world.run(SESSION_MS - 2_000, heartbeats_of=(2, 3))

    assert world.fenced() == []


def test_next_incarnation_is_judged_by_itself(world: World) -> None:
    world.run(1_000)
    world.hang(1)
    world.run(2_000, heartbeats_of=(2, 3))
    world.cluster.restart_broker(1, clean=False)
    assert world.fenced() == []
    world.run(3_000, heartbeats_of=(2, 3))

    assert world.fenced() == [1]


def test_fenced_brokers_get_no_pings(world: World) -> None:
    world.cluster.fence(1)
    world.pings.sent.clear()
    world.run(2_000)

    assert set(world.pings.sent) == {"broker-2", "broker-3"}


def test_zero_turns_pings_off(new_cluster: Callable[..., Any]) -> None:
    world = World(new_cluster, response_timeout_ms=0)
    world.run(5_000)

    assert world.pings.sent == []
