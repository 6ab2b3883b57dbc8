"""Reconciles several Topics of one cluster at once: observe, plan, execute, observe again.

One look at the brokers serves all of them, and topics are created many at a time. Each has its own plan and readiness:
what is refused for one changes nothing for another.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from ottla.errors import ErrorCode
from ottla_operator.controllers.error_results import EXPECTED_ERRORS, camel_case, readiness_of_error
from ottla_operator.controllers.executor import Execution, execute_on_topics
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.model.conditions import Accepted, Held, Reached, Refused, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.topic import Topic
from ottla_operator.planning.plan import Step
from ottla_operator.planning.steps.topic import AdoptTopic, CreateTopic, ReassignPartitions, TopicStep
from ottla_operator.planning.topic.plan import ObservedTopic, adoption, plan_topic, plan_topic_deletion, retained
from ottla_operator.ports.broker_admin import BrokerAdmin
from ottla_operator.ports.cluster_view import ClusterView, PartitionView
from ottla_operator.runtime.concurrency import gather_limited

_ROUNDS_MAX = 3


class AskedTopic(NamedTuple):
    """A Topic that a pass is to be made over."""

    topic: Topic
    claimed_by: ObjectKey | None = None
    """An older object that has the same topic."""


class DeletedTopic(NamedTuple):
    """A Topic object that is to go."""

    topic: Topic
    heir: ObjectKey | None = None
    """Another object that keeps the topic."""


Keep = Callable[[Topic, ReconcileResult], Awaitable[None]]
"""Writes the status of a Topic before its first step: whoever is killed after that step must know of it."""


async def keep_nothing(_: Topic, __: ReconcileResult) -> None:
    """Where a pass that changes nothing has nothing to keep."""


@dataclass(slots=True)
class _Turn:
    """One Topic within a pass."""

    topic: Topic
    claimed_by: ObjectKey | None
    observed: ObservedTopic | None = None
    steps: tuple[TopicStep, ...] = ()
    done: tuple[Step, ...] = ()
    facts: Document = field(default_factory=dict)
    outcome: ReconcileResult | None = None

    @property
    def is_its_own(self) -> bool:
        """Whether the topic was made or taken over in this pass."""
        return any(isinstance(step, CreateTopic | AdoptTopic) for step in self.done)


async def reconcile_topics(
    asked: Sequence[AskedTopic],
    broker: BrokerAdmin,
    *,
    brokers: Collection[int] = (),
    dry_run: bool = False,
    keep: Keep = keep_nothing,
) -> list[ReconcileResult]:
    """Make each topic as its manifest asks, as far as brokers allow; return what became of each, in order.

    ``brokers`` are those that the Cluster asks for: what too few brokers refuse is waited for until all are there.
    """
    turns = [_Turn(topic, claimed_by) for topic, claimed_by in asked]
    for _ in range(_ROUNDS_MAX):
        left = [turn for turn in turns if turn.outcome is None]
        if not left:
            break
        try:
            observed = await _observe([turn.topic for turn in left], broker)
        except EXPECTED_ERRORS as error:
            for turn in left:
                readiness = readiness_of_error(error, f"describe topic {turn.topic.topic_name}")
                turn.outcome = ReconcileResult(readiness, {}, turn.done, is_seen=False)
            break
        _plan(left, observed, brokers, dry_run=dry_run)
        await _execute([turn for turn in left if turn.outcome is None], broker, len(brokers), keep)
    return [turn.outcome or _not_shown_yet(turn) for turn in turns]


async def delete_topics(going: Sequence[DeletedTopic], broker: BrokerAdmin) -> list[ReconcileResult]:
    """Do what must be done before each Topic object may go; `Reached` for one that may."""
    outcomes = [_kept_by_somebody(it) for it in going]
    asked = [it.topic for it, outcome in zip(going, outcomes, strict=True) if outcome is None]
    try:
        observed = await _observe(asked, broker) if asked else {}
    except EXPECTED_ERRORS as error:
        return [
            outcome
            or ReconcileResult(readiness_of_error(error, f"describe topic {it.topic.topic_name}"), {}, is_seen=False)
            for it, outcome in zip(going, outcomes, strict=True)
        ]
    plans = [plan_topic_deletion(topic, observed.get(topic.topic_name)) for topic in asked]
    executions = await execute_on_topics([cast(tuple[TopicStep, ...], plan.steps) for plan in plans], broker)
    ends = iter(
        _deleted(topic, observed.get(topic.topic_name), execution)
        for topic, execution in zip(asked, executions, strict=True)
    )
    return [next(ends) if outcome is None else outcome for outcome in outcomes]


def _kept_by_somebody(going: DeletedTopic) -> ReconcileResult | None:
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
    message = f"topic {topic.topic_name} is left alone: it is not the one that this object looked after"
    return ReconcileResult(Reached("Retained", message), {})


def _plan(
    turns: Sequence[_Turn], observed: Mapping[str, ObservedTopic], brokers: Collection[int], *, dry_run: bool
) -> None:
    """Give each turn its next steps, or its outcome where there are none."""
    moving = sum(it.moving for it in observed.values())
    for turn in turns:
        topic, found = turn.topic, observed.get(turn.topic.topic_name)
        elsewhere = moving - (found.moving if found is not None else 0)
        plan = plan_topic(topic, found, claimed_by=turn.claimed_by, brokers=brokers, moves_elsewhere=elsewhere)
        moving += sum(len(step.targets) for step in plan.steps if isinstance(step, ReassignPartitions))
        steps = cast(tuple[TopicStep, ...], plan.steps)
        taken = None if turn.is_its_own or isinstance(plan.obstacle, Refused) else adoption(topic, found, steps)
        is_held = topic.is_paused and bool(steps)
        is_its_own = not (is_held and taken) and not isinstance(plan.obstacle, Refused)
        turn.observed, turn.facts = found, _facts(topic, found, is_its_own=is_its_own)
        if any(isinstance(step, AdoptTopic) for step in turn.done):
            turn.facts["adopted"] = True
        turn.steps = steps if taken is None else (taken, *steps)
        if dry_run and turn.steps:
            turn.outcome = ReconcileResult(Waiting("DryRun", "nothing was changed"), turn.facts, planned=turn.steps)
        elif is_held:
            words = "; ".join(map(str, turn.steps))
            turn.outcome = ReconcileResult(Held("Paused", f"spec.paused is true; next: {words}"), turn.facts)
        elif not turn.steps:
            turn.outcome = ReconcileResult(plan.obstacle or _reached(found), turn.facts, turn.done)


async def _execute(turns: Sequence[_Turn], broker: BrokerAdmin, brokers_wanted: int, keep: Keep) -> None:
    """Do the steps of each turn; one that is stopped has its outcome then."""
    kept = await gather_limited(_keep(turn, keep) for turn in turns)
    for turn, error in zip(turns, kept, strict=True):
        if isinstance(error, EXPECTED_ERRORS):
            readiness = readiness_of_error(error, f"write the status of Topic {turn.topic.metadata.name}")
            turn.outcome = ReconcileResult(readiness, {}, turn.done)
        elif error is not None:
            raise error
    turns = [turn for turn in turns if turn.outcome is None]
    work = [tuple(step for step in turn.steps if not isinstance(step, AdoptTopic)) for turn in turns]
    executions = await execute_on_topics(work, broker)
    live: int | None = None
    for turn, execution in zip(turns, executions, strict=True):
        turn.done += execution.done
        stopped = execution.stopped
        if isinstance(stopped, Refused) and stopped.reason == _TOO_FEW_BROKERS:
            live = await _live(broker) if live is None else live
            stopped = _unless_brokers_come(stopped, turn.topic, live, brokers_wanted)
        if stopped is not None:
            turn.outcome = ReconcileResult(stopped, turn.facts, turn.done)


async def _keep(turn: _Turn, keep: Keep) -> None:
    """Note what must be known of a turn's topic before its next steps; taking it over is no more than that."""
    for step in turn.steps:
        if isinstance(step, AdoptTopic):
            turn.facts["adopted"] = True
            await keep(turn.topic, ReconcileResult(Waiting("Adopting", str(step)), turn.facts))
            turn.done += (step,)
        elif isinstance(step, CreateTopic):
            # Whoever finds it next must not think that somebody else has made it.
            turn.facts |= {"topicId": None, "adopted": None}
            await keep(turn.topic, ReconcileResult(Accepted(), turn.facts))


