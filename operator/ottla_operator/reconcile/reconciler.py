"""Observe, plan, execute, observe again: one pass over one object, the same on every host.

A pass never raises for what the world does: everything ends in a `Verdict`, from which `status` makes the one status.
"""

from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import cast

from ottla_operator.model.conditions import (
    AUTHORITY_CHANGING,
    QUORUM_LOST,
    Degradation,
    Halted,
    Held,
    Reached,
    Refused,
    Underway,
    Verdict,
    Waiting,
    conditions,
    known_degradation,
)
from ottla_operator.model.document import Document
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.planning.cluster.advertised_addresses import (
    AdvertisedListeners,
    is_address_known,
    unknown_address,
    with_advertised_addresses,
)
from ottla_operator.planning.cluster.degradation import degradation
from ottla_operator.planning.cluster.disruption import with_disruptions
from ottla_operator.planning.cluster.draining import leaving_nodes
from ottla_operator.planning.cluster.plan import plan_cluster
from ottla_operator.planning.cluster.rebalancing import ObservedRebalance
from ottla_operator.planning.cluster.rolling import RollTimings
from ottla_operator.planning.cluster.unverified_certificates import unverified, with_unverified
from ottla_operator.planning.plan import Plan, Step
from ottla_operator.planning.steps.cluster import ClusterStep
from ottla_operator.ports.broker_admin import BrokerAdmin, Connect
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.host import Host
from ottla_operator.ports.nodes import NodeState
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.plan_store import PlanStore
from ottla_operator.reconcile.certificate_pass import CertificateKeeper, Kept, keep_certificates
from ottla_operator.reconcile.executor import execute_on_cluster
from ottla_operator.reconcile.journal import Journal
from ottla_operator.reconcile.scaling_lookup import look_up
from ottla_operator.reconcile.told import read_advertised_listeners
from ottla_operator.reconcile.verdicts import EXPECTED_ERRORS, verdict_of

_ROUNDS_MAX = 3
"""Observations per pass: steps, what they led to, and one more for a host whose publishing enables further steps."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass did and found."""

    verdict: Verdict
    facts: Document
    """Status fields that were observed, in the CRD's names; those that could not be observed are absent, and those that
    are not there any more are None."""
    done: tuple[Step, ...] = ()
    planned: tuple[Step, ...] = ()
    """With ``dry_run``: the steps that would have been done."""
    degradation: Degradation | None = None
    is_seen: bool = True
    """Whether the object was looked at, so that ``degradation`` counts; else it is what it was before."""


def status(document: Document, outcome: Pass, *, now: str) -> Document:
    """Return the whole new status of ``document``; equal to its present one when nothing changed.

    Facts that this pass could not observe stay as they were last seen.
    """
    before = document.get("status", {})
    generation, previous = document["metadata"].get("generation", 1), before.get("conditions", [])
    facts = {key: value for key, value in {**before, **outcome.facts}.items() if value is not None}
    return {
        **facts,
        "observedGeneration": generation,
        "conditions": conditions(
            outcome.verdict,
            generation=generation,
            previous=previous,
            now=now,
            degradation=outcome.degradation if outcome.is_seen else known_degradation(previous),
            is_paused=document["spec"].get("paused", False),
        ),
    }


async def founding_facts(cluster: Cluster, host: Host) -> Document:
    """Return the status fields of a new cluster that must be kept before the first step.

    An operator that ends right after that step must not give the cluster another id, or its quorum other first voters.
    Empty where the host cannot tell; the pass that follows will say why.
    """
    try:
        desired = (await host.desired(cluster)).cluster
    except EXPECTED_ERRORS:
        return {}
    return {"clusterId": desired.cluster_id, "initialControllers": list(desired.initial_controllers)}


