"""Observes one cluster: desired nodes, the host's view, the brokers' view, certificates."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from ottla_operator.controllers.cluster.advertised_listeners import read_advertised_listeners
from ottla_operator.controllers.cluster.certificates import CertificateKeeper, CertificateResult, keep_certificates
from ottla_operator.controllers.cluster.rebalance_lookup import look_up
from ottla_operator.controllers.error_results import EXPECTED_ERRORS, readiness_of_error
from ottla_operator.model.conditions import (
    Rejected,
    Waiting,
)
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.planning.cluster.advertised_addresses import (
    AdvertisedListeners,
    with_advertised_addresses,
)
from ottla_operator.planning.cluster.draining import leaving_nodes
from ottla_operator.planning.cluster.rebalancing import ObservedRebalance
from ottla_operator.planning.cluster.unverified_certificates import with_unverified
from ottla_operator.ports.broker_admin import BrokerAdmin, Connect
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.host import Host
from ottla_operator.ports.nodes import NodeState
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.plan_store import PlanStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObservation:
    """The host's and the brokers' view of one cluster at one time."""

    desired: DesiredCluster
    observed: ObservedCluster
    broker: BrokerAdmin | None
    view: ClusterView | None
    trouble: Waiting | None
    """Why there is no brokers' view although nodes are ready."""
    rejected: Rejected | None
    certificates: CertificateResult
    rebalance: ObservedRebalance


class ClusterObserver:
    """Observes a cluster repeatedly over one connection to its brokers."""

    def __init__(
        self,
        host: Host,
        connect: Connect,
        connections: AsyncExitStack,
        keeper: CertificateKeeper | None,
        plans: PlanStore | None,
        *,
        dry_run: bool,
    ) -> None:
        self._host = host
        self._connect = connect
        self._connections = connections
        self._broker: BrokerAdmin | None = None
        self._address = "its brokers"
        self._keeper = keeper
        self._plans = plans
        self._dry_run = dry_run
        self._kept: CertificateResult | None = None
        self._advertised: AdvertisedListeners = {}

    async def observe(self, cluster: Cluster) -> ClusterObservation:
        desired = await self._host.desired(cluster)
        observed = await self._host.observe(desired)
        kept = await self._certificates(desired, observed)
        view: ClusterView | None = None
        readiness: Waiting | Rejected | None = None
        try:
            view = await self._view(desired, observed)
        except EXPECTED_ERRORS as error:
            readiness = readiness_of_error(error, f"describe the cluster at {self._address}")
        if view is not None and view.cluster_id != desired.cluster.cluster_id:
            readiness = _wrong_cluster(self._address, view, desired)
        # Until all first voters follow the metadata log, one of them may still wait for its volume to be formatted.
        is_formed = view is not None and readiness is None and all(voter.is_caught_up for voter in view.voters)
        leaving = leaving_nodes(desired.cluster, observed.nodes, view)
        # A request to brokers that fails takes a time-out: the host's view is old by then.
        if leaving or readiness is not None or (is_formed and desired.cluster.initial_controllers):
            known = replace(desired.cluster, known_initial_controllers=()) if is_formed else desired.cluster
            desired = await self._host.desired(known, leaving)
            observed = await self._host.observe(desired)
            if view is None and readiness is None and _has_ready_node(observed):
                # It became ready between both observations: the next reconciliation describes the cluster.
                readiness = Waiting("NodeNotReady", "a node has just become ready; its view is read next")
        lookup = ObservedRebalance()
        if view is not None and readiness is None:
            try:
                view, lookup = await self._look_up_settings(desired, view)
            except EXPECTED_ERRORS as error:
                view, readiness = (
                    None,
                    readiness_of_error(error, f"read the settings of the brokers at {self._address}"),
                )
        return ClusterObservation(
            desired=desired,
            observed=with_unverified(
                desired, with_advertised_addresses(desired, observed, self._advertised), kept.names
            ),
            broker=self._broker,
            view=view,
            trouble=readiness if isinstance(readiness, Waiting) else None,
            rejected=readiness if isinstance(readiness, Rejected) else None,
            certificates=kept,
            rebalance=lookup,
        )

    async def _look_up_settings(
        self, desired: DesiredCluster, view: ClusterView
    ) -> tuple[ClusterView, ObservedRebalance]:
        assert self._broker is not None, "the view came from a broker"
        return await look_up(desired, view, self._broker, self._plans)

    async def _certificates(self, desired: DesiredCluster, observed: ObservedCluster) -> CertificateResult:
        """Issue them once per reconciliation: the certificates that nodes present change more slowly than that."""
        if self._kept is None:
            self._kept = CertificateResult()
            if self._keeper is not None:
                dry_run = self._dry_run
                self._kept = await keep_certificates(desired, observed, self._host, self._keeper, dry_run=dry_run)
        return self._kept

    async def _view(self, desired: DesiredCluster, observed: ObservedCluster) -> ClusterView | None:
        """Return the brokers' view; None if no node is ready."""
        if not _has_ready_node(observed):
            return None
        if self._broker is None:
            access = await self._host.operator_access(desired)
            self._address = access.bootstrap_servers
            connection = self._connect(access.bootstrap_servers, access.properties)
            self._broker = await self._connections.enter_async_context(connection)
        self._advertised = await read_advertised_listeners(desired, observed, self._broker)
        observed = with_advertised_addresses(desired, observed, self._advertised)
        revisions = {node.name: node.revision for node in desired.nodes}
        rolls = any(revisions.get(name) != node.revision for name, node in observed.nodes.items())
        return await self._broker.observe(with_min_isr=rolls, with_settings=True)


def _has_ready_node(observed: ObservedCluster) -> bool:
    return any(node.state is NodeState.READY for node in observed.nodes.values())


def _wrong_cluster(bootstrap_servers: str, view: ClusterView, desired: DesiredCluster) -> Rejected:
    return Rejected(
        "ClusterIdMismatch",
        f"the brokers at {bootstrap_servers} are cluster {view.cluster_id}, not "
        f"{desired.cluster.cluster_id}: another cluster uses this address or these volumes",
    )
