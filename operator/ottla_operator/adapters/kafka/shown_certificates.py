"""What nodes of a cluster with TLS show: whoever shows a certificate to nodes has read all that came with it.

Clients outside verify by the host that they dial, which may be new to the cluster: the names are looked at for them.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from ottla.types import Endpoint
from ottla_operator.adapters.kafka.operator_access import operator_properties
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.outside import looked_at, verified_listeners
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.secret_store import SecretStore

_TIMEOUT_S = 2.0
_KNOCKS = {"security.protocol": "SSL"}
"""Of a client that gives no password, where one is asked for."""
_MAY_ANSWER = (NodeState.READY, NodeState.UNREADY)


async def with_certificates(
    seen: Mapping[str, ObservedNode], desired: DesiredCluster, secret_store: SecretStore
) -> dict[str, ObservedNode]:
    """Return ``seen`` with what its nodes show, all asked at once; as it is where there is no TLS."""
    properties = None if desired.cluster.tls is None else await operator_properties(desired.cluster, secret_store)
    if properties is None:
        return dict(seen)
    asked = [node for node in desired.nodes if node.name in seen and seen[node.name].state in _MAY_ANSWER]
    shown = await asyncio.gather(*(_look(node, seen[node.name], desired.cluster, properties) for node in asked))
    return {**seen, **{it.name: it for it in shown}}


async def _look(node: DesiredNode, seen: ObservedNode, cluster: Cluster, properties: Mapping[str, str]) -> ObservedNode:
    """Return ``seen`` with what ``node`` shows."""
    # Most clusters on a laptop have no TLS, and should not wait for what it takes.
    from ottla_operator.adapters.kafka.served_certificate import served_certificate

    place = node.place
    door = Endpoint(place.client_host, place.nodes_port if node.is_broker else place.controller_port)
    ports = dict(zip((it.name for it in cluster.listeners), place.client_ports, strict=True))
    wanted, others = (verified_listeners(cluster), looked_at(cluster)) if node.is_broker else ((), ())
    among_nodes, *of_others = await asyncio.gather(
        served_certificate(door, properties, timeout_s=_TIMEOUT_S),
        *(
            served_certificate(Endpoint(place.client_host, ports[it.name]), _KNOCKS, timeout_s=_TIMEOUT_S)
            for it in others
        ),
    )
    certificates = {it.name: among_nodes for it in wanted if it.certificate is None}
    certificates |= {it.name: certificate for it, certificate in zip(others, of_others, strict=True)}
    return replace(
        seen,
        certificate=None if among_nodes is None else among_nodes.fingerprint,
        names={name: it.names for name, it in certificates.items() if it is not None},
    )
