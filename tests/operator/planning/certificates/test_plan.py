"""Plans for the certificates of a cluster: what is written when, what is rejected, and what is waited for."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ottla_operator.model import certificates
from ottla_operator.model.certificates import CertificateIssuer, LeafRequest
from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.conditions import Rejected, Waiting
from ottla_operator.model.listeners import NODE_PORT, PLAINTEXT, IssuerRef, Listener, ListenerCertificate
from ottla_operator.model.manifest import Metadata
from ottla_operator.model.secret import Secret, ownership
from ottla_operator.planning.steps.certificate import OrderCertificate

Worlds = Callable[..., Any]
ISSUER = CertificateIssuer()
OTHER_CLUSTER = Metadata(kind="Cluster", name="other")
SECRETS = ["demo-cluster-ca", "demo-clients-ca", "demo-nodes", "demo-operator"]


@pytest.fixture
def world(new_world: Worlds) -> Any:
    made = new_world()
    made.start(nodes=2)
    return made


def own_root(world: Any, name: str = "mine") -> Secret:
    root = ISSUER.authority("mine", "root", now=world.now, days=100)
    return Secret(name=name, entries={"ca.crt": root.certificate, "ca.key": root.key or ""})


def node_leaf(world: Any) -> Any:
    return certificates.leaf_of(world.secrets["demo-nodes"].entries["node.pem"])


def named(world: Any) -> frozenset[str]:
    """Return the names in the nodes' certificate."""
    return certificates.facts(node_leaf(world).certificate).names


def written(world: Any) -> list[str]:
    return [step.secret.name for step in world.plan().steps]


def test_first_plan_writes_everything_and_the_second_nothing(new_world: Worlds) -> None:
    world = new_world()
    assert written(world) == SECRETS

    world.operate()

    assert world.plan().steps == ()
    assert world.plan().obstacle is None
    assert set(world.secrets["demo-nodes"].entries) == {"node.pem", "cluster-ca.crt", "clients-ca.crt"}
    said = certificates.facts(node_leaf(world).certificate)
    assert (said.subject, said.names) == ("CN=node", world.names)


def test_operator_has_what_a_client_needs(world: Any) -> None:
    properties = world.secrets["demo-operator"].entries["client.properties"]

    assert properties.startswith("bootstrap.servers=localhost:9091\nsecurity.protocol=SSL\n")
    assert "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\\n" in properties
    assert "ssl.truststore.certificates=-----BEGIN CERTIFICATE-----\\n" in properties


def test_status_has_expiry_times_and_no_secret(world: Any) -> None:
    said = world.plan().facts["certificates"]

    assert [(it["name"], it["notAfter"][:4]) for it in said] == [
        ("cluster-ca", "2030"),
        ("clients-ca", "2030"),
        ("nodes", "2027"),
        ("operator", "2027"),
    ]
    assert "BEGIN" not in str(said)


def test_nothing_is_printed_of_a_secret_that_is_written(new_world: Worlds) -> None:
    assert "BEGIN" not in repr(new_world().plan().steps)


@pytest.mark.parametrize(("days", "names"), [(334, []), (336, ["demo-nodes", "demo-operator"])], ids=["not-yet", "due"])
def test_certificates_are_renewed_so_long_before_they_end(world: Any, days: int, names: list[str]) -> None:
    world.now += timedelta(days=days)

    assert written(world) == names
    assert world.plan().obstacle is None


def test_certificate_that_ends_with_its_authority_is_not_replaced_for_nothing(new_world: Worlds) -> None:
    world = new_world()
    world.asks(cluster_ca=Authority(validity_days=10, renewal_days=2, overlap_s=0))
    world.start(nodes=1)
    world.now += timedelta(days=8, hours=1)

    plan = world.operate()
    assert isinstance(plan.obstacle, Waiting), "another authority is on its way"
    world.read(0)
    world.refresh("alice")

    assert written(world) == ["demo-cluster-ca"], "what was seen, and no certificate once more"


def test_authority_gets_another_key_before_it_ends(new_world: Worlds) -> None:
    world = new_world()
    world.asks(cluster_ca=Authority(validity_days=100, overlap_s=0))
    world.start(nodes=2)
    before = world.state("cluster").present.certificate
    world.now += timedelta(days=69)
    assert written(world) == []

    world.now += timedelta(days=2)
    world.settle()

    assert world.state("cluster").present.certificate != before
    assert written(world) == []


