"""Nodes as processes of simulated hosts: the `Host` port for the simulator.

Files and processes (`HostState`) outlive the operator, as on real hosts; `SimulatedHost` is one operator process's
access to them. It works like `adapters.local.host`, in the same order: a kill between two parts leaves the same halves
behind.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ottla.errors import OttlaError
from ottla.simulator.world.hosts import CLIENT_PORT, CONTROLLER_PORT, DIRECTORY, Hosts, host_of
from ottla.types import NodeId
from ottla_operator.errors import HostError
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.node_listeners import Place
from ottla_operator.model.nodes import DesiredCluster, DesiredNode, desired_cluster, node_of_name
from ottla_operator.ports.nodes import POD_REJECTED, NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.operator_access import OperatorAccess
from ottla_operator.ports.volume_claims import ObservedClaim

ADMIN_PORT = 8080
FORMAT_S, SPAWN_S, POLL_S = 0.1, 0.05, 0.02
PROBE_S, PROBE_TIMEOUT_S = 0.001, 2.0
BROKEN_IMAGE = "ottla:broken"
"""Its process ends before it is ready and is restarted repeatedly, and the first ends are not observed."""
CRASH_LOOP_S, CRASH_SEEN_S = 10.0, 7.0
STOP_GRACE_S = 30.0


@dataclass(frozen=True, slots=True)
class Run:
    """A started process."""

    node_id: NodeId
    revision: str
    properties: str
    parts: str
    image: str
    uid: str


@dataclass
class HostState:
    """Files and processes, by node name. ``properties`` are published ones, ``runs`` those of the last start."""

    machines: Hosts
    properties: dict[str, str] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    """The uids of disks that were formatted and not removed since, by node."""
    made: int = 0
    """Number of processes and disks so far."""
    racks: int = 0
    """Number of racks, which hosts are in by turns; 0: no racks."""
    reported_rejection: str = ""
    """The last observation's rejection of pods; empty if none was rejected."""
    rejections: int = 0
    """Number of observations with one."""

    def new_uid(self) -> str:
        self.made += 1
        return f"uid-{self.made}"

    def uid_of(self, name: str) -> str:
        """Return the uid of the node's process; empty without one."""
        return self.runs[name].uid if self.is_running(name) or self.is_broken(name) else ""

    def volume_uid_of(self, name: str) -> str:
        return self.volumes.get(name, "")

    def is_running(self, name: str) -> bool:
        run = self.runs.get(name)
        return run is not None and self.machines.is_running(run.node_id)

    def is_broken(self, name: str) -> bool:
        """Tell whether the node was last started with a broken configuration."""
        return name in self.runs and self.runs[name].image == BROKEN_IMAGE

    def is_ready(self, name: str) -> bool:
        return self.is_running(name) and self.machines.readiness(self.runs[name].node_id) == []

    def is_outdated(self, name: str) -> bool:
        """Tell whether the process was started with an older configuration than the published one."""
        return self.is_running(name) and self.runs[name].revision != self.revisions[name]

    def rack_of(self, node_id: NodeId) -> str | None:
        return f"rack{node_id % self.racks}" if self.racks else None

    def name_of(self, node_id: NodeId) -> str | None:
        return next((name for name, run in self.runs.items() if run.node_id == node_id), None)


