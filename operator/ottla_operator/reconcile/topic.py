"""What to do about one Topic: pure planning from its spec and what the brokers hold."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ottla.client.assignment import Load, with_factor
from ottla.types import TopicPartition
from ottla_operator.clients.broker_admin import NewTopic
from ottla_operator.model.conditions import Reached, Refused, Waiting
from ottla_operator.model.manifest import ObjectKey, Topic
from ottla_operator.reconcile.steps import (
    MOVES_MAX,
    AlterTopicConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    Plan,
    ReassignPartitions,
    Step,
)
from ottla_operator.reconcile.view import ClusterView


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """A topic as the brokers describe it."""

    topic_id: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]
    """Only what was set on this topic, not what it inherits."""
    view: ClusterView | None = None
    """The brokers and this topic's partitions; None where no replica is missing and none has to move."""


def plan_topic(
    topic: Topic,
    observed: ObservedTopic | None,
    *,
    claimed_by: ObjectKey | None = None,
    brokers: Collection[int] = (),
) -> Plan:
    """Return the steps that make the topic what ``topic`` asks.

    Args:
        topic: the manifest.
        observed: the topic of that name; None when there is none.
        claimed_by: an older Topic object that has the same topic name in the same cluster; it wins.
        brokers: ids that the Cluster asks for, who may not all be there yet; replicas are moved to nobody else. Empty
            where there is no Cluster that says so: any broker will do.
    """
    if claimed_by is not None:
        message = f"topic {topic.topic_name} belongs to {claimed_by}, which is older; delete one of the two objects"
        return Plan(obstacle=Refused("TopicClaimedElsewhere", message))
    if observed is None:
        new = NewTopic(
            name=topic.topic_name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=topic.config,
        )
        return Plan((CreateTopic(new),))
    refusal = _refusal(topic, observed, len(brokers))
    if refusal is not None:
        return Plan(obstacle=refusal)
    steps = _changes(topic, observed)
    if steps or observed.view is None:
        return Plan(tuple(steps))
    return _moves(topic, observed.view, brokers)


def plan_topic_deletion(topic: Topic, observed: ObservedTopic | None) -> Plan:
    """Return the steps before the object ``topic`` may go.

    Only the very topic that this object looked after is deleted: one of the same name that somebody made since then has
    another id, and is kept.
    """
    if topic.deletes_topic and observed is not None and observed.topic_id == topic.known_topic_id:
        return Plan((DeleteTopic(topic.topic_name),))
    return Plan()


def retained(topic: Topic) -> Reached | None:
    """Return why the object ``topic`` may go without asking any broker; None when it may not.

    An object that never saw its topic has none to delete, so brokers that never came up do not keep it.
    """
    if not topic.deletes_topic:
        return Reached("Retained", f"topic {topic.topic_name} and its records stay: spec.deletionPolicy is Retain")
    if topic.known_topic_id is None:
        return Reached("Retained", f"topic {topic.topic_name} was never seen by this object")
    return None


def _refusal(topic: Topic, observed: ObservedTopic, brokers_wanted: int) -> Refused | None:
    if topic.partitions < observed.partitions:
        return Refused(
            "PartitionsCannotDecrease",
            f"topic {topic.topic_name} has {observed.partitions} partitions and the spec asks for {topic.partitions}; "
            f"Kafka cannot remove partitions: set spec.partitions to {observed.partitions} or more",
        )
    factor, view = topic.replication_factor, observed.view
    brokers = 0 if view is None else max(len(view.brokers), brokers_wanted)
    if factor is not None and view is not None and factor > brokers:
        return Refused(
            "ReplicationFactorTooLarge",
            f"the spec asks for {factor} replicas of topic {topic.topic_name}, and there are {brokers} "
            f"brokers; set spec.replicationFactor to {brokers} or less, or ask for more nodes",
        )
    return None


def _changes(topic: Topic, observed: ObservedTopic) -> list[Step]:
    steps: list[Step] = []
    upserts = {key: value for key, value in topic.config.items() if observed.config.get(key) != value}
    deletions = tuple(sorted(observed.config.keys() - topic.config.keys()))
    # Configs first: they are what a broker refuses, and then no partition has been added yet.
    if upserts or deletions:
        steps.append(AlterTopicConfigs(topic.topic_name, upserts, deletions))
    if topic.partitions > observed.partitions:
        steps.append(CreatePartitions(topic.topic_name, topic.partitions))
    return steps


def _moves(topic: Topic, view: ClusterView, brokers: Collection[int]) -> Plan:
    """Return the next moves towards the replication factor that the spec asks for, or how far those under way are."""
    factor = topic.replication_factor
    assert factor is not None, "only a factor that is asked for is looked at"
    live = [node for node in view.live_brokers if not brokers or node in brokers]
    load = Load(live, (partition.target for partition in view.partitions))
    room = MOVES_MAX - sum(partition.is_moving for partition in view.partitions)
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    for partition in view.partitions:
        if len(partition.target) == factor or len(targets) >= room:
            continue
        target = with_factor(partition.target, partition.isr, factor, load)
        if target is None:
            return Plan(obstacle=Waiting("BrokersMissing", f"{factor} brokers are needed, and {len(live)} are there"))
        targets[partition.partition] = target
    if targets:
        return Plan((ReassignPartitions(targets),))
    if not any(partition.is_moving for partition in view.partitions):
        return Plan()
    ready = sum(len(partition.target) == factor and not partition.is_moving for partition in view.partitions)
    message = f"{ready} of {len(view.partitions)} partitions have {factor} replicas, the others are on the move"
    return Plan(obstacle=Waiting("Reassigning", message))
