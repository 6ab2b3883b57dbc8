"""Carries out a plan, step by step, through the two ports."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ottla.types import Endpoint
from ottla_operator.clients.broker_admin import BrokerAdmin
from ottla_operator.hosts.host import Host
from ottla_operator.hosts.secret_store import SecretStore
from ottla_operator.model.conditions import Refused, Waiting
from ottla_operator.reconcile.certificate_steps import CertificateStep, OrderCertificate
from ottla_operator.reconcile.steps import (
    AddVoter,
    AlterTopicConfigs,
    BrokerStep,
    ClusterStep,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ElectPreferredLeaders,
    Publish,
    ReassignPartitions,
    RemoveVoter,
    RestartNode,
    StartNode,
    Step,
    StopNode,
    TopicStep,
    UnregisterBroker,
)
from ottla_operator.reconcile.user_steps import (
    AlterQuotas,
    AlterScram,
    CreateAcls,
    DeleteAcls,
    DeleteSecret,
    UserStep,
    WriteSecret,
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


async def execute_on_cluster(steps: Sequence[ClusterStep], host: Host, broker: BrokerAdmin | None) -> Execution:
    """Do ``steps`` in order; the first that fails ends it. Nodes that are started next to each other start together.

    ``broker`` may be None when no step asks brokers for anything.
    """
    done: list[Step] = []
    for _, group in groupby(enumerate(steps), key=lambda it: -1 if isinstance(it[1], StartNode) else it[0]):
        together = [step for _, step in group]
        results = await asyncio.gather(*(_on_cluster(step, host, broker) for step in together), return_exceptions=True)
        for step, result in zip(together, results, strict=True):
            if isinstance(result, EXPECTED_ERRORS):
                return Execution(tuple(done), verdict_of(result, str(step)))
            if result is not None:
                raise result
            done.append(step)
    return Execution(tuple(done))


async def execute_for_user(steps: Sequence[UserStep], broker: BrokerAdmin, secrets: SecretStore) -> Execution:
    """Do ``steps`` in order; the first that fails ends it."""
    done: list[Step] = []
    for step in steps:
        try:
            await _for_user(step, broker, secrets)
        except EXPECTED_ERRORS as error:
            return Execution(tuple(done), verdict_of(error, str(step)))
        done.append(step)
    return Execution(tuple(done))


async def execute_for_certificates(steps: Sequence[CertificateStep], secrets: SecretStore) -> Execution:
    """Do ``steps`` in order; the first that fails ends it."""
    done: list[Step] = []
    for step in steps:
        try:
            match step:
                case WriteSecret(secret, owner):
                    await secrets.write(secret, owner)
                case OrderCertificate(order, owner):
                    await secrets.order(order, owner)
        except EXPECTED_ERRORS as error:
            return Execution(tuple(done), verdict_of(error, str(step)))
        done.append(step)
    return Execution(tuple(done))


async def _for_user(step: UserStep, broker: BrokerAdmin, secrets: SecretStore) -> None:
    match step:
        case WriteSecret(secret, owner):
            await secrets.write(secret, owner)
        case DeleteSecret(name):
            await secrets.delete(name)
        case AlterScram(user, upserts, deletions):
            await broker.alter_scram(user, upserts=upserts, deletions=deletions)
        case CreateAcls(_, acls):
            await broker.create_acls(acls)
        case DeleteAcls(_, acls):
            await broker.delete_acls(acls)
        case AlterQuotas(user, limits):
            await broker.alter_quotas(user, limits)


async def _on_brokers(step: TopicStep, broker: BrokerAdmin, *, validate_only: bool) -> None:
    match step:
        case CreateTopic(topic):
            await broker.create_topic(topic, validate_only=validate_only)
        case AlterTopicConfigs(name, upserts, deletions):
            await broker.alter_topic_configs(name, upserts=upserts, deletions=deletions, validate_only=validate_only)
        case CreatePartitions(name, total):
            await broker.create_partitions(name, total=total, validate_only=validate_only)
        case ReassignPartitions(targets):
            # Brokers cannot only check a move; one that they refuse moves nothing.
            if not validate_only:
                await broker.reassign_partitions(targets)
        case DeleteTopic(name):
            assert not validate_only, "a deletion is the only step of its plan"
            await broker.delete_topic(name)


async def _on_cluster(step: ClusterStep, host: Host, broker: BrokerAdmin | None) -> None:
    match step:
        case Publish(cluster, outdated):
            await host.publish(cluster, outdated)
        case StartNode(node):
            await host.start_node(node)
        case RestartNode(node):
            await host.restart_node(node)
        case StopNode(name):
            await host.remove_node(name)
        case _:
            assert broker is not None, "what brokers do is planned from what they say"
            await _ask_brokers(step, broker)


async def _ask_brokers(step: BrokerStep, broker: BrokerAdmin) -> None:
    match step:
        case ReassignPartitions(targets):
            await broker.reassign_partitions(targets)
        case ElectPreferredLeaders(partitions):
            await broker.elect_preferred_leaders(partitions)
        case UnregisterBroker(node_id):
            await broker.unregister_broker(node_id)
        case AddVoter(node, directory_id):
            await broker.add_voter(
                node.node_id, directory_id, Endpoint(node.place.client_host, node.place.controller_port)
            )
        case RemoveVoter(node_id, directory_id):
            await broker.remove_voter(node_id, directory_id)