class SimulatedHost:
    """One operator process's access to nodes."""

    def __init__(self, state: HostState, rejects_pods: Callable[[], bool] = lambda: False) -> None:
        """``rejects_pods`` returns whether the API server rejects new pods: a stopped node stays so meanwhile."""
        self._state = state
        self._rejects_pods = rejects_pods
        self._machines = state.machines
        self._image = ""

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        self._image = cluster.image or ""
        return desired_cluster(cluster, place_of, self._image, leaving)

    def bootstrap_servers(self, desired: DesiredCluster, listener: Listener) -> str:
        return desired.addresses(lambda place: place.client_port)

    def nodes_servers(self, desired: DesiredCluster) -> str:
        return self.bootstrap_servers(desired, desired.cluster.listeners[0])

    async def operator_access(self, desired: DesiredCluster) -> OperatorAccess:
        return OperatorAccess(bootstrap_servers=self.nodes_servers(desired))

    def certificate_names(self, desired: DesiredCluster) -> tuple[str, ...]:
        return ("localhost",)

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        prefix = f"{desired.cluster.name}-"
        names = [name for name in sorted(self._state.properties) if name.startswith(prefix)]
        seen = [self._with_admission(await self._observe_node(name), desired) for name in names]
        self._state.reported_rejection = next((it.rejection for it in seen if it.rejection), "")
        self._state.rejections += bool(self._state.reported_rejection)
        return ObservedCluster(
            outdated=tuple(node.name for node in desired.nodes if not self._is_published(node)),
            nodes={node.name: node for node in seen},
            claims=tuple(
                ObservedClaim(name=f"data-{name}", uid=uid, node=name)
                for name, uid in sorted(self._state.volumes.items())
            ),
        )

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        for node in desired.nodes:
            if node.name in outdated:
                await asyncio.sleep(FORMAT_S)
                await self._do(partial(self._publish, desired, node))

    async def start_node(self, node: DesiredNode) -> None:
        """Start the process and return when it runs; readiness comes later.

        Raises:
            HostError: it ended at once; the message has its last output.
        """
        await asyncio.sleep(SPAWN_S)
        await self._do(lambda: self._start(node))

    async def restart_node(self, node: DesiredNode, uid: str) -> None:
        await self.stop_node(node.name)
        await self.start_node(node)

    async def limit_disruptions(self, desired: DesiredCluster, allowed: int) -> None:
        raise HostError("Unsupported", "nodes cannot be evicted here")

    async def remove_node(self, name: str, uid: str) -> None:
        await self.stop_node(name)
        await self._do(lambda: self._state.properties.pop(name, None))

    async def remove_volumes(self, claims: Sequence[ObservedClaim]) -> None:
        for claim in claims:
            await self._do(partial(self._remove_volume, claim.node))

    async def stop_node(self, name: str) -> None:
        """Stop the node cleanly; it is started again if the spec has it."""
        if not self._state.is_running(name):
            return
        node_id = self._state.runs[name].node_id
        process = self._machines.cluster.nodes[node_id].process
        await self._do(lambda: self._machines.terminate(node_id))
        deadline_s = asyncio.get_running_loop().time() + STOP_GRACE_S
        while self._machines.cluster.nodes[node_id].process is process:
            if asyncio.get_running_loop().time() >= deadline_s:
                await self._do(lambda: self._machines.kill(node_id))
                return
            await asyncio.sleep(POLL_S)

    async def _observe_node(self, name: str) -> ObservedNode:
        run = self._state.runs.get(name)
        await asyncio.sleep(PROBE_S)
        if run is not None and self._state.is_broken(name):
            return self._observe_broken(name, run)
        if run is None or not self._state.is_running(name):
            return ObservedNode(name=name, state=NodeState.STOPPED)
        reasons = self._machines.readiness(run.node_id)
        may_have_served = reasons is None or self._machines.has_served(run.node_id)
        if reasons is None:
            await asyncio.sleep(PROBE_TIMEOUT_S)
            reasons = ["it does not respond yet"]
        if not reasons:
            return ObservedNode(name=name, state=NodeState.READY, uid=run.uid, revision=run.revision, parts=run.parts)
        return ObservedNode(
            name=name,
            state=NodeState.UNREADY if may_have_served else NodeState.STARTING,
            uid=run.uid,
            revision=run.revision,
            parts=run.parts,
            reason="NodeNotReady",
            message="; ".join(reasons),
        )

    def _with_admission(self, node: ObservedNode, desired: DesiredCluster) -> ObservedNode:
        """Return the node with the rejection of its pod, if that is missing or is to be replaced."""
        revisions = {it.name: it.revision for it in desired.nodes}
        if not self._rejects_pods() or revisions.get(node.name) in (None, node.revision):
            return node
        message = f'pods "{node.name}" is forbidden by the simulation'
        if node.state is NodeState.STOPPED:
            node = replace(node, state=NodeState.FAILED, reason=POD_REJECTED, message=message)
        return replace(node, rejection=message)

    def _observe_broken(self, name: str, run: Run) -> ObservedNode:
        has_crashed = asyncio.get_running_loop().time() % CRASH_LOOP_S < CRASH_SEEN_S
        return ObservedNode(
            name=name,
            state=NodeState.FAILED if has_crashed else NodeState.STARTING,
            uid=run.uid,
            revision=run.revision,
            parts=run.parts,
            reason="CrashLoopBackOff",
            message="it ends as soon as it is started",
            has_crashed=has_crashed,
        )

    def _is_published(self, node: DesiredNode) -> bool:
        is_same = self._state.properties.get(node.name) == node.properties
        return is_same and self._state.revisions[node.name] == node.revision

    def _publish(self, desired: DesiredCluster, node: DesiredNode) -> None:
        option, *values = node.format_arguments
        initial = values[0] if option == "--initial-controllers" else None
        try:
            self._machines.format(node.properties, desired.cluster.cluster_id, initial_controllers=initial)
        except OttlaError as error:
            raise HostError("FormatFailed", str(error)) from error
        self._state.properties[node.name] = node.properties
        self._state.revisions[node.name] = node.revision
        self._state.volumes.setdefault(node.name, self._state.new_uid())

    def _remove_volume(self, name: str) -> None:
        if name in self._state.volumes:
            self._machines.cluster.wipe(self._state.runs[name].node_id)
            del self._state.volumes[name]

    def _start(self, node: DesiredNode) -> None:
        if self._machines.is_running(node.node_id) or self._rejects_pods():
            return
        properties = self._state.properties[node.name]
        if (rack := self._state.rack_of(node.node_id)) is not None:
            properties += f"broker.rack={rack}\n"
        self._state.runs[node.name] = Run(
            node.node_id, node.revision, properties, node.parts, self._image, self._state.new_uid()
        )
        if self._state.is_broken(node.name):
            return
        try:
            self._machines.start(node.node_id, properties)
        except (OttlaError, OSError) as error:
            raise HostError("NodeExited", f"node {node.name} ended: {error}") from error

    async def _do(self, action: Callable[[], object]) -> None:
        """Execute ``action`` as an event of the simulation that belongs to no process."""
        done = asyncio.get_running_loop().create_future()

        def happen() -> None:
            error: HostError | None = None
            try:
                action()
            except HostError as caught:
                error = caught
            if done.done():
                return  # its caller was killed
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self._machines.cluster.events.after(0, happen)
        await done


def node_id_of(cluster: Cluster, name: str) -> NodeId:
    found = node_of_name(cluster, name)
    assert found is not None, f"{name} is of no pool"
    return found[0].first_node_id + found[1]


def place_of(_pool: Pool, _ordinal: int, node_id: int) -> Place:
    return Place(
        listen_host=host_of(node_id),
        client_host=host_of(node_id),
        client_port=CLIENT_PORT,
        controller_port=CONTROLLER_PORT,
        admin_port=ADMIN_PORT,
        log_directory=DIRECTORY,
    )
