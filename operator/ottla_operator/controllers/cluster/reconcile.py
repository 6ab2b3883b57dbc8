"""Observe, plan, execute, observe again: one pass over one object, the same on every host.

A pass never raises for what the world does: everything ends in a `Readiness`, from which `status` makes the one status.
"""

from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import cast

from ottla_operator.controllers.cluster.certificates import CertificateKeeper
from ottla_operator.controllers.cluster.observation import ClusterObservation, ClusterObserver
from ottla_operator.controllers.error_results import EXPECTED_ERRORS, readiness_of_error
from ottla_operator.controllers.executor import execute_on_cluster
from ottla_operator.controllers.operation_record import OperationRecorder
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.model.conditions import (
    AUTHORITY_CHANGING,
    QUORUM_LOST,
    Degradation,
    Halted,
    Held,
    Reached,
    Readiness,
    Refused,
    Underway,
    Waiting,
)
from ottla_operator.model.document import Document
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.planning.cluster.advertised_addresses import (
    is_address_known,
    unknown_address,
)
from ottla_operator.planning.cluster.degradation import degradation
from ottla_operator.planning.cluster.disruption import with_disruptions
from ottla_operator.planning.cluster.plan import plan_cluster
from ottla_operator.planning.cluster.rolling import RollTimings
from ottla_operator.planning.cluster.unverified_certificates import unverified
from ottla_operator.planning.plan import Plan, Step
from ottla_operator.planning.steps.cluster import ClusterStep
from ottla_operator.ports.broker_admin import Connect
from ottla_operator.ports.host import Host
from ottla_operator.ports.plan_store import PlanStore

_ROUNDS_MAX = 3
"""Observations per pass: steps, what they led to, and one more for a host whose publishing enables further steps."""


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
    journal: OperationRecorder | None = None,
    keeper: CertificateKeeper | None = None,
    plans: PlanStore | None = None,
    closed: str | None = None,
    dry_run: bool = False,
) -> ReconcileResult:
    """Make the nodes as the manifest asks, as far as one pass can; `Reached` when brokers answer as that cluster.

    ``keeper`` is needed where the cluster has TLS. ``journal`` keeps the record of an operation from before its first
    step; without one nothing is remembered. Without ``plans`` no rebalance is planned.
    """
    journal = journal or OperationRecorder.of_nobody()
    journal.record, journal.kept = cluster.known_operation, cluster.scaling.facts()
    changes_nothing = dry_run or cluster.is_paused
    done: tuple[Step, ...] = ()
    facts: Document = {}
    try:
        async with AsyncExitStack() as connections:
            observer = ClusterObserver(host, connect, connections, keeper, plans, dry_run=changes_nothing)
            for rounds_left in reversed(range(_ROUNDS_MAX)):
                look = await observer.observe(cluster)
                # From here on the quorum is there: who is formatted now joins it.
                cluster = look.desired.cluster
                certificates, is_first = look.certificates, rounds_left == _ROUNDS_MAX - 1
                facts = {**_cluster_facts(host, look), **certificates.facts}
                done += certificates.execution.done if is_first else ()
                if (stop := certificates.blocker or look.refused) is not None:
                    return ReconcileResult(stop, facts, done, certificates.planned, _degradation(look, journal.nodes))
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
                    return ReconcileResult(
                        execution.stopped, facts, done, degradation=_degradation(look, journal.nodes)
                    )
                cluster = _done(cluster, plan)
    except EXPECTED_ERRORS as error:
        facts |= cluster.scaling.facts()
        return ReconcileResult(readiness_of_error(error, f"observe cluster {cluster.name}"), facts, done, is_seen=False)
    if not plan.steps:
        cluster = _done(cluster, plan)
    facts |= {**cluster.scaling.facts(), **journal.facts(plan.operation)}
    readiness = _readiness(host, look, plan)
    if isinstance(readiness, Reached | Underway) and look.desired.image and plan.operation is None:
        facts |= {"image": look.desired.image, "version": look.desired.version}
    return ReconcileResult(readiness, facts, done, degradation=_degradation_after(look, plan))


