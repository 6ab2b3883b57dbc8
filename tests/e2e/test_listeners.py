"""Listeners of a cluster on Kubernetes: Secrets authenticate at the one they name; new certificates break no client."""

import re
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
    {"resource": {"type": "group", "name": "*"}, "operations": ["Read"]},
    {"resource": {"type": "cluster"}, "operations": ["IdempotentWrite"]},
]


class Listeners:
    """A cluster with authentication, in the module's namespace, and pods that mount the Secrets of its users."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace

    def add_user(self, name: str, authentication: str, rules: list[Document]) -> None:
        self.namespace.declare("User", name, authentication={"type": authentication}, authorization={"rules": rules})
        self.namespace.wait_ready(f"user.ottla.dev/{name}")

    def read(self, pod: str, user: str) -> list[str]:
        self.namespace.start_bound(pod, user, "ottla consume ledger -O :end")
        found: str = self.namespace.finish(pod)
        return found.split()

    def ask_for_keys(self, revision: str, overlap_s: int = OVERLAP_S) -> None:
        rotation = {"revision": revision, "overlapSeconds": overlap_s}
        tls = {"clusterCa": {"rotation": rotation}, "clientsCa": {"rotation": rotation}}
        self.namespace.apply(CLUSTER | {"spec": CLUSTER["spec"] | {"tls": tls}})

    def wait_trusted(self, authorities: int) -> None:
        """Wait until so many authorities are trusted by clients."""
        self.namespace.eventually(
            lambda: self.namespace.secret("alice")["ca.crt"].count("BEGIN") == authorities,
            f"{authorities} authorities are trusted",
            SETTLE_S,
        )


@pytest.fixture(scope="module")
def listeners(namespace: Any) -> Listeners:
    namespace.apply(CLUSTER, TOPIC)
    namespace.wait_ready("cluster.ottla.dev/demo", "topic.ottla.dev/ledger")
    found = Listeners(namespace)
    found.add_user("alice", "scram-sha-512", ALL_OF_THE_LEDGER)
    found.add_user("bob", "scram-sha-512", [])
    found.add_user("carol", "tls", ALL_OF_THE_LEDGER)
    return found


@pytest.mark.parametrize(("user", "protocol", "port"), [("alice", "SASL_SSL", 9094), ("carol", "SSL", 9095)])
def test_secret_authenticates_at_the_listener_it_names(
    listeners: Listeners, user: str, protocol: str, port: int
) -> None:
    entries = listeners.namespace.secret(user)
    listeners.namespace.start_bound(f"greets-{user}", user, f"echo {user}-was-here | ottla produce ledger")
    listeners.namespace.finish(f"greets-{user}")

    assert (entries["securityProtocol"], entries["bootstrap-servers"].rpartition(":")[2]) == (protocol, str(port))
    assert f"{user}-was-here" in listeners.read(f"reads-{user}", user)


def test_user_without_acls_is_denied(listeners: Listeners) -> None:
    listeners.namespace.start_bound("denied", "bob", "echo hello | ottla produce ledger")

    assert "this user may not do that with topic 'ledger'" in listeners.namespace.finish("denied", "Failed")
    assert "hello" not in listeners.read("reads-after-bob", "alice")


def test_new_keys_of_both_authorities_disturb_no_client(listeners: Listeners) -> None:
    before, lives = {name: listeners.namespace.secret(name) for name in ("alice", "carol")}, listeners.namespace.lives()
    counting = "i=0; while [ ! -e /tmp/stop ]; do echo rotating-$i; i=$((i+1)); sleep 0.02; done"
    listeners.namespace.start_bound("writes-on", "alice", f"{counting} | ottla produce ledger")
    listeners.namespace.start_bound(
        "writes-on-too", "carol", f"{counting.replace('rotating', 'turning')} | ottla produce ledger"
    )
    listeners.namespace.start_bound(
        "knocks",
        "alice",
        "while [ ! -e /tmp/stop ]; do ottla topic list >/dev/null || { date; exit 1; }; done",
    )
    listeners.namespace.wait_ready("pod/writes-on", "pod/writes-on-too", "pod/knocks")

    listeners.ask_for_keys("2")
    changing = '{.status.conditions[?(@.type=="Ready")].reason}=AuthorityChanging'
    listeners.namespace.wait_for(f"jsonpath={changing}", "cluster.ottla.dev/demo")
    assert listeners.namespace.condition("cluster.ottla.dev", "demo")["status"] == "True", (
        "everybody is served meanwhile"
    )
    listeners.wait_trusted(2)
    listeners.wait_trusted(1)
    assert listeners.namespace.secret("alice")["ca.crt"] != before["alice"]["ca.crt"]
    listeners.namespace.wait_ready("cluster.ottla.dev/demo", "user.ottla.dev/carol")
    for pod in ("writes-on", "writes-on-too", "knocks"):
        listeners.namespace.stop(pod)
    records = listeners.read("reads-it-all", "alice")
    for word in ("rotating", "turning"):
        numbers = sorted(int(it.rpartition("-")[2]) for it in records if re.match(f"{word}-", it))
        assert numbers == list(range(len(numbers))), "each record, once"
        assert numbers
    assert listeners.namespace.secret("carol")["user.crt"] != before["carol"]["user.crt"]
    assert listeners.namespace.lives() == lives, "no pod was restarted for a certificate"


def test_roll_while_keys_and_a_password_change_loses_nothing(
    listeners: Listeners, ledger: Callable[..., Any], watch_pods: Callable[..., Any]
) -> None:
    before = listeners.namespace.secret("alice")
    listeners.ask_for_keys("3", overlap_s=0)
    listeners.wait_trusted(2)
    book = ledger(listeners.namespace, "ledger", "alice")
    with watch_pods(listeners.namespace) as watch:
        listeners.namespace.change("cluster.ottla.dev", "demo", {"spec": {"config": {"num.partitions": "2"}}})
        listeners.namespace.eventually(lambda: watch.deleted, "a first pod is restarted")
        assert listeners.namespace.secret("alice")["ca.crt"].count("BEGIN") == 2, "the authorities change meanwhile"
        rotation = {"revision": "2", "overlapSeconds": 600}
        listeners.namespace.change("user.ottla.dev", "alice", {"spec": {"authentication": {"rotation": rotation}}})
        listeners.wait_trusted(1)
        listeners.namespace.wait_ready("cluster.ottla.dev/demo", "user.ottla.dev/alice", "user.ottla.dev/carol")
    book.check()

    assert len(watch.deleted) == len(set(watch.deleted)) == 3
    restarts = listeners.namespace.events("Cluster", "demo", "RestartNode")
    assert restarts == [f"restart node {name}: config num.partitions" for name in watch.deleted]
    assert watch.down_most == 1, watch.history
    after = listeners.namespace.secret("alice")
    assert all(after[entry] != before[entry] for entry in ("ca.crt", "password", "saslMechanism"))
    assert "alice-was-here" in listeners.read("reads-by-the-new-password", "alice")


def test_no_key_is_in_logs_events_and_status_of_the_operator(listeners: Listeners, operator: Any) -> None:
    said = "\n".join(
        [
            operator.logs(),
            listeners.namespace.kubectl("get", "events", "-o", "yaml"),
            listeners.namespace.kubectl("get", "clusters.ottla.dev,users.ottla.dev,configmaps", "-o", "yaml"),
        ]
    )

    assert "PRIVATE KEY" not in said
    assert listeners.namespace.secret("alice")["password"] not in said
    assert "Traceback" not in operator.logs()
