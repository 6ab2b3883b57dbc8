"""Users on Kubernetes: a Secret that a pod can mount, rules and passwords that brokers know, and nothing left."""

import json
from typing import Any

import pytest
import yaml

Document = dict[str, Any]
BOOTSTRAP = "demo-bootstrap:9092"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Locked:
    """A cluster with an authorizer, in the module's namespace, where ANONYMOUS is a super user."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace

    def user(self, name: str, **spec: Any) -> Document:
        rules = [{"resource": {"type": "topic", "name": "greetings"}, "operations": ["Read", "Describe"]}]
        return {
            "apiVersion": "ottla.dev/v1",
            "kind": "User",
            "metadata": {"name": name},
            "spec": {
                "clusterRef": {"name": "demo"},
                "authentication": {"type": "scram-sha-512"},
                "authorization": {"rules": rules},
                **spec,
            },
        }

    def apply(self, document: Document) -> None:
        """Apply it, and wait until the operator has observed its generation."""
        self.namespace.apply(document)
        reference = f"user.ottla.dev/{document['metadata']['name']}"
        generation = self.namespace.get("user.ottla.dev", document["metadata"]["name"])["metadata"]["generation"]
        self.namespace.wait_for(f"jsonpath={{.status.observedGeneration}}={generation}", reference)
        self.namespace.wait_ready(reference)

    def known(self, name: str) -> list[Document]:
        """Return the user's entries, credentials and quotas in the brokers."""
        found = [it for kind in ("acl", "user", "quota") for it in self.namespace.ask(kind, "list")]
        return [it for it in found if name in json.dumps(it)]


@pytest.fixture(scope="module")
def locked(namespace: Any) -> Locked:
    with open("examples/cluster.yaml", encoding="utf-8") as file:
        cluster: Document = yaml.safe_load(file)
    cluster["spec"]["config"] |= {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    namespace.apply(cluster)
    namespace.start_client()
    namespace.wait_ready("cluster.ottla.dev/demo")
    return Locked(namespace)


def test_user_authenticates_and_its_secret_has_the_binding_form(locked: Locked) -> None:
    locked.apply(locked.user("alice", quotas={"producerByteRate": 1000}))

    secret, entries = locked.namespace.get("secret", "alice"), locked.namespace.secret("alice")
    assert secret["type"] == "servicebinding.io/kafka"
    assert secret["metadata"]["ownerReferences"][0]["kind"] == "User"
    assert entries["bootstrap-servers"] == f"demo-bootstrap.{locked.namespace.name}.svc:9092"
    assert {"password", "sasl.jaas.config", "client.properties", "librdkafka.json"} <= entries.keys()
    assert len(locked.known("alice")) == 4, "two entries, a password and a limit"


def test_pod_finds_the_cluster_by_the_secret_that_it_mounts(locked: Locked) -> None:
    locked.apply(locked.user("mounted"))
    by_address_alone = 'unset OTTLA_COMMAND_CONFIG; ottla topic list -b "$(cat /bindings/kafka/bootstrap-servers)"'
    locked.namespace.start_bound("mounting", "mounted", by_address_alone)

    assert "greetings" not in locked.namespace.finish("mounting"), "nobody has made that topic"


def test_new_revision_creates_another_password(locked: Locked) -> None:
    locked.apply(locked.user("rotating"))
    before = locked.namespace.secret("rotating")["password"]
    locked.apply(locked.user("rotating", authentication={"type": "scram-sha-512", "rotation": {"revision": "2"}}))

    assert locked.namespace.secret("rotating")["password"] != before


def test_fewer_rules_are_fewer_entries(locked: Locked) -> None:
    locked.apply(locked.user("restricted"))
    locked.apply(locked.user("restricted", authorization={"rules": []}))

    assert len(locked.known("restricted")) == 1, "its password"


def test_second_user_with_the_same_name_is_stalled(locked: Locked) -> None:
    locked.apply(locked.user("first", userName="shared"))
    locked.namespace.apply(locked.user("second", userName="shared"))
    locked.namespace.wait_for("condition=Stalled", "user.ottla.dev/second")

    assert locked.namespace.condition("user.ottla.dev", "second")["reason"] == "UserClaimedElsewhere"


def test_deleted_user_leaves_nothing(locked: Locked) -> None:
    locked.apply(locked.user("leaving", quotas={"consumerByteRate": 1000}))
    locked.namespace.kubectl("delete", "user.ottla.dev", "leaving", "--timeout=60s")

    assert locked.known("leaving") == []
    assert "secret/leaving" not in locked.namespace.names("secret")


def test_kubectl_get_shows_the_state_of_users(locked: Locked) -> None:
    locked.apply(locked.user("shown"))
    users = locked.namespace.kubectl("get", "user.ottla.dev", "shown").splitlines()

    assert users[0].split() == ["NAME", "CLUSTER", "AUTHENTICATION", "READY", "REASON", "AGE"]
    assert users[1].split()[:5] == ["shown", "demo", "scram-sha-512", "True", "AsSpecified"]


def test_no_password_is_in_logs_events_and_status_of_the_operator(locked: Locked, operator: Any) -> None:
    locked.apply(locked.user("quiet"))
    said = "\n".join(
        [
            operator.logs(),
            locked.namespace.kubectl("get", "events", "-o", "yaml"),
            locked.namespace.kubectl("get", "users.ottla.dev", "-o", "yaml"),
        ]
    )

    assert "user quiet" in said
    assert locked.namespace.secret("quiet")["password"] not in said
    assert "Traceback" not in operator.logs()
