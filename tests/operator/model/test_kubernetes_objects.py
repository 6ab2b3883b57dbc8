"""The Kubernetes objects of a Cluster: a golden picture of all of them, and the promises that must not break.

After a change that is meant, write the picture again: OTTLA_REWRITE_GOLDEN=1 pytest tests/operator/model.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla_operator.model import kubernetes_objects
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import desired_cluster

Document = dict[str, Any]
Builder = Callable[..., Document]
GOLDEN = Path(__file__).parent / "golden" / "cluster-objects.yaml"


@pytest.fixture
def render(cluster_manifest: Builder) -> Callable[..., dict[str, Document]]:
    def build(**pool: Any) -> dict[str, Document]:
        manifest = cluster_manifest(config={"num.partitions": "3"}, **pool)
        manifest["metadata"].update({"namespace": "kafka", "uid": "00000000-0000-0000-0000-000000000001"})
        cluster = Cluster.parse(manifest)
        desired = desired_cluster(
            cluster, lambda pool, ordinal, _: kubernetes_objects.place(cluster, pool, ordinal), image="ottla/broker:1"
        )
        found = kubernetes_objects.objects(desired, "ottla/broker:1")
        return {f"{it['kind']}/{it['metadata']['name']}": it for it in found}

    return build


def test_objects_are_those_of_the_golden_picture(render: Callable[..., dict[str, Document]]) -> None:
    objects = list(render(resources={"requests": {"cpu": "250m"}, "limits": {"memory": "512Mi"}}).values())
    if os.environ.get("OTTLA_REWRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(yaml.safe_dump_all(objects, sort_keys=False))

    assert objects == list(yaml.safe_load_all(GOLDEN.read_text()))


def test_everything_but_the_volumes_goes_with_the_cluster(render: Callable[..., dict[str, Document]]) -> None:
    objects = render()

    for it in objects.values():
        (owner,) = it["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Cluster", "00000000-0000-0000-0000-000000000001")
    spec = objects["StatefulSet/demo-main"]["spec"]
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert "ownerReferences" not in spec["volumeClaimTemplates"][0]["metadata"]


def test_volumes_carry_the_cluster_id(render: Callable[..., dict[str, Document]]) -> None:
    stateful_set = render()["StatefulSet/demo-main"]["spec"]

    (claim,) = stateful_set["volumeClaimTemplates"]
    (formatting,) = stateful_set["template"]["spec"]["initContainers"]
    identity = claim["metadata"]["annotations"]["ottla.dev/cluster-id"]
    assert formatting["args"][formatting["args"].index("-t") + 1] == identity


def containers(pod: Document) -> Iterator[Document]:
    yield from pod["initContainers"]
    yield from pod["containers"]


def test_pods_pass_the_restricted_security_standard(render: Callable[..., dict[str, Document]]) -> None:
    pod = render()["StatefulSet/demo-main"]["spec"]["template"]["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(pod):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        pytest.param({"size": "1Gi"}, None, id="default-class"),
        pytest.param({"size": "1Gi", "storageClassName": "fast"}, "fast", id="named-class"),
    ],
)
def test_storage_class_is_named_only_when_asked_for(
    render: Callable[..., dict[str, Document]], storage: Document, expected: str | None
) -> None:
    (claim,) = render(storage=storage)["StatefulSet/demo-main"]["spec"]["volumeClaimTemplates"]

    assert claim["spec"].get("storageClassName") == expected
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}


def test_amounts_are_written_as_the_api_server_stores_them(render: Callable[..., dict[str, Document]]) -> None:
    resources = {"requests": {"cpu": 1, "memory": "1024Mi"}, "limits": {"cpu": "1500m", "memory": "2048Mi"}}
    spec = render(resources=resources, storage={"size": "10240Mi"})["StatefulSet/demo-main"]["spec"]

    for container in containers(spec["template"]["spec"]):
        assert container["resources"] == {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {"cpu": "1500m", "memory": "2Gi"},
        }
    assert spec["volumeClaimTemplates"][0]["spec"]["resources"] == {"requests": {"storage": "10Gi"}}


def test_resources_are_absent_when_not_asked_for(render: Callable[..., dict[str, Document]]) -> None:
    pod = render()["StatefulSet/demo-main"]["spec"]["template"]["spec"]

    assert all("resources" not in container for container in containers(pod))


def test_each_pod_finds_its_own_configuration(render: Callable[..., dict[str, Document]]) -> None:
    objects = render()

    assert list(objects["ConfigMap/demo-main"]["data"]) == ["demo-main-0.properties"]
    (broker,) = objects["StatefulSet/demo-main"]["spec"]["template"]["spec"]["containers"]
    assert broker["args"] == ["run", "--config", "/etc/ottla/$(POD_NAME).properties"]


def several_pools(leaving: tuple[str, ...] = ()) -> dict[str, Document]:
    pools = [
        {"name": "quorum", "nodes": 3, "roles": ["controller"], "firstNodeId": 100, "storage": {"size": "1Gi"}},
        {"name": "main", "nodes": 3, "roles": ["broker"], "storage": {"size": "1Gi"}},
        {"name": "empty", "nodes": 0, "roles": ["broker"], "firstNodeId": 50, "storage": {"size": "1Gi"}},
    ]
    metadata = {"name": "demo", "namespace": "kafka", "uid": "u"}
    cluster = Cluster.parse({"kind": "Cluster", "metadata": metadata, "spec": {"pools": pools}})
    desired = desired_cluster(
        cluster, lambda pool, ordinal, _: kubernetes_objects.place(cluster, pool, ordinal), leaving=leaving
    )
    return {f"{it['kind']}/{it['metadata']['name']}": it for it in kubernetes_objects.objects(desired, "image")}


@pytest.mark.parametrize(
    ("leaving", "replicas"),
    [
        pytest.param((), {"quorum": 3, "main": 3, "empty": 0}, id="as-asked"),
        pytest.param(("demo-main-4",), {"quorum": 3, "main": 5, "empty": 0}, id="with-those-that-are-drained"),
    ],
)
def test_pool_has_as_many_pods_as_have_to_run(leaving: tuple[str, ...], replicas: dict[str, int]) -> None:
    objects = several_pools(leaving)

    assert {name: objects[f"StatefulSet/demo-{name}"]["spec"]["replicas"] for name in replicas} == replicas
    configured = objects["ConfigMap/demo-main"]["data"]
    assert list(configured) == [f"demo-main-{number}.properties" for number in range(replicas["main"])]


def test_clients_reach_brokers_only() -> None:
    objects = several_pools()
    selector = objects["Service/demo-bootstrap"]["spec"]["selector"]

    def is_reached(pool: str) -> bool:
        labels = objects[f"StatefulSet/demo-{pool}"]["spec"]["template"]["metadata"]["labels"]
        return bool(selector.items() <= labels.items())

    assert (is_reached("main"), is_reached("quorum")) == (True, False)


@pytest.mark.parametrize(("pool", "ports"), [("main", ["kafka", "http"]), ("quorum", ["controller", "http"])])
def test_pod_has_the_ports_of_its_roles(pool: str, ports: list[str]) -> None:
    pod = several_pools()[f"StatefulSet/demo-{pool}"]["spec"]["template"]["spec"]

    assert [port["name"] for port in pod["containers"][0]["ports"]] == ports
