"""Observe, plan, execute, observe again: one reconciliation of one Cluster, the same on every host.

Errors of hosts and brokers are not raised: everything ends in a `Readiness`, from which `status` builds the status.
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
    AUTHORITY_OVERLAP,
    QUORUM_LOST,
    Degradation,
    Halted,
    Held,
    Reached,
    Readiness,
    Rejected,
    Underway,
    Waiting,
)
from ottla_operator.model.document import Document
from ottla_operator.model.listeners import Listener
from ottla_operator.model.maintenance import WindowState
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
"""Observations per reconciliation: before and after the steps, and one for a host whose publishing enables more."""


async def initial_status_fields(cluster: Cluster, host: Host) -> Document:
    """Return the status fields of a new cluster that must be recorded before the first step.

    An operator that ends right after that step must not give the cluster another id, or its quorum other first voters.
    Empty if the host cannot compute them; the reconciliation that follows reports the reason.
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
    windows: WindowState | None = None,
    dry_run: bool = False,
) -> ReconcileResult:
    """Bring the nodes to the spec, as far as one reconciliation can; `Reached` if brokers respond as that cluster.

    ``keeper`` is required for a cluster with TLS. ``journal`` writes the record of an operation before its first step;
    without one nothing is recorded. Without ``plans`` no rebalance is planned.
    """
    journal = journal or OperationRecorder.discarding()
    journal.record, journal.kept = cluster.known_operation, cluster.scaling.facts()
    changes_nothing = dry_run or cluster.is_paused
    done: tuple[Step, ...] = ()
    facts: Document = {}
    try:
        async with AsyncExitStack() as connections:
            observer = ClusterObserver(host, connect, connections, keeper, plans, dry_run=changes_nothing)
            for rounds_left in reversed(range(_ROUNDS_MAX)):
                observation = await observer.observe(cluster)
                # From here on the quorum exists: a node that is formatted now joins it.
                cluster = observation.desired.cluster
                certificates, is_first = observation.certificates, rounds_left == _ROUNDS_MAX - 1
                facts = {**_cluster_facts(host, observation), **certificates.facts}
                done += certificates.execution.done if is_first else ()
                if (stop := certificates.blocker or observation.rejected) is not None:
                    degradation = _degradation(observation, journal.nodes)
                    return ReconcileResult(stop, facts, done, certificates.planned, degradation)
                timings = RollTimings(step_age_s=journal.step_age_s, windows=windows or WindowState())
                plan = plan_cluster(
                    observation.desired,
                    observation.observed,
                    observation.view,
                    journal.record,
                    observation.rebalance,
                    timings,
                )
                plan = with_disruptions(plan, observation.desired, observation.observed, observation.view)
                if isinstance(plan.obstacle, Rejected) and is_first:
                    # A broker that lags behind the controller may still show the former state: observe twice.
                    continue
                if changes_nothing and (planned := (*certificates.planned, *plan.steps)):
                    return _unchanged(cluster, observation, plan, facts, planned, journal, dry_run=dry_run)
                if not plan.steps or not rounds_left:
                    break
                cluster = await _recorded_before(cluster, plan, journal)
                steps = cast(tuple[ClusterStep, ...], plan.steps)
                execution = await execute_on_cluster(steps, host, observation.broker, plans)
                done += execution.done
                if execution.stopped is not None:
                    facts |= {**cluster.scaling.facts(), **journal.facts(plan.operation)}
                    degradation = _degradation(observation, journal.nodes)
                    return ReconcileResult(execution.stopped, facts, done, degradation=degradation)
                cluster = _recorded_after(cluster, plan)
    except EXPECTED_ERRORS as error:
        facts |= cluster.scaling.facts()
        return ReconcileResult(readiness_of_error(error, f"observe cluster {cluster.name}"), facts, done, is_seen=False)
    cluster = cluster if plan.steps else _recorded_after(cluster, plan)
    facts |= {**cluster.scaling.facts(), **journal.facts(plan.operation)}
    readiness = _readiness(host, observation, plan)
    if isinstance(readiness, Reached | Underway) and observation.desired.image and plan.operation is None:
        facts |= {"image": observation.desired.image, "version": observation.desired.version}
    degradation = _degradation_after(observation, plan)
    return ReconcileResult(readiness, facts, done, degradation=degradation, wake_at=observation.certificates.wake_at)


def _degradation_after(observation: ClusterObservation, plan: Plan) -> Degradation | None:
    # A cluster that has not come up yet is not degraded (`planning.cluster.degradation`).
    if isinstance(plan.obstacle, Halted) and not observation.desired.cluster.initial_controllers:
        return Degradation(plan.obstacle.reason, plan.obstacle.message)
    return _degradation(observation, plan.operation.nodes if plan.operation is not None else ())


