"""Plans one Topic, pure: from its spec and the observed topic to steps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ottla.client.assignment import Load, with_factor
from ottla.types import TopicPartition
from ottla_operator.model.conditions import Reached, Rejected, Waiting
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.topic import Topic
from ottla_operator.planning.cluster.throttling import LISTS
from ottla_operator.planning.plan import Plan, Step
from ottla_operator.planning.steps.topic import (
    MOVES_MAX,
    AdoptTopic,
    AlterTopicConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ReassignPartitions,
    TopicStep,
)
from ottla_operator.ports.broker_admin import NewTopic
from ottla_operator.ports.cluster_view import ClusterView


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """A topic as its brokers describe it."""

    topic_id: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]
    """Configs set on this topic, without inherited ones."""
    view: ClusterView | None = None
    """The brokers and this topic's partitions; None if no replica is missing and none has to move."""

    @property
    def moving(self) -> int:
        """Number of partitions that are being reassigned."""
        return 0 if self.view is None else sum(partition.is_moving for partition in self.view.partitions)


def plan_topic(
    topic: Topic,
    observed: ObservedTopic | None,
    *,
    claimed_by: ObjectKey | None = None,
    brokers: Collection[int] = (),
    moves_elsewhere: int = 0,
) -> Plan:
    """Return the steps that bring the topic to the spec of ``topic``.

    Args:
        topic: the manifest.
        observed: the topic of that name; None without one.
        claimed_by: an older Topic object with the same topic name in the same cluster; it wins.
        brokers: broker ids in the Cluster's spec, of which some may not run yet; replicas move to no others. Empty
            without a Cluster manifest: any broker will do.
        moves_elsewhere: partitions of other topics that are being reassigned.
    """
    if claimed_by is not None:
        message = f"topic {topic.topic_name} belongs to {claimed_by}, which is older; delete one of the two objects"
        return Plan(obstacle=Rejected("TopicClaimedElsewhere", message))
    if observed is None:
        new = NewTopic(
            name=topic.topic_name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=topic.config,
        )
        return Plan((CreateTopic(new),))
    rejection = _rejection(topic, observed, len(brokers))
    if rejection is not None:
        return Plan(obstacle=rejection)
    steps = _changes(topic, observed)
    if steps or observed.view is None:
        return Plan(tuple(steps))
    return _moves(topic, observed.view, brokers, MOVES_MAX - observed.moving - moves_elsewhere)


def adoption(topic: Topic, observed: ObservedTopic | None, steps: Sequence[TopicStep]) -> AdoptTopic | None:
    """Return the step by which ``topic`` adopts an existing topic; None if it does not.

    ``steps`` are the steps that follow: their changes are named before they are executed.
    """
    if observed is None or topic.saw_none or topic.known_topic_id == observed.topic_id:
        return None
    differences: list[str] = []
    for step in steps:
        match step:
            case AlterTopicConfigs(_, upserts, deletions):
                differences += [_difference(key, observed.config.get(key), value) for key, value in upserts.items()]
                differences += [_difference(key, observed.config.get(key), None) for key in deletions]
            case CreatePartitions(_, total):
                differences.append(f"{observed.partitions} partitions, which become {total}")
            case ReassignPartitions():
                differences.append(f"{observed.replication_factor} replicas, which become {topic.replication_factor}")
    return AdoptTopic(topic.topic_name, observed.partitions, observed.replication_factor, tuple(differences))


def _difference(key: str, before: str | None, after: str | None) -> str:
    becomes = "its default" if after is None else after
    return f"{key} is not set, and becomes {becomes}" if before is None else f"{key} is {before}, and becomes {becomes}"


def plan_topic_deletion(topic: Topic, observed: ObservedTopic | None) -> Plan:
    """Return the steps before the object ``topic`` may be removed.

    Only the very topic that this object managed is deleted: one of the same name that was created since then has
    another id, and is kept.
    """
    if topic.deletes_topic and observed is not None and observed.topic_id == topic.known_topic_id:
        return Plan((DeleteTopic(topic.topic_name),))
    return Plan()


def retained(topic: Topic) -> Reached | None:
    """Return why the object ``topic`` may be removed without any broker; None if it may not.

    An object that never observed its topic has none to delete, so brokers that never came up do not block it.
    """
    if not topic.deletes_topic:
        return Reached("Retained", f"topic {topic.topic_name} and its records stay: spec.deletionPolicy is Retain")
    if topic.known_topic_id is None:
        return Reached("Retained", f"topic {topic.topic_name} was never seen by this object")
    return None


def _rejection(topic: Topic, observed: ObservedTopic, brokers_wanted: int) -> Rejected | None:
    if topic.partitions < observed.partitions:
        return Rejected(
            "PartitionsCannotDecrease",
            f"topic {topic.topic_name} has {observed.partitions} partitions and the spec asks for {topic.partitions}; "
            f"Kafka cannot remove partitions: set spec.partitions to {observed.partitions} or more",
        )
    factor, view = topic.replication_factor, observed.view
    brokers = 0 if view is None else max(len(view.brokers), brokers_wanted)
    return more_replicas_than(brokers, topic) if factor is not None and view is not None and factor > brokers else None


def more_replicas_than(brokers: int, topic: Topic) -> Rejected:
    """Return the rejection of a spec with more replicas than there are brokers."""
    return Rejected(
        "ReplicationFactorTooLarge",
        f"the spec asks for {topic.replication_factor} replicas of topic {topic.topic_name}, and there are {brokers} "
        f"brokers; set spec.replicationFactor to {brokers} or less, or ask for more nodes",
    )


def _changes(topic: Topic, observed: ObservedTopic) -> list[Step]:
    steps: list[Step] = []
    upserts = {key: value for key, value in topic.config.items() if observed.config.get(key) != value}
    # Throttled-replica lists are set for a while, by the Cluster or an administrator that moves partitions.
    deletions = tuple(sorted(observed.config.keys() - topic.config.keys() - set(LISTS)))
    # Configs first: brokers may reject them, and then no partition has been added yet.
    if upserts or deletions:
        steps.append(AlterTopicConfigs(topic.topic_name, upserts, deletions))
    if topic.partitions > observed.partitions:
        steps.append(CreatePartitions(topic.topic_name, topic.partitions))
    return steps


def _moves(topic: Topic, view: ClusterView, brokers: Collection[int], capacity: int) -> Plan:
    """Return the next moves towards the replication factor of the spec, or the progress of those in progress.

    ``capacity`` is how many more partitions may be reassigned.
    """
    factor = topic.replication_factor
    assert factor is not None, "the view is requested only with a factor"
    live = [node for node in view.live_brokers if not brokers or node in brokers]
    load = Load(live, (partition.target for partition in view.partitions), view.racks)
    others = [partition for partition in view.partitions if len(partition.target) != factor]
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    for partition in others[: max(0, capacity)]:
        target = with_factor(partition.target, partition.isr, factor, load)
        if target is None:
            return Plan(obstacle=Waiting("BrokersMissing", f"{factor} brokers are needed, and {len(live)} are there"))
        targets[partition.partition] = target
    if targets:
        return Plan((ReassignPartitions(targets),))
    moving = sum(len(it.target) == factor and it.is_moving for it in view.partitions)
    if not others and not moving:
        return Plan()
    total = len(view.partitions)
    message = f"{total - len(others) - moving} of {total} partitions have {factor} replicas, " + (
        f"reassigning {moving}, {len(others)} have to wait" if others else "reassigning the others"
    )
    return Plan(obstacle=Waiting("Reassigning", message))