async def reconcile_cluster(
    cluster: Cluster,
    host: Host,
    connect: Connect,
    *,
    journal: Journal | None = None,
    keeper: CertificateKeeper | None = None,
    plans: PlanStore | None = None,
    closed: str | None = None,
    dry_run: bool = False,
) -> Pass:
    """Make the nodes as the manifest asks, as far as one pass can; `Reached` when brokers answer as that cluster.

    ``keeper`` is needed where the cluster has TLS. ``journal`` keeps the record of an operation from before its first
    step; without one nothing is remembered. Without ``plans`` no rebalance is planned.
    """
    journal = journal or Journal.of_nobody()
    journal.record, journal.kept = cluster.known_operation, cluster.scaling.facts()
    changes_nothing = dry_run or cluster.is_paused
    done: tuple[Step, ...] = ()
    facts: Document = {}
    try:
        async with AsyncExitStack() as connections:
            lookout = _Lookout(host, connect, connections, keeper, plans, dry_run=changes_nothing)
            for rounds_left in reversed(range(_ROUNDS_MAX)):
                look = await lookout.look(cluster)
                # From here on the quorum is there: who is formatted now joins it.
                cluster = look.desired.cluster
                certificates, is_first = look.certificates, rounds_left == _ROUNDS_MAX - 1
                facts = {**_cluster_facts(host, look), **certificates.facts}
                done += certificates.execution.done if is_first else ()
                if (stop := certificates.blocker or look.refused) is not None:
                    return Pass(stop, facts, done, certificates.planned, _degradation(look, journal.nodes))
                timings = RollTimings(step_age_s=journal.step_age_s, closed=closed)
                plan = plan_cluster(look.desired, look.observed, look.view, journal.record, look.rebalance, timings)
                plan = with_disruptions(plan, look.desired, look.observed, look.view)
                if isinstance(plan.obstacle, Refused) and is_first:
                    # A broker that lags behind the controller may still show what has just changed: look twice.
                    continue
                if changes_nothing and (planned := (*certificates.planned, *plan.steps)):
                    return _unchanged(cluster, look, plan, facts, planned, journal, dry_run=dry_run)
                if not plan.steps or not rounds_left:
                    break
                cluster = await _begin(cluster, plan, journal)
                steps = cast(tuple[ClusterStep, ...], plan.steps)
                execution = await execute_on_cluster(steps, host, look.broker, plans)
                done += execution.done
                if execution.stopped is not None:
                    facts |= {**cluster.scaling.facts(), **journal.facts(plan.operation)}
                    return Pass(execution.stopped, facts, done, degradation=_degradation(look, journal.nodes))
                cluster = _done(cluster, plan)
    except EXPECTED_ERRORS as error:
        facts |= cluster.scaling.facts()
        return Pass(verdict_of(error, f"observe cluster {cluster.name}"), facts, done, is_seen=False)
    if not plan.steps:
        cluster = _done(cluster, plan)
    facts |= {**cluster.scaling.facts(), **journal.facts(plan.operation)}
    verdict = _verdict(host, look, plan)
    if isinstance(verdict, Reached | Underway) and look.desired.image and plan.operation is None:
        facts |= {"image": look.desired.image, "version": look.desired.version}
    return Pass(verdict, facts, done, degradation=_degradation_after(look, plan))


def _degradation_after(look: "_Look", plan: Plan) -> Degradation | None:
    if isinstance(plan.obstacle, Halted):
        return Degradation(plan.obstacle.reason, plan.obstacle.message)
    return _degradation(look, plan.operation.nodes if plan.operation is not None else ())


async def _begin(cluster: Cluster, plan: Plan, journal: Journal) -> Cluster:
    """Write what has to be remembered before the steps of ``plan``; return the cluster that remembers it."""
    scaling = cluster.scaling if plan.scaling is None else plan.scaling[0]
    await journal.begin(plan.operation, scaling.facts())
    return replace(cluster, scaling=scaling)


def _done(cluster: Cluster, plan: Plan) -> Cluster:
    """Return the cluster as it is remembered when all steps of ``plan`` were done."""
    return cluster if plan.scaling is None else replace(cluster, scaling=plan.scaling[1])


def _degradation(look: "_Look", on_purpose: Collection[str]) -> Degradation | None:
    is_leaderless = look.trouble is not None and look.trouble.reason == QUORUM_LOST
    return degradation(look.desired, look.observed.nodes, look.view, on_purpose, is_leaderless=is_leaderless)


