"""A broker's lifecycle: it registers, catches up, is unfenced, sends heartbeats, and shuts down when it may."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.membership.broker_lifecycle import BrokerLifecycle, BrokerLifecycleConfig, BrokerState
from ottla.metadata.cluster import Listener
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.features import FeaturesImage
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, Provenance
from ottla.metadata.metadata_version import METADATA_VERSION
from ottla.purgatory import Delayed
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.error_response import error_response
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.metadata_log import PartitionChangeRecord, PartitionRecord, TopicRecord
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

HEARTBEAT_MS = 2_000


class Channel:
    """Forwards requests to the controller and records them."""

    def __init__(self, node: Any) -> None:
        self.sent: list[Message] = []
        self._controller = node.controller
        self._held: list[Callable[[], object]] | None = None

    def send(self, request: Message) -> Delayed[Message]:
        def to_response(decided: Message | KafkaError) -> Message:
            return error_response(request, decided) if isinstance(decided, KafkaError) else decided

        self.sent.append(request)
        response: Delayed[Message] = self._controller.handle(request).then(to_response)
        if self._held is None:
            return response
        later: Delayed[Message] = Delayed()
        self._held.append(lambda: response.on_complete(later.complete))
        return later

    def hold(self) -> None:
        """Delay responses from now on."""
        self._held = []

    def release(self) -> None:
        """Deliver the delayed responses, and later ones at once."""
        held, self._held = self._held or [], None
        for pass_on in held:
            pass_on()

    def take(self) -> list[type[Message]]:
        sent, self.sent = self.sent, []
        return [type(request) for request in sent]


class LivingBroker:
    """A broker next to its controller; the test controls time."""

    def __init__(self, node: Any, previous_broker_epoch: int = -1, cluster_id: str = "4L6g3nShT-eMCtK--X86sw") -> None:
        self.node = node
        self.failures: list[str] = []
        self.cordoned: list[Uuid] = []
        self.channel = Channel(node)
        self.states: list[BrokerState] = []
        self.lifecycle = BrokerLifecycle(
            clock=node.clock,
            random=SeededRandom(7),
            channel=self.channel,
            node_id=1,
            cluster_id=cluster_id,
            listeners={"PLAINTEXT": Listener("localhost", 9092, 0)},
            rack="r",
            metadata_offset=lambda: node.loader.applied_offset,
            directory_ids=lambda: [Uuid(b"d" * 16)],
            offline_directory_ids=list,
            cordoned_directory_ids=lambda: self.cordoned,
            previous_broker_epoch=previous_broker_epoch,
            config=BrokerLifecycleConfig(heartbeat_interval_ms=HEARTBEAT_MS, initial_registration_timeout_ms=1_000),
            on_state=self.states.append,
            on_failure=self.failures.append,
        )

    def tick(self, elapsed_ms: int = 0) -> list[type[Message]]:
        """Let time pass; return the types of the requests sent."""
        self.node.clock.advance(elapsed_ms)
        self.lifecycle.tick(self.node.clock.monotonic_ms())
        self.node.commit()
        return self.channel.take()

    def publish(self, image: MetadataImage) -> None:
        self.lifecycle.publish(MetadataDelta(image), image)

    def settle(self) -> None:
        while self.lifecycle.next_deadline_ms() == self.node.clock.monotonic_ms():
            self.tick()


@pytest.fixture
def broker(new_controller: Callable[..., Any]) -> LivingBroker:
    return LivingBroker(new_controller())


@pytest.fixture
def running(broker: LivingBroker) -> LivingBroker:
    broker.lifecycle.start()
    broker.lifecycle.set_ready_to_unfence()
    broker.settle()
    broker.tick()
    broker.publish(broker.node.image)
    return broker


def test_broker_registers_catches_up_and_is_unfenced(broker: LivingBroker) -> None:
    broker.lifecycle.start()
    assert broker.tick() == [BrokerRegistrationRequest]
    assert broker.tick() == [BrokerHeartbeatRequest]
    assert broker.lifecycle.state is BrokerState.RECOVERY
    assert not broker.lifecycle.unfenced.is_complete

    broker.lifecycle.set_ready_to_unfence()

    assert broker.tick() == [BrokerHeartbeatRequest]
    assert broker.states == [BrokerState.STARTING, BrokerState.RECOVERY, BrokerState.RUNNING]
    assert broker.lifecycle.unfenced.is_complete
    registered = broker.node.image.cluster.brokers[1]
    assert (registered.rack, registered.listeners["PLAINTEXT"].port) == ("r", 9092)


def test_heartbeat_is_sent_after_the_interval(running: LivingBroker) -> None:
    assert running.tick(HEARTBEAT_MS - 1) == []
    assert running.tick(1) == [BrokerHeartbeatRequest]


def test_cordoned_directories_are_sent_at_once_until_the_metadata_has_them(running: LivingBroker) -> None:
    def show() -> list[list[Uuid] | None]:
        sent = [each for each in running.channel.sent if isinstance(each, BrokerHeartbeatRequest)]
        running.publish(running.node.image)
        return [each.cordoned_log_dirs for each in sent]

    for cordoned in ([Uuid(b"d" * 16)], []):
        running.cordoned = cordoned
        running.lifecycle.on_directories_changed()
        running.lifecycle.tick(running.node.clock.monotonic_ms())
        running.node.commit()
        assert show() == [cordoned]
        assert list(running.node.image.cluster.brokers[1].cordoned_directories) == cordoned
        running.channel.take()

        running.node.clock.advance(HEARTBEAT_MS)
        running.lifecycle.tick(running.node.clock.monotonic_ms())
        running.node.commit()
        assert show() == [None]
        running.channel.take()


def test_cordoned_directories_are_sent_after_the_heartbeat_in_flight(running: LivingBroker) -> None:
    """Found by a simulated operator: ``grow-and-wait --seed 2 --api-faults``."""
    running.channel.hold()
    running.tick(HEARTBEAT_MS)
    running.cordoned = [Uuid(b"d" * 16)]
    running.lifecycle.on_directories_changed()

    running.channel.release()
    running.tick()

    assert list(running.node.image.cluster.brokers[1].cordoned_directories) == running.cordoned


@pytest.mark.parametrize(("level", "is_sent"), [(29, False), (30, True)], ids=["below", "from-there-on"])
def test_cordoned_directories_are_sent_from_their_metadata_version_on(
    running: LivingBroker, level: int, is_sent: bool
) -> None:
    """A heartbeat to a controller of Kafka 4.2 has no field for them; one that names them would never be sent."""
    running.publish(replace(running.node.image, features=FeaturesImage({METADATA_VERSION: level})))
    running.cordoned = [Uuid(b"d" * 16)]
    running.lifecycle.on_directories_changed()
    running.lifecycle.tick(running.node.clock.monotonic_ms())

    (heartbeat,) = running.channel.sent
    assert isinstance(heartbeat, BrokerHeartbeatRequest)
    assert (heartbeat.cordoned_log_dirs is not None) == is_sent
    if not is_sent:
        heartbeat.encode(1)


@pytest.mark.parametrize(
    ("led_before", "sent"),
    [
        pytest.param(2, [BrokerHeartbeatRequest], id="taken-over-from-another-broker"),
        pytest.param(1, [], id="led-already"),
        pytest.param(None, [], id="created"),
    ],
)
def test_broker_that_takes_over_leadership_heartbeats_at_once(
    running: LivingBroker, led_before: int | None, sent: list[type[Message]]
) -> None:
    topic_id = Uuid(b"t" * 16)
    topic = TopicRecord(name="t", topic_id=topic_id)
    partition = PartitionRecord(
        topic_id=topic_id,
        partition_id=0,
        replicas=[1, 2],
        isr=[1, 2],
        leader=led_before or 1,
        leader_epoch=0,
        partition_epoch=0,
    )
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(topic)
    delta.replay(partition)
    if led_before is not None:
        delta = MetadataDelta(delta.apply(Provenance(1, 1, 0)))
        delta.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=1))

    running.lifecycle.publish(delta, delta.apply(Provenance(2, 1, 0)))

    assert running.tick() == sent


def test_no_request_is_sent_while_one_is_in_flight(broker: LivingBroker) -> None:
    broker.lifecycle.start()
    broker.lifecycle.tick(broker.node.clock.monotonic_ms())
    broker.channel.take()

    broker.lifecycle.tick(broker.node.clock.monotonic_ms() + 999)

    assert broker.channel.take() == []
    assert broker.lifecycle.next_deadline_ms() == broker.node.clock.monotonic_ms() + 1_000, "the registration timeout"


def test_rejected_registration_is_retried_with_exponential_backoff(new_controller: Callable[..., Any]) -> None:
    node = new_controller()
    node.add_brokers(1)
    broker = LivingBroker(node)
    broker.lifecycle.start()
    broker.tick()

    pauses = []
    for _ in range(3):
        due_ms = broker.lifecycle.next_deadline_ms()
        assert due_ms is not None
        pauses.append(due_ms - node.clock.monotonic_ms())
        broker.tick(pauses[-1])

    assert pauses == [100, 200, 400]
    assert broker.lifecycle.registration_error is ErrorCode.DUPLICATE_BROKER_REGISTRATION


@pytest.mark.parametrize(("elapsed_ms", "gave_up"), [(999, False), (1_000, True)])
def test_broker_fails_after_the_registration_timeout(broker: LivingBroker, elapsed_ms: int, gave_up: bool) -> None:
    broker.lifecycle.start()
    broker.tick(elapsed_ms)

    assert bool(broker.failures) == gave_up
    if gave_up:
        assert "initial.broker.registration.timeout.ms=1000" in broker.failures[0]
        assert "controller.quorum.bootstrap.servers" in broker.failures[0]


def test_broker_of_another_cluster_stops_at_once(running: LivingBroker) -> None:
    stranger = LivingBroker(running.node, cluster_id="AAAAAAAAAAAAAAAAAAAAAA")
    stranger.lifecycle.start()
    stranger.tick(0)

    assert "belong to another cluster" in stranger.failures[0]
    assert stranger.lifecycle.state is BrokerState.SHUTTING_DOWN


def replace_incarnation(running: LivingBroker) -> LivingBroker:
    """Let the broker's session expire, and another process register in its place."""
    running.node.clock.advance(9_001)
    running.node.controller.tick(running.node.clock.monotonic_ms())
    running.node.commit()
    successor = LivingBroker(running.node)
    successor.lifecycle.incarnation_id = Uuid(b"successor".ljust(16))
    successor.lifecycle.start()
    successor.lifecycle.set_ready_to_unfence()
    successor.settle()
    assert successor.lifecycle.broker_epoch > running.lifecycle.broker_epoch
    return successor


