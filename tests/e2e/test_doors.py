"""The doors of a cluster on Kubernetes: a Secret opens the one it names, and nobody notices new certificates."""

import base64
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

Document = dict[str, Any]
SETTLE_S = 240
OVERLAP_S = 75
"""Longer than kubelets take to bring a new Secret to a pod that has mounted it."""

CLUSTER: Document = {
    "apiVersion": "ottla.dev/v1",
    "kind": "Cluster",
    "metadata": {"name": "demo"},
    "spec": {
        "tls": {},
        "listeners": [
            {"name": "passwords", "port": 9094, "tls": True, "authentication": {"type": "scram-sha-512"}},
            {"name": "certificates", "port": 9095, "tls": True, "authentication": {"type": "tls"}},
        ],
        "authorization": {},
        "pools": [{"name": "main", "nodes": 3, "storage": {"size": "1Gi"}}],
    },
}
TOPIC: Document = {
    "apiVersion": "ottla.dev/v1",
    "kind": "Topic",
    "metadata": {"name": "ledger"},
    "spec": {"clusterRef": {"name": "demo"}, "partitions": 3, "replicationFactor": 3},
}
ALL_OF_THE_LEDGER = [
    {"resource": {"type": "topic", "name": "ledger"}, "operations": ["Read", "Write", "Describe"]},
    {"resource": {"type": "cluster"}, "operations": ["IdempotentWrite"]},
]


class Doors:
    """A cluster whose doors are locked, in the module's namespace, and pods that mount the Secrets of its users."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace

    def add_user(self, name: str, authentication: str, rules: list[Document]) -> None:
        spec = {
            "clusterRef": {"name": "demo"},
            "authentication": {"type": authentication},
            "authorization": {"rules": rules},
        }
        metadata = {"name": name}
        self.namespace.apply({"apiVersion": "ottla.dev/v1", "kind": "User", "metadata": metadata, "spec": spec})
        self.namespace.wait_ready(f"user.ottla.dev/{name}")

    def secret(self, name: str) -> dict[str, str]:
        data = self.namespace.get("secret", name)["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def start(self, pod: str, user: str, script: str) -> None:
        """Start a pod that mounts the user's Secret and runs ``script``; the ottla command finds the cluster by it."""
        container = {
            "name": "client",
            "image": "ottla/broker:0.1.0",
            "command": ["sh", "-c", script],
            "env": [{"name": "OTTLA_COMMAND_CONFIG", "value": "/bindings/kafka/client.properties"}],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "kafka", "mountPath": "/bindings/kafka", "readOnly": True}],
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "kafka", "secret": {"secretName": user}}],
            "containers": [container],
        }
        self.namespace.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec})

    def finish(self, pod: str) -> str:
        """Wait until the pod has ended well and return what it said."""
        self.namespace.wait_for("jsonpath={.status.phase}=Succeeded", f"pod/{pod}")
        said: str = self.namespace.kubectl("logs", pod)
        return said

    def fail(self, pod: str) -> str:
        """Wait until the pod has ended in failure and return what it said."""
        self.namespace.wait_for("jsonpath={.status.phase}=Failed", f"pod/{pod}")
        said: str = self.namespace.kubectl("logs", pod)
        return said

    def stop(self, pod: str) -> None:
        """Let the pod's script come to its end, which it has not reached before."""
        phase = self.namespace.get("pod", pod)["status"]["phase"]
        assert phase == "Running", f"{pod}: {self.namespace.kubectl('logs', pod)}"
        self.namespace.kubectl("exec", pod, "--", "touch", "/tmp/stop")

    def read(self, pod: str, user: str) -> list[str]:
        self.start(pod, user, "ottla consume ledger -O :end")
        return self.finish(pod).split()

    def lives(self) -> dict[str, tuple[str, int]]:
        """Return, by pod of the cluster, its uid and how often its container was started anew."""
        found = json.loads(self.namespace.kubectl("get", "pods", "-l", "ottla.dev/cluster=demo", "-o", "json"))
        return {
            pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
            for pod in found["items"]
        }

    def ask_for_keys(self, revision: str) -> None:
        rotation = {"revision": revision, "overlapSeconds": OVERLAP_S}
        tls = {"clusterCa": {"rotation": rotation}, "clientsCa": {"rotation": rotation}}
        self.namespace.apply(CLUSTER | {"spec": CLUSTER["spec"] | {"tls": tls}})

    def eventually(self, claim: Callable[[], bool], what: str) -> None:
        """Wait until ``claim`` holds: kubelets bring files in their own time."""
        deadline_s = time.monotonic() + SETTLE_S
        while not claim():
            assert time.monotonic() < deadline_s, f"{what}\n{self.namespace.get('cluster.ottla.dev', 'demo')['status']}"
            time.sleep(1)


