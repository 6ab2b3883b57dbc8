"""Executes plans, step by step, through the ports."""

import asyncio
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from ottla.types import Endpoint
from ottla_operator.controllers.error_results import EXPECTED_ERRORS, readiness_of_error
from ottla_operator.model.conditions import Rejected, Waiting
from ottla_operator.planning.plan import Step
from ottla_operator.planning.steps.certificate import (
    CertificateStep,
    LeaveUsersBehind,
    OrderCertificate,
    WithdrawCertificate,
)
from ottla_operator.planning.steps.cluster import (
    AddVoter,
    AlterBrokerConfigs,
    AlterOwnConfigs,
    BrokerStep,
    ClusterStep,
    ElectPreferredLeaders,
    LimitDisruptions,
    Publish,
    RemoveVolumes,
    RemoveVoter,
    RestartNode,
    StartNode,
    StopNode,
    UnregisterBroker,
    UpdateFeatures,
    WriteRebalancePlan,
)
from ottla_operator.planning.steps.secret import DeleteSecret, WriteSecret
from ottla_operator.planning.steps.topic import (
    AlterTopicConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ReassignPartitions,
    TopicStep,
)
from ottla_operator.planning.steps.user import AlterQuotas, AlterScram, CreateAcls, DeleteAcls, UserStep
from ottla_operator.ports.broker_admin import BrokerAdmin, NewTopic
from ottla_operator.ports.host import Host
from ottla_operator.ports.plan_store import PlanStore
from ottla_operator.ports.secret_store import SecretStore

KeyT = TypeVar("KeyT", bound=Hashable)

_CREATIONS_MAX = 100
_CREATED_PARTITIONS_MAX = 1_000
"""In one request, unless it is one topic: Kafka rejects a request with more than 10,000 partitions as a whole."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The executed steps of a plan, and why the next one failed."""

    done: tuple[Step, ...] = ()
    stopped: Waiting | Rejected | None = None


async def execute_on_topics(plans: Mapping[KeyT, Sequence[TopicStep]], broker: BrokerAdmin) -> dict[KeyT, Execution]:
    """Execute ``plans``, each of one topic: all steps of it or, if brokers reject any of them, none. Return by key.

    Several steps of a plan are first validated only, so that a rejection of the last one leaves the topic unchanged.
    Topics are created in batches; the other plans are executed concurrently.
    """
    creations = [steps[0].topic for steps in plans.values() if len(steps) == 1 and isinstance(steps[0], CreateTopic)]
    rejected = await _create(creations, broker)
    executions = await asyncio.gather(*(_execute_on_topic(steps, broker, rejected) for steps in plans.values()))
    return dict(zip(plans, executions, strict=True))


async def _create(topics: Sequence[NewTopic], broker: BrokerAdmin) -> Mapping[str, Exception]:
    """Create ``topics`` in batches; return errors by topic name."""
    errors: dict[str, Exception] = {}
    for some in _batches(topics):
        try:
            errors |= await broker.create_topics(some)
        except EXPECTED_ERRORS as error:
            errors |= dict.fromkeys((topic.name for topic in some), error)
    return errors


def _batches(topics: Sequence[NewTopic]) -> Iterator[list[NewTopic]]:
    """Yield ``topics`` in batches within the limits of one request; a topic beyond them is a batch of its own."""
    batch: list[NewTopic] = []
    for topic in topics:
        partitions = topic.partitions + sum(it.partitions for it in batch)
        if batch and (len(batch) == _CREATIONS_MAX or partitions > _CREATED_PARTITIONS_MAX):
            yield batch
            batch = []
        batch.append(topic)
    if batch:
        yield batch


async def _execute_on_topic(
    steps: Sequence[TopicStep], broker: BrokerAdmin, rejected: Mapping[str, Exception]
) -> Execution:
    if len(steps) > 1:
        for step in steps:
            try:
                await _on_brokers(step, broker, validate_only=True)
            except EXPECTED_ERRORS as error:
                return Execution(stopped=readiness_of_error(error, str(step)))
    done: list[Step] = []
    for step in steps:
        try:
            if isinstance(step, CreateTopic):
                assert len(steps) == 1, "a creation is the only step of its plan"
                if (rejection := rejected.get(step.topic.name)) is not None:
                    raise rejection
            else:
                await _on_brokers(step, broker, validate_only=False)
        except EXPECTED_ERRORS as error:
            return Execution(tuple(done), readiness_of_error(error, str(step)))
        done.append(step)
    return Execution(tuple(done))


