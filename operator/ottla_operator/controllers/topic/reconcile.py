"""Reconciles several Topics of one cluster together: observe, plan, execute, observe again.

One observation of the brokers serves all of them, and topics are created many per request. Each has its own plan and
readiness: a rejection of one changes nothing for the others.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from ottla.errors import ErrorCode
from ottla_operator.controllers.error_results import EXPECTED_ERRORS, camel_case, readiness_of_error
from ottla_operator.controllers.executor import Execution, execute_on_topics
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.model.conditions import Accepted, Held, Reached, Rejected, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.topic import Topic
from ottla_operator.planning.plan import Plan, Step
from ottla_operator.planning.steps.topic import AdoptTopic, CreateTopic, ReassignPartitions, TopicStep
from ottla_operator.planning.topic.plan import (
    ObservedTopic,
    adoption,
    more_replicas_than,
    plan_topic,
    plan_topic_deletion,
    retained,
)
from ottla_operator.ports.broker_admin import BrokerAdmin
from ottla_operator.ports.cluster_view import ClusterView, PartitionView
from ottla_operator.runtime.concurrency import gather_limited

_ROUNDS_MAX = 3


class DesiredTopic(NamedTuple):
    """A Topic to reconcile."""

    topic: Topic
    claimed_by: ObjectKey | None = None
    """An older object with the same topic."""


class DeletedTopic(NamedTuple):
    """A Topic object that is being deleted."""

    topic: Topic
    heir: ObjectKey | None = None
    """Another object that keeps the topic."""


Keep = Callable[[Topic, ReconcileResult], Awaitable[None]]
"""Writes the status of a Topic before its first step, for an operator that is killed after that step."""


async def keep_nothing(_: Topic, __: ReconcileResult) -> None:
    """Do nothing, for a dry run."""


@dataclass(slots=True)
class _TopicState:
    """One Topic during its reconciliation."""

    topic: Topic
    claimed_by: ObjectKey | None
    observed: ObservedTopic | None = None
    steps: tuple[TopicStep, ...] = ()
    done: tuple[Step, ...] = ()
    facts: Document = field(default_factory=dict)
    outcome: ReconcileResult | None = None

    @property
    def is_managed(self) -> bool:
        """Whether the topic was created or adopted in this reconciliation."""
        return any(isinstance(step, CreateTopic | AdoptTopic) for step in self.done)


async def reconcile_topics(
    desired: Sequence[DesiredTopic],
    broker: BrokerAdmin,
    *,
    brokers: Collection[int] = (),
    dry_run: bool = False,
    keep: Keep = keep_nothing,
) -> dict[ObjectKey, ReconcileResult]:
    """Bring each topic to its spec, as far as brokers allow; return the results by object.

    ``brokers`` are those of the Cluster's spec: until all of them run, a rejection for lack of brokers is a wait.
    """
    states = {topic.metadata.key: _TopicState(topic, claimed_by) for topic, claimed_by in desired}
    for _ in range(_ROUNDS_MAX):
        left = [state for state in states.values() if state.outcome is None]
        if not left:
            break
        try:
            observed = await _observe([state.topic for state in left], broker)
        except EXPECTED_ERRORS as error:
            for state in left:
                readiness = readiness_of_error(error, f"describe topic {state.topic.topic_name}")
                state.outcome = ReconcileResult(readiness, {}, state.done, is_seen=False)
            break
        moving = sum(it.moving for it in observed.values())
        for state in left:
            found = observed.get(state.topic.topic_name)
            elsewhere = moving - (found.moving if found is not None else 0)
            plan = plan_topic(
                state.topic, found, claimed_by=state.claimed_by, brokers=brokers, moves_elsewhere=elsewhere
            )
            moving += sum(len(step.targets) for step in plan.steps if isinstance(step, ReassignPartitions))
            _adopt_plan(state, found, plan, dry_run=dry_run)
        await _execute([state for state in left if state.outcome is None], broker, len(brokers), keep)
    return {key: state.outcome or _not_shown_yet(state) for key, state in states.items()}


async def delete_topics(going: Sequence[DeletedTopic], broker: BrokerAdmin) -> dict[ObjectKey, ReconcileResult]:
    """Execute the steps before each Topic object may be removed; return by object, `Reached` for one that may."""
    results = {it.topic.metadata.key: result for it in going if (result := _retained_result(it)) is not None}
    asked = {key: it.topic for it in going if (key := it.topic.metadata.key) not in results}
    try:
        observed = await _observe(list(asked.values()), broker) if asked else {}
    except EXPECTED_ERRORS as error:
        for key, topic in asked.items():
            readiness = readiness_of_error(error, f"describe topic {topic.topic_name}")
            results[key] = ReconcileResult(readiness, {}, is_seen=False)
        return results
    plans = {key: plan_topic_deletion(topic, observed.get(topic.topic_name)) for key, topic in asked.items()}
    steps = {key: cast(tuple[TopicStep, ...], plan.steps) for key, plan in plans.items()}
    for key, execution in (await execute_on_topics(steps, broker)).items():
        results[key] = _deleted(asked[key], observed.get(asked[key].topic_name), execution)
    return results


def _retained_result(going: DeletedTopic) -> ReconcileResult | None:
    if going.heir is not None:
        return ReconcileResult(Reached("HandedOver", f"topic {going.topic.topic_name} stays, for {going.heir}"), {})
    reason = retained(going.topic)
    return None if reason is None else ReconcileResult(reason, {})


def _deleted(topic: Topic, observed: ObservedTopic | None, execution: Execution) -> ReconcileResult:
    if execution.stopped is not None:
        return ReconcileResult(execution.stopped, {}, execution.done)
    if execution.done:
        return ReconcileResult(
            Reached("Deleted", f"topic {topic.topic_name} and its records are deleted"), {}, execution.done
        )
    if observed is None:
        return ReconcileResult(Reached("Gone", f"there is no topic {topic.topic_name}"), {})
    message = f"topic {topic.topic_name} is left alone: it is not the one that this object managed"
    return ReconcileResult(Reached("Retained", message), {})


def _adopt_plan(state: _TopicState, found: ObservedTopic | None, plan: Plan, *, dry_run: bool) -> None:
    """Give a topic its next steps, or its result if there are none."""
    topic, steps = state.topic, cast(tuple[TopicStep, ...], plan.steps)
    adopting = None if state.is_managed or isinstance(plan.obstacle, Rejected) else adoption(topic, found, steps)
    is_held = topic.is_paused and bool(steps)
    is_managed = not (is_held and adopting) and not isinstance(plan.obstacle, Rejected)
    state.observed, state.facts = found, _facts(topic, found, is_managed=is_managed)
    if any(isinstance(step, AdoptTopic) for step in state.done):
        state.facts["adopted"] = True
    state.steps = steps if adopting is None else (adopting, *steps)
    if dry_run and state.steps:
        state.outcome = ReconcileResult(Waiting("DryRun", "nothing was changed"), state.facts, planned=state.steps)
    elif is_held:
        steps_text = "; ".join(map(str, state.steps))
        state.outcome = ReconcileResult(Held("Paused", f"spec.paused is true; next: {steps_text}"), state.facts)
    elif not state.steps:
        state.outcome = ReconcileResult(plan.obstacle or _reached(found), state.facts, state.done)


async def _execute(states: Sequence[_TopicState], broker: BrokerAdmin, brokers_wanted: int, keep: Keep) -> None:
    """Execute the steps of each topic; one that fails has its result then."""
    by_key = {state.topic.metadata.key: state for state in states}
    for key, error in (await gather_limited({key: _keep(state, keep) for key, state in by_key.items()})).items():
        if isinstance(error, EXPECTED_ERRORS):
            state = by_key.pop(key)
            readiness = readiness_of_error(error, f"write the status of Topic {state.topic.metadata.name}")
            state.outcome = ReconcileResult(readiness, {}, state.done)
        elif error is not None:
            raise error
    work = {
        key: tuple(step for step in state.steps if not isinstance(step, AdoptTopic)) for key, state in by_key.items()
    }
    live: int | None = None
    for key, execution in (await execute_on_topics(work, broker)).items():
        state = by_key[key]
        state.done += execution.done
        stopped = execution.stopped
        if isinstance(stopped, Rejected) and stopped.reason == _TOO_FEW_BROKERS:
            live = await _live(broker) if live is None else live
            stopped = _wait_for_brokers(stopped, state.topic, live, brokers_wanted)
        if stopped is not None:
            state.outcome = ReconcileResult(stopped, state.facts, state.done)


async def _keep(state: _TopicState, keep: Keep) -> None:
    """Record facts of a topic before its next steps; for an adoption that is all."""
    for step in state.steps:
        if isinstance(step, AdoptTopic):
            state.facts["adopted"] = True
            await keep(state.topic, ReconcileResult(Waiting("Adopting", str(step)), state.facts))
            state.done += (step,)
        elif isinstance(step, CreateTopic):
            # A later reconciliation must not take the topic for a foreign one.
            state.facts |= {"topicId": None, "adopted": None}
            await keep(state.topic, ReconcileResult(Accepted(), state.facts))


_TOO_FEW_BROKERS = camel_case(ErrorCode.INVALID_REPLICATION_FACTOR.name)


async def _live(broker: BrokerAdmin) -> int:
    try:
        return len((await broker.observe(topics=())).live_brokers)
    except EXPECTED_ERRORS:
        return 0


def _wait_for_brokers(rejected: Rejected, topic: Topic, live: int, brokers_wanted: int) -> Waiting | Rejected:
    """Return why brokers rejected a replication factor: a wait if the cluster is still starting."""
    factor = topic.replication_factor
    if live >= brokers_wanted and factor is None:
        return rejected
    if live >= brokers_wanted and factor is not None and factor > live:
        return more_replicas_than(live, topic)
    return Waiting("BrokersMissing", f"{rejected.message} ({live} of {brokers_wanted} brokers run)")


async def _observe(topics: Sequence[Topic], broker: BrokerAdmin) -> dict[str, ObservedTopic]:
    """Return the topics that exist, by name. Raises one of `EXPECTED_ERRORS`."""
    factors = {topic.topic_name: topic.replication_factor for topic in topics}
    described = await broker.describe_topics(list(factors))
    configs = await broker.describe_topic_configs(list(described)) if described else {}
    may_move = [
        name
        for name, it in described.items()
        if factors[name] is not None
        and not (it.is_in_sync and all(len(replicas) == factors[name] for replicas in it.replicas))
    ]
    views = _by_topic(await broker.observe(topics=may_move), may_move) if may_move else {}
    return {
        name: ObservedTopic(
            topic_id=it.topic_id,
            partitions=it.partitions,
            replication_factor=it.replication_factor,
            config=configs.get(name, {}),
            view=views.get(name),
        )
        for name, it in described.items()
    }


def _by_topic(view: ClusterView, names: Sequence[str]) -> dict[str, ClusterView]:
    partitions: defaultdict[str, list[PartitionView]] = defaultdict(list)
    for it in view.partitions:
        partitions[it.partition.topic].append(it)
    return {name: replace(view, partitions=tuple(partitions[name])) for name in names}


def _facts(topic: Topic, observed: ObservedTopic | None, *, is_managed: bool) -> Document:
    """Return the status fields of a topic; one that was not adopted keeps its former id, or has none."""
    if not is_managed and topic.known_topic_id is None:
        return {}
    if observed is None:
        return {"topicName": topic.topic_name, "partitions": 0}
    return {
        "topicName": topic.topic_name,
        "topicId": observed.topic_id if is_managed else topic.known_topic_id,
        "partitions": observed.partitions,
        "replicationFactor": observed.replication_factor,
    }


def _reached(observed: ObservedTopic | None) -> Reached:
    assert observed is not None, "a missing topic is planned to be created"
    return Reached("AsSpecified", f"{observed.partitions} partitions, replication factor {observed.replication_factor}")


def _not_shown_yet(state: _TopicState) -> ReconcileResult:
    message = f"brokers accepted the changes of topic {state.topic.topic_name} and do not show all of them yet"
    return ReconcileResult(Waiting("MetadataNotPropagated", message), state.facts, state.done)
