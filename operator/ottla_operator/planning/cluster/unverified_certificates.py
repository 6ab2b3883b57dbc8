"""Brokers that clients outside cannot verify: their certificate does not name the advertised host. Pure.

A pod on a Kubernetes node that is new to the cluster, or a listener whose load balancer has another address, presents
the old certificate until the kubelet has updated the Secret's volume, within about a minute.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace

from ottla_operator.model.certificate_order import certificate_name
from ottla_operator.model.conditions import Waiting
from ottla_operator.model.listeners import Listener
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.outside import verified_listeners
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster

Names = Mapping[str, Set[str]]
"""Host names and addresses in certificates, by listener."""


@dataclass(frozen=True, slots=True)
class _Unverified:
    node: DesiredNode
    listener: Listener
    host: str

    def __str__(self) -> str:
        return f"listener {self.listener.name} presents a certificate without {self.host}, its advertised host"


def with_unverified(desired: DesiredCluster, observed: ObservedCluster, signed: Names) -> ObservedCluster:
    """Return ``observed`` with `ObservedNode.unverified` of brokers that only have to read a ``signed`` certificate.

    A certificate that is not signed yet does not block restarts: that may take any time.
    """
    nodes = dict(observed.nodes)
    for it in _unverified(desired, observed):
        if it.host in signed.get(it.listener.name, ()):
            nodes[it.node.name] = replace(nodes[it.node.name], unverified=str(it))
    return replace(observed, nodes=nodes)


def unverified(desired: DesiredCluster, observed: ObservedCluster) -> Waiting | None:
    """Return the wait for the first broker that clients outside cannot verify yet; all other clients are served."""
    found = list(_unverified(desired, observed))
    if not found:
        return None
    first, count = found[0], len({it.node.name for it in found})
    more = f", as {count - 1} more do" if count > 1 else ""
    is_there = bool(observed.nodes[first.node.name].unverified)
    comes = "it has read the next one, within about a minute" if is_there else "another one is signed"
    return Waiting("CertificateOutdated", f"node {first.node.name}: {first}, until {comes}{more}")


def _unverified(desired: DesiredCluster, observed: ObservedCluster) -> Iterator[_Unverified]:
    listeners = verified_listeners(desired.cluster)
    for node in desired.brokers:
        seen = observed.nodes.get(node.name)
        if seen is None or seen.state is not NodeState.READY:
            continue
        for listener in listeners:
            host, shown = _advertised_host(node, seen, listener), seen.certificate_names.get(listener.name)
            if host and shown is not None and host not in shown:
                yield _Unverified(node, listener, host)


def _advertised_host(node: DesiredNode, seen: ObservedNode, listener: Listener) -> str:
    """Return the advertised host of ``node``, in the form of certificates; empty while it is unknown."""
    address = node.place.outside.get(listener.name)
    if address is None:
        return ""
    return certificate_name(address.rpartition(":")[0].strip("[]") or seen.host_address)
