"""The environment of a Cluster's pods: clients from outside, Kubernetes nodes that are drained, network policies."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.alone

Document = dict[str, Any]

INSIDE: Document = {"name": "inside", "port": 9094}
PORTS: Document = {
    "name": "ports",
    "port": 9095,
    "tls": True,
    "authentication": {"type": "scram-sha-512"},
    "type": "nodeport",
}
BALANCERS: Document = {"name": "balancers", "port": 9096, "tls": True, "type": "loadbalancer"}
BALANCED = ("demo-balancers-bootstrap", *(f"demo-main-{number}-balancers" for number in range(3)))


class Outside:
    """A cluster in the module's namespace, and a client that is no pod: this process."""

    def __init__(self, namespace: Any, folder: Path) -> None:
        self.namespace = namespace
        self._file = folder / "alice.properties"

    def declare(self, *listeners: Document, **more: Any) -> None:
        pools = [{"name": "main", "nodes": 3, "storage": {"size": "1Gi"}}]
        self.namespace.declare("Cluster", "demo", tls={}, listeners=list(listeners), pools=pools, **more)

    def become(self, *listeners: Document, **more: Any) -> None:
        self.declare(*listeners, **more)
        self.namespace.wait_ready("cluster.ottla.dev/demo")

    def ottla(self, *arguments: str, text: str = "") -> str:
        """Run the ottla command as alice, with the addresses of Kubernetes nodes."""
        self._file.write_text(self.namespace.secret("alice")["client.properties"])
        command = [sys.executable, "-m", "ottla", *arguments, "--command-config", str(self._file)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def addresses(self) -> dict[str, str]:
        listeners = self.namespace.get("cluster.ottla.dev", "demo")["status"]["listeners"]
        return {it["name"]: it["bootstrapServers"] for it in listeners}

    def port(self, service: str) -> int:
        port: int = self.namespace.get("service", service)["spec"]["ports"][0]["nodePort"]
        return port


@pytest.fixture(scope="module")
def outside(namespace: Any, tmp_path_factory: pytest.TempPathFactory) -> Outside:
    found = Outside(namespace, tmp_path_factory.mktemp("outside"))
    found.become(INSIDE, PORTS)
    namespace.declare("Topic", "ledger", partitions=6, replicationFactor=3)
    namespace.declare("User", "alice", authentication={"type": "scram-sha-512"})
    namespace.wait_ready("topic.ottla.dev/ledger", "user.ottla.dev/alice")
    return found


def test_client_outside_reaches_every_broker(outside: Outside) -> None:
    """Records go to six partitions, which all three brokers lead."""
    records = [f"outside-{number}" for number in range(60)]

    outside.ottla("produce", "ledger", text="\n".join(records) + "\n")

    assert set(records) <= set(outside.ottla("consume", "ledger", "-O", ":end").split())
    assert outside.addresses()["ports"].rpartition(":")[2] == str(outside.port("demo-ports-bootstrap"))


def test_deleted_service_gets_its_port_again_without_a_restart_of_pods(outside: Outside) -> None:
    before, uids = outside.port("demo-main-1-ports"), outside.namespace.uids()
    outside.namespace.kubectl("delete", "service", "demo-main-1-ports")

    # A change of the spec makes the operator reconcile at once.
    outside.become(INSIDE, PORTS, networkPolicy={})

    assert outside.port("demo-main-1-ports") == before
    assert outside.namespace.names("networkpolicies") == {"networkpolicy.networking.k8s.io/demo"}
    assert outside.namespace.uids() == uids


def test_machines_are_drained_one_after_the_other_and_nothing_is_lost(outside: Outside) -> None:
    records = [f"drained-{number}" for number in range(60)]
    outside.ottla("produce", "ledger", text="\n".join(records) + "\n")
    for pod in sorted(outside.namespace.uids()):
        machine, before = outside.namespace.machine(pod), outside.namespace.uids()[pod]
        try:
            outside.namespace.drain(machine, "--pod-selector=ottla.dev/cluster=demo")
        finally:
            outside.namespace.kubectl("uncordon", machine)
        assert outside.namespace.uids().get(pod) != before
    # The budget opens when all replicas have caught up, and Ready follows.
    outside.namespace.wait_for("jsonpath={.spec.maxUnavailable}=1", "poddisruptionbudget/demo")
    outside.namespace.wait_ready("cluster.ottla.dev/demo")

    assert set(records) <= set(outside.ottla("consume", "ledger", "-O", ":end").split())


def test_load_balancers_are_waited_for_by_name_while_others_are_served(outside: Outside) -> None:
    outside.declare(INSIDE, PORTS, BALANCERS)
    outside.namespace.wait_for(
        'jsonpath={.status.conditions[?(@.type=="Ready")].reason}=AddressUnknown', "cluster.ottla.dev/demo"
    )
    said = outside.namespace.condition("cluster.ottla.dev", "demo")["message"]
    outside.ottla("produce", "ledger", text="meanwhile\n")

    for number, service in enumerate(BALANCED):
        status = {"status": {"loadBalancer": {"ingress": [{"ip": f"192.0.2.{number}"}]}}}
        outside.namespace.kubectl("patch", "service", service, "--subresource=status", "-p", json.dumps(status))
    outside.namespace.wait_ready("cluster.ottla.dev/demo")

    assert "Service demo-balancers-bootstrap" in said
    assert outside.addresses()["balancers"] == "192.0.2.0:9096"
    assert "meanwhile" in outside.ottla("consume", "ledger", "-O", ":end").split()


def test_listener_takes_its_services_with_it(outside: Outside) -> None:
    outside.become(INSIDE, PORTS)

    services = outside.namespace.names("services", "ottla.dev/cluster=demo")
    assert not [name for name in services if "balancers" in name]
    assert "balancers" not in outside.addresses()
    assert outside.namespace.names("networkpolicies") == set()
