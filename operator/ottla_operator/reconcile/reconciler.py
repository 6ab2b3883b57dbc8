"""Observe, plan, execute, observe again: one pass over one object, the same on every host.

A pass never raises for what the world does: everything ends in a `Verdict`, from which `status` makes the one status.
"""

from dataclasses import dataclass
from typing import cast

from ottla_operator.clients.broker_admin import BrokerAdmin, Connect
from ottla_operator.hosts.host import Host
from ottla_operator.model.conditions import Reached, Refused, Verdict, Waiting, conditions
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, ObjectKey, Topic
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.reconcile.cluster import ObservedCluster, plan_cluster
from ottla_operator.reconcile.executor import execute_on_brokers, execute_on_host
from ottla_operator.reconcile.steps import ClusterStep, Step, TopicStep
from ottla_operator.reconcile.topic import ObservedTopic, plan_topic, plan_topic_deletion, retained
from ottla_operator.reconcile.verdicts import EXPECTED_ERRORS, verdict_of

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
    topic: Topic, broker: BrokerAdmin, *, claimed_by: ObjectKey | None = None, dry_run: bool = False
) -> Pass:
    """Make the topic as its manifest asks, as far as brokers allow."""
    done: tuple[Step, ...] = ()
    observed: ObservedTopic | None = None
    for _ in range(_ROUNDS_MAX):
        try:
            observed = await _observe_topic(topic.topic_name, broker)
        except EXPECTED_ERRORS as error:
            return Pass(verdict_of(error, f"describe topic {topic.topic_name}"), {}, done)
        facts = _topic_facts(topic, observed)
        plan = plan_topic(topic, observed, claimed_by=claimed_by)
        if plan.obstacle is not None:
            return Pass(plan.obstacle, facts, done)
        if not plan.steps:
            return Pass(_topic_reached(observed), facts, done)
        if dry_run:
            return Pass(Waiting("DryRun", "nothing was changed"), facts, planned=plan.steps)
        execution = await execute_on_brokers(cast(tuple[TopicStep, ...], plan.steps), broker)
        done += execution.done
        if execution.stopped is not None:
            return Pass(execution.stopped, facts, done)
    message = f"brokers took the changes of topic {topic.topic_name} and do not show all of them yet"
    return Pass(Waiting("MetadataNotPropagated", message), _topic_facts(topic, observed), done)


async def delete_topic(topic: Topic, broker: BrokerAdmin) -> Pass:
    """Do what must be done before the Topic object may go; `Reached` when it may."""
    if (reason := retained(topic)) is not None:
        return Pass(reason, {})
    try:
        observed = await _observe_topic(topic.topic_name, broker)
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


async def reconcile_cluster(cluster: Cluster, host: Host, connect: Connect, *, dry_run: bool = False) -> Pass:
    """Make the nodes as the manifest asks, as far as one pass can; `Reached` when brokers answer as that cluster."""
    done: tuple[Step, ...] = ()
    try:
        desired = await host.desired(cluster)
        observed = await host.observe(desired)
        for _ in range(_ROUNDS_MAX):
            plan = plan_cluster(desired, observed)
            if dry_run and plan.steps:
                facts = _cluster_facts(host, desired, observed)
                return Pass(Waiting("DryRun", "nothing was changed"), facts, planned=plan.steps)
            execution = await execute_on_host(cast(tuple[ClusterStep, ...], plan.steps), host)
            done += execution.done
            if execution.stopped is not None:
                return Pass(execution.stopped, _cluster_facts(host, desired, observed), done)
            if not plan.steps:
                break
            observed = await host.observe(desired)
    except EXPECTED_ERRORS as error:
        return Pass(verdict_of(error, f"observe cluster {cluster.name}"), {}, done)
    facts = _cluster_facts(host, desired, observed)
    verdict = plan_cluster(desired, observed).obstacle
    if verdict is None:
        return Pass(await _ask_brokers(host.bootstrap_servers(desired), desired, connect), facts, done)
    return Pass(verdict, facts, done)


async def _ask_brokers(bootstrap_servers: str, desired: DesiredCluster, connect: Connect) -> Verdict:
    try:
        async with connect(bootstrap_servers) as broker:
            described = await broker.describe_cluster()
    except EXPECTED_ERRORS as error:
        return verdict_of(error, f"describe the cluster at {bootstrap_servers}")
    if described.cluster_id != desired.cluster.cluster_id:
        return Refused(
            "ClusterIdMismatch",
            f"the brokers at {bootstrap_servers} are cluster {described.cluster_id}, not "
            f"{desired.cluster.cluster_id}: another cluster uses this address or these volumes",
        )
    missing = len(desired.nodes) - len(described.broker_ids)
    if missing > 0 or described.controller_id < 0:
        return Waiting("BrokersNotRegistered", f"{missing} brokers have not joined the cluster yet")
    return Reached("Ready", f"{len(desired.nodes)} of {len(desired.nodes)} nodes are ready at {bootstrap_servers}")


async def _observe_topic(name: str, broker: BrokerAdmin) -> ObservedTopic | None:
    described = (await broker.describe_topics([name])).get(name)
    if described is None:
        return None
    configs = await broker.describe_topic_configs([name])
    return ObservedTopic(
        topic_id=described.topic_id,
        partitions=described.partitions,
        replication_factor=described.replication_factor,
        config=configs.get(name, {}),
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


def _cluster_facts(host: Host, desired: DesiredCluster, observed: ObservedCluster) -> Document:
    return {
        "clusterId": desired.cluster.cluster_id,
        "bootstrapServers": host.bootstrap_servers(desired),
        "nodes": len(desired.nodes),
        "readyNodes": observed.ready_nodes,
    }