def _degradation_after(look: ClusterObservation, plan: Plan) -> Degradation | None:
    if isinstance(plan.obstacle, Halted):
        return Degradation(plan.obstacle.reason, plan.obstacle.message)
    return _degradation(look, plan.operation.nodes if plan.operation is not None else ())


async def _begin(cluster: Cluster, plan: Plan, journal: OperationRecorder) -> Cluster:
    """Write what has to be remembered before the steps of ``plan``; return the cluster that remembers it."""
    scaling = cluster.scaling if plan.scaling is None else plan.scaling[0]
    await journal.begin(plan.operation, scaling.facts())
    return replace(cluster, scaling=scaling)


def _done(cluster: Cluster, plan: Plan) -> Cluster:
    """Return the cluster as it is remembered when all steps of ``plan`` were done."""
    return cluster if plan.scaling is None else replace(cluster, scaling=plan.scaling[1])


def _degradation(look: ClusterObservation, on_purpose: Collection[str]) -> Degradation | None:
    is_leaderless = look.trouble is not None and look.trouble.reason == QUORUM_LOST
    return degradation(look.desired, look.observed.nodes, look.view, on_purpose, is_leaderless=is_leaderless)


def _unchanged(
    cluster: Cluster,
    look: ClusterObservation,
    plan: Plan,
    facts: Document,
    planned: tuple[Step, ...],
    journal: OperationRecorder,
    *,
    dry_run: bool,
) -> ReconcileResult:
    """Return what a pass that may change nothing has found to do."""
    found = _degradation(look, journal.nodes)
    if dry_run:
        return ReconcileResult(Waiting("DryRun", "nothing was changed"), facts, planned=planned, degradation=found)
    words = f"spec.paused is true; next: {planned[0]}"
    if plan.operation is not None and journal.record is not None:
        facts |= journal.facts(replace(plan.operation, step="Paused", message=words, nodes=journal.nodes))
    return ReconcileResult(Held("Paused", words), facts, degradation=found)


def _readiness(host: Host, look: ClusterObservation, plan: Plan) -> Readiness:
    """Return what there is to say at the end of a pass that nothing stopped."""
    obstacle = plan.obstacle or look.trouble
    if obstacle is None and plan.steps:
        obstacle = Waiting("Settling", f"next: {plan.steps[0]}")
    if obstacle is not None:
        return obstacle
    readiness = _cluster_readiness(host, look)
    if not isinstance(readiness, Reached):
        return readiness
    # Nodes run, and what their volumes and certificates wait for is all that is left to say: last what disturbs nobody.
    left = [it for it in (look.observed.storage, _of_certificates(look)) if it is not None]
    return min(left, key=lambda it: isinstance(it, Underway), default=readiness)


def _of_certificates(look: ClusterObservation) -> Readiness | None:
    """Return what a cluster that serves has to say of certificates; a change of authorities disturbs nobody."""
    obstacle = look.certificates.obstacle
    if obstacle is not None and obstacle.reason != AUTHORITY_CHANGING:
        return obstacle
    if (waiting := unverified(look.desired, look.observed)) is not None:
        return waiting
    return None if obstacle is None else Underway(obstacle.reason, obstacle.message)


def _cluster_readiness(host: Host, look: ClusterObservation) -> Readiness:
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


def _open_listeners(look: ClusterObservation) -> tuple[Listener, ...]:
    """Return the listeners that clients can be sent to: a new one not before every node was restarted with it."""
    cluster = look.desired.cluster
    revisions = {node.name: node.revision for node in look.desired.nodes}
    seen = look.observed.nodes.values()
    known = tuple(it for it in cluster.listeners if it.name in cluster.known_addresses)
    dialled = tuple(it for it in cluster.listeners if it in known or is_address_known(look.desired, it))
    if all(it.revision in (None, revisions.get(it.name)) for it in seen):
        return dialled
    return known or dialled


def _cluster_facts(host: Host, look: ClusterObservation) -> Document:
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