def test_replaced_process_stops_when_the_metadata_shows_its_successor(running: LivingBroker) -> None:
    successor = replace_incarnation(running)
    for broker in (running, successor):
        broker.lifecycle.publish(MetadataDelta(EMPTY_IMAGE), running.node.image)

    assert "another process has registered under the same node.id" in running.failures[0]
    assert running.lifecycle.state is BrokerState.SHUTTING_DOWN
    assert successor.failures == []


def test_replaced_process_stops_when_its_heartbeat_is_rejected(running: LivingBroker) -> None:
    replace_incarnation(running)
    for _ in range(3):
        running.tick(HEARTBEAT_MS)

    assert "another process has registered under the same node.id" in running.failures[0]


def test_unregistered_broker_registers_again(running: LivingBroker) -> None:
    running.node.ask(UnregisterBrokerRequest(broker_id=1))
    first_epoch = running.lifecycle.broker_epoch

    running.tick(HEARTBEAT_MS)
    running.tick(100)
    running.settle()

    assert running.lifecycle.state is BrokerState.RUNNING
    assert running.lifecycle.broker_epoch > first_epoch


def test_controlled_shutdown_completes_when_the_leaders_have_moved(running: LivingBroker) -> None:
    running.node.create_topic("t")

    may_go = running.lifecycle.begin_controlled_shutdown()
    running.tick()
    assert running.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert not may_go.is_complete
    running.tick(100)

    assert may_go.is_complete
    assert running.lifecycle.state is BrokerState.SHUTTING_DOWN
    assert running.lifecycle.next_deadline_ms() is None
    assert running.node.image.cluster.brokers[1].is_fenced


def test_broker_that_was_never_unfenced_shuts_down_at_once(broker: LivingBroker) -> None:
    broker.lifecycle.start()

    assert broker.lifecycle.begin_controlled_shutdown().is_complete
