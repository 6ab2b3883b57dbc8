"""Certificates that nodes of a cluster present: a node that presents a certificate has read the trust written with it.

Clients outside verify the advertised host, which may be new to the cluster: the names are read for them as well.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from ottla.types import Endpoint
from ottla_operator.adapters.kafka.operator_access import operator_properties
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.outside import probed_listeners, verified_listeners
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.secret_store import SecretStore

_TIMEOUT_S = 2.0
_HANDSHAKE_ONLY = {"security.protocol": "SSL"}
"""Properties of a client without credentials."""
_MAY_RESPOND = (NodeState.READY, NodeState.UNREADY)


async def with_certificates(
    seen: Mapping[str, ObservedNode], desired: DesiredCluster, secret_store: SecretStore
) -> dict[str, ObservedNode]:
    """Return ``seen`` with the certificates that nodes present, read concurrently; unchanged without TLS."""
    properties = None if desired.cluster.tls is None else await operator_properties(desired.cluster, secret_store)
    if properties is None:
        return dict(seen)
    chosen = [node for node in desired.nodes if node.name in seen and seen[node.name].state in _MAY_RESPOND]
    shown = await asyncio.gather(*(_probe(node, seen[node.name], desired.cluster, properties) for node in chosen))
    return {**seen, **{it.name: it for it in shown}}


async def _probe(
    node: DesiredNode, seen: ObservedNode, cluster: Cluster, properties: Mapping[str, str]
) -> ObservedNode:
    """Return ``seen`` with the certificates that ``node`` presents."""
    # Most local clusters have no TLS, and should not wait for this import.
    from ottla_operator.adapters.kafka.served_certificate import served_certificate

    place = node.place
    endpoint = Endpoint(place.client_host, place.nodes_port if node.is_broker else place.controller_port)
    ports = dict(zip((it.name for it in cluster.listeners), place.client_ports, strict=True))
    wanted, others = (verified_listeners(cluster), probed_listeners(cluster)) if node.is_broker else ((), ())
    among_nodes, *of_others = await asyncio.gather(
        served_certificate(endpoint, properties, timeout_s=_TIMEOUT_S),
        *(
            served_certificate(Endpoint(place.client_host, ports[it.name]), _HANDSHAKE_ONLY, timeout_s=_TIMEOUT_S)
            for it in others
        ),
    )
    certificates = {it.name: among_nodes for it in wanted if it.certificate is None}
    certificates |= {it.name: certificate for it, certificate in zip(others, of_others, strict=True)}
    return replace(
        seen,
        certificate=None if among_nodes is None else among_nodes.fingerprint,
        certificate_names={name: it.names for name, it in certificates.items() if it is not None},
    )
