"""The port to the host that runs nodes."""

from collections.abc import Collection, Sequence
from typing import Protocol

from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.operator_access import OperatorAccess
from ottla_operator.ports.volume_claims import ObservedClaim


class Host(Protocol):
    """Runs nodes. Every method may be called again after a crash in its middle, and then finishes the work.

    Methods raise `HostError` if waiting does not help, and `ApiError` or OSError if a retry may succeed.
    """

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        """Return ``cluster`` with the places of its nodes on this host, and the cluster id that its volumes carry.

        ``leaving`` names nodes that are no longer in the spec and have to run for a while.
        """

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        """Return the observed state of the cluster, with nodes that are no longer desired until they are removed."""

    def bootstrap_servers(self, desired: DesiredCluster, listener: Listener) -> str:
        """Return the bootstrap address of ``listener``, as ``host:port[,host:port]``; empty while it is unknown."""

    def nodes_servers(self, desired: DesiredCluster) -> str:
        """Return the bootstrap address of the nodes' own listener, of a cluster with TLS."""

    async def operator_access(self, desired: DesiredCluster) -> OperatorAccess:
        """Return how the operator connects to brokers; raises `BrokerUnreachableError` until it has a certificate."""

    def certificate_names(self, desired: DesiredCluster) -> tuple[str, ...]:
        """Return the host names and addresses that the nodes' certificate has to cover."""

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        """Apply configuration, endpoints and storage; ``outdated`` names the objects that `observe` found to differ."""

    async def start_node(self, node: DesiredNode) -> None: ...

    async def restart_node(self, node: DesiredNode, uid: str) -> None:
        """Stop the node cleanly, then run it with its published configuration.

        ``uid`` is that of the observed run; another run is left alone, and `ApiError` raised.
        """

    async def limit_disruptions(self, desired: DesiredCluster, allowed: int) -> None:
        """Allow others to stop ``allowed`` nodes at a time; called only if `observe` returns a number."""

    async def remove_node(self, name: str, uid: str) -> None:
        """Stop the node cleanly, if it runs, and remove it: it is not observed any more. Its data stays.

        See `restart_node` for ``uid``.
        """

    async def remove_volumes(self, claims: Sequence[ObservedClaim]) -> None:
        """Delete volumes that `observe` returned, with everything on them."""
