"""Observe, plan, execute, observe again: one pass over one object, the same on every host.

A pass never raises for what the world does: everything ends in a `Verdict`, from which `status` makes the one status.
"""

from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import cast

from ottla.errors import ErrorCode
from ottla_operator.clients.broker_admin import BrokerAdmin, Connect
from ottla_operator.hosts.host import Host
from ottla_operator.model.conditions import (
    AUTHORITY_CHANGING,
    Reached,
    Refused,
    Underway,
    Verdict,
    Waiting,
    conditions,
)
from ottla_operator.model.document import Document
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster, ObjectKey, Topic
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.reconcile.certificate_pass import CertificateKeeper, Kept, keep_certificates
from ottla_operator.reconcile.cluster import ObservedCluster, plan_cluster
from ottla_operator.reconcile.draining import leaving_nodes
from ottla_operator.reconcile.executor import execute_on_brokers, execute_on_cluster
from ottla_operator.reconcile.nodes import NodeState
from ottla_operator.reconcile.steps import ClusterStep, Plan, Step, TopicStep
from ottla_operator.reconcile.topic import ObservedTopic, plan_topic, plan_topic_deletion, retained
from ottla_operator.reconcile.verdicts import EXPECTED_ERRORS, camel_case, verdict_of
from ottla_operator.reconcile.view import ClusterView

_ROUNDS_MAX = 3
"""Observations per pass: steps, what they led to, and one more for a host whose publishing enables further steps."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass did and found."""

    verdict: Verdict
    facts: Document
    """Status fields that were observed, in the CRD's names; those that could not be observed are absent."""
    done: tuple[Step, ...] = ()
    planned: tuple[Step, ...] = ()
    """With ``dry_run``: the steps that would have been done."""


def status(document: Document, outcome: Pass, *, now: str) -> Document:
    """Return the whole new status of ``document``; equal to its present one when nothing changed.

    Facts that this pass could not observe stay as they were last seen.
    """
    before = document.get("status", {})
    generation = document["metadata"].get("generation", 1)
    return {
        **before,
        **outcome.facts,
        "observedGeneration": generation,
        "conditions": conditions(
            outcome.verdict, generation=generation, previous=before.get("conditions", []), now=now
        ),
    }


async def reconcile_topic(
    topic: Topic,
    broker: BrokerAdmin,
    *,
    claimed_by: ObjectKey | None = None,
    brokers: Collection[int] = (),
    dry_run: bool = False,
) -> Pass:
    """Make the topic as its manifest asks, as far as brokers allow.

    ``brokers`` are those that the Cluster asks for: what too few brokers refuse is waited for until all are there.
    """
    done: tuple[Step, ...] = ()
    observed: ObservedTopic | None = None
    for _ in range(_ROUNDS_MAX):
        try:
            observed = await _observe_topic(topic, broker)
        except EXPECTED_ERRORS as error:
            return Pass(verdict_of(error, f"describe topic {topic.topic_name}"), {}, done)
        facts = _topic_facts(topic, observed)
        plan = plan_topic(topic, observed, claimed_by=claimed_by, brokers=brokers)
        if plan.obstacle is not None:
            return Pass(plan.obstacle, facts, done)
        if not plan.steps:
            return Pass(_topic_reached(observed), facts, done)
        if dry_run:
            return Pass(Waiting("DryRun", "nothing was changed"), facts, planned=plan.steps)
        execution = await execute_on_brokers(cast(tuple[TopicStep, ...], plan.steps), broker)
        done += execution.done
        if execution.stopped is not None:
            verdict = await _unless_brokers_come(execution.stopped, topic, broker, len(brokers))
            return Pass(verdict, facts, done)
    message = f"brokers took the changes of topic {topic.topic_name} and do not show all of them yet"
    return Pass(Waiting("MetadataNotPropagated", message), _topic_facts(topic, observed), done)


