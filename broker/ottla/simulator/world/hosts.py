"""Hosts that run nodes from the text of a ``server.properties``; disk and process outlive the caller that started them.

For programs that run nodes themselves (the operator's hosts): format a disk, start, stop or kill a process. Each node
has a host of its own, called ``node`` and its id, which exists from the first formatting on.
"""

from collections.abc import Callable

from ottla.config.node_config import NodeConfig
from ottla.errors import OttlaError
from ottla.metadata.format import FormatOptions, format_storage, parse_initial_controllers
from ottla.simulator.world.cluster import DIRECTORY, Cluster
from ottla.simulator.world.node import CLIENT_PORT, CONTROLLER_PORT, SimulatedNode
from ottla.types import NodeId

__all__ = ["CLIENT_PORT", "CONTROLLER_PORT", "DIRECTORY", "Hosts", "host_of"]


def host_of(node_id: NodeId) -> str:
    """Return the name of a node's host."""
    return f"node{node_id}"


class Hosts:
    """See the module. ``prepare`` is called with each node that is new."""

    def __init__(self, cluster: Cluster, prepare: Callable[[SimulatedNode], object] = lambda _: None) -> None:
        self.cluster = cluster
        self._prepare = prepare

    def format(self, properties: str, cluster_id: str, *, initial_controllers: str | None) -> None:
        """Prepare the directories of the node that ``properties`` describe; formatted directories stay.

        Raises:
            ConfigurationError: the properties are not a node's, or contradict the other arguments.
        """
        config = NodeConfig.from_text(properties)
        place = self._place(config)
        place.disk.make_directory(DIRECTORY)
        listener = config.controller_listener_names[0]
        voters = parse_initial_controllers(initial_controllers, listener) if initial_controllers else []
        options = FormatOptions(
            cluster_id=cluster_id,
            node_id=config.node_id,
            log_directories=config.log_dirs,
            metadata_log_directory=config.metadata_log_dir,
            is_controller=config.is_controller,
            initial_controllers=voters,
            no_initial_controllers=initial_controllers is None,
            ignore_formatted=True,
        )
        format_storage(place.disk, place.clock, self.cluster.random, options)

    def start(self, node_id: NodeId, properties: str) -> None:
        """Start the node's process; it serves later.

        Raises:
            OttlaError: the node fails to start.
            OSError: its disk fails.
        """
        place = self.cluster.nodes[node_id]
        config = NodeConfig.from_text(properties)
        place.roles = _roles(config)
        place.overrides = dict(config.originals)
        try:
            self.cluster.start(node_id)
        except (OttlaError, OSError):
            self.cluster.give_up_start(node_id)
            raise

    def terminate(self, node_id: NodeId) -> None:
        """Shut the process down in order, as SIGTERM does: a stopped process handles that when it continues."""
        place = self.cluster.nodes[node_id]
        process = place.process

        def shut_down() -> None:
            if process is not None and place.process is process:
                process.begin_shutdown()

        self.cluster.fabric.reach_later(place.host, 0, shut_down)

    def kill(self, node_id: NodeId) -> None:
        """End the process at once, if it runs."""
        if self.is_running(node_id):
            self.cluster.kill(node_id)

    def is_running(self, node_id: NodeId) -> bool:
        place = self.cluster.nodes.get(node_id)
        return place is not None and place.process is not None

    def readiness(self, node_id: NodeId) -> list[str] | None:
        """Return the reasons of the process's ``GET /readyz`` for not being ready; None when it does not respond."""
        place = self.cluster.nodes[node_id]
        if place.process is None or place.is_frozen:
            return None
        reasons = place.process.readiness()
        return reasons if reasons or place.is_ready else ["the node is starting"]

    def has_served(self, node_id: NodeId) -> bool:
        """Return whether the process has been ready since it was started, as its ``GET /readyz`` reports."""
        process = self.cluster.nodes[node_id].process
        return process is not None and process.has_served

    def _place(self, config: NodeConfig) -> SimulatedNode:
        place = self.cluster.nodes.get(config.node_id)
        if place is None:
            place = SimulatedNode(self.cluster, config.node_id, _roles(config), self.cluster.random.uuid())
            self.cluster.nodes[config.node_id] = self.cluster.by_host[place.host] = place
            self._prepare(place)
        return place


def _roles(config: NodeConfig) -> str:
    return ",".join(
        role for role, has_it in (("broker", config.is_broker), ("controller", config.is_controller)) if has_it
    )