def test_authority_that_has_ended_is_replaced_at_once(world: Any) -> None:
    world.now += timedelta(days=2000)

    world.operate()

    assert not world.state("cluster").is_changing
    assert certificates.facts(world.state("cluster").present.certificate).not_after > world.now


def test_other_names_are_another_certificate_by_the_same_authority(world: Any) -> None:
    world.names |= {"another.example"}

    assert written(world) == ["demo-nodes"]


def test_host_addresses_stay_in_the_certificate_until_it_is_renewed(new_world: Worlds) -> None:
    """A pod that returns to a host would present a certificate without it, until the kubelet has updated the Secret."""
    world = new_world()
    world.cluster = replace(world.cluster, listeners=(Listener(name="ports", port=9095, has_tls=True, type=NODE_PORT),))
    world.names |= {"10.0.0.1", "10.0.0.2", "old.example"}
    world.operate()

    world.names = world.names - {"10.0.0.1", "old.example"} | {"10.0.0.3"}
    assert written(world) == ["demo-nodes"]
    world.operate()
    assert named(world) == world.names | {"10.0.0.1"}
    world.names -= {"10.0.0.2"}
    assert written(world) == []
    world.names |= {"10.0.0.1"}
    assert written(world) == []

    world.now += timedelta(days=336)
    world.operate()
    assert named(world) == world.names


def test_listeners_keep_former_host_addresses_as_nodes_do(new_world: Worlds) -> None:
    """No new certificate is requested from cert-manager for each drained Kubernetes node."""
    world = new_world()
    out = Listener(name="out", port=9095, has_tls=True, type=NODE_PORT)
    theirs = replace(out, name="mine", certificate=ListenerCertificate(issuer_ref=IssuerRef(name="acme")))
    world.cluster = replace(world.cluster, listeners=(out, theirs))
    world.listeners = {"mine": Secret(name="mine", entries=own_leaf(world))}
    world.names |= {"10.0.0.1", "10.0.0.2"}
    world.operate()

    world.names -= {"10.0.0.1"}
    world.ordered = frozenset()
    plan = world.plan()

    (order,) = [step.order for step in plan.steps if isinstance(step, OrderCertificate)]
    assert set(order.names) == world.names | {"10.0.0.1"}
    assert plan.names == {"out": world.names | {"10.0.0.1"}, "mine": {"x"}}, "the names of each listener"


def test_addresses_that_are_not_advertised_any_more_are_in_no_certificate(world: Any) -> None:
    world.names |= {"10.0.0.1"}
    world.operate()
    world.names -= {"10.0.0.1"}
    world.operate()

    assert named(world) == world.names


def test_node_that_is_waited_for_is_named(world: Any) -> None:
    world.asks(cluster_ca=Authority(rotation="2", overlap_s=0))
    world.operate()
    world.read(0)
    plan = world.plan()

    assert isinstance(plan.obstacle, Waiting)
    assert plan.obstacle.message == (
        "the cluster CA has another key, and both are trusted: waiting for node node-1 to show its new certificate"
    )
    assert plan.steps == ()


def test_user_that_is_waited_for_is_named(world: Any) -> None:
    world.asks(cluster_ca=Authority(rotation="2", overlap_s=0))
    world.operate()
    for number in range(2):
        world.read(number)

    obstacle = world.plan().obstacle
    assert isinstance(obstacle, Waiting)
    assert obstacle.message == (
        "the cluster CA has another key, and both are trusted: waiting until 2026-01-01T00:10:00Z for the "
        "Secret of User alice to trust the new one"
    )


@pytest.mark.parametrize("which", ["cluster_ca", "clients_ca"])
def test_clients_have_the_overlap_to_read_their_secrets(world: Any, which: str) -> None:
    world.asks(**{which: Authority(rotation="2", overlap_s=3600)})
    began = world.now
    world.settle(rounds=80)

    assert timedelta(hours=1) < world.now - began < timedelta(hours=1, minutes=10)


def test_own_authority_replaces_the_generated_one(world: Any) -> None:
    world.secrets["mine"] = own_root(world)
    world.asks(cluster_ca=Authority(secret_name="mine", overlap_s=0))
    world.settle()
    assert world.state("cluster").present.certificate == world.secrets["mine"].entries["ca.crt"]

    world.secrets["mine"] = own_root(world)
    world.settle()
    assert world.state("cluster").present.certificate == world.secrets["mine"].entries["ca.crt"]

    world.asks(cluster_ca=Authority(overlap_s=0))
    world.settle()
    assert world.state("cluster").present.certificate != world.secrets["mine"].entries["ca.crt"]


