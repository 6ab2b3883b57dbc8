"""The attributes of a client that subscriptions to client metrics match (KIP-714)."""

from ottla.client_metrics.pushed import ClientLabels, label
from ottla.handlers.api import RequestContext
from ottla.types import Uuid, format_uuid


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