def _unchanged(
    cluster: Cluster,
    look: "_Look",
    plan: Plan,
    facts: Document,
    planned: tuple[Step, ...],
    journal: Journal,
    *,
    dry_run: bool,
) -> Pass:
    """Return what a pass that may change nothing has found to do."""
    found = _degradation(look, journal.nodes)
    if dry_run:
        return Pass(Waiting("DryRun", "nothing was changed"), facts, planned=planned, degradation=found)
    words = f"spec.paused is true; next: {planned[0]}"
    if plan.operation is not None and journal.record is not None:
        facts |= journal.facts(replace(plan.operation, step="Paused", message=words, nodes=journal.nodes))
    return Pass(Held("Paused", words), facts, degradation=found)


def _verdict(host: Host, look: "_Look", plan: Plan) -> Verdict:
    """Return what there is to say at the end of a pass that nothing stopped."""
    obstacle = plan.obstacle or look.trouble
    if obstacle is None and plan.steps:
        obstacle = Waiting("Settling", f"next: {plan.steps[0]}")
    if obstacle is not None:
        return obstacle
    verdict = _cluster_verdict(host, look)
    if not isinstance(verdict, Reached):
        return verdict
    # Nodes run, and what their volumes and certificates wait for is all that is left to say: last what disturbs nobody.
    left = [it for it in (look.observed.storage, _of_certificates(look)) if it is not None]
    return min(left, key=lambda it: isinstance(it, Underway), default=verdict)


