"""Which brokers clients outside cannot verify: their certificate is not for the host that is dialled. Pure.

A pod that comes to a machine that is new to the cluster, or a listener whose load balancer has another address, shows
the certificate that was there before until the kubelet has brought the next one, within about a minute.
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
"""Host names and addresses that certificates are for, by listener."""


@dataclass(frozen=True, slots=True)
class _Unverified:
    node: DesiredNode
    listener: Listener
    host: str

    def __str__(self) -> str:
        return f"listener {self.listener.name} shows a certificate that is not for {self.host}, which clients dial"


def with_unverified(desired: DesiredCluster, observed: ObservedCluster, signed: Names) -> ObservedCluster:
    """Return ``observed`` with `ObservedNode.unverified` of the brokers that have only to read what is ``signed``.

    Who has to wait for somebody to sign does not hold up restarts: nobody knows for how long.
    """
    nodes = dict(observed.nodes)
    for it in _unverified(desired, observed):
        if it.host in signed.get(it.listener.name, ()):
            nodes[it.node.name] = replace(nodes[it.node.name], unverified=str(it))
    return replace(observed, nodes=nodes)


def unverified(desired: DesiredCluster, observed: ObservedCluster) -> Waiting | None:
    """Return that clients outside do not take some broker for who it is yet; all other clients are served."""
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
            host, shown = _dialled(node, seen, listener), seen.names.get(listener.name)
            if host and shown is not None and host not in shown:
                yield _Unverified(node, listener, host)


def _dialled(node: DesiredNode, seen: ObservedNode, listener: Listener) -> str:
    """Return the host by which clients reach ``node``, as certificates say it; empty where nobody knows yet."""
    address = node.place.outside.get(listener.name)
    if address is None:
        return ""
    return certificate_name(address.rpartition(":")[0].strip("[]") or seen.machine)