async def _recorded_before(cluster: Cluster, plan: Plan, journal: OperationRecorder) -> Cluster:
    """Write the records that the steps of ``plan`` need; return the cluster with them."""
    scaling = cluster.scaling if plan.scaling is None else plan.scaling[0]
    await journal.record_before_steps(plan.operation, scaling.facts())
    return replace(cluster, scaling=scaling)


def _recorded_after(cluster: Cluster, plan: Plan) -> Cluster:
    """Return the cluster with its records after all steps of ``plan``."""
    return cluster if plan.scaling is None else replace(cluster, scaling=plan.scaling[1])


def _degradation(observation: ClusterObservation, on_purpose: Collection[str]) -> Degradation | None:
    is_leaderless = observation.trouble is not None and observation.trouble.reason == QUORUM_LOST
    return degradation(
        observation.desired, observation.observed.nodes, observation.view, on_purpose, is_leaderless=is_leaderless
    )


def _unchanged(
    cluster: Cluster,
    observation: ClusterObservation,
    plan: Plan,
    facts: Document,
    planned: tuple[Step, ...],
    journal: OperationRecorder,
    *,
    dry_run: bool,
) -> ReconcileResult:
    """Return the result of a reconciliation that must not change anything."""
    found = _degradation(observation, journal.nodes)
    if dry_run:
        return ReconcileResult(Waiting("DryRun", "nothing was changed"), facts, planned=planned, degradation=found)
    message = f"spec.paused is true; next: {planned[0]}"
    if plan.operation is not None and journal.record is not None:
        facts |= journal.facts(replace(plan.operation, step="Paused", message=message, nodes=journal.nodes))
    return ReconcileResult(Held("Paused", message), facts, degradation=found)


def _readiness(host: Host, observation: ClusterObservation, plan: Plan) -> Readiness:
    """Return the readiness at the end of a reconciliation that completed its steps."""
    obstacle = plan.obstacle or observation.trouble
    if obstacle is None and plan.steps:
        obstacle = Waiting("Settling", f"next: {plan.steps[0]}")
    if obstacle is not None:
        return obstacle
    readiness = _cluster_readiness(host, observation)
    if not isinstance(readiness, Reached):
        return readiness
    # All nodes run; only volumes and certificates can be left: what needs the user is reported before what takes time,
    # and an overlap of two authorities last.
    left = [it for it in (observation.observed.storage, _of_certificates(observation)) if it is not None]
    return min(left, key=lambda it: (isinstance(it, Reached), isinstance(it, Underway)), default=readiness)


def _of_certificates(observation: ClusterObservation) -> Readiness | None:
    """Return the readiness of the certificates of a serving cluster; replacing an authority is not a problem.

    An overlap is not in progress: it can take weeks, in which tools that wait for an object would time out.
    """
    obstacle = observation.certificates.obstacle
    if obstacle is not None and obstacle.reason not in (AUTHORITY_CHANGING, AUTHORITY_OVERLAP):
        return obstacle
    if (waiting := unverified(observation.desired, observation.observed)) is not None:
        return waiting
    if obstacle is None:
        return None
    readiness = Reached if obstacle.reason == AUTHORITY_OVERLAP else Underway
    return readiness(obstacle.reason, obstacle.message)


def _cluster_readiness(host: Host, observation: ClusterObservation) -> Readiness:
    """Return the readiness of a cluster whose nodes all match the spec."""
    desired, view = observation.desired, observation.view
    assert view is not None, "ready nodes give a view, or a readiness that says why not"
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


def _open_listeners(observation: ClusterObservation) -> tuple[Listener, ...]:
    """Return the listeners to publish in the status: a new one only after every node was restarted with it."""
    cluster = observation.desired.cluster
    revisions = {node.name: node.revision for node in observation.desired.nodes}
    seen = observation.observed.nodes.values()
    known = tuple(it for it in cluster.listeners if it.name in cluster.known_addresses)
    advertised = tuple(it for it in cluster.listeners if it in known or is_address_known(observation.desired, it))
    if all(it.revision in (None, revisions.get(it.name)) for it in seen):
        return advertised
    return known or advertised


def _cluster_facts(host: Host, observation: ClusterObservation) -> Document:
    desired = observation.desired
    listeners = [
        {
            "name": listener.name,
            "bootstrapServers": host.bootstrap_servers(desired, listener),
            "securityProtocol": listener.security_protocol,
        }
        for listener in _open_listeners(observation)
        if host.bootstrap_servers(desired, listener)
    ]
    begin = {"bootstrapServers": listeners[0]["bootstrapServers"]} if listeners else {}
    return {
        "clusterId": desired.cluster.cluster_id,
        "initialControllers": list(desired.cluster.initial_controllers),
        **begin,
        "listeners": listeners,
        "nodes": len(desired.nodes),
        "readyNodes": observation.observed.ready_nodes,
        **(
            {}
            if observation.view is None
            else {"features": {name: it.level for name, it in observation.view.features.items()}}
        ),
    }
