"""The plan for a Topic: every step, and both sides of every edge."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.model.conditions import Refused
from ottla_operator.model.manifest import ObjectKey, Topic
from ottla_operator.reconcile.steps import AlterTopicConfigs, CreatePartitions, CreateTopic, DeleteTopic, Plan
from ottla_operator.reconcile.topic import ObservedTopic, plan_topic, plan_topic_deletion, retained

Builder = Callable[..., dict[str, Any]]


def observed(**fields: Any) -> ObservedTopic:
    return ObservedTopic(**{"topic_id": "id-1", "partitions": 6, "replication_factor": 1, "config": {}, **fields})


def test_missing_topic_is_created_as_specified(topic_manifest: Builder) -> None:
    topic = Topic.parse(topic_manifest(replicationFactor=2, config={"b": "2", "a": "1"}))

    assert plan_topic(topic, None) == Plan((CreateTopic("flights", 6, 2, {"a": "1", "b": "2"}),))


def test_replication_factor_is_left_to_the_brokers_when_absent(topic_manifest: Builder) -> None:
    assert plan_topic(Topic.parse(topic_manifest()), None) == Plan((CreateTopic("flights", 6, None, {}),))


def test_topic_name_of_the_spec_wins_over_the_objects(topic_manifest: Builder) -> None:
    topic = Topic.parse(topic_manifest(topicName="Flights_2013"))

    assert plan_topic(topic, None) == Plan((CreateTopic("Flights_2013", 6, None, {}),))


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


def test_partitions_grow(topic_manifest: Builder) -> None:
    plan = plan_topic(Topic.parse(topic_manifest(partitions=7)), observed(partitions=6))

    assert plan == Plan((CreatePartitions("flights", 7),))


def test_partitions_never_shrink(topic_manifest: Builder) -> None:
    plan = plan_topic(Topic.parse(topic_manifest(partitions=5, config={"a": "1"})), observed(partitions=6))

    assert not plan.steps
    assert isinstance(plan.obstacle, Refused)
    assert plan.obstacle.reason == "PartitionsCannotDecrease"
    assert "set spec.partitions to 6 or more" in plan.obstacle.message


@pytest.mark.parametrize("there", [1, 3])
def test_other_replication_factor_is_refused(topic_manifest: Builder, there: int) -> None:
    plan = plan_topic(Topic.parse(topic_manifest(replicationFactor=2)), observed(replication_factor=there))

    assert isinstance(plan.obstacle, Refused)
    assert plan.obstacle.reason == "ReplicationFactorFixed"
    assert f"set spec.replicationFactor to {there}" in plan.obstacle.message


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

    assert isinstance(plan.obstacle, Refused)
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
def test_objects_that_may_go_without_asking_brokers(
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
def test_deletion_takes_only_its_own_topic(
    topic_manifest: Builder, policy: str, known: str | None, there: ObservedTopic | None, is_deleted: bool
) -> None:
    manifest = topic_manifest(deletionPolicy=policy)
    if known:
        manifest["status"] = {"topicId": known}

    plan = plan_topic_deletion(Topic.parse(manifest), there)

    assert plan == (Plan((DeleteTopic("flights"),)) if is_deleted else Plan())
