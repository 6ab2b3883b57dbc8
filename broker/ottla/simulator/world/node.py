"""`SimulatedNode`: one node of a simulated cluster; its host, disk and clock outlive its process (`Node`)."""

from typing import TYPE_CHECKING

from ottla.node.node import Node
from ottla.simulator.world.background import SimulatedBackground
from ottla.simulator.world.clock import HostClock, SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.network import SimulatedNetwork
from ottla.types import Endpoint, NodeId, Uuid

if TYPE_CHECKING:
    from ottla.simulator.world.cluster import Cluster

CLIENT_PORT, CONTROLLER_PORT = 9092, 9093


class SimulatedNode:
    """One node's place in the cluster: its disk outlives the process that `Node` stands for."""

    def __init__(self, cluster: "Cluster", node_id: NodeId, roles: str, directory_id: Uuid) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.roles = roles
        self.host = f"node{node_id}"
        self.directory_id = directory_id
        self.clock: SimulatedClock | HostClock = cluster.clock
        self.disk = self.new_disk()
        self.network = SimulatedNetwork()
        self.background = SimulatedBackground(
            schedule=lambda done: cluster.fabric.reach_later(self.host, self._background_delay_ms(), done),
            random=cluster.random,
        )
        self.process: Node | None = None
        self.is_frozen = False
        self.is_ready = False
        self.sync_ms = 0
        """How long the disk takes to sync."""
        self.background_ms_max = 0
        """How long work off the loop takes at most."""
        self.wake_ms = 0
        """When the process has something to do, in true time."""
        self.overrides: dict[str, str] = {}
        """Properties of this node alone."""
        self.step_count = 0
        """How often the wall clock was stepped."""
        self._newest_wall_ms = 0
        self.thawed_ms = -1
        """When the process was continued last, in true time; -1 for never."""
        self.stopped: list[str | None] = []
        """What the process gave as the reason of its end; empty while it runs."""

    def new_disk(self) -> SimulatedDisk:
        """Return an empty disk, whose syncs complete after ``sync_ms``."""
        return SimulatedDisk(schedule=lambda sync: self.cluster.fabric.reach_later(self.host, self.sync_ms, sync))

    def _background_delay_ms(self) -> int:
        return self.cluster.random.randrange(self.background_ms_max + 1)

    @property
    def node(self) -> Node:
        """The running process; access counts as an event of its host."""
        assert self.process is not None, f"node {self.node_id} is not running"
        self.cluster.touch(self.host)
        return self.process

    @property
    def controller_endpoint(self) -> Endpoint:
        return Endpoint(self.host, CONTROLLER_PORT)

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    def properties(self) -> dict[str, str]:
        """Return the properties that differ from node to node."""
        listeners = []
        if "broker" in self.roles:
            listeners.append(f"PLAINTEXT://{self.host}:{CLIENT_PORT}")
        if self.is_controller:
            listeners.append(f"CONTROLLER://{self.host}:{CONTROLLER_PORT}")
        return {"process.roles": self.roles, "node.id": str(self.node_id), "listeners": ",".join(listeners)}

    @property
    def newest_wall_ms(self) -> int:
        """The highest reading of the wall clock so far."""
        return max(self._newest_wall_ms, self.clock.wall_ms())

    def set_skew(self, milliseconds: int) -> None:
        """Step this node's wall clock, to be so far ahead of the truth."""
        assert isinstance(self.clock, HostClock), "this node reads the true time"
        self._newest_wall_ms = self.newest_wall_ms
        self.step_count += 1
        self.clock.skew_ms = milliseconds

    def run(self, milliseconds: int) -> None:
        """Let time pass, for the whole cluster."""
        self.cluster.run(milliseconds)
