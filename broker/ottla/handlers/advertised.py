"""The address of a broker that is advertised to a client: the one of the client's own listener."""

from ottla.handlers.api import RequestContext
from ottla.metadata.cluster import BrokerRegistration
from ottla.types import Endpoint


def advertised_endpoint(context: RequestContext, broker: BrokerRegistration) -> Endpoint | None:
    """Return the broker's advertised address for this client; None if it has no such listener.

    With ``ottla.advertise.dialled.address`` (development) this node advertises for itself the address that the client
    has connected to, which is reachable: from a container, through a forwarded port, by any name.
    """
    config = context.services.config
    if config.ottla_advertise_dialled_address and broker.broker_id == config.node_id:
        return context.connection.local_address
    listener = broker.listeners.get(context.connection.listener)
    return None if listener is None else listener.endpoint
