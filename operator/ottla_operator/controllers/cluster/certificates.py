"""Certificates in the reconciliation of a Cluster: observe, plan, execute, before anything is published for nodes."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ottla_operator.controllers.error_results import EXPECTED_ERRORS
from ottla_operator.controllers.executor import Execution, execute_for_certificates
from ottla_operator.model.certificate_order import certificate_order
from ottla_operator.model.cluster_secrets import clients_ca_secret, cluster_ca_secret, nodes_secret, operator_secret
from ottla_operator.model.conditions import Rejected, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.secret import Secret
from ottla_operator.planning.steps.certificate import CertificateStep
from ottla_operator.ports.host import Host
from ottla_operator.ports.nodes import NodeState
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.secret_store import SecretStore
from ottla_operator.runtime.concurrency import gather_limited

if TYPE_CHECKING:
    from ottla_operator.planning.certificates.observed import ObservedCertificates
    from ottla_operator.planning.certificates.users import UserSecret


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateKeeper:
    """The dependencies of issuing a cluster's certificates."""

    secret_store: SecretStore
    now: str
    """RFC 3339."""
    users: Callable[[], Awaitable[Iterable[Document]]]
    """Lists all of the cluster's Users; called only while an authority is being replaced."""
    user_secrets: Callable[[str], SecretStore]
    """Returns the Secrets of Users of a namespace."""


async def _secrets_of_users(keeper: CertificateKeeper) -> "tuple[UserSecret, ...]":
    """Return the Secrets of Users, without those that do not exist, and of Users that are being deleted.

    An error is about the Users that it concerns: it delays no renewal of the cluster's own certificates.
    """
    from ottla_operator.planning.certificates.users import UNLISTED, UserSecret

    try:
        users = [it["metadata"] for it in await keeper.users() if not it["metadata"].get("deletionTimestamp")]
    except EXPECTED_ERRORS:
        return (UNLISTED,)

    async def read(namespace: str, name: str, user: str) -> UserSecret | None:
        try:
            return UserSecret.parse(user, await keeper.user_secrets(namespace).read(name))
        except EXPECTED_ERRORS:
            return UserSecret(user=user, is_readable=False)

    names = [(it.get("namespace", ""), it["name"]) for it in users]
    found = await gather_limited({it: read(*it, "/".join(filter(None, it))) for it in names})
    for error in found.values():
        if isinstance(error, Exception):
            raise error
    return tuple(it for it in found.values() if isinstance(it, UserSecret))


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateResult:
    """The result for the certificates."""

    execution: Execution = field(default_factory=Execution)
    planned: tuple[CertificateStep, ...] = ()
    """With ``dry_run``: the steps that would have been executed."""
    obstacle: Waiting | Rejected | None = None
    """Why the cluster waits, or what the user has to change, while nodes run with the present certificates."""
    blocker: Waiting | Rejected | None = None
    """Why nodes cannot be started."""
    facts: Document = field(default_factory=dict)
    wake_at: str = ""
    """See `CertificatePlan.wake_at`."""
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names in the certificate that nodes' Secret has for each listener for clients outside, by listener."""


async def keep_certificates(
    desired: DesiredCluster, observed: ObservedCluster, host: Host, keeper: CertificateKeeper, *, dry_run: bool
) -> CertificateResult:
    """Issue and renew a cluster's certificates; do nothing without TLS. Raises one of `EXPECTED_ERRORS`."""
    cluster = desired.cluster
    if cluster.tls is None:
        return CertificateResult()
    # Imported here: the library is slow to load, and most local clusters have no TLS.
    from ottla_operator.model.certificates import CertificateIssuer
    from ottla_operator.planning.certificates.observed import former_host_addresses
    from ottla_operator.planning.certificates.plan import plan_certificates

    nodes = await keeper.secret_store.read(nodes_secret(cluster.name))
    # Listeners with a certificate of their own have the same names.
    names = frozenset(host.certificate_names(desired)) | former_host_addresses(cluster, nodes, keeper.now)
    plan = plan_certificates(
        cluster,
        await _observe(cluster, observed, names, nodes, keeper),
        names=names,
        bootstrap_servers=host.nodes_servers(desired),
        now=keeper.now,
        issuer=CertificateIssuer(),
    )
    blocker = None if plan.is_usable else plan.obstacle
    kept = CertificateResult(
        obstacle=plan.obstacle, blocker=blocker, facts=plan.facts, wake_at=plan.wake_at, names=plan.names
    )
    if dry_run:
        return replace(kept, planned=plan.steps)
    execution = await execute_for_certificates(plan.steps, keeper.secret_store)
    return replace(kept, execution=execution, blocker=execution.stopped or blocker)


async def _observe(
    cluster: Cluster,
    observed: ObservedCluster,
    names: frozenset[str],
    nodes: Secret | None,
    keeper: CertificateKeeper,
) -> "ObservedCertificates":
    from ottla_operator.planning.certificates.observed import ObservedCertificates, is_changing

    store, tls = keeper.secret_store, cluster.tls
    assert tls is not None, "the caller checks spec.tls"

    async def own(name: str | None) -> Secret | None:
        return None if name is None else await store.read(name)

    cluster_ca, clients_ca = cluster_ca_secret(cluster.name), clients_ca_secret(cluster.name)
    listeners, ordered = await _listeners(cluster, names, store)
    found = ObservedCertificates(
        cluster_ca=await store.read(cluster_ca),
        clients_ca=await store.read(clients_ca),
        nodes=nodes,
        operator=await store.read(operator_secret(cluster.name)),
        own_cluster_ca=await own(tls.cluster_ca.secret_name),
        own_clients_ca=await own(tls.clients_ca.secret_name),
        listeners=listeners,
        ordered=ordered,
        # A node that is started later reads the certificate of that time.
        shown={name: it.certificate for name, it in observed.nodes.items() if it.state is not NodeState.STOPPED},
    )
    if not is_changing(found):
        return found
    return replace(found, users=await _secrets_of_users(keeper))


async def _listeners(
    cluster: Cluster, names: frozenset[str], store: SecretStore
) -> tuple[Mapping[str, Secret | None], frozenset[str]]:
    """Return the Secrets of listeners' own certificates by the listener's name, and those that are ordered."""
    found: dict[str, Secret | None] = {}
    ordered = set()
    for listener in cluster.listeners:
        if listener.certificate is None:
            continue
        order = certificate_order(cluster, listener, names)
        if order is not None and await store.has_certificate_order(order):
            ordered.add(listener.name)
        name = listener.certificate.secret_name if order is None else order.secret_name
        found[listener.name] = None if name is None else await store.read(name)
    return found, frozenset(ordered)
