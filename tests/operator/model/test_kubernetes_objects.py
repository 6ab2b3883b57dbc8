"""The Kubernetes objects of a Cluster: a golden file of all of them, and their invariants.

After an intended change, rewrite the golden file: OTTLA_REWRITE_GOLDEN=1 pytest tests/operator/model.
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
from ottla_operator.model.objects import addresses

Document = dict[str, Any]
Builder = Callable[..., Document]
GOLDEN = Path(__file__).parent / "golden" / "cluster-objects.yaml"


@pytest.fixture
def render(cluster_manifest: Builder) -> Callable[..., dict[str, Document]]:
    def build(spec: Document | None = None, **pool: Any) -> dict[str, Document]:
        manifest = cluster_manifest(config={"num.partitions": "3"}, spec=spec, **pool)
        manifest["metadata"].update({"namespace": "kafka", "uid": "00000000-0000-0000-0000-000000000001"})
        cluster = Cluster.parse(manifest)
        desired = desired_cluster(
            cluster, lambda pool, ordinal, _: kubernetes_objects.place(cluster, pool, ordinal), image="ottla/broker:1"
        )
        found = kubernetes_objects.objects(desired)
        return {f"{it['kind']}/{it['metadata']['name']}": it for it in found}

    return build


def test_objects_are_those_of_the_golden_picture(render: Callable[..., dict[str, Document]]) -> None:
    objects = list(render(resources={"requests": {"cpu": "250m"}, "limits": {"memory": "512Mi"}}).values())
    if os.environ.get("OTTLA_REWRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(yaml.safe_dump_all(objects, sort_keys=False))

    assert objects == list(yaml.safe_load_all(GOLDEN.read_text()))


def test_all_objects_but_volumes_are_deleted_with_the_cluster(render: Callable[..., dict[str, Document]]) -> None:
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
    return {f"{it['kind']}/{it['metadata']['name']}": it for it in kubernetes_objects.objects(desired)}


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


LOCKED: Document = {
    "tls": {},
    "listeners": [{"name": "plaintext", "port": 9092}, {"name": "clients", "port": 9094, "tls": True}],
}


def test_certificates_are_a_folder_that_pods_wait_for(render: Callable[..., dict[str, Document]]) -> None:
    pod = render(LOCKED)["StatefulSet/demo-main"]["spec"]["template"]["spec"]

    (volume,) = [it for it in pod["volumes"] if it["name"] == "tls"]
    # Readable by its owner and the group of the pod's user, writable by none.
    assert volume["secret"] == {"secretName": "demo-nodes", "defaultMode": 0o440}
    for container in containers(pod):
        mounts = {it["mountPath"]: it for it in container["volumeMounts"]}
        assert mounts["/etc/ottla-tls"] == {"name": "tls", "mountPath": "/etc/ottla-tls", "readOnly": True}
        # A read-only volume can hold no mount point.
        assert not [path for path in mounts if path.startswith("/etc/ottla/")]


def test_every_listener_has_its_port(render: Callable[..., dict[str, Document]]) -> None:
    objects = render(LOCKED)

    def ports(name: str) -> dict[str, int]:
        return {it["name"]: it["port"] for it in objects[f"Service/{name}"]["spec"]["ports"]}

    (broker,) = objects["StatefulSet/demo-main"]["spec"]["template"]["spec"]["containers"]
    opened = {it["name"]: it["containerPort"] for it in broker["ports"]}
    begin = {"kafka": 9092, "clients": 9094, "nodes": 9091}
    assert ports("demo-bootstrap") == begin
    assert ports("demo-nodes") == opened == {**begin, "controller": 9093, "http": 8080}


def test_controllers_have_no_listener_for_clients(render: Callable[..., dict[str, Document]]) -> None:
    pod = render(LOCKED, roles=["controller"])["StatefulSet/demo-main"]["spec"]["template"]["spec"]

    assert [it["name"] for it in pod["containers"][0]["ports"]] == ["controller", "http"]


def test_certificate_covers_every_address_of_a_node(cluster_manifest: Builder) -> None:
    manifest = cluster_manifest(spec=LOCKED)
    manifest["metadata"]["namespace"] = "kafka"
    cluster = Cluster.parse(manifest)

    names = addresses.certificate_names(cluster)

    host = kubernetes_objects.place(cluster, cluster.pools[0], 0).client_host
    assert f"*.{host.partition('.')[2]}" in names
    assert addresses.bootstrap_servers(cluster, 9094) == "demo-bootstrap.kafka.svc:9094"
    forms = ("", ".kafka", ".kafka.svc", ".kafka.svc.cluster.local")
    assert {f"demo-bootstrap{form}" for form in forms} < set(names)
    assert "*.demo-nodes.kafka.svc.cluster.local" in names