async def _unless_brokers_come(
    verdict: Waiting | Refused, topic: Topic, broker: BrokerAdmin, brokers_wanted: int
) -> Waiting | Refused:
    """Return ``verdict``, but wait where a replication factor was refused by a cluster that is still coming up."""
    if isinstance(verdict, Waiting) or verdict.reason != camel_case(ErrorCode.INVALID_REPLICATION_FACTOR.name):
        return verdict
    try:
        live = len((await broker.observe(topics=())).live_brokers)
    except EXPECTED_ERRORS:
        live = 0
    is_late = topic.replication_factor is not None and topic.replication_factor <= live
    if live >= brokers_wanted and not is_late:
        return verdict
    return Waiting("BrokersMissing", f"{verdict.message} ({live} of {brokers_wanted} brokers are there)")


async def delete_topic(topic: Topic, broker: BrokerAdmin) -> Pass:
    """Do what must be done before the Topic object may go; `Reached` when it may."""
    if (reason := retained(topic)) is not None:
        return Pass(reason, {})
    try:
        observed = await _observe_topic(topic, broker)
    except EXPECTED_ERRORS as error:
        return Pass(verdict_of(error, f"describe topic {topic.topic_name}"), {})
    plan = plan_topic_deletion(topic, observed)
    execution = await execute_on_brokers(cast(tuple[TopicStep, ...], plan.steps), broker)
    if execution.stopped is not None:
        return Pass(execution.stopped, {}, execution.done)
    if plan.steps:
        return Pass(Reached("Deleted", f"topic {topic.topic_name} and its records are deleted"), {}, execution.done)
    if observed is None:
        return Pass(Reached("Gone", f"there is no topic {topic.topic_name}"), {})
    message = f"topic {topic.topic_name} is left alone: it is not the one that this object looked after"
    return Pass(Reached("Retained", message), {})


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
    keeper: CertificateKeeper | None = None,
    dry_run: bool = False,
) -> Pass:
    """Make the nodes as the manifest asks, as far as one pass can; `Reached` when brokers answer as that cluster.

    ``keeper`` is needed where the cluster has TLS.
    """
    done: tuple[Step, ...] = ()
    facts: Document = {}
    try:
        async with AsyncExitStack() as connections:
            lookout = _Lookout(host, connect, connections, keeper, dry_run=dry_run)
            for rounds_left in reversed(range(_ROUNDS_MAX)):
                look = await lookout.look(cluster)
                # From here on the quorum is there: who is formatted now joins it.
                cluster = look.desired.cluster
                certificates, is_first = look.certificates, rounds_left == _ROUNDS_MAX - 1
                facts = {**_cluster_facts(host, look), **certificates.facts}
                done += certificates.execution.done if is_first else ()
                if (stop := certificates.blocker or look.refused) is not None:
                    return Pass(stop, facts, done, certificates.planned)
                plan = plan_cluster(look.desired, look.observed, look.view)
                if isinstance(plan.obstacle, Refused) and is_first:
                    # A broker that lags behind the controller may still show what has just changed: look twice.
                    continue
                if dry_run and (planned := (*certificates.planned, *plan.steps)):
                    return Pass(Waiting("DryRun", "nothing was changed"), facts, planned=planned)
                if not plan.steps or not rounds_left:
                    break
                execution = await execute_on_cluster(cast(tuple[ClusterStep, ...], plan.steps), host, look.broker)
                done += execution.done
                if execution.stopped is not None:
                    return Pass(execution.stopped, facts, done)
    except EXPECTED_ERRORS as error:
        return Pass(verdict_of(error, f"observe cluster {cluster.name}"), facts, done)
    return Pass(_verdict(host, look, plan), facts, done)


def _verdict(host: Host, look: "_Look", plan: Plan) -> Verdict:
    """Return what there is to say at the end of a pass that nothing stopped."""
    obstacle = plan.obstacle or look.trouble
    if obstacle is None and plan.steps:
        obstacle = Waiting("Settling", f"next: {plan.steps[0]}")
    if obstacle is not None:
        return obstacle
    verdict = _cluster_verdict(host, look)
    if isinstance(verdict, Reached) and look.certificates.obstacle is not None:
        # Nodes run, and what their certificates wait for is all that is left to say.
        return _of_certificates(look.certificates.obstacle)
    return verdict


