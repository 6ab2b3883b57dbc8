"""The port through which nodes are run."""

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

    Methods raise `HostError` when the host refuses for good, and `ApiError` or OSError when it may do so later.
    """

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        """Return ``cluster`` with the places that this host gives its nodes, and the id that its volumes carry.

        ``leaving`` names nodes that the spec does not ask for any more and that have to run a while yet.
        """

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        """Return what is there of the cluster, nodes that are not desired any more included until they are removed."""

    def bootstrap_servers(self, desired: DesiredCluster, listener: Listener) -> str:
        """Return where clients of ``listener`` begin, as ``host:port[,host:port]``; empty while nobody knows."""

    def nodes_servers(self, desired: DesiredCluster) -> str:
        """Return where clients of the nodes' own listener begin, of a cluster with TLS."""

    async def operator_access(self, desired: DesiredCluster) -> OperatorAccess:
        """Return how the operator reaches the brokers; raises `BrokerUnreachableError` until it has a certificate."""

    def certificate_names(self, desired: DesiredCluster) -> tuple[str, ...]:
        """Return the host names and addresses that the nodes' certificate has to be for."""

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        """Make configuration, endpoints and storage as desired; ``outdated`` is what `observe` named."""

    async def start_node(self, node: DesiredNode) -> None: ...

    async def restart_node(self, node: DesiredNode, uid: str) -> None:
        """Stop the node cleanly, then run it with its published configuration.

        ``uid`` is that of the run that was seen, as `observe` said; another one is left alone, and `ApiError` raised.
        """

    async def limit_disruptions(self, desired: DesiredCluster, allowed: int) -> None:
        """Let others stop ``allowed`` nodes at the same time; asked only of hosts whose `observe` says a number."""

    async def remove_node(self, name: str, uid: str) -> None:
        """Stop the node cleanly, if it runs, and forget it: it is not observed any more. Its data stays.

        See `restart_node` for ``uid``.
        """

    async def remove_volumes(self, claims: Sequence[ObservedClaim]) -> None:
        """Remove volumes that `observe` has shown, with everything on them."""