def test_own_authority_that_is_missing_is_waited_for(new_world: Worlds) -> None:
    world = new_world()
    world.asks(clients_ca=Authority(secret_name="mine", overlap_s=0))
    plan = world.plan()

    assert plan.steps == ()
    assert not plan.is_usable
    assert plan.obstacle == Waiting(
        "AuthorityMissing", "there is no Secret mine, which is to hold the authority (ca.crt, ca.key)"
    )


def test_own_authority_that_becomes_corrupt_does_not_stop_the_cluster(world: Any) -> None:
    world.secrets["mine"] = own_root(world)
    world.asks(cluster_ca=Authority(secret_name="mine", overlap_s=0))
    world.settle()
    world.secrets["mine"] = replace(world.secrets["mine"], entries={"ca.crt": "x", "ca.key": "y"})
    world.names |= {"another.example"}

    plan = world.operate()

    assert isinstance(plan.obstacle, Rejected)
    assert plan.is_usable
    assert [step.secret.name for step in plan.steps] == ["demo-nodes"], "the copy continues to sign"
    world.check()


def test_foreign_secret_is_left_alone(new_world: Worlds) -> None:
    world = new_world(secrets={"demo-nodes": Secret(name="demo-nodes", entries={})})
    plan = world.plan()

    assert plan.steps == ()
    assert not plan.is_usable
    assert isinstance(plan.obstacle, Rejected)
    assert plan.obstacle.message.startswith("Secret demo-nodes is not this Cluster's")


@pytest.mark.parametrize("which", ["cluster_ca", "clients_ca"])
def test_authority_of_another_cluster_is_rejected(world: Any, which: str) -> None:
    other = world.secrets["demo-cluster-ca"]
    world.secrets["other-cluster-ca"] = replace(other, name="other-cluster-ca", annotations=ownership(OTHER_CLUSTER))
    world.asks(**{which: Authority(secret_name="other-cluster-ca")})

    plan = world.operate()

    assert isinstance(plan.obstacle, Rejected)
    assert "Secret other-cluster-ca is the operator's own, for Cluster other" in plan.obstacle.message
    assert plan.steps == ()


@pytest.mark.parametrize(("which", "other"), [("clients_ca", "cluster"), ("cluster_ca", "clients")])
def test_client_cannot_be_a_node_by_a_copy_of_the_other_authority(world: Any, which: str, other: str) -> None:
    found = world.secrets[f"demo-{other}-ca"].entries
    world.secrets["copy"] = Secret(name="copy", entries={key: found[key] for key in ("ca.crt", "ca.key")})
    world.asks(**{which: Authority(secret_name="copy")})

    plan = world.operate()

    assert isinstance(plan.obstacle, Rejected)
    assert "could be taken for a node" in plan.obstacle.message
    assert plan.steps == ()


def test_new_cluster_with_identical_authorities_is_rejected(new_world: Worlds) -> None:
    world = new_world()
    world.secrets |= {"mine": own_root(world)}
    world.secrets["copy"] = replace(world.secrets["mine"], name="copy")
    world.asks(cluster_ca=Authority(secret_name="mine"), clients_ca=Authority(secret_name="copy"))

    plan = world.plan()

    assert isinstance(plan.obstacle, Rejected)
    assert not plan.is_usable


def test_certificate_of_a_clock_that_was_ahead_is_replaced(world: Any) -> None:
    world.now += timedelta(days=336)
    world.operate()
    world.now -= timedelta(days=335)

    assert written(world) == ["demo-nodes", "demo-operator"]


def test_lost_authority_and_lost_nodes_secret_are_created_again(world: Any) -> None:
    entries = {key: value for key, value in world.secrets["demo-cluster-ca"].entries.items() if key != "ca.key"}
    world.secrets["demo-cluster-ca"] = replace(world.secrets["demo-cluster-ca"], entries=entries)
    del world.secrets["demo-nodes"]

    world.operate()
    for number in range(2):
        world.read(number)
    world.refresh("alice")
    world.settle()


def test_restored_authority_is_introduced_like_a_new_one(world: Any) -> None:
    backup = world.secrets["demo-cluster-ca"]
    world.asks(cluster_ca=Authority(rotation="2", overlap_s=0))
    world.settle()
    world.secrets["demo-cluster-ca"] = backup

    plan = world.operate()
    world.check()

    assert isinstance(plan.obstacle, Waiting)
    world.settle()


