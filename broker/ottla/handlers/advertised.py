"""Where a client is told to find a broker: on the listener that it came in by."""

from ottla.handlers.api import RequestContext
from ottla.metadata.cluster import BrokerRegistration
from ottla.types import Endpoint


def advertised_endpoint(context: RequestContext, broker: BrokerRegistration) -> Endpoint | None:
    """Return the broker's advertised address for this client; None where it has no such listener.

    With ``ottla.advertise.dialled.address`` (development) this node says of itself the address that the client
    dialled, which worked at least once: from a container, through a forwarded port, by any name.
    """
    config = context.services.config
    if config.ottla_advertise_dialled_address and broker.broker_id == config.node_id:
        return context.connection.dialled
    listener = broker.listeners.get(context.connection.listener)
    return None if listener is None else listener.endpoint
