"""The certificates within one pass over a Cluster: observe, plan, execute, before anything is published for nodes."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ottla_operator.controllers.executor import Execution, execute_for_certificates
from ottla_operator.model.certificate_order import certificate_order
from ottla_operator.model.cluster_secrets import clients_ca_secret, cluster_ca_secret, nodes_secret, operator_secret
from ottla_operator.model.conditions import Refused, Waiting, is_stalled
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.secret import Secret
from ottla_operator.planning.steps.certificate import CertificateStep
from ottla_operator.ports.host import Host
from ottla_operator.ports.nodes import NodeState
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.secret_store import SecretStore

if TYPE_CHECKING:
    from ottla_operator.planning.certificates.plan import ObservedCertificates


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateKeeper:
    """What a pass needs to keep a cluster's certificates."""

    secret_store: SecretStore
    now: str
    """RFC 3339."""
    users: Callable[[], Awaitable[Iterable[Document]]]
    """Finds the cluster's Users; asked only while an authority changes, and nobody of them may be left out then."""
    user_secrets: Callable[[str], SecretStore]
    """Where the Secrets of Users of a namespace are."""


async def _secrets_of_users(keeper: CertificateKeeper) -> list[Secret | None]:
    """Return the Secrets that somebody keeps: not of Users that go, or that have to be changed first."""
    users = await keeper.users()
    return [
        await keeper.user_secrets(user["metadata"].get("namespace", "")).read(user["metadata"]["name"])
        for user in users
        if not user["metadata"].get("deletionTimestamp") and not is_stalled(user)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of the certificates."""

    execution: Execution = field(default_factory=Execution)
    planned: tuple[CertificateStep, ...] = ()
    """Where nothing was to be changed: what would have been."""
    obstacle: Waiting | Refused | None = None
    """What the cluster waits for, or what somebody has to change, while nodes run with the certificates there are."""
    blocker: Waiting | Refused | None = None
    """Why nodes cannot be started."""
    facts: Document = field(default_factory=dict)
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By listener for clients outside: whom the certificate is for that nodes find in their Secret."""


async def keep_certificates(
    desired: DesiredCluster, observed: ObservedCluster, host: Host, keeper: CertificateKeeper, *, dry_run: bool
) -> Kept:
    """Issue and renew what a cluster with TLS needs; nothing where it has none. Raises one of `EXPECTED_ERRORS`."""
    cluster = desired.cluster
    if cluster.tls is None:
        return Kept()
    # Only here: what makes certificates takes its time to load, and most clusters of a laptop need none.
    from ottla_operator.model.certificates import CertificateIssuer
    from ottla_operator.planning.certificates.plan import former_machines, plan_certificates

    nodes = await keeper.secret_store.read(nodes_secret(cluster.name))
    # Listeners with a certificate of their own are for the same.
    names = frozenset(host.certificate_names(desired)) | former_machines(cluster, nodes, keeper.now)
    plan = plan_certificates(
        cluster,
        await _observe(cluster, observed, names, nodes, keeper),
        names=names,
        bootstrap_servers=host.nodes_servers(desired),
        now=keeper.now,
        issuer=CertificateIssuer(),
    )
    blocker = None if plan.is_usable else plan.obstacle
    kept = Kept(obstacle=plan.obstacle, blocker=blocker, facts=plan.facts, names=plan.names)
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
    from ottla_operator.planning.certificates.plan import ObservedCertificates, is_changing

    store, tls = keeper.secret_store, cluster.tls
    assert tls is not None, "asked for by the caller"

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
        # Who is started later reads what is there then.
        shown={name: it.certificate for name, it in observed.nodes.items() if it.state is not NodeState.STOPPED},
    )
    if not is_changing(found):
        return found
    return found.with_users(await _secrets_of_users(keeper))


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
        if order is not None and await store.is_ordered(order):
            ordered.add(listener.name)
        name = listener.certificate.secret_name if order is None else order.secret_name
        found[listener.name] = None if name is None else await store.read(name)
    return found, frozenset(ordered)
