"""What the two APIs of client metrics have in common (KIP-714): a client's instance, attributes and labels."""

from ottla.client_metrics.instance import ClientInstance
from ottla.client_metrics.pushed import ClientLabels, label
from ottla.handlers.api import CloseConnection, RequestContext
from ottla.purgatory.steps import Steps
from ottla.types import Uuid, format_uuid


def rejection_without_receivers(context: RequestContext) -> CloseConnection | None:
    """Return the end of a connection that uses client metrics on a node without receivers; None with receivers.

    Such a node does not list the two APIs, and rejects them as others that it does not list. JVM Kafka 4.3.1 does not
    list them either, but accepts the requests, and keeps an instance for each client.
    """
    if context.services.client_metrics.is_enabled:
        return None
    return CloseConnection(
        f"requested API key {context.api_key}, which is served only with ottla.client.metrics.receivers"
    )


def find_instance(context: RequestContext, instance_id: Uuid) -> Steps[ClientInstance]:
    """Return the client's instance, with the newest subscription, and note that it uses this connection.

    A connection has one instance at a time: a client that uses another id with each request must not fill the node.
    """
    connection = context.connection
    manager = context.services.client_metrics
    instance = yield from manager.instance(instance_id, client_attributes(context, instance_id), connection.connection)
    if connection.client_instance_id != instance_id:
        manager.remove_instance_of(connection.connection, connection.client_instance_id)
        connection.client_instance_id = instance_id
    return instance


def client_attributes(context: RequestContext, instance_id: Uuid) -> dict[str, str | None]:
    """Return the attributes by the names that patterns use."""
    client = context.connection
    return {
        "client_instance_id": format_uuid(instance_id),
        "client_id": context.client_id,
        "client_software_name": client.client_software_name,
        "client_software_version": client.client_software_version,
        "client_source_address": client.host,
        "client_source_port": str(client.peer.port),
    }


def client_labels(context: RequestContext, instance_id: Uuid) -> ClientLabels:
    """Return the labels of what the client pushes; its own strings are truncated."""
    client = context.connection
    return ClientLabels(
        client_instance_id=format_uuid(instance_id),
        client_id=label(context.client_id or ""),
        client_software_name=label(client.client_software_name),
        client_software_version=label(client.client_software_version),
        client_source_address=client.host,
        principal=label(client.principal),
    )
