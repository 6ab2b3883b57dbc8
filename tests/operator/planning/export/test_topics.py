"""Manifests of topics: valid, and their adoption changes nothing."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_operator.model import schema
from ottla_operator.model.topic import Topic
from ottla_operator.planning.export.exported import Destination
from ottla_operator.planning.export.names import object_names
from ottla_operator.planning.export.topics import TopicSource, export_topic
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.topic.plan import ObservedTopic, plan_topic

DEMO = Destination(cluster="demo")


def source(name: str = "flights", replicas: tuple[int, ...] = (3, 3), **config: str) -> TopicSource:
    return TopicSource(name=name, replicas=replicas, config={key.replace("_", "."): it for key, it in config.items()})


def spec(topic: TopicSource, name: str = "flights") -> Any:
    document = export_topic(topic, name, DEMO).document
    assert document is not None
    return schema.admit(document)["spec"]


def test_topic_has_its_partitions_replicas_and_own_configs() -> None:
    assert spec(source(retention_ms="60000", cleanup_policy="compact")) == {
        "clusterRef": {"name": "demo"},
        "partitions": 2,
        "replicationFactor": 3,
        "config": {"cleanup.policy": "compact", "retention.ms": "60000"},
    }


def test_name_of_the_topic_is_there_only_if_the_object_has_another() -> None:
    assert "topicName" not in spec(source())
    assert spec(source("Flights_1"), "flights-1-0") == {
        "clusterRef": {"name": "demo"},
        "topicName": "Flights_1",
        "partitions": 2,
        "replicationFactor": 3,
    }


@pytest.mark.parametrize(
    ("topic", "warning"),
    [
        pytest.param(source(replicas=(3, 2, 1)), "its partitions have 1 to 3 replicas", id="differ"),
        pytest.param(
            source(min_insync_replicas="4"), "its min.insync.replicas is 4, more than its 3 replicas", id="min-isr"
        ),
    ],
)
def test_factor_that_adoption_would_change_or_reject_is_left_out(topic: TopicSource, warning: str) -> None:
    assert "replicationFactor" not in spec(topic)
    assert export_topic(topic, "flights", DEMO).warnings == (f"topic flights has no replicationFactor here: {warning}",)


def test_factor_that_equals_min_isr_stays() -> None:
    assert spec(source(min_insync_replicas="3"))["replicationFactor"] == 3


def test_throttles_are_left_out_and_mentioned() -> None:
    topic = TopicSource(name="flights", replicas=(1,), config={"leader.replication.throttled.replicas": "0:1"})

    exported = export_topic(topic, "flights", DEMO)

    assert "config" not in spec(topic)
    assert exported.hints == (
        "leader.replication.throttled.replicas is left out: it is set while replicas move, and the operator leaves it",
    )


@pytest.mark.parametrize(
    ("replicas", "configs", "reason"),
    [
        pytest.param((), 0, "its brokers describe no partition", id="no-partition"),
        pytest.param((1,) * 100_001, 0, "it has 100001 partitions, and 100000 are the most", id="partitions"),
        pytest.param((1,), 101, "101 configs are set on it, and 100 are the most", id="configs"),
    ],
)
def test_topic_beyond_the_schema_has_no_manifest_and_a_warning(
    replicas: tuple[int, ...], configs: int, reason: str
) -> None:
    topic = TopicSource(name="flights", replicas=replicas, config={f"c{number}": "1" for number in range(configs)})

    exported = export_topic(topic, "flights", DEMO)

    assert exported.document is None
    assert exported.warnings == (f"topic flights has no manifest: {reason}",)


CONFIGS = st.dictionaries(
    st.sampled_from(["retention.ms", "cleanup.policy", "min.insync.replicas", "leader.replication.throttled.replicas"]),
    st.sampled_from(["1", "2", "-1", "compact,delete", "y", "", "0:1,1:2"]),
)
NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(lambda it: it not in (".", ".."))


@given(NAMES, st.lists(st.integers(1, 4), min_size=1, max_size=4), CONFIGS)
@settings(max_examples=60, deadline=None)
def test_adoption_of_any_topic_changes_nothing(name: str, replicas: list[int], config: dict[str, str]) -> None:
    topic = TopicSource(name=name, replicas=tuple(replicas), config=config)
    exported = export_topic(topic, object_names([name])[name], DEMO)
    assert exported.document is not None
    parsed = Topic.parse(schema.admit(exported.document))
    observed = ObservedTopic(
        topic_id="id", partitions=len(replicas), replication_factor=replicas[0], config=config, view=None
    )

    assert parsed.topic_name == name
    assert parsed.replication_factor in (None, *set(replicas))
    assert plan_topic(parsed, observed) == Plan()
