"""Admission without an API server: results of the CRDs of crds/, and messages that help."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla_operator.errors import ManifestError
from ottla_operator.model import schema

Document = dict[str, Any]
Builder = Callable[..., Document]

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_admission_leaves_the_manifest_alone(topic_manifest: Builder) -> None:
    manifest = topic_manifest()
    before = copy.deepcopy(manifest)

    admitted = schema.admit(manifest, {**manifest, "status": {"partitions": 6}})

    assert admitted == {**before, "status": {"partitions": 6}}
    assert manifest == before


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"partitions": 1}, id="one-partition"),
        pytest.param({"partitions": 100_000}, id="most-partitions"),
        pytest.param({"replicationFactor": 1}, id="least-replication-factor"),
        pytest.param({"replicationFactor": 32_767}, id="most-replication-factor"),
        pytest.param({"topicName": "A_b.c-9"}, id="every-kind-of-letter"),
        pytest.param({"topicName": "t" * 249}, id="longest-topic-name"),
        pytest.param({"config": {"retention.ms": "-1"}}, id="config-as-string"),
        pytest.param({"config": {}}, id="no-config"),
        pytest.param({"deletionPolicy": "Delete"}, id="deletion-policy"),
    ],
)
def test_topic_is_admitted(topic_manifest: Builder, spec: Document) -> None:
    assert schema.admit(topic_manifest(**spec))["spec"].items() >= spec.items()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"partitions": 0}, "spec.partitions: is 0; it must be at least 1", id="no-partitions"),
        pytest.param({"partitions": 100_001}, "at most 100000", id="too-many-partitions"),
        pytest.param({"partitions": "6"}, "must be of type integer", id="partitions-as-string"),
        pytest.param({"partitions": 1.5}, "must be of type integer", id="half-a-partition"),
        pytest.param({"partitions": True}, "must be of type integer", id="partitions-as-boolean"),
        pytest.param({"replicationFactor": 0}, "at least 1", id="no-replicas"),
        pytest.param({"replicationFactor": 32_768}, "at most 32767", id="too-many-replicas"),
        pytest.param({"topicName": ""}, "spec.topicName", id="empty-topic-name"),
        pytest.param({"topicName": "a/b"}, "must match", id="slash-in-topic-name"),
        pytest.param({"topicName": "t" * 250}, "spec.topicName", id="too-long-topic-name"),
        pytest.param({"topicName": ".."}, "cannot be named", id="topic-named-dots"),
        pytest.param({"config": {"a.b": 5}}, 'config[a.b]: is 5; it must be of type string, quote it: "5"', id="int"),
        pytest.param({"config": {"preallocate": True}}, "must be of type string", id="config-as-boolean"),
        pytest.param({"config": []}, "must be of type object", id="config-as-list"),
        pytest.param({"deletionPolicy": "Forget"}, "one of Retain, Delete", id="unknown-deletion-policy"),
        pytest.param({"retention": 5}, "known fields: clusterRef", id="unknown-field"),
        pytest.param({"clusterRef": {}}, "'name' is missing", id="reference-without-name"),
        pytest.param({"clusterRef": {"name": "a", "kind": "b"}}, "known fields: name", id="unknown-field-inside"),
    ],
)  # fmt: skip
def test_topic_is_rejected(topic_manifest: Builder, spec: Document, said: str) -> None:
    with pytest.raises(ManifestError) as raised:
        schema.admit(topic_manifest(**spec))

    assert said in str(raised.value)


@pytest.mark.parametrize("field", ["clusterRef", "partitions"])
def test_topic_without_a_required_field_is_rejected(topic_manifest: Builder, field: str) -> None:
    manifest = topic_manifest()
    del manifest["spec"][field]

    with pytest.raises(ManifestError, match=f"'{field}' is missing"):
        schema.admit(manifest)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"partitions": 6}, {"partitions": 6}, id="same-partitions"),
        pytest.param({"partitions": 6}, {"partitions": 7}, id="more-partitions"),
        pytest.param({}, {"topicName": "flights"}, id="the-default-name-spelled-out"),
        pytest.param({"replicationFactor": 3}, {"replicationFactor": 1}, id="replicas-of-a-topic-that-never-was"),
        pytest.param({"config": {"a": "1"}}, {}, id="config-removed"),
        pytest.param({"deletionPolicy": "Delete"}, {"deletionPolicy": "Retain"}, id="deletion-policy"),
    ],
)
def test_change_is_admitted(topic_manifest: Builder, before: Document, after: Document) -> None:
    stored = schema.admit(topic_manifest(**before))

    assert schema.admit(topic_manifest(**after), stored)["spec"].items() >= after.items()


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        pytest.param({"partitions": 6}, {"partitions": 5}, "spec.partitions", id="fewer-partitions"),
        pytest.param({}, {"topicName": "other"}, "spec.topicName", id="renamed"),
        pytest.param({"topicName": "other"}, {}, "spec.topicName", id="renamed-by-leaving-out"),
        pytest.param({}, {"clusterRef": {"name": "elsewhere"}}, "spec.clusterRef", id="moved"),
    ],
)
def test_change_is_rejected(topic_manifest: Builder, before: Document, after: Document, field: str) -> None:
    stored = schema.admit(topic_manifest(**before))

    with pytest.raises(ManifestError) as raised:
        schema.admit(topic_manifest(**after), stored)

    assert [violation.field for violation in raised.value.violations] == [field]


@pytest.mark.parametrize(
    ("seen", "asked", "is_admitted"),
    [
        pytest.param({"partitions": 0}, {"partitions": 2}, True, id="topic-was-never-made"),
        pytest.param({"partitions": 2}, {"partitions": 2}, True, id="down-to-what-there-is"),
        pytest.param({"partitions": 3}, {"partitions": 2}, False, id="below-what-there-is"),
        pytest.param({"replicationFactor": 1}, {"replicationFactor": 1}, True, id="replicas-that-there-are"),
        pytest.param({"replicationFactor": 1}, {"replicationFactor": 2}, True, id="other-replicas"),
    ],
)
def test_what_exists_decides_about_changes(
    topic_manifest: Builder, seen: Document, asked: Document, is_admitted: bool
) -> None:
    stored = {**schema.admit(topic_manifest(partitions=6)), "status": seen}
    manifest = topic_manifest(**{"partitions": 6, **asked})

    if is_admitted:
        assert schema.admit(manifest, stored)["status"] == seen
    else:
        with pytest.raises(ManifestError):
            schema.admit(manifest, stored)


@pytest.mark.parametrize(
    ("name", "is_admitted"),
    [
        pytest.param("a" * 32, True, id="32-letters"),
        pytest.param("a" * 33, False, id="33-letters"),
        pytest.param("a-9", True, id="dash-inside"),
        pytest.param("9a", False, id="digit-first"),
        pytest.param("a.b", False, id="dot"),
    ],
)
def test_cluster_name_fits_into_host_names(cluster_manifest: Builder, name: str, is_admitted: bool) -> None:
    if is_admitted:
        assert schema.admit(cluster_manifest(name))["metadata"]["name"] == name
    else:
        with pytest.raises(ManifestError, match="host names"):
            schema.admit(cluster_manifest(name))


@pytest.mark.parametrize("key", ["node.id", "listeners", "log.dirs", "controller.quorum.voters"])
def test_cluster_config_leaves_alone_what_the_operator_sets(cluster_manifest: Builder, key: str) -> None:
    with pytest.raises(ManifestError, match="set by the operator"):
        schema.admit(cluster_manifest(config={"num.partitions": "3", key: "1"}))


@pytest.mark.parametrize(
    ("factor", "least", "is_admitted"),
    [
        pytest.param("2", "2", True, id="as-many-as-must-be-in-sync"),
        pytest.param("2", "3", False, id="fewer-than-must-be-in-sync"),
        pytest.param("9", "10", False, id="numbers-are-no-texts"),
        pytest.param("10", "9", True, id="longer-numbers"),
        pytest.param(None, "3", True, id="factor-left-to-the-operator"),
        pytest.param("1", None, True, id="least-left-to-kafka"),
        pytest.param("-1", "3", True, id="what-is-no-count-is-a-matter-of-brokers"),
        pytest.param("1", "some", True, id="so-are-words"),
        pytest.param("1", "9999999999", True, id="so-are-numbers-that-are-none"),
    ],
)
def test_new_topics_can_have_as_many_replicas_as_must_be_in_sync(
    cluster_manifest: Builder, factor: str | None, least: str | None, is_admitted: bool
) -> None:
    given = {"default.replication.factor": factor, "min.insync.replicas": least}
    manifest = cluster_manifest(config={key: value for key, value in given.items() if value is not None})

    if is_admitted:
        assert schema.admit(manifest)["spec"] == manifest["spec"]
    else:
        with pytest.raises(ManifestError, match=r"raise default\.replication\.factor"):
            schema.admit(manifest)


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        pytest.param({"nodes": 0}, "at least one node must have the role broker", id="no-nodes"),
        pytest.param({"nodes": 2}, "an odd number", id="two-controllers"),
        pytest.param({"nodes": 101}, "at most 100", id="too-many-nodes"),
        pytest.param({"nodes": -1}, "at least 0", id="fewer-than-no-nodes"),
        pytest.param({"roles": ["broker"]}, "an odd number", id="no-controller"),
        pytest.param({"roles": ["controller"]}, "the role broker", id="no-broker"),
        pytest.param({"roles": []}, "spec.pools[0].roles", id="no-roles"),
        pytest.param({"roles": ["zookeeper"]}, "broker, controller", id="unknown-role"),
        pytest.param({"firstNodeId": -1}, "at least 0", id="negative-node-id"),
        pytest.param({"storage": {"size": "1 GB"}}, "must match", id="size-with-a-space"),
        pytest.param({"storage": {}}, "'size' is missing", id="no-size"),
        pytest.param({"resources": {"limits": {"memory": "lots"}}}, "must match", id="quantity-in-words"),
    ],
)
def test_pool_is_rejected(cluster_manifest: Builder, pool: Document, said: str) -> None:
    with pytest.raises(ManifestError) as raised:
        schema.admit(cluster_manifest(**pool))

    assert said in str(raised.value)


def test_quantities_may_be_numbers_or_strings(cluster_manifest: Builder) -> None:
    resources = {"limits": {"cpu": 2, "memory": "512Mi"}, "requests": {"cpu": "250m"}}

    assert schema.admit(cluster_manifest(resources=resources))["spec"]["pools"][0]["resources"] == resources


def test_pod_template_has_kubernetes_own_fields(cluster_manifest: Builder) -> None:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "nodeSelector": {"disk": "fast"},
        "affinity": {"nodeAffinity": {"anything": [1]}},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "priorityClassName": "high",
        "imagePullSecrets": [{"name": "registry"}],
        "terminationGracePeriodSeconds": 300,
    }
    manifest = cluster_manifest(template=template, spec={"rack": {"topologyKey": "zone"}, "deletionPolicy": "Delete"})

    assert schema.admit(manifest)["spec"]["pools"][0]["template"] == template
    with pytest.raises(ManifestError, match="hostNetwork"):
        schema.admit(cluster_manifest(template={**template, "hostNetwork": True}))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param({"apiVersion": "v1"}, "must be ottla.dev/v1", id="other-api"),
        pytest.param({"apiVersion": None}, "apiVersion: is None", id="no-api"),
        pytest.param({"kind": "Group"}, "must be Cluster or Topic or User", id="other-kind"),
        pytest.param({"kind": ["Topic"]}, "must be Cluster or Topic", id="kind-is-a-list"),
        pytest.param({"spec": None}, "must be of type object", id="no-spec"),
        pytest.param({"metadata": None}, "metadata: is None", id="no-metadata"),
        pytest.param({"metadata": {"name": "../a"}}, "metadata.name", id="name-is-a-path"),
        pytest.param({"metadata": {"name": "a", "labels": {"b": 1}}}, "metadata.labels.b", id="label-as-number"),
    ],
)  # fmt: skip
def test_document_is_rejected(topic_manifest: Builder, fields: Document, said: str) -> None:
    with pytest.raises(ManifestError) as raised:
        schema.admit({**topic_manifest(), **fields})

    assert said in str(raised.value)


def test_every_violation_is_named_at_once(topic_manifest: Builder) -> None:
    with pytest.raises(ManifestError) as raised:
        schema.admit(topic_manifest(partitions=0, replicationFactor=0))

    assert {violation.field for violation in raised.value.violations} == {"spec.partitions", "spec.replicationFactor"}


@pytest.mark.parametrize("kind", ["Cluster", "Topic"])
def test_short_names_do_not_shadow_those_of_other_kafka_operators(kind: str) -> None:
    names = schema.definition(kind)["spec"]["names"]

    assert not {"k", "kt", "ku", "knp", "kr"} & set(names["shortNames"])
    assert names["categories"] == ["ottla"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
def test_examples_are_admitted(path: Path) -> None:
    documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))

    assert [schema.admit(document)["kind"] for document in documents] == [document["kind"] for document in documents]


@pytest.mark.parametrize(
    ("rolling", "rejection"),
    [
        pytest.param({"parallelism": "Rack", "maxUnavailable": 3}, None, id="racks"),
        pytest.param({"parallelism": "Node"}, None, id="nodes"),
        pytest.param({"parallelism": "All"}, "spec.rolling.parallelism", id="unknown"),
        pytest.param({"maxUnavailable": 3}, "unless parallelism is Rack", id="several-without-racks"),
        pytest.param({"parallelism": "Rack", "maxUnavailable": 0}, "spec.rolling.maxUnavailable", id="none-at-a-time"),
    ],
)
def test_rolling_policy_is_admitted_or_rejected_with_a_message(
    cluster_manifest: Builder, rolling: Document, rejection: str | None
) -> None:
    manifest = cluster_manifest(spec={"rolling": rolling, "paused": True})
    if rejection is None:
        assert schema.admit(manifest)["spec"]["rolling"] == rolling
    else:
        with pytest.raises(ManifestError) as caught:
            schema.admit(manifest)
        assert rejection in str(caught.value)


@pytest.mark.parametrize("kind", ["cluster", "topic", "user"])
def test_definition_is_small(kind: str) -> None:
    assert (EXAMPLES.parent / "crds" / f"{kind}.yaml").stat().st_size < 40_000
