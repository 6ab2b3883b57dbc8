"""Typed manifests: defaults, names and ids."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.types import parse_uuid
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.topic import Topic

Builder = Callable[..., dict[str, Any]]


def with_uid(manifest: dict[str, Any], uid: str) -> Cluster:
    manifest["metadata"]["uid"] = uid
    return Cluster.parse(manifest)


def test_cluster_id_follows_from_the_uid(cluster_manifest: Builder) -> None:
    first, again, other = (with_uid(cluster_manifest(), uid).cluster_id for uid in ("a", "a", "b"))

    assert first == again != other
    assert len(parse_uuid(first)) == 16


def test_cluster_id_can_be_typed_as_an_argument(cluster_manifest: Builder) -> None:
    ids = [with_uid(cluster_manifest(), str(number)).cluster_id for number in range(500)]

    assert not [it for it in ids if it.startswith("-")]
    assert len(set(ids)) == 500


def test_known_cluster_id_wins(cluster_manifest: Builder) -> None:
    cluster = Cluster.parse({**cluster_manifest(), "status": {"clusterId": "known"}})

    assert cluster.cluster_id == "known"


def test_configs_are_sorted(topic_manifest: Builder, cluster_manifest: Builder) -> None:
    assert list(Topic.parse(topic_manifest(config={"b": "1", "a": "2"})).config) == ["a", "b"]
    assert list(Cluster.parse(cluster_manifest(config={"b": "1", "a": "2"})).config) == ["a", "b"]


@pytest.mark.parametrize(("policy", "deletes"), [("Delete", True), ("Retain", False), (None, False)])
def test_only_delete_deletes(topic_manifest: Builder, policy: str | None, deletes: bool) -> None:
    spec = {} if policy is None else {"deletionPolicy": policy}

    assert Topic.parse(topic_manifest(**spec)).deletes_topic is deletes


def test_keys_print_as_people_name_them() -> None:
    assert str(ObjectKey("Topic", "default", "flights")) == "Topic default/flights"
    assert str(ObjectKey("Topic", "", "flights")) == "Topic flights"


def test_cluster_counts_its_nodes(cluster_manifest: Builder) -> None:
    assert Cluster.parse(cluster_manifest(nodes=1)).nodes == 1
