"""The doors of a cluster on Kubernetes: a Secret opens the one it names, and nobody notices new certificates."""

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


class Doors:
    """A cluster whose doors are locked, in the module's namespace, and pods that mount the Secrets of its users."""

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
    entries = doors.namespace.secret(user)
    doors.namespace.start_bound(f"greets-{user}", user, f"echo {user}-was-here | ottla produce ledger")
    doors.namespace.finish(f"greets-{user}")

    assert (entries["securityProtocol"], entries["bootstrap-servers"].rpartition(":")[2]) == (protocol, str(port))
    assert f"{user}-was-here" in doors.read(f"reads-{user}", user)


def test_who_has_no_rules_is_denied(doors: Doors) -> None:
    doors.namespace.start_bound("denied", "bob", "echo hello | ottla produce ledger")

    assert "this user may not do that with topic 'ledger'" in doors.namespace.finish("denied", "Failed")
    assert "hello" not in doors.read("reads-after-bob", "alice")


def test_new_keys_of_both_authorities_disturb_nobody(doors: Doors) -> None:
    before, lives = {name: doors.namespace.secret(name) for name in ("alice", "carol")}, doors.namespace.lives()
    counting = "i=0; while [ ! -e /tmp/stop ]; do echo rotating-$i; i=$((i+1)); sleep 0.02; done"
    doors.namespace.start_bound("writes-on", "alice", f"{counting} | ottla produce ledger")
    doors.namespace.start_bound(
        "writes-on-too", "carol", f"{counting.replace('rotating', 'turning')} | ottla produce ledger"
    )
    doors.namespace.start_bound(
        "knocks",
        "alice",
        "while [ ! -e /tmp/stop ]; do ottla topic list >/dev/null || { date; exit 1; }; done",
    )
    doors.namespace.wait_ready("pod/writes-on", "pod/writes-on-too", "pod/knocks")

    doors.ask_for_keys("2")
    changing = '{.status.conditions[?(@.type=="Ready")].reason}=AuthorityChanging'
    doors.namespace.wait_for(f"jsonpath={changing}", "cluster.ottla.dev/demo")
    assert doors.namespace.condition("cluster.ottla.dev", "demo")["status"] == "True", "everybody is served meanwhile"
    doors.wait_trusted(2)
    doors.wait_trusted(1)
    assert doors.namespace.secret("alice")["ca.crt"] != before["alice"]["ca.crt"]
    doors.namespace.wait_ready("cluster.ottla.dev/demo", "user.ottla.dev/carol")
    for pod in ("writes-on", "writes-on-too", "knocks"):
        doors.namespace.stop(pod)
    records = doors.read("reads-it-all", "alice")
    for word in ("rotating", "turning"):
        numbers = sorted(int(it.rpartition("-")[2]) for it in records if re.match(f"{word}-", it))
        assert numbers == list(range(len(numbers))), "each record, once"
        assert numbers
    assert doors.namespace.secret("carol")["user.crt"] != before["carol"]["user.crt"]
    assert doors.namespace.lives() == lives, "no pod was restarted for a certificate"


def test_roll_while_keys_and_a_password_change_loses_nothing(
    doors: Doors, ledger: Callable[..., Any], watch_pods: Callable[..., Any]
) -> None:
    before = doors.namespace.secret("alice")
    doors.ask_for_keys("3", overlap_s=0)
    doors.wait_trusted(2)
    book = ledger(doors.namespace, "ledger", "alice")
    with watch_pods(doors.namespace) as watch:
        doors.namespace.change("cluster.ottla.dev", "demo", {"spec": {"config": {"num.partitions": "2"}}})
        doors.namespace.eventually(lambda: watch.deleted, "a first pod is restarted")
        assert doors.namespace.secret("alice")["ca.crt"].count("BEGIN") == 2, "the authorities change meanwhile"
        rotation = {"revision": "2", "overlapSeconds": 600}
        doors.namespace.change("user.ottla.dev", "alice", {"spec": {"authentication": {"rotation": rotation}}})
        doors.wait_trusted(1)
        doors.namespace.wait_ready("cluster.ottla.dev/demo", "user.ottla.dev/alice", "user.ottla.dev/carol")
    book.check()

    assert len(watch.deleted) == len(set(watch.deleted)) == 3
    told = doors.namespace.events("Cluster", "demo", "RestartNode")
    assert told == [f"restart node {name}: config num.partitions" for name in watch.deleted]
    assert watch.down_most == 1, watch.history
    after = doors.namespace.secret("alice")
    assert all(after[entry] != before[entry] for entry in ("ca.crt", "password", "saslMechanism"))
    assert "alice-was-here" in doors.read("reads-by-the-new-password", "alice")


def test_no_key_is_in_what_the_operator_says(doors: Doors, operator: Any) -> None:
    said = "\n".join(
        [
            operator.logs(),
            doors.namespace.kubectl("get", "events", "-o", "yaml"),
            doors.namespace.kubectl("get", "clusters.ottla.dev,users.ottla.dev,configmaps", "-o", "yaml"),
        ]
    )

    assert "PRIVATE KEY" not in said
    assert doors.namespace.secret("alice")["password"] not in said
    assert "Traceback" not in operator.logs()
