"""Places of nodes that run nowhere."""

from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Pool
from ottla_operator.model.node_listeners import Place
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.ports.operator_access import OperatorAccess


def place_of(_pool: Pool, _index: int, node_id: int) -> Place:
    """Return a place on a host of the node's own, with the usual ports."""
    return Place(
        listen_host="",
        client_host=f"host-{node_id}",
        client_port=9092,
        controller_port=9093,
        admin_port=8080,
        log_directory="/d",
    )


class AddressesOfPlaces:
    """The addresses of a host without TLS: those of its places."""

    def bootstrap_servers(self, desired: DesiredCluster, listener: Listener) -> str:
        return desired.addresses(lambda place: place.client_port)

    def nodes_servers(self, desired: DesiredCluster) -> str:
        return desired.addresses(lambda place: place.nodes_port)

    async def operator_access(self, desired: DesiredCluster) -> OperatorAccess:
        return OperatorAccess(bootstrap_servers=self.bootstrap_servers(desired, desired.cluster.listeners[0]))

    def certificate_names(self, desired: DesiredCluster) -> tuple[str, ...]:
        return ("localhost",)