async def execute_on_cluster(
    steps: Sequence[ClusterStep], host: Host, broker: BrokerAdmin | None, plans: PlanStore | None = None
) -> Execution:
    """Execute ``steps`` in order, up to the first failure.

    Consecutive starts are executed concurrently, and so are consecutive restarts. ``broker`` may be None if no step is
    for brokers, ``plans`` if no plan is written.
    """
    done: list[Step] = []
    for _, group in groupby(enumerate(steps), key=lambda it: _group(*it)):
        together = [step for _, step in group]
        results = await asyncio.gather(
            *(_on_cluster(step, host, broker, plans) for step in together), return_exceptions=True
        )
        stopped: Waiting | Rejected | None = None
        for step, result in zip(together, results, strict=True):
            if isinstance(result, EXPECTED_ERRORS):
                stopped = stopped or readiness_of_error(result, str(step))
            elif result is not None:
                raise result
            else:
                done.append(step)
        if stopped is not None:
            return Execution(tuple(done), stopped)
    return Execution(tuple(done))


def _group(number: int, step: Step) -> int:
    """Return the same number for steps that are executed concurrently."""
    return -1 if isinstance(step, StartNode) else -2 if isinstance(step, RestartNode) else number


async def execute_for_user(steps: Sequence[UserStep], broker: BrokerAdmin, secrets: SecretStore) -> Execution:
    """Execute ``steps`` in order, up to the first failure."""
    done: list[Step] = []
    for step in steps:
        try:
            await _for_user(step, broker, secrets)
        except EXPECTED_ERRORS as error:
            return Execution(tuple(done), readiness_of_error(error, str(step)))
        done.append(step)
    return Execution(tuple(done))


async def execute_for_certificates(steps: Sequence[CertificateStep], secrets: SecretStore) -> Execution:
    """Execute ``steps`` in order, up to the first failure."""
    done: list[Step] = []
    for step in steps:
        try:
            match step:
                case WriteSecret(secret, owner):
                    await secrets.write(secret, owner)
                case OrderCertificate(order, owner):
                    await secrets.order_certificate(order, owner)
                case WithdrawCertificate(name, owner):
                    await secrets.withdraw_certificate(name, owner)
                case LeaveUsersBehind():
                    # The write before has done it: this step is the event.
                    pass
        except EXPECTED_ERRORS as error:
            return Execution(tuple(done), readiness_of_error(error, str(step)))
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
        case AlterTopicConfigs(name, upserts, deletions):
            await broker.alter_topic_configs(name, upserts=upserts, deletions=deletions, validate_only=validate_only)
        case CreatePartitions(name, total):
            await broker.create_partitions(name, total=total, validate_only=validate_only)
        case ReassignPartitions(targets):
            # Brokers cannot only validate a reassignment; a rejected one moves nothing.
            if not validate_only:
                await broker.reassign_partitions(targets)
        case DeleteTopic(name):
            assert not validate_only, "a deletion is the only step of its plan"
            await broker.delete_topic(name)


async def _on_cluster(step: ClusterStep, host: Host, broker: BrokerAdmin | None, plans: PlanStore | None) -> None:
    match step:
        case WriteRebalancePlan(cluster, plan):
            assert plans is not None, "a plan is created only if it can be stored"
            await plans.write(cluster, plan)
        case Publish(cluster, outdated):
            await host.publish(cluster, outdated)
        case StartNode(node):
            await host.start_node(node)
        case RestartNode(node, uid=uid):
            await host.restart_node(node, uid)
        case StopNode(name, uid):
            await host.remove_node(name, uid)
        case RemoveVolumes(claims):
            await host.remove_volumes(claims)
        case LimitDisruptions(cluster, allowed):
            await host.limit_disruptions(cluster, allowed)
        case _:
            assert broker is not None, "steps for brokers are planned from their view"
            await _on_broker_admin(step, broker)


async def _on_broker_admin(step: BrokerStep, broker: BrokerAdmin) -> None:
    match step:
        case ReassignPartitions(targets):
            await broker.reassign_partitions(targets)
        case AlterOwnConfigs(node_id, upserts, deletions):
            await broker.alter_own_configs(node_id, upserts=upserts, deletions=deletions)
        case AlterTopicConfigs(name, upserts, deletions):
            await broker.alter_topic_configs(name, upserts=upserts, deletions=deletions)
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
        case AlterBrokerConfigs(upserts, deletions):
            await broker.alter_broker_configs(upserts=upserts, deletions=deletions)
        case UpdateFeatures(levels, is_down):
            await broker.update_features(levels, is_down=is_down)