def _of_certificates(look: "_Look") -> Verdict | None:
    """Return what a cluster that serves has to say of certificates; a change of authorities disturbs nobody."""
    obstacle = look.certificates.obstacle
    if obstacle is not None and obstacle.reason != AUTHORITY_CHANGING:
        return obstacle
    if (waiting := unverified(look.desired, look.observed)) is not None:
        return waiting
    return None if obstacle is None else Underway(obstacle.reason, obstacle.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One look at a cluster, from its host and from its brokers."""

    desired: DesiredCluster
    observed: ObservedCluster
    broker: BrokerAdmin | None
    view: ClusterView | None
    trouble: Waiting | None
    """Why there is no view although nodes are ready."""
    refused: Refused | None
    certificates: Kept
    rebalance: ObservedRebalance


class _Lookout:
    """Looks at a cluster again and again over one connection."""

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
        self._kept: Kept | None = None
        self._told: AdvertisedListeners = {}

    async def look(self, cluster: Cluster) -> _Look:
        desired = await self._host.desired(cluster)
        observed = await self._host.observe(desired)
        kept = await self._certificates(desired, observed)
        view: ClusterView | None = None
        verdict: Waiting | Refused | None = None
        try:
            view = await self._view(desired, observed)
        except EXPECTED_ERRORS as error:
            verdict = verdict_of(error, f"describe the cluster at {self._address}")
        if view is not None and view.cluster_id != desired.cluster.cluster_id:
            verdict = _wrong_cluster(self._address, view, desired)
        # Until all of the first voters follow, one of them may still be waiting for its volume to be formatted.
        is_formed = view is not None and verdict is None and all(voter.is_caught_up for voter in view.voters)
        leaving = leaving_nodes(desired.cluster, observed.nodes, view)
        # Who asks brokers in vain waits for a while: what the host said before is old by then.
        if leaving or verdict is not None or (is_formed and desired.cluster.initial_controllers):
            known = replace(desired.cluster, known_initial_controllers=()) if is_formed else desired.cluster
            desired = await self._host.desired(known, leaving)
            observed = await self._host.observe(desired)
        lookup = ObservedRebalance()
        if view is not None and verdict is None:
            try:
                view, lookup = await self._besides(desired, view)
            except EXPECTED_ERRORS as error:
                view, verdict = None, verdict_of(error, f"ask the brokers at {self._address} for their settings")
        return _Look(
            desired=desired,
            observed=with_unverified(desired, with_advertised_addresses(desired, observed, self._told), kept.names),
            broker=self._broker,
            view=view,
            trouble=verdict if isinstance(verdict, Waiting) else None,
            refused=verdict if isinstance(verdict, Refused) else None,
            certificates=kept,
            rebalance=lookup,
        )

    async def _besides(self, desired: DesiredCluster, view: ClusterView) -> tuple[ClusterView, ObservedRebalance]:
        assert self._broker is not None, "somebody has answered"
        return await look_up(desired, view, self._broker, self._plans)

    async def _certificates(self, desired: DesiredCluster, observed: ObservedCluster) -> Kept:
        """Keep them, once for all looks of a pass: what nodes show changes more slowly than that."""
        if self._kept is None:
            self._kept = Kept()
            if self._keeper is not None:
                dry_run = self._dry_run
                self._kept = await keep_certificates(desired, observed, self._host, self._keeper, dry_run=dry_run)
        return self._kept

    async def _view(self, desired: DesiredCluster, observed: ObservedCluster) -> ClusterView | None:
        """Return what brokers say; None when no node is ready to be asked."""
        if not any(node.state is NodeState.READY for node in observed.nodes.values()):
            return None
        if self._broker is None:
            access = await self._host.operator_access(desired)
            self._address = access.bootstrap_servers
            connection = self._connect(access.bootstrap_servers, access.properties)
            self._broker = await self._connections.enter_async_context(connection)
        self._told = await read_advertised_listeners(desired, observed, self._broker)
        observed = with_advertised_addresses(desired, observed, self._told)
        revisions = {node.name: node.revision for node in desired.nodes}
        rolls = any(revisions.get(name) != node.revision for name, node in observed.nodes.items())
        return await self._broker.observe(with_min_isr=rolls, with_settings=True)


def _wrong_cluster(bootstrap_servers: str, view: ClusterView, desired: DesiredCluster) -> Refused:
    return Refused(
        "ClusterIdMismatch",
        f"the brokers at {bootstrap_servers} are cluster {view.cluster_id}, not "
        f"{desired.cluster.cluster_id}: another cluster uses this address or these volumes",
    )


def _cluster_verdict(host: Host, look: _Look) -> Verdict:
    """Return what there is to say of a cluster whose nodes are all as they should be."""
    desired, view = look.desired, look.view
    assert view is not None, "nodes that are ready answer, or there is trouble"
    missing = [node.node_id for node in desired.brokers if view.brokers.get(node.node_id, True)]
    if missing:
        return Waiting("BrokersNotRegistered", f"{len(missing)} brokers have not joined the cluster yet")
    if desired.cluster.initial_controllers:
        behind = ", ".join(str(voter.node_id) for voter in view.voters if not voter.is_caught_up)
        return Waiting("QuorumForming", f"waiting for the first voters {behind} to follow the metadata log")
    if (waiting := unknown_address(desired)) is not None:
        return waiting
    total, bootstrap_servers = len(desired.nodes), host.bootstrap_servers(desired, desired.cluster.listeners[0])
    return Reached("Ready", f"{total} of {total} nodes are ready at {bootstrap_servers}")


def _open_listeners(look: _Look) -> tuple[Listener, ...]:
    """Return the listeners that clients can be sent to: a new one not before every node was restarted with it."""
    cluster = look.desired.cluster
    revisions = {node.name: node.revision for node in look.desired.nodes}
    seen = look.observed.nodes.values()
    known = tuple(it for it in cluster.listeners if it.name in cluster.known_addresses)
    dialled = tuple(it for it in cluster.listeners if it in known or is_address_known(look.desired, it))
    if all(it.revision in (None, revisions.get(it.name)) for it in seen):
        return dialled
    return known or dialled


def _cluster_facts(host: Host, look: _Look) -> Document:
    desired = look.desired
    listeners = [
        {
            "name": listener.name,
            "bootstrapServers": host.bootstrap_servers(desired, listener),
            "securityProtocol": listener.security_protocol,
        }
        for listener in _open_listeners(look)
        if host.bootstrap_servers(desired, listener)
    ]
    begin = {"bootstrapServers": listeners[0]["bootstrapServers"]} if listeners else {}
    return {
        "clusterId": desired.cluster.cluster_id,
        "initialControllers": list(desired.cluster.initial_controllers),
        **begin,
        "listeners": listeners,
        "nodes": len(desired.nodes),
        "readyNodes": look.observed.ready_nodes,
        **({} if look.view is None else {"features": {name: it.level for name, it in look.view.features.items()}}),
    }