def _of_certificates(obstacle: Waiting | Refused) -> Verdict:
    """Return what ``obstacle`` is to a cluster that serves: a change of authorities disturbs nobody, and takes days."""
    if obstacle.reason == AUTHORITY_CHANGING:
        return Underway(obstacle.reason, obstacle.message)
    return obstacle


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


class _Lookout:
    """Looks at a cluster again and again over one connection."""

    def __init__(
        self,
        host: Host,
        connect: Connect,
        connections: AsyncExitStack,
        keeper: CertificateKeeper | None,
        *,
        dry_run: bool,
    ) -> None:
        self._host = host
        self._connect = connect
        self._connections = connections
        self._broker: BrokerAdmin | None = None
        self._address = "its brokers"
        self._keeper = keeper
        self._dry_run = dry_run
        self._kept: Kept | None = None

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
        return _Look(
            desired=desired,
            observed=observed,
            broker=self._broker,
            view=view,
            trouble=verdict if isinstance(verdict, Waiting) else None,
            refused=verdict if isinstance(verdict, Refused) else None,
            certificates=kept,
        )

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
        revisions = {node.name: node.revision for node in desired.nodes}
        rolls = any(revisions.get(name) != node.revision for name, node in observed.nodes.items())
        return await self._broker.observe(with_min_isr=rolls)


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
    if missing or view.controller_id < 0:
        return Waiting("BrokersNotRegistered", f"{len(missing)} brokers have not joined the cluster yet")
    if desired.cluster.initial_controllers:
        behind = ", ".join(str(voter.node_id) for voter in view.voters if not voter.is_caught_up)
        return Waiting("QuorumForming", f"waiting for the first voters {behind} to follow the metadata log")
    total, bootstrap_servers = len(desired.nodes), host.bootstrap_servers(desired, desired.cluster.listeners[0])
    return Reached("Ready", f"{total} of {total} nodes are ready at {bootstrap_servers}")


async def _observe_topic(topic: Topic, broker: BrokerAdmin) -> ObservedTopic | None:
    name = topic.topic_name
    described = (await broker.describe_topics([name])).get(name)
    if described is None:
        return None
    configs = await broker.describe_topic_configs([name])
    factor = topic.replication_factor
    may_move = not described.is_in_sync or any(len(replicas) != factor for replicas in described.replicas)
    return ObservedTopic(
        topic_id=described.topic_id,
        partitions=described.partitions,
        replication_factor=described.replication_factor,
        config=configs.get(name, {}),
        view=await broker.observe(topics=[name]) if factor is not None and may_move else None,
    )


def _topic_facts(topic: Topic, observed: ObservedTopic | None) -> Document:
    if observed is None:
        return {"topicName": topic.topic_name, "partitions": 0}
    return {
        "topicName": topic.topic_name,
        "topicId": observed.topic_id,
        "partitions": observed.partitions,
        "replicationFactor": observed.replication_factor,
    }


def _topic_reached(observed: ObservedTopic | None) -> Reached:
    assert observed is not None, "a missing topic is planned to be created"
    return Reached("AsSpecified", f"{observed.partitions} partitions, replication factor {observed.replication_factor}")


def _open_listeners(look: _Look) -> tuple[Listener, ...]:
    """Return the listeners that clients can be sent to: a new one not before every node was restarted with it."""
    cluster = look.desired.cluster
    revisions = {node.name: node.revision for node in look.desired.nodes}
    seen = look.observed.nodes.values()
    if all(it.revision in (None, revisions.get(it.name)) for it in seen):
        return cluster.listeners
    known = tuple(it for it in cluster.listeners if it.name in cluster.known_addresses)
    return known or cluster.listeners


def _cluster_facts(host: Host, look: _Look) -> Document:
    desired = look.desired
    listeners = [
        {
            "name": listener.name,
            "bootstrapServers": host.bootstrap_servers(desired, listener),
            "securityProtocol": listener.security_protocol,
        }
        for listener in _open_listeners(look)
    ]
    return {
        "clusterId": desired.cluster.cluster_id,
        "initialControllers": list(desired.cluster.initial_controllers),
        "bootstrapServers": listeners[0]["bootstrapServers"],
        "listeners": listeners,
        "nodes": len(desired.nodes),
        "readyNodes": look.observed.ready_nodes,
    }
