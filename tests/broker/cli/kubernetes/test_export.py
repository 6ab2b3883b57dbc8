"""``kubectl ottla export``: what has no object yet, for the Cluster and its namespace."""

from typing import Any

import pytest
import yaml

CLUSTERS = "clusters.ottla.dev"
NO_RULES = "brokers have no authorizer: users have no rules"


def member(kind: str, name: str, namespace: str = "default", cluster: str = "demo", **spec: Any) -> dict[str, Any]:
    reference = {"name": cluster, "namespace": "default"}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "ottla.dev/v1", "kind": kind, "metadata": metadata, "spec": {"clusterRef": reference, **spec}}


@pytest.fixture
def exported(kubectl_ottla: Any, forwarded: Any) -> Any:
    """Return a function that exports the topics and users of a cluster, and returns manifests and messages."""
    for name in ("free", "Managed", "far"):
        kubectl_ottla("topic", "create", name, "--if-not-exists")
    for name in ("alice", "bob"):
        kubectl_ottla("user", "add", name, "--password-stdin", stdin=b"secret\n")

    def export(*arguments: str) -> tuple[list[dict[str, Any]], list[str]]:
        code, out, err = kubectl_ottla("export", "--topics", "free|Managed|far", *arguments)
        assert code == 0, err
        return [it for it in yaml.safe_load_all(out) if it is not None], err.splitlines()

    return export


def names(documents: list[dict[str, Any]]) -> list[str]:
    return [it["metadata"]["name"] for it in documents]


def test_objects_are_of_the_cluster_and_its_namespace(exported: Any) -> None:
    documents, said = exported()

    assert [it.rpartition("-")[0] or it for it in names(documents)] == ["managed", "far", "free", "alice", "bob"]
    assert {it["metadata"]["namespace"] for it in documents} == {"default"}
    assert all(it["spec"]["clusterRef"] == {"name": "demo"} for it in documents)
    assert said == [NO_RULES, "left out, because they have an object: 0 topics, 0 users", "5 manifests"]


def test_object_of_another_namespace_refers_to_the_clusters(exported: Any) -> None:
    documents, _ = exported("--kind", "topic", "--namespace", "team-a")

    document = documents[-1]
    assert document["metadata"] == {"name": "free", "namespace": "team-a"}
    assert document["spec"]["clusterRef"] == {"name": "demo", "namespace": "default"}


@pytest.mark.parametrize("allowed", [["team-a"], ["*"]], ids=["named", "all"])
def test_what_has_an_object_is_left_out_and_its_name_is_not_used(
    exported: Any, forwarded: Any, allowed: list[str]
) -> None:
    cluster = forwarded.object(CLUSTERS, "demo")
    cluster["spec"]["allowedNamespaces"] = allowed
    forwarded.put(CLUSTERS, cluster)
    topics, users = "topics.ottla.dev", "users.ottla.dev"
    forwarded.put(topics, member("Topic", "m", topicName="Managed", partitions=1))
    forwarded.put(topics, member("Topic", "far", namespace="team-a", partitions=1))
    forwarded.put(topics, member("Topic", "free", cluster="another", partitions=1))
    forwarded.put(users, member("User", "alice", authentication={"type": "scram-sha-512"}))

    documents, said = exported()

    topic, user = documents
    assert topic["spec"]["topicName"] == "free"
    assert topic["metadata"]["name"].startswith("free-"), "the object free is of another Cluster"
    assert user["metadata"]["name"] == "bob"
    assert said == [NO_RULES, "left out, because they have an object: 2 topics, 1 users", "2 manifests"]


def test_object_of_a_namespace_that_is_not_allowed_does_not_count(exported: Any, forwarded: Any) -> None:
    forwarded.put("topics.ottla.dev", member("Topic", "far", namespace="team-a", partitions=1))

    assert "far" in names(exported()[0])
