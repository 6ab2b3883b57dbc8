"""The observed certificates of a Cluster: its Secrets, and the certificates that nodes present."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_operator.model import certificates
from ottla_operator.model.certificate_order import is_address
from ottla_operator.model.certificates import Leaf, facts
from ottla_operator.model.cluster_secrets import NODE_PEM
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.outside import advertises_host_addresses
from ottla_operator.model.secret import Secret
from ottla_operator.model.timestamps import instant
from ottla_operator.planning.certificates.authorities import renewal_begins, state_of
from ottla_operator.planning.certificates.users import UserSecret


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCertificates:
    """The present Secrets of a cluster, and the certificates that nodes present."""

    cluster_ca: Secret | None = None
    clients_ca: Secret | None = None
    nodes: Secret | None = None
    operator: Secret | None = None
    own_cluster_ca: Secret | None = None
    """The Secret named by ``spec.tls.clusterCa.secretName``."""
    own_clients_ca: Secret | None = None
    listeners: Mapping[str, Secret | None] = field(default_factory=dict)
    """By listener name, for listeners with a certificate of their own."""
    ordered: frozenset[str] = frozenset()
    """The listeners whose Certificate exists in cert-manager with the present spec."""
    users: tuple[UserSecret, ...] = ()
    """Of the cluster's Users; needed while an authority is replaced (`is_changing`)."""
    shown: Mapping[str, str | None] = field(default_factory=dict)
    """The fingerprint of the certificate that each running node presents, by node name."""


def is_changing(observed: ObservedCertificates) -> bool:
    """Tell whether an authority is being replaced, so that the Secrets of Users have to be observed."""
    states = (state_of(observed.cluster_ca), state_of(observed.clients_ca))
    return any(state is not None and state.is_changing for state in states)


def former_host_addresses(cluster: Cluster, nodes: Secret | None, now: str) -> frozenset[str]:
    """Return the host addresses in the nodes' certificate, which stay in it until it is renewed.

    A broker that returns to such a host is verified at once. Otherwise it takes a minute until it has read a new one.

    Args:
        cluster: the manifest, which has TLS.
        nodes: the nodes' present Secret.
        now: RFC 3339.
    """
    if cluster.tls is None or not advertises_host_addresses(cluster) or (found := leaf_of_nodes(nodes)) is None:
        return frozenset()
    if instant(now) >= renewal_begins(found.certificate, cluster.tls.cluster_ca.renewal_days):
        return frozenset()
    return frozenset(filter(is_address, facts(found.certificate).names))


def leaf_of_nodes(nodes: Secret | None) -> Leaf | None:
    """Return the certificate that all nodes share, from their Secret; None without one."""
    return None if nodes is None else certificates.leaf_of(nodes.entries.get(NODE_PEM))
