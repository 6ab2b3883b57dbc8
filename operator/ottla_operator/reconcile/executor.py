"""Carries out a plan, step by step, through the two ports."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla_operator.clients.broker_admin import BrokerAdmin
from ottla_operator.hosts.host import Host
from ottla_operator.model.conditions import Refused, Waiting
from ottla_operator.reconcile.steps import (
    AlterTopicConfigs,
    ClusterStep,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    Publish,
    RestartNode,
    StartNode,
    Step,
    StopNode,
    TopicStep,
)
from ottla_operator.reconcile.verdicts import EXPECTED_ERRORS, verdict_of


@dataclass(frozen=True, slots=True)
class Execution:
    """What became of a plan: the steps that were done, and why the next one was not."""

    done: tuple[Step, ...] = ()
    stopped: Waiting | Refused | None = None


async def execute_on_brokers(steps: Sequence[TopicStep], broker: BrokerAdmin) -> Execution:
    """Do ``steps`` on one topic, all or, when brokers refuse any of them, none.

    Several steps are first only validated, so that a refusal of the last one finds the topic as it was.
    """
    if len(steps) > 1:
        for step in steps:
            try:
                await _on_brokers(step, broker, validate_only=True)
            except EXPECTED_ERRORS as error:
                return Execution(stopped=verdict_of(error, str(step)))
    done: list[Step] = []
    for step in steps:
        try:
            await _on_brokers(step, broker, validate_only=False)
        except EXPECTED_ERRORS as error:
            return Execution(tuple(done), verdict_of(error, str(step)))
        done.append(step)
    return Execution(tuple(done))


async def execute_on_host(steps: Sequence[ClusterStep], host: Host) -> Execution:
    """Do ``steps`` in order; the first that fails ends it."""
    done: list[Step] = []
    for step in steps:
        try:
            await _on_host(step, host)
        except EXPECTED_ERRORS as error:
            return Execution(tuple(done), verdict_of(error, str(step)))
        done.append(step)
    return Execution(tuple(done))


async def _on_brokers(step: TopicStep, broker: BrokerAdmin, *, validate_only: bool) -> None:
    match step:
        case CreateTopic(name, partitions, replication_factor, config):
            await broker.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                config=config,
                validate_only=validate_only,
            )
        case AlterTopicConfigs(name, upserts, deletions):
            await broker.alter_topic_configs(name, upserts=upserts, deletions=deletions, validate_only=validate_only)
        case CreatePartitions(name, total):
            await broker.create_partitions(name, total=total, validate_only=validate_only)
        case DeleteTopic(name):
            assert not validate_only, "a deletion is the only step of its plan"
            await broker.delete_topic(name)


async def _on_host(step: ClusterStep, host: Host) -> None:
    match step:
        case Publish(cluster, outdated):
            await host.publish(cluster, outdated)
        case StartNode(node):
            await host.start_node(node)
        case RestartNode(node):
            await host.restart_node(node)
        case StopNode(name):
            await host.stop_node(name)
