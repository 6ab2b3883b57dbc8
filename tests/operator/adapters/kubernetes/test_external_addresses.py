"""Outside listeners on Kubernetes: Services are created, removed and restored, and nodes get advertised addresses."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from host_observations import observe, publish

from ottla.config.properties import parse_properties
from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.node_listeners import parse_advertised_listeners
from ottla_operator.model.nodes import DesiredCluster

Document = dict[str, Any]
Builder = Callable[..., Document]

MAIN = ("ConfigMap/demo-main", "StatefulSet/demo-main")


class World:
    """A host over an API server in memory, and the parts of Kubernetes that allocate addresses."""

    def __init__(self, api: Any, manifest: Builder) -> None:
        self.api = api
        self.host = KubernetesHost(api, "kafka", "ottla/broker:1")
        self._manifest = manifest
        self._ports = iter(range(30_000, 32_000))

    def cluster(self, *, nodes: int = 1, addresses: dict[str, str] | None = None, **listener: Any) -> Cluster:
        """Return a cluster with an internal listener and, if ``listener`` is given, another one, ``out``."""
        listeners: list[Document] = [{"name": "in", "port": 9094}]
        listeners += [{"name": "out", "port": 9095, "tls": True, **listener}] if listener else []
        manifest = self._manifest(spec={"tls": {}, "listeners": listeners}, nodes=nodes)
        manifest["metadata"] |= {"namespace": "kafka", "uid": "u-1"}
        known = [{"name": name, "bootstrapServers": text} for name, text in (addresses or {}).items()]
        manifest["status"] = {"clusterId": "AAAAAAAAAAAAAAAAAAAAAA", "initialControllers": [], "listeners": known}
        return Cluster.parse(manifest)

    def round(self, cluster: Cluster) -> tuple[str, ...]:
        """Observe, publish outdated objects, and let Kubernetes do its part; return the outdated names."""
        outdated = publish(self.host, cluster)
        for service in self.services():
            (port, *_) = service["spec"]["ports"]
            if service["spec"].get("type") == "NodePort" and "nodePort" not in port:
                port["nodePort"] = next(self._ports)
        return outdated

    def settle(self, cluster: Cluster) -> DesiredCluster:
        """Repeat until nothing is outdated."""
        for _ in range(4):
            if not self.round(cluster):
                return observe(self.host, cluster)[0]
        pytest.fail(f"{observe(self.host, cluster)[1].outdated} is outdated for ever")

    def services(self) -> list[Document]:
        return [it for key, it in self.api.stored.items() if key.kind == "Service"]

    def service(self, name: str) -> Document | None:
        found: Document | None = self.api.stored.get(ObjectKey("Service", "kafka", name))
        return found

    def remove(self, name: str, kind: str = "Service") -> None:
        del self.api.stored[ObjectKey(kind, "kafka", name)]

    def advertised_addresses(self, ordinal: int = 0) -> dict[str, str]:
        """Return the advertised addresses in the published configuration of a node."""
        data = self.api.stored[ObjectKey("ConfigMap", "kafka", "demo-main")]["data"]
        return parse_advertised_listeners(
            parse_properties(data[f"demo-main-{ordinal}.properties"])["advertised.listeners"]
        )


@pytest.fixture
def world(api: Any, cluster_manifest: Builder) -> World:
    return World(api, cluster_manifest)


def test_nodes_start_with_the_allocated_ports(world: World) -> None:
    cluster = world.cluster(nodes=3, type="nodeport")

    first, second = world.round(cluster), world.round(cluster)

    assert not set(MAIN) & set(first), "no pod is created before its advertised address is known"
    assert second == MAIN
    assert [world.advertised_addresses(number)["OUT"] for number in range(3)] == [":30001", ":30002", ":30003"]
    assert world.round(cluster) == ()
    assert observe(world.host, cluster)[1].outdated == ()


def test_pod_passes_the_host_address_to_the_node(world: World) -> None:
    world.settle(world.cluster(type="nodeport"))
    pod = world.api.stored[ObjectKey("StatefulSet", "kafka", "demo-main")]["spec"]["template"]["spec"]

    (broker,) = pod["containers"]
    assert broker["args"][-2:] == ["--override", "ottla.advertised.host=$(HOST_IP)"]
    assert {"fieldPath": "status.hostIP", "apiVersion": "v1"} in [it["valueFrom"]["fieldRef"] for it in broker["env"]]


def test_advertised_host_replaces_the_host_address(world: World) -> None:
    world.settle(world.cluster(type="nodeport", outside={"advertisedHost": "k.example"}))
    pod = world.api.stored[ObjectKey("StatefulSet", "kafka", "demo-main")]["spec"]["template"]["spec"]

    assert world.advertised_addresses()["OUT"] == "k.example:30001"
    assert "--override" not in pod["containers"][0]["args"]


def test_bootstrap_address_has_the_hosts_of_brokers(world: World) -> None:
    cluster = world.cluster(type="nodeport")
    labels = {"ottla.dev/broker": "true"}
    world.settle(cluster)
    desired, _ = observe(world.host, cluster)
    before = world.host.bootstrap_servers(desired, cluster.listeners[1])
    pod = {"kind": "Pod", "metadata": {"name": "demo-main-0", "labels": labels}, "status": {"hostIP": "10.0.0.1"}}
    world.api.put(pod)

    desired, _ = observe(world.host, cluster)

    assert before == ""
    assert world.host.bootstrap_servers(desired, cluster.listeners[1]) == "10.0.0.1:30000"
    assert world.host.bootstrap_servers(desired, cluster.listeners[0]) == "demo-bootstrap.kafka.svc:9094"
    assert {"10.0.0.1", "*.demo-nodes.kafka.svc"} < set(world.host.certificate_names(desired))


def test_nodes_do_not_wait_for_load_balancers(world: World) -> None:
    cluster = world.cluster(type="loadbalancer", outside={"loadBalancerClass": "fast", "annotations": {"a": "{node}"}})

    world.settle(cluster)

    assert "OUT" not in world.advertised_addresses(), "a listener is not open before its address is known"
    service, begin = world.service("demo-main-0-out"), world.service("demo-out-bootstrap")
    assert service is not None
    assert begin is not None
    assert (service["spec"]["type"], service["spec"]["loadBalancerClass"]) == ("LoadBalancer", "fast")
    assert (service["metadata"]["annotations"], begin["metadata"]["annotations"]) == ({"a": "0"}, {"a": "bootstrap"})


def test_address_of_a_load_balancer_changes_configuration_and_no_revision(world: World) -> None:
    cluster = world.cluster(type="loadbalancer")
    before = world.settle(cluster)
    for service in world.services():
        if service["spec"].get("type") == "LoadBalancer":
            service["status"] = {"loadBalancer": {"ingress": [{"hostname": f"{service['metadata']['name']}.example"}]}}

    assert world.round(cluster) == ("ConfigMap/demo-main",)

    after = observe(world.host, cluster)[0]
    assert world.advertised_addresses()["OUT"] == "demo-main-0-out.example:9095"
    assert [node.revision for node in after.nodes] == [node.revision for node in before.nodes]
    assert after.nodes[0].properties != before.nodes[0].properties


def test_new_node_changes_nothing_of_the_others(world: World) -> None:
    before = world.settle(world.cluster(nodes=1, type="nodeport"))

    after = world.settle(world.cluster(nodes=3, type="nodeport"))

    # Only the default replication factor depends on the number of brokers.
    assert {node.place.outside["out"] for node in after.nodes} == {":30001", ":30002", ":30003"}
    assert after.nodes[0].place == before.nodes[0].place


def test_recreated_service_keeps_its_port(world: World) -> None:
    world.settle(world.cluster(nodes=2, type="nodeport"))
    cluster = world.cluster(nodes=2, addresses={"out": "10.0.0.1:30000,10.0.0.2:30000"}, type="nodeport")
    for name in ("demo-main-1-out", "demo-out-bootstrap"):
        world.remove(name)
    world.api.writes.clear()

    assert world.round(cluster) == ("Service/demo-out-bootstrap", "Service/demo-main-1-out")

    begin, service = world.service("demo-out-bootstrap"), world.service("demo-main-1-out")
    assert begin is not None
    assert service is not None
    assert (begin["spec"]["ports"][0]["nodePort"], service["spec"]["ports"][0]["nodePort"]) == (30_000, 30_002)
    assert world.round(cluster) == ()


def test_port_taken_by_another_service_is_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = world.cluster(type="nodeport")
    world.settle(cluster)
    world.remove("demo-main-0-out")
    apply = world.api.apply

    async def reject(document: Document) -> Document:
        if document["spec"]["ports"][0].get("nodePort") == 30_001:
            raise ApiError(422, "Invalid", "provided port is already allocated")
        written: Document = await apply(document)
        return written

    monkeypatch.setattr(world.api, "apply", reject)
    assert world.round(cluster) == ("Service/demo-main-0-out",)
    monkeypatch.undo()

    world.settle(cluster)
    assert world.advertised_addresses()["OUT"] == ":30002"


def test_rejection_that_is_not_about_a_port_is_raised(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = world.cluster(type="loadbalancer")

    async def reject(_: Document) -> Document:
        raise ApiError(422, "Invalid", "loadBalancerClass: unknown")

    monkeypatch.setattr(world.api, "apply", reject)
    with pytest.raises(ApiError, match="loadBalancerClass"):
        world.round(cluster)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({}, id="listener-is-removed"),
        pytest.param({"type": "internal"}, id="listener-becomes-internal"),
    ],
)
def test_services_are_removed_with_their_listener(world: World, after: Document) -> None:
    world.settle(world.cluster(nodes=2, type="nodeport"))

    world.settle(world.cluster(nodes=2, **after))

    assert {it["metadata"]["name"] for it in world.services()} == {"demo-nodes", "demo-bootstrap"}


def test_service_of_a_broker_is_removed_after_the_broker(world: World) -> None:
    world.settle(world.cluster(nodes=3, type="nodeport"))
    fewer = world.cluster(nodes=1, type="nodeport")

    leaving = asyncio.run(world.host.desired(fewer, ["demo-main-2"]))
    kept = asyncio.run(world.host.observe(leaving)).outdated
    gone = world.round(fewer)

    assert not [it for it in kept if it.startswith("no ")]
    assert [it for it in gone if it.startswith("no ")] == ["no Service/demo-main-1-out", "no Service/demo-main-2-out"]
    assert world.service("demo-main-2-out") is None
    assert world.service("demo-main-0-out") is not None


def test_type_of_a_listener_changes_in_place(world: World) -> None:
    world.settle(world.cluster(type="nodeport"))

    world.settle(world.cluster(type="loadbalancer", outside={"advertisedHost": "{node}.example"}))

    assert world.advertised_addresses()["OUT"] == "0.example:9095"


def test_bootstrap_service_inside_has_no_outside_ports(world: World) -> None:
    world.settle(world.cluster(type="nodeport"))
    service = world.service("demo-bootstrap")

    assert service is not None
    assert [it["name"] for it in service["spec"]["ports"]] == ["in", "nodes"]