def with_listener(world: Any, certificate: ListenerCertificate, secret: Mapping[str, str] | None) -> Any:
    listener = Listener(name="mine", port=9094, has_tls=True, certificate=certificate)
    world.cluster = replace(world.cluster, listeners=(listener,))
    world.listeners = {"mine": None if secret is None else Secret(name="mine", entries=secret)}
    return world


def own_leaf(world: Any) -> dict[str, str]:
    root = ISSUER.authority("mine", "root", now=world.now, days=100)
    leaf = ISSUER.leaf(root, LeafRequest(common_name="x", names=frozenset({"x"})), now=world.now, days=50)
    return {"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": root.certificate}


def test_listener_presents_the_certificate_of_the_user(new_world: Worlds) -> None:
    world = new_world()
    given = own_leaf(world)
    with_listener(world, ListenerCertificate(secret_name="mine"), given).operate()

    entries = world.secrets["demo-nodes"].entries
    assert entries["listener-mine.pem"] == given["tls.key"] + given["tls.crt"]
    assert entries["listener-mine-ca.crt"] == given["ca.crt"]
    assert world.plan().facts["certificates"][-1]["name"] == "listener-mine"


def test_listener_without_its_certificate_is_waited_for(new_world: Worlds) -> None:
    world = with_listener(new_world(), ListenerCertificate(secret_name="mine"), None)
    plan = world.plan()

    assert not plan.is_usable
    assert plan.obstacle == Waiting(
        "CertificateMissing", "there is no Secret mine with the certificate of listener mine"
    )


def test_listener_keeps_the_certificate_that_it_had(new_world: Worlds) -> None:
    world = new_world()
    given = own_leaf(world)
    with_listener(world, ListenerCertificate(secret_name="mine"), given).operate()
    with_listener(world, ListenerCertificate(secret_name="mine"), {**given, "tls.key": "x"})
    plan = world.plan()

    assert plan.is_usable
    assert isinstance(plan.obstacle, Rejected)
    assert world.secrets["demo-nodes"].entries["listener-mine.pem"] == given["tls.key"] + given["tls.crt"]


def test_certificate_is_requested_from_cert_manager_once(new_world: Worlds) -> None:
    world = with_listener(new_world(), ListenerCertificate(issuer_ref=IssuerRef(name="acme")), None)
    plan = world.plan()

    assert "request certificate demo-listener-mine from Issuer acme" in map(str, plan.steps)
    assert plan.obstacle is not None
    assert plan.obstacle.message.endswith("; cert-manager creates it, see Certificate demo-listener-mine")
    world.ordered = frozenset({"mine"})
    assert not [it for it in world.plan().steps if str(it).startswith("ask")]


def asking(world: Any) -> Any:
    return with_listener(world, ListenerCertificate(issuer_ref=IssuerRef(name="acme")), None)


@pytest.mark.parametrize("steps_before_the_end", range(8))
def test_certificate_that_no_listener_has_any_more_is_withdrawn(new_world: Worlds, steps_before_the_end: int) -> None:
    """Even if the operator was killed after any step of ordering it: cert-manager would renew it for ever."""
    world = asking(new_world())
    world.operate(steps_max=steps_before_the_end)
    was_ordered = bool(world.ordered)
    world.cluster = replace(world.cluster, listeners=(PLAINTEXT,))
    steps = [str(it) for it in world.plan().steps]
    world.operate()

    assert world.ordered == frozenset()
    assert not was_ordered or steps[0] == "withdraw certificate demo-listener-mine, which no listener has any more"
    assert world.plan().steps == (), "once"


def test_certificate_is_withdrawn_by_the_next_operator_where_one_was_killed_before(new_world: Worlds) -> None:
    world = asking(new_world())
    world.operate()
    world.cluster = replace(world.cluster, listeners=(PLAINTEXT,))
    world.operate(steps_max=0)
    assert world.ordered == {"mine"}

    world.operate(steps_max=1)

    assert world.ordered == frozenset()


def test_certificate_stays_where_a_listener_names_its_secret(new_world: Worlds) -> None:
    world = asking(new_world())
    world.operate()
    with_listener(world, ListenerCertificate(secret_name="demo-listener-mine"), own_leaf(world)).operate()
    assert world.ordered == {"mine"}

    world.cluster = replace(world.cluster, listeners=(PLAINTEXT,))
    world.operate()

    assert world.ordered == frozenset()
