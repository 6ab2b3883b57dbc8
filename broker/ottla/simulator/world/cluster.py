"""Several nodes in one thread: disks, clocks, randomness and the network between them in memory, all else real.

Time passes only in `Cluster.run`, from one event to the next. The same seed gives the same run, to the byte.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.config.node_config import NodeConfig
from ottla.errors import StorageError
from ottla.log.meta_properties import read_meta_properties
from ottla.metadata.format import FormatOptions, format_storage
from ottla.node.node import Node
from ottla.ports import Random
from ottla.raft.voter_set import Voter
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.network import SimulatedNetwork
from ottla.simulator.world.network_fabric import NetworkConditions, NetworkFabric
from ottla.simulator.world.node import CLIENT_PORT, CONTROLLER_PORT, SimulatedNode
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_node import Client
from ottla.types import Endpoint, NodeId

DIRECTORY = "/data"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
STEPS_PER_SLICE_MAX = 8
"""Slices of requests end after so many steps at most, between which other events come."""
STEP_MS_MAX = 1_000
"""Sleep of a node without a deadline."""

DEFAULTS = {
    "controller.listener.names": "CONTROLLER",
    "log.dirs": DIRECTORY,
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


class SimulatedClients(Protocol):
    """Clients in the network, with timers of their own."""

    def tick(self) -> None: ...

    def next_deadline_ms(self) -> int | None: ...


class Cluster:
    """See the module.

    Args of the constructor:
        controllers: how many nodes are voters of the quorum.
        brokers: how many nodes are brokers. The first ``min(controllers, brokers)`` nodes are both, unless
            ``combined`` is False: then the brokers follow the controllers.
        conditions: delays and cuts of the network; see `NetworkConditions`.
        overrides: further properties of every node.
        features: finalized levels at first, over the defaults.
    """

    def __init__(
        self,
        seed: int = 1,
        *,
        brokers: int = 3,
        controllers: int | None = None,
        combined: bool = True,
        conditions: NetworkConditions | None = None,
        overrides: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self.clock = SimulatedClock()
        self.random = SeededRandom(seed)
        self._slice_random = SeededRandom(seed)
        self.fabric = NetworkFabric(self.clock, conditions, on_touch=self.touch)
        self.events = self.fabric.events
        self.on_event: Callable[[SimulatedNode], object] = lambda _: None
        """Called after every event of a node, and after every tick that did some work."""
        self.before_start: Callable[[SimulatedNode], object] = lambda _: None
        """Called with a node whose process is about to start."""
        self.on_stopped: Callable[[SimulatedNode, str | None], object] = lambda *_: None
        """Called with a node whose process has ended by itself, and why: None for an orderly shutdown."""
        self.now_at = ""
        """The host that an event reached last, whose code runs now."""
        self._clients: dict[str, SimulatedClients] = {}
        self._client_wake_ms: dict[str, int] = {}
        self._overrides = dict(overrides or {})
        self._features = dict(features or {})
        self._touched: dict[str, bool] = {}
        """Hosts that something has reached since they ticked, and whether `on_event` was called after that."""
        self.nodes: dict[NodeId, SimulatedNode] = {}
        self.by_host: dict[str, SimulatedNode] = {}
        voters = brokers if controllers is None else controllers
        for node_id, roles in enumerate(_roles(voters, brokers, combined=combined), 1):
            place = self.nodes[node_id] = SimulatedNode(self, node_id, roles, self.random.uuid())
            self.by_host[place.host] = place
        for place in self.nodes.values():
            self.format(place.node_id)

    @property
    def overrides(self) -> Mapping[str, str]:
        """Properties of every node, besides the defaults."""
        return self._overrides

    # --- nodes

    def format(self, node_id: NodeId, *, joins: bool = False) -> None:
        """Format the node's disk, which must be empty, as a first member of the cluster, or of one that ``joins`` it.

        A controller that joins is an observer of the quorum until it is added as a voter.
        """
        place = self.nodes[node_id]
        directories = self._overrides.get("log.dirs", DIRECTORY).split(",")
        voters = [
            Voter(each.node_id, each.directory_id, {"CONTROLLER": each.controller_endpoint})
            for each in self.nodes.values()
            if each.is_controller
        ]
        options = FormatOptions(
            cluster_id=CLUSTER_ID,
            node_id=node_id,
            log_directories=directories,
            metadata_log_directory=directories[0],
            is_controller=place.is_controller,
            initial_controllers=voters if place.is_controller and not joins else (),
            no_initial_controllers=place.is_controller and joins,
            features=self._features,
        )
        format_storage(place.disk, self.clock, self.random, options)
        properties = read_meta_properties(place.disk, directories[0])
        assert properties is not None
        assert properties.directory_id is not None
        place.directory_id = properties.directory_id

    def start(self, *node_ids: NodeId) -> None:
        """Start these nodes, or all that do not run; `run_until_ready` waits for them."""
        for node_id in node_ids or [each for each, place in self.nodes.items() if place.process is None]:
            self._start(self.nodes[node_id])

    def _start(self, place: SimulatedNode) -> None:
        assert place.process is None, f"node {place.node_id} runs already"
        bootstrap = ",".join(str(each.controller_endpoint) for each in self.nodes.values() if each.is_controller)
        config = NodeConfig.from_properties(
            {
                **DEFAULTS,
                "controller.quorum.bootstrap.servers": bootstrap,
                **place.properties(),
                **self._overrides,
                **place.overrides,
            }
        )
        place.network = SimulatedNetwork(self.fabric, place.host)
        place.is_ready = False
        place.stopped = []

        def ready() -> None:
            place.is_ready = True

        self.fabric.restore_power(place.host)
        process = Node(
            config=config,
            clock=place.clock,
            disk=place.disk,
            network=place.network,
            random=self.random,
            background=place.background,
            advertised=config.advertised_listeners,
            on_ready=ready,
            on_stopped=place.stopped.append,
        )
        # The clock stands still while code runs: how far a slice gets is drawn instead.
        process.connections.steps.steps_max = lambda: 1 + self._slice_random.randrange(STEPS_PER_SLICE_MAX)
        place.network.attach(process, [(listener.name, listener.port) for listener in config.listeners])
        place.process = process
        self.before_start(place)
        place.node.start()

    def give_up_start(self, node_id: NodeId) -> None:
        """Remove what is left of a process that failed to start: `start` has raised."""
        place = self.nodes[node_id]
        self._vanish(place)

    def kill(self, node_id: NodeId, *, power_loss: bool = False) -> None:
        """End the process at once; ``power_loss`` also loses unsynced data."""
        place = self.nodes[node_id]
        self._vanish(place)
        if power_loss:
            place.disk.crash()

    def cut_power(self, node_id: NodeId, random: Random) -> None:
        """Cut the host's power: unsynced data is lost or torn, peers are not notified; `start` restores the power."""
        place = self.nodes[node_id]
        self._vanish(place, silently=True)
        self.fabric.cut_power(place.host)
        place.disk.crash(random, flips_bits=True)

    def freeze(self, node_id: NodeId) -> None:
        """Stop the process as SIGSTOP does."""
        place = self.nodes[node_id]
        place.is_frozen = True
        self.fabric.freeze(place.host)

    def disconnect(self, node_id: NodeId) -> None:
        """Disconnect a frozen process until it runs again, as `runtime.stall_disconnect` does."""
        self.fabric.shut_down(self.nodes[node_id].host)

    def thaw(self, node_id: NodeId) -> None:
        """Continue the process, as SIGCONT does."""
        place = self.nodes[node_id]
        if place.is_frozen:
            place.is_frozen = False
            place.thawed_ms = self.clock.now_ms
            self.touch(place.host)
            self.fabric.thaw(place.host)

    def _vanish(self, place: SimulatedNode, *, silently: bool = False) -> None:
        place.network.vanish(silently=silently)
        place.background.kill()
        place.disk.kill()
        place.process = None
        # Last: what waits for a frozen process, such as a completed sync, must not reach one that has ended.
        if place.is_frozen:
            place.is_frozen = False
            self.fabric.thaw(place.host)

    def stop(self, node_id: NodeId, *, limit_ms: int = 60_000) -> None:
        """Stop the node in order, and wait for its end."""
        place = self.nodes[node_id]
        place.node.begin_shutdown()
        self.run_until(lambda: place.process is None, limit_ms=limit_ms)

    def wipe(self, node_id: NodeId) -> None:
        """Replace the disk of a node that does not run by an empty one."""
        place = self.nodes[node_id]
        place.disk = place.new_disk()

    def replace_host(self, node_id: NodeId) -> SimulatedNode:
        """Replace a broker's host by another with an empty disk and its own address; return the old one.

        The process on the old host continues as a stale incarnation; it is in ``nodes`` under the negative id from now
        on.
        """
        old = self.nodes[node_id]
        assert not old.is_controller, "a voter is found by its address"
        place = SimulatedNode(self, node_id, old.roles, self.random.uuid())
        place.host = f"{old.host}-new"
        place.clock, place.overrides, place.sync_ms = old.clock, old.overrides, old.sync_ms
        old.node_id = -node_id
        self.nodes[node_id], self.nodes[-node_id] = place, old
        self.by_host[place.host] = place
        self.format(node_id, joins=True)
        return old

    # --- time

    def touch(self, host: str) -> None:
        """Note that something reaches the process at ``host``: it ticks after it."""
        self._touched[host] = False
        self.now_at = host

    def add_client(self, host: str, client: SimulatedClients) -> None:
        """Let ``client`` do things when they are due, and after something has reached its host."""
        self._clients[host] = client
        self._client_wake_ms[host] = 0

    def run(self, milliseconds: int) -> None:
        """Let time pass."""
        end_ms = self.clock.now_ms + milliseconds
        while True:
            self._do_due()
            now_ms = self.clock.now_ms
            if now_ms >= end_ms:
                return
            next_ms = self._next_event_ms(now_ms)
            self.clock.advance((next_ms if next_ms < end_ms else end_ms) - now_ms)

    def run_until(self, condition: Callable[[], bool], *, limit_ms: int = 60_000) -> None:
        """Let time pass until ``condition`` holds; it is checked after every event."""
        end_ms = self.clock.now_ms + limit_ms
        while True:
            self._do_due()
            if condition():
                return
            now_ms = self.clock.now_ms
            if now_ms >= end_ms:
                raise AssertionError(f"not within {limit_ms} ms: {self.describe()}")
            self.clock.advance(min(self._next_event_ms(now_ms), end_ms) - now_ms)

    def run_until_ready(self, *, limit_ms: int = 60_000) -> None:
        """Let time pass until every node that runs serves."""
        self.run_until(
            lambda: all(place.is_ready for place in self.nodes.values() if place.process is not None), limit_ms=limit_ms
        )

    def _do_due(self) -> None:
        """Run everything that is due now: first arriving events, then the nodes that they reached or that are due.

        A node ticks once in a millisecond: events that reach it after that are handled in the next one.
        """
        now_ms = self.clock.now_ms
        touched = self._touched
        while (event := self.events.take_due()) is not None:
            self.now_at = ""
            action, arguments = event
            action(*arguments)
            reached = self.by_host.get(self.now_at)
            if reached is not None:
                self.on_event(reached)
                touched[self.now_at] = True
        for place in self.nodes.values():
            is_due = place.wake_ms <= now_ms or place.host in touched
            if is_due and place.process is not None and not place.is_frozen:
                if place.stopped:
                    self._end(place)
                else:
                    self._tick(place, place.process, now_ms)
        for host, client in self._clients.items():
            if host in touched or self._client_wake_ms[host] <= now_ms:
                client.tick()
                deadline_ms = client.next_deadline_ms()
                self._client_wake_ms[host] = max(now_ms + 1, deadline_ms or now_ms + STEP_MS_MAX)
        touched.clear()

    def _tick(self, place: SimulatedNode, process: Node, now_ms: int) -> None:
        self.now_at = place.host
        if process.tick() or not self._touched.get(place.host, True):
            self.on_event(place)
        wake_ms = place.clock.true_ms(process.next_deadline_ms())
        place.wake_ms = now_ms + 1 if place.stopped or wake_ms <= now_ms else wake_ms

    def _end(self, place: SimulatedNode) -> None:
        """The process has stopped by itself: close it as the runtime does."""
        reason = place.stopped[0]
        try:
            place.node.close()
        except StorageError as error:
            reason = f"{reason or 'closing failed'}: {error}"
        self._vanish(place)
        self.on_stopped(place, reason)

    def _next_event_ms(self, now_ms: int) -> int:
        if self._touched:
            return now_ms + 1
        earliest_ms = self.events.next_ms()
        if earliest_ms is None:
            earliest_ms = now_ms + STEP_MS_MAX
        for place in self.nodes.values():
            if place.wake_ms < earliest_ms and place.process is not None and not place.is_frozen:
                earliest_ms = place.wake_ms
        for wake_ms in self._client_wake_ms.values():
            earliest_ms = wake_ms if wake_ms < earliest_ms else earliest_ms
        return earliest_ms if earliest_ms > now_ms else now_ms

    # --- lookups

    def leader_id(self) -> NodeId | None:
        """Return the node whose controller is active."""
        for place in self.nodes.values():
            if (
                place.process is not None
                and place.process.controller is not None
                and place.process.controller.is_active
            ):
                return place.node_id
        return None

    def connect(self, node_id: NodeId, listener: str = "PLAINTEXT") -> Client:
        """Return a client of one node."""
        place = self.nodes[node_id]
        peer = place.network.open()
        port = CONTROLLER_PORT if listener == "CONTROLLER" else CLIENT_PORT
        assert place.node.accepted(
            peer.connection,
            listener=listener,
            peer=Endpoint("10.0.1.7", 5000),
            local_address=Endpoint(place.host, port),
        )
        return Client(place, peer)

    def describe(self) -> str:
        """Return the state of every node, for the message of a failing test."""
        return "; ".join(
            f"node {place.node_id} "
            + ("is down" if place.process is None else ", ".join(place.process.readiness()) or "is ready")
            + (f" (stopped: {place.stopped})" if place.stopped else "")
            for place in self.nodes.values()
        )


def _roles(controllers: int, brokers: int, *, combined: bool) -> list[str]:
    if not combined:
        return ["controller"] * controllers + ["broker"] * brokers
    both = min(controllers, brokers)
    return ["broker,controller"] * both + ["controller"] * (controllers - both) + ["broker"] * (brokers - both)