@pytest.fixture(scope="module")
def doors(namespace: Any) -> Doors:
    namespace.apply(CLUSTER, TOPIC)
    namespace.wait_ready("cluster.ottla.dev/demo", "topic.ottla.dev/ledger")
    found = Doors(namespace)
    found.add_user("alice", "scram-sha-512", ALL_OF_THE_LEDGER)
    found.add_user("bob", "scram-sha-512", [])
    found.add_user("carol", "tls", ALL_OF_THE_LEDGER)
    return found


@pytest.mark.parametrize(("user", "protocol", "port"), [("alice", "SASL_SSL", 9094), ("carol", "SSL", 9095)])
def test_secret_opens_the_door_it_names(doors: Doors, user: str, protocol: str, port: int) -> None:
    entries = doors.secret(user)
    doors.start(f"greets-{user}", user, f"echo {user}-was-here | ottla produce ledger")
    doors.finish(f"greets-{user}")

    assert (entries["securityProtocol"], entries["bootstrap-servers"].rpartition(":")[2]) == (protocol, str(port))
    assert f"{user}-was-here" in doors.read(f"reads-{user}", user)


def test_who_has_no_rules_is_denied(doors: Doors) -> None:
    doors.start("denied", "bob", "echo hello | ottla produce ledger")

    assert "this user may not do that with topic 'ledger'" in doors.fail("denied")
    assert "hello" not in doors.read("reads-after-bob", "alice")


def test_new_keys_of_both_authorities_disturb_nobody(doors: Doors) -> None:
    before, lives = {name: doors.secret(name) for name in ("alice", "carol")}, doors.lives()
    counting = "i=0; while [ ! -e /tmp/stop ]; do echo rotating-$i; i=$((i+1)); sleep 0.02; done"
    doors.start("writes-on", "alice", f"{counting} | ottla produce ledger")
    doors.start("writes-on-too", "carol", f"{counting.replace('rotating', 'turning')} | ottla produce ledger")
    doors.start(
        "knocks",
        "alice",
        "while [ ! -e /tmp/stop ]; do ottla topic list >/dev/null || { date; exit 1; }; done",
    )
    doors.namespace.wait_ready("pod/writes-on", "pod/writes-on-too", "pod/knocks")

    doors.ask_for_keys("2")
    changing = '{.status.conditions[?(@.type=="Ready")].reason}=AuthorityChanging'
    doors.namespace.wait_for(f"jsonpath={changing}", "cluster.ottla.dev/demo")
    assert doors.namespace.condition("cluster.ottla.dev", "demo")["status"] == "True", "everybody is served meanwhile"
    doors.eventually(
        lambda: (
            doors.secret("alice")["ca.crt"].count("BEGIN") == 1
            and doors.secret("alice")["ca.crt"] != before["alice"]["ca.crt"]
        ),
        "the old trust is over",
    )
    doors.namespace.wait_ready("cluster.ottla.dev/demo", "user.ottla.dev/carol")
    for pod in ("writes-on", "writes-on-too", "knocks"):
        doors.stop(pod)
        doors.finish(pod)
    records = doors.read("reads-it-all", "alice")
    for word in ("rotating", "turning"):
        numbers = sorted(int(it.rpartition("-")[2]) for it in records if re.match(f"{word}-", it))
        assert numbers == list(range(len(numbers))), "each record, once"
        assert numbers
    assert doors.secret("carol")["user.crt"] != before["carol"]["user.crt"]
    assert doors.lives() == lives, "no pod was restarted for a certificate"


def test_no_key_is_in_what_the_operator_says(doors: Doors, operator: Any) -> None:
    said = "\n".join(
        [
            operator.logs(),
            doors.namespace.kubectl("get", "events", "-o", "yaml"),
            doors.namespace.kubectl("get", "clusters.ottla.dev,users.ottla.dev,configmaps", "-o", "yaml"),
        ]
    )

    assert "PRIVATE KEY" not in said
    assert doors.secret("alice")["password"] not in said
    assert "Traceback" not in operator.logs()
