"""The plan for a Topic: every step, and both sides of every edge."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.types import TopicPartition
from ottla_operator.model.conditions import Rejected, Waiting
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.topic import Topic
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.topic import (
    AlterTopicConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ReassignPartitions,
)
from ottla_operator.planning.topic.plan import ObservedTopic, plan_topic, plan_topic_deletion, retained
from ottla_operator.ports.broker_admin import NewTopic
from ottla_operator.ports.cluster_view import ClusterView, PartitionView

Builder = Callable[..., dict[str, Any]]


def observed(**fields: Any) -> ObservedTopic:
    return ObservedTopic(**{"topic_id": "id-1", "partitions": 6, "replication_factor": 1, "config": {}, **fields})


def creation(name: str, partitions: int, replication_factor: int | None, config: dict[str, str]) -> CreateTopic:
    return CreateTopic(NewTopic(name=name, partitions=partitions, replication_factor=replication_factor, config=config))


def test_missing_topic_is_created_as_specified(topic_manifest: Builder) -> None:
    topic = Topic.parse(topic_manifest(replicationFactor=2, config={"b": "2", "a": "1"}))

    assert plan_topic(topic, None) == Plan((creation("flights", 6, 2, {"a": "1", "b": "2"}),))


def test_replication_factor_is_left_to_the_brokers_when_absent(topic_manifest: Builder) -> None:
    assert plan_topic(Topic.parse(topic_manifest()), None) == Plan((creation("flights", 6, None, {}),))


def test_topic_name_of_the_spec_wins_over_the_objects(topic_manifest: Builder) -> None:
    topic = Topic.parse(topic_manifest(topicName="Flights_2013"))

    assert plan_topic(topic, None) == Plan((creation("Flights_2013", 6, None, {}),))


@pytest.mark.parametrize(
    ("spec", "there"),
    [
        pytest.param({}, {}, id="nothing-said-nothing-there"),
        pytest.param({"replicationFactor": 1}, {}, id="same-replication-factor"),
        pytest.param({}, {"replication_factor": 3}, id="replication-factor-not-asked-for"),
        pytest.param({"config": {"a": "1"}}, {"config": {"a": "1"}}, id="same-config"),
    ],
)
def test_topic_as_specified_needs_nothing(topic_manifest: Builder, spec: dict[str, Any], there: dict[str, Any]) -> None:
    assert plan_topic(Topic.parse(topic_manifest(**spec)), observed(**there)) == Plan()


def test_throttled_replicas_of_a_topic_are_left_alone(topic_manifest: Builder) -> None:
    there = observed(config={"leader.replication.throttled.replicas": "0:1", "a": "1"})

    plan = plan_topic(Topic.parse(topic_manifest()), there)

    assert plan == Plan((AlterTopicConfigs("flights", {}, ("a",)),))


def test_partitions_grow(topic_manifest: Builder) -> None:
    plan = plan_topic(Topic.parse(topic_manifest(partitions=7)), observed(partitions=6))

    assert plan == Plan((CreatePartitions("flights", 7),))


def test_partitions_never_shrink(topic_manifest: Builder) -> None:
    plan = plan_topic(Topic.parse(topic_manifest(partitions=5, config={"a": "1"})), observed(partitions=6))

    assert not plan.steps
    assert isinstance(plan.obstacle, Rejected)
    assert plan.obstacle.reason == "PartitionsCannotDecrease"
    assert "set spec.partitions to 6 or more" in plan.obstacle.message


def view(*partitions: PartitionView, live: int = 3, fenced: int = 0) -> ClusterView:
    brokers = {number: number >= live for number in range(live + fenced)}
    return ClusterView(cluster_id="c", brokers=brokers, controller_id=0, voters=(), partitions=partitions)


def partition(number: int, *replicas: int, isr: tuple[int, ...] | None = None, **moves: Any) -> PartitionView:
    return PartitionView(
        partition=TopicPartition("flights", number),
        leader=replicas[0],
        replicas=replicas,
        isr=replicas if isr is None else isr,
        **moves,
    )


class TestReplicationFactor:
    def plan(self, topic_manifest: Builder, factor: int, seen: ClusterView, **spec: Any) -> Plan:
        return plan_topic(Topic.parse(topic_manifest(replicationFactor=factor, **spec)), observed(view=seen))

    def test_replicas_are_added_where_there_are_fewest(self, topic_manifest: Builder) -> None:
        plan = self.plan(topic_manifest, 2, view(partition(0, 0), partition(1, 1), partition(2, 2)))

        targets = {TopicPartition("flights", 0): (0, 1), TopicPartition("flights", 1): (1, 0)}
        assert plan == Plan((ReassignPartitions({**targets, TopicPartition("flights", 2): (2, 0)}),))

    def test_fewer_replicas_keep_the_preferred_leader_and_who_is_in_sync(self, topic_manifest: Builder) -> None:
        seen = view(partition(0, 0, 1, 2, isr=(0, 2)), partition(1, 1, 2, 0))

        targets = {TopicPartition("flights", 0): (0, 2), TopicPartition("flights", 1): (1, 2)}
        assert self.plan(topic_manifest, 2, seen) == Plan((ReassignPartitions(targets),))

    def test_moves_in_progress_are_reported(self, topic_manifest: Builder) -> None:
        seen = view(partition(0, 0, 1), partition(1, 1, 2, isr=(1,), adding=(2,)))

        message = "1 of 2 partitions have 2 replicas, reassigning the others"
        assert self.plan(topic_manifest, 2, seen) == Plan(obstacle=Waiting("Reassigning", message))

    def test_replicas_that_lag_are_no_move(self, topic_manifest: Builder) -> None:
        assert self.plan(topic_manifest, 2, view(partition(0, 0, 1, isr=(0,)))) == Plan()

    def test_move_to_another_factor_is_replaced(self, topic_manifest: Builder) -> None:
        seen = view(partition(0, 0, 1, 2, isr=(0,), adding=(1, 2)))

        plan = self.plan(topic_manifest, 2, seen)

        assert plan == Plan((ReassignPartitions({TopicPartition("flights", 0): (0, 1)}),))

    @pytest.mark.parametrize("live", [3, 2])
    def test_more_replicas_than_brokers_are_rejected_or_waited_for(self, topic_manifest: Builder, live: int) -> None:
        rejected = self.plan(topic_manifest, 4, view(partition(0, 0), live=live, fenced=3 - live)).obstacle
        plan = self.plan(topic_manifest, 3, view(partition(0, 0), live=live, fenced=3 - live))

        assert isinstance(rejected, Rejected)
        assert rejected.reason == "ReplicationFactorTooLarge"
        assert "set spec.replicationFactor to 3 or less" in rejected.message
        assert bool(plan.steps) is (live == 3)
        assert isinstance(plan.obstacle, Waiting) is (live == 2)

    def test_replicas_are_added_only_on_brokers_that_the_cluster_asks_for(self, topic_manifest: Builder) -> None:
        topic = Topic.parse(topic_manifest(replicationFactor=2))
        seen = observed(view=view(partition(0, 0), partition(1, 0), live=3))

        leaving = plan_topic(topic, seen, brokers=(0, 2))
        missing = plan_topic(topic, observed(view=view(partition(0, 0), live=2)), brokers=(0, 2))

        targets = {TopicPartition("flights", 0): (0, 2), TopicPartition("flights", 1): (0, 2)}
        assert leaving == Plan((ReassignPartitions(targets),))
        assert missing == Plan(obstacle=Waiting("BrokersMissing", "2 brokers are needed, and 1 are there"))

    def test_brokers_that_are_still_to_come_are_waited_for(self, topic_manifest: Builder) -> None:
        topic = Topic.parse(topic_manifest(replicationFactor=3))
        seen = observed(view=view(partition(0, 0), live=1))

        assert isinstance(plan_topic(topic, seen, brokers=(0, 1, 2)).obstacle, Waiting)
        assert isinstance(plan_topic(topic, seen, brokers=(0, 1)).obstacle, Rejected)

    def test_other_changes_come_first(self, topic_manifest: Builder) -> None:
        plan = self.plan(topic_manifest, 2, view(partition(0, 0)), partitions=8)

        assert plan == Plan((CreatePartitions("flights", 8),))

    def test_at_most_100_partitions_are_reassigned_at_once(self, topic_manifest: Builder) -> None:
        moving = [partition(number, 0, 1, isr=(0,), adding=(1,)) for number in range(40)]
        waiting = [partition(number, 0) for number in range(40, 200)]

        (step,) = self.plan(topic_manifest, 2, view(*moving, *waiting)).steps

        assert isinstance(step, ReassignPartitions)
        assert len(step.targets) == 60


def test_configs_are_set_changed_and_put_back(topic_manifest: Builder) -> None:
    topic = Topic.parse(topic_manifest(config={"new": "1", "changed": "2", "same": "3"}))

    plan = plan_topic(topic, observed(config={"changed": "0", "same": "3", "z-gone": "4", "a-gone": "5"}))

    assert plan == Plan((AlterTopicConfigs("flights", {"changed": "2", "new": "1"}, ("a-gone", "z-gone")),))


def test_configs_come_before_partitions(topic_manifest: Builder) -> None:
    plan = plan_topic(Topic.parse(topic_manifest(partitions=9, config={"a": "1"})), observed())

    assert plan == Plan((AlterTopicConfigs("flights", {"a": "1"}, ()), CreatePartitions("flights", 9)))


@pytest.mark.parametrize("there", [None, observed(), observed(partitions=9)], ids=["missing", "there", "shrunk"])
def test_topic_of_an_older_object_is_left_alone(topic_manifest: Builder, there: ObservedTopic | None) -> None:
    plan = plan_topic(Topic.parse(topic_manifest()), there, claimed_by=ObjectKey("Topic", "default", "first"))

    assert isinstance(plan.obstacle, Rejected)
    assert plan.obstacle.reason == "TopicClaimedElsewhere"
    assert "Topic default/first" in plan.obstacle.message


@pytest.mark.parametrize(
    ("policy", "known", "is_retained"),
    [
        pytest.param("Retain", "id-1", True, id="policy"),
        pytest.param("Delete", None, True, id="never-seen"),
        pytest.param("Delete", "id-1", False, id="to-be-deleted"),
    ],
)
def test_objects_that_are_released_without_brokers(
    topic_manifest: Builder, policy: str, known: str | None, is_retained: bool
) -> None:
    topic = Topic.parse({**topic_manifest(deletionPolicy=policy), "status": {"topicId": known} if known else {}})

    assert (retained(topic) is not None) is is_retained


@pytest.mark.parametrize(
    ("policy", "known", "there", "is_deleted"),
    [
        pytest.param("Delete", "id-1", observed(), True, id="its-own-topic"),
        pytest.param("Delete", "id-0", observed(), False, id="another-topic-of-that-name"),
        pytest.param("Delete", None, observed(), False, id="never-looked-after"),
        pytest.param("Delete", "id-1", None, False, id="gone-already"),
        pytest.param("Retain", "id-1", observed(), False, id="retained"),
    ],
)
def test_deletion_deletes_only_the_managed_topic(
    topic_manifest: Builder, policy: str, known: str | None, there: ObservedTopic | None, is_deleted: bool
) -> None:
    manifest = topic_manifest(deletionPolicy=policy)
    if known:
        manifest["status"] = {"topicId": known}

    plan = plan_topic_deletion(Topic.parse(manifest), there)

    assert plan == (Plan((DeleteTopic("flights"),)) if is_deleted else Plan())
