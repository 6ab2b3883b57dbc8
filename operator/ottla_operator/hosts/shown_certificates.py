"""What nodes of a cluster with TLS show each other: whoever shows a certificate has read all that came with it."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from ottla.types import Endpoint
from ottla_operator.hosts.operator_access import operator_properties
from ottla_operator.hosts.secret_store import SecretStore
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.reconcile.nodes import NodeState, ObservedNode

_TIMEOUT_S = 2.0
_MAY_ANSWER = (NodeState.READY, NodeState.UNREADY)


async def with_certificates(
    seen: Mapping[str, ObservedNode], desired: DesiredCluster, secret_store: SecretStore
) -> dict[str, ObservedNode]:
    """Return ``seen`` with the certificates that its nodes show, all asked at once; as it is where there is no TLS."""
    properties = None if desired.cluster.tls is None else await operator_properties(desired.cluster, secret_store)
    if properties is None:
        return dict(seen)
    # Most clusters on a laptop have no TLS, and should not wait for what it takes.
    from ottla_operator.clients.served_certificate import served_certificate

    asked = [node for node in desired.nodes if node.name in seen and seen[node.name].state in _MAY_ANSWER]
    shown = await asyncio.gather(*(served_certificate(_door(node), properties, timeout_s=_TIMEOUT_S) for node in asked))
    found = {node.name: certificate for node, certificate in zip(asked, shown, strict=True)}
    return {name: replace(node, certificate=found.get(name)) for name, node in seen.items()}


def _door(node: DesiredNode) -> Endpoint:
    place = node.place
    return Endpoint(place.client_host, place.nodes_port if node.is_broker else place.controller_port)
