"""Plans the certificates of one Cluster, pure: from its spec and its present Secrets to the Secrets to write.

The Secrets of the two authorities are written first, and everything else is derived from them: an operator that is
killed between two writes finds the rest to do. Nodes get a new certificate whenever their trust changes, so the
certificate that a node presents shows which trust it has read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from ottla_operator.model import certificates
from ottla_operator.model.certificate_order import certificate_order
from ottla_operator.model.certificates import Leaf, LeafRequest, SigningAuthority, facts
from ottla_operator.model.cluster_secrets import (
    CLIENT_PROPERTIES,
    CLIENTS_CA,
    CLUSTER_CA,
    NODE_PEM,
    clients_ca_secret,
    cluster_ca_secret,
    listener_pem,
    nodes_secret,
    operator_secret,
    trusted_entry,
)
from ottla_operator.model.cluster_tls import NODE_COMMON_NAME, OPERATOR_COMMON_NAME, Authority, ClusterTls
from ottla_operator.model.conditions import AUTHORITY_OVERLAP, Rejected, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import render_properties
from ottla_operator.model.objects.metadata import MANAGED_BY_LABEL, MANAGER
from ottla_operator.model.outside import verified_listeners
from ottla_operator.model.secret import Secret, ownership
from ottla_operator.model.timestamps import instant
from ottla_operator.model.user_secret import keystore_properties, truststore_properties
from ottla_operator.planning.certificates.authorities import (
    BLIND,
    SETTLE,
    STATE_ANNOTATION,
    USERS_MIN,
    AuthorityState,
    Pauses,
    advance_authority,
    known_to_nodes,
    state_of,
)
from ottla_operator.planning.certificates.leaves import Issuer, is_current, leaf_days
from ottla_operator.planning.certificates.observed import ObservedCertificates, leaf_of_nodes
from ottla_operator.planning.certificates.report import changing, described
from ottla_operator.planning.certificates.users import users_of_previous, users_without_trust
from ottla_operator.planning.steps.certificate import (
    CertificateStep,
    LeaveUsersBehind,
    OrderCertificate,
    WithdrawCertificate,
)
from ottla_operator.planning.steps.secret import WriteSecret

OPERATOR_CERTIFICATE, OPERATOR_KEY, OPERATOR_TRUST = "operator.crt", "operator.key", "ca.crt"
ORDERS_ANNOTATION: Final = "ottla.dev/cert-manager-certificates"
"""On the nodes' Secret: all Certificates that may have been created in cert-manager, separated by commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatePlan:
    """Steps in order, an obstacle, and whether nodes can be started with the certificates afterwards."""

    steps: tuple[CertificateStep, ...] = ()
    obstacle: Waiting | Rejected | None = None
    is_usable: bool = True
    facts: Document = field(default_factory=dict)
    """For the status."""
    wake_at: str = ""
    """RFC 3339: when the earliest overlap of two authorities ends; empty if there is none."""
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names in the certificate of each listener for clients outside, by listener, once the steps are done."""


def plan_certificates(
    cluster: Cluster,
    observed: ObservedCertificates,
    *,
    names: frozenset[str],
    bootstrap_servers: str,
    now: str,
    issuer: Issuer,
) -> CertificatePlan:
    """Return the steps towards certificates that are valid, for all names and long enough.

    Args:
        cluster: the manifest, which has TLS.
        observed: the present Secrets.
        names: host names and addresses of all nodes; including `observed.former_host_addresses`.
        bootstrap_servers: the operator's bootstrap address.
        now: RFC 3339.
        issuer: keys and signatures.
    """
    tls = cluster.tls
    assert tls is not None, "a cluster without TLS has no certificates"
    if (rejected := _foreign_secret(cluster, observed)) is not None:
        return CertificatePlan(obstacle=rejected, is_usable=False)
    given: dict[str, SigningAuthority | Waiting | Rejected | None] = {
        "cluster": _given(tls.cluster_ca, observed.own_cluster_ca, now),
        "clients": _given(tls.clients_ca, observed.own_clients_ca, now),
    }
    return _Planner(cluster, tls, observed, names, bootstrap_servers, now, issuer, given).plan()


def _foreign_secret(cluster: Cluster, observed: ObservedCertificates) -> Rejected | None:
    for secret in (observed.cluster_ca, observed.clients_ca, observed.nodes, observed.operator):
        if secret is not None and not secret.belongs_to(cluster.metadata):
            message = f"Secret {secret.name} is not this Cluster's; remove it, or give this Cluster another name"
            return Rejected("SecretTaken", message)
    return None


def _given(wanted: Authority, secret: Secret | None, now: str) -> SigningAuthority | Waiting | Rejected | None:
    """Return the authority that the user provides, why it is unusable, or None if the operator creates one."""
    if wanted.secret_name is None:
        return None
    if secret is None:
        message = f"there is no Secret {wanted.secret_name}, which is to hold the authority (ca.crt, ca.key)"
        return Waiting("AuthorityMissing", message)
    entries, where = secret.entries, f"Secret {wanted.secret_name}"
    for kind, name in secret.owners.items():
        # Nodes of two clusters with a shared authority could authenticate as nodes of each other.
        message = f"{where} is the operator's own, for {kind} {name}; name one that you keep yourself"
        return Rejected("CertificateUnusable", message)
    return certificates.user_provided_authority(entries.get("ca.crt"), entries.get("ca.key"), where, now=instant(now))


@dataclass(slots=True)
class _Planner:
    """Collects the steps of one plan."""

    _cluster: Cluster
    _tls: ClusterTls
    _observed: ObservedCertificates
    _names: frozenset[str]
    _bootstrap_servers: str
    _now: str
    _issuer: Issuer
    _given: dict[str, SigningAuthority | Waiting | Rejected | None]
    _steps: list[CertificateStep] = field(default_factory=list)
    _obstacles: list[Waiting | Rejected] = field(default_factory=list)
    _orders: list[OrderCertificate] = field(default_factory=list)
    _wake_ups: list[str] = field(default_factory=list)

    def plan(self) -> CertificatePlan:
        observed, name = self._observed, self._cluster.name
        node_entries: Mapping[str, str] = {} if observed.nodes is None else observed.nodes.entries
        now = instant(self._now)
        known_cluster = known_to_nodes(state_of(observed.cluster_ca), node_entries.get(CLUSTER_CA), now=now)
        known_clients = known_to_nodes(state_of(observed.clients_ca), node_entries.get(CLIENTS_CA), now=now)
        unseen = self._unseen(known_cluster, known_clients, node_entries)
        self._reject_shared_key("cluster", known_clients)
        cluster_ca = self._next("cluster", known_cluster, unseen, users_without_trust(observed.users, known_cluster))
        self._reject_shared_key("clients", cluster_ca)
        clients_ca = self._next("clients", known_clients, unseen, users_of_previous(observed.users, known_clients))
        if cluster_ca is None or clients_ca is None:
            return CertificatePlan(obstacle=self._obstacle(), is_usable=False)
        self._write_authority("cluster", observed.cluster_ca, known_cluster, cluster_ca)
        self._write_authority("clients", observed.clients_ca, known_clients, clients_ca)
        node = self._node_leaf(cluster_ca, clients_ca, node_entries)
        operator = self._operator_leaf(cluster_ca)
        listeners = dict(self._listener_pems(node_entries))
        is_usable = node is not None and None not in listeners.values()
        self._withdraw()
        if node is not None:
            trust = {CLUSTER_CA: cluster_ca.trusted, CLIENTS_CA: clients_ca.trusted}
            pems = {entry: pem for entry, pem in listeners.items() if pem is not None} | self._listener_trust()
            self._write(nodes_secret(name), observed.nodes, {NODE_PEM: node.pem, **trust, **pems}, self._orders_noted())
        if operator is not None:
            entries = _operator_entries(operator, cluster_ca.trusted, self._bootstrap_servers)
            self._write(operator_secret(name), observed.operator, entries)
        # Orders come after the annotation that names them: otherwise a later operator could not withdraw them.
        self._steps.extend(self._orders)
        return CertificatePlan(
            steps=tuple(self._steps),
            obstacle=self._obstacle(),
            is_usable=is_usable,
            facts={"certificates": list(described(cluster_ca, clients_ca, node, operator, listeners))},
            wake_at=min(self._wake_ups, default=""),
            names=dict(self._names_outside(node, listeners)),
        )

    def _names_outside(
        self, node: Leaf | None, listeners: Mapping[str, str | None]
    ) -> Iterator[tuple[str, frozenset[str]]]:
        for listener in verified_listeners(self._cluster):
            is_among_nodes = listener.certificate is None
            found = node if is_among_nodes else certificates.leaf_of(listeners[listener_pem(listener)])
            if found is not None:
                yield listener.name, facts(found.certificate).names

    def _obstacle(self) -> Waiting | Rejected | None:
        """Return the obstacle to report: a rejection, else what is in progress, else an overlap."""
        return min(
            self._obstacles,
            key=lambda it: (not isinstance(it, Rejected), it.reason == AUTHORITY_OVERLAP),
            default=None,
        )

    def _reject_shared_key(self, which: str, other: AuthorityState | None) -> None:
        """Reject a user's authority with the key of the ``other`` one: a client could authenticate as a node."""
        given = self._given[which]
        if other is None or not isinstance(given, SigningAuthority):
            return
        if any(certificates.have_one_key(given.certificate, it) for it in certificates.certificates(other.trusted)):
            wanted = self._tls.cluster_ca if which == "cluster" else self._tls.clients_ca
            self._given[which] = Rejected(
                "CertificateUnusable",
                f"Secret {wanted.secret_name} has the key of this cluster's other authority, so that a client's "
                "certificate could be taken for a node's; put another authority there",
            )

    def _next(
        self, which: str, known: AuthorityState | None, unseen: str | None, users: Sequence[str]
    ) -> AuthorityState | None:
        """Return the next state of the authority; None if there is none and none can be created.

        ``unseen`` is why nodes may not have the present phase; ``users`` are those whose Secrets do not have it.
        """
        is_cluster = which == "cluster"
        wanted, given = (self._tls.cluster_ca if is_cluster else self._tls.clients_ca), self._given[which]
        if isinstance(given, Waiting | Rejected):
            # The present authority continues; the user's is not considered while it is unusable.
            self._obstacles.append(given)
            if known is None or known.present.key is None:
                return known
            given = known.present
        is_blind = known is not None and known.present.key is None
        overlap = timedelta(seconds=wanted.overlap_s)
        # Clients have to read the new cluster CA before a node presents a certificate by it, and their new certificates
        # before the old clients CA is removed.
        nodes = BLIND if is_blind else SETTLE
        pauses = Pauses(
            nodes=nodes,
            trusted=max(nodes, overlap if is_cluster else SETTLE),
            replaced=SETTLE if is_cluster else max(SETTLE, overlap),
            users=max(USERS_MIN, overlap),
        )
        found = advance_authority(
            known,
            wanted,
            given,
            is_seen=unseen is None,
            pauses=pauses,
            now=self._now,
            users=users,
            create=lambda: self._issuer.authority(
                self._cluster.name, f"{which} CA", now=instant(self._now), days=wanted.validity_days
            ),
        )
        if is_cluster and found.following is not None and is_blind and self._found_leaf() is None:
            # Nodes have no certificate, and only the new authority can sign one: this cannot wait.
            found = found.replaced()
        if found.is_changing:
            phase = changing(which, found, unseen, users, pauses, instant(self._now))
            self._obstacles.append(phase.obstacle)
            self._wake_ups += filter(None, [phase.wake_at])
        return found

    def _unseen(
        self, cluster_ca: AuthorityState | None, clients_ca: AuthorityState | None, entries: Mapping[str, str]
    ) -> str | None:
        """Describe why nodes may not have read the present phase; None when they have."""
        if cluster_ca is None or clients_ca is None:
            return "the first certificates"
        leaf = self._found_leaf()
        is_written = (entries.get(CLUSTER_CA), entries.get(CLIENTS_CA)) == (cluster_ca.trusted, clients_ca.trusted)
        if leaf is None or not is_written:
            return "the Secrets of nodes and operator"
        operator: Mapping[str, str] = {} if self._observed.operator is None else self._observed.operator.entries
        signed = [leaf.certificate, *filter(None, [operator.get(OPERATOR_CERTIFICATE)])]
        is_signed = all(certificates.is_issued_by(it, cluster_ca.present.certificate) for it in signed)
        # The operator's is written last: an operator killed before that must not lock itself out by the next phase.
        if not is_signed or operator.get(OPERATOR_TRUST, cluster_ca.trusted) != cluster_ca.trusted:
            return "the Secrets of nodes and operator"
        if cluster_ca.present.key is None:
            # Without the key, no certificate can show that a node has read the trust: the delay `BLIND` has to do.
            return None
        wanted = facts(leaf.certificate).fingerprint
        late = [name for name, shown in sorted(self._observed.shown.items()) if shown != wanted]
        return f"node {late[0]} to show its new certificate" if late else None

    def _found_leaf(self) -> Leaf | None:
        return leaf_of_nodes(self._observed.nodes)

    def _node_leaf(
        self, cluster_ca: AuthorityState, clients_ca: AuthorityState, entries: Mapping[str, str]
    ) -> Leaf | None:
        is_written = (entries.get(CLUSTER_CA), entries.get(CLIENTS_CA)) == (cluster_ca.trusted, clients_ca.trusted)
        found = self._found_leaf()
        request = LeafRequest(common_name=NODE_COMMON_NAME, names=self._names)
        return self._leaf(cluster_ca, found, request, is_fresh_needed=not is_written)

    def _operator_leaf(self, cluster_ca: AuthorityState) -> Leaf | None:
        entries: Mapping[str, str] = {} if self._observed.operator is None else self._observed.operator.entries
        found = certificates.leaf_of_parts(entries.get(OPERATOR_CERTIFICATE), entries.get(OPERATOR_KEY))
        return self._leaf(cluster_ca, found, LeafRequest(common_name=OPERATOR_COMMON_NAME))

    def _leaf(
        self, state: AuthorityState, found: Leaf | None, request: LeafRequest, *, is_fresh_needed: bool = False
    ) -> Leaf | None:
        """Return ``found`` if it is current, or a new one; ``found`` as well if the authority cannot sign."""
        if state.present.key is None:
            return found
        wanted, is_kept = self._tls.cluster_ca, found is not None and not is_fresh_needed
        if found is not None and is_kept and is_current(state.present, found, request, wanted, self._now):
            return found
        return self._issuer.leaf(state.present, request, now=instant(self._now), days=leaf_days(wanted))

    def _listener_pems(self, entries: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
        """Yield entry and PEM of each listener's own certificate; None if there is none yet."""
        for listener in self._cluster.listeners:
            if listener.certificate is None:
                continue
            entry, found = listener_pem(listener), self._listener_leaf(listener)
            if isinstance(found, Leaf):
                yield entry, found.pem
            else:
                self._obstacles.append(found)
                yield entry, entries.get(entry)

    def _listener_trust(self) -> dict[str, str]:
        """Return the authorities that clients of listeners with own certificates must trust, from their Secrets."""
        trust = {}
        for listener in self._cluster.listeners:
            secret = self._observed.listeners.get(listener.name)
            trusted = certificates.certificates("" if secret is None else secret.entries.get("ca.crt", ""))
            if trusted and listener.certificate is not None:
                trust[trusted_entry(listener)] = "".join(trusted)
        return trust

    def _listener_leaf(self, listener: Listener) -> Leaf | Waiting | Rejected:
        assert listener.certificate is not None, "the caller passes listeners with a certificate"
        order = certificate_order(self._cluster, listener, self._names)
        if order is not None and listener.name not in self._observed.ordered:
            self._orders.append(OrderCertificate(order, self._cluster.metadata))
        name = listener.certificate.secret_name if order is None else order.secret_name
        secret = self._observed.listeners.get(listener.name)
        if secret is None:
            source = "" if order is None else f"; cert-manager creates it, see Certificate {order.name}"
            message = f"there is no Secret {name} with the certificate of listener {listener.name}{source}"
            return Waiting("CertificateMissing", message)
        certificate, key = secret.entries.get("tls.crt"), secret.entries.get("tls.key")
        return certificates.user_provided_leaf(certificate, key, f"Secret {name}", now=instant(self._now))

    def _wanted_orders(self) -> frozenset[str]:
        """Return the names of the Certificates that listeners use, also those named as a user's Secret."""
        wanted = set()
        for listener in self._cluster.listeners:
            order = certificate_order(self._cluster, listener, self._names)
            if order is not None:
                wanted.add(order.name)
            elif listener.certificate is not None and listener.certificate.secret_name in self._noted_orders():
                wanted.add(listener.certificate.secret_name)
        return frozenset(wanted)

    def _noted_orders(self) -> frozenset[str]:
        nodes = self._observed.nodes
        noted = "" if nodes is None else nodes.annotations.get(ORDERS_ANNOTATION, "")
        return frozenset(filter(None, noted.split(",")))

    def _orders_noted(self) -> dict[str, str]:
        """Return the annotation with all orders; once set it stays, even if empty."""
        wanted, nodes = self._wanted_orders(), self._observed.nodes
        had_any = nodes is not None and ORDERS_ANNOTATION in nodes.annotations
        return {ORDERS_ANNOTATION: ",".join(sorted(wanted))} if wanted or had_any else {}

    def _withdraw(self) -> None:
        for name in sorted(self._noted_orders() - self._wanted_orders()):
            self._steps.append(WithdrawCertificate(name, self._cluster.metadata))

    def _write_authority(
        self, which: str, secret: Secret | None, known: AuthorityState | None, found: AuthorityState
    ) -> None:
        name = (cluster_ca_secret if which == "cluster" else clients_ca_secret)(self._cluster.name)
        self._write(name, secret, found.entries, {STATE_ANNOTATION: found.annotation})
        if found.left_behind.count and (known is None or known.left_behind != found.left_behind):
            self._steps.append(LeaveUsersBehind(f"{which} CA", found.left_behind))

    def _write(
        self, name: str, found: Secret | None, entries: Mapping[str, str], annotations: Mapping[str, str] | None = None
    ) -> None:
        owner = self._cluster.metadata
        wanted = Secret(
            name=name,
            entries=dict(sorted(entries.items())),
            labels={MANAGED_BY_LABEL: MANAGER},
            annotations={**ownership(owner), **(annotations or {})},
            owner_uid=owner.uid,
            version="" if found is None else found.version,
        )
        if found is None or not found.covers(wanted):
            self._steps.append(WriteSecret(wanted, owner))


def _operator_entries(leaf: Leaf, trusted: str, bootstrap_servers: str) -> dict[str, str]:
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": "SSL",
        **keystore_properties(leaf),
        **truststore_properties(trusted),
    }
    return {
        CLIENT_PROPERTIES: render_properties(settings),
        OPERATOR_CERTIFICATE: leaf.certificate,
        OPERATOR_KEY: leaf.key,
        OPERATOR_TRUST: trusted,
    }