_TOO_FEW_BROKERS = camel_case(ErrorCode.INVALID_REPLICATION_FACTOR.name)


async def _live(broker: BrokerAdmin) -> int:
    try:
        return len((await broker.observe(topics=())).live_brokers)
    except EXPECTED_ERRORS:
        return 0


def _unless_brokers_come(refused: Refused, topic: Topic, live: int, brokers_wanted: int) -> Waiting | Refused:
    """Return ``refused``, but wait where a replication factor was refused by a cluster that is still coming up."""
    is_late = topic.replication_factor is not None and topic.replication_factor <= live
    if live >= brokers_wanted and not is_late:
        return refused
    return Waiting("BrokersMissing", f"{refused.message} ({live} of {brokers_wanted} brokers are there)")


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


def _facts(topic: Topic, observed: ObservedTopic | None, *, is_its_own: bool) -> Document:
    """Return what the status says of a topic; one that was not taken over has no id, and stays where it is."""
    if not is_its_own and topic.known_topic_id is None:
        return {}
    if observed is None:
        return {"topicName": topic.topic_name, "partitions": 0}
    return {
        "topicName": topic.topic_name,
        "topicId": observed.topic_id if is_its_own else topic.known_topic_id,
        "partitions": observed.partitions,
        "replicationFactor": observed.replication_factor,
    }


def _reached(observed: ObservedTopic | None) -> Reached:
    assert observed is not None, "a missing topic is planned to be created"
    return Reached("AsSpecified", f"{observed.partitions} partitions, replication factor {observed.replication_factor}")


def _not_shown_yet(turn: _Turn) -> ReconcileResult:
    message = f"brokers took the changes of topic {turn.topic.topic_name} and do not show all of them yet"
    return ReconcileResult(Waiting("MetadataNotPropagated", message), turn.facts, turn.done)
