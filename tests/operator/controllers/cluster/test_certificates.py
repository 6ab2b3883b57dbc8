"""The controller and a Cluster with TLS: Secrets before nodes, Users with certificates, and no key in any output."""

import asyncio
import base64
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.errors import ApiError
from ottla_operator.model.certificates import facts, leaf_of
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster

Document = dict[str, Any]
Builder = Callable[..., Document]
DEMO, BOB = ObjectKey("Cluster", "kafka", "demo"), ObjectKey("User", "kafka", "bob")
SECRETS = ("demo-cluster-ca", "demo-clients-ca", "demo-nodes", "demo-operator")


def spec(*listeners: Document, **tls: Any) -> Document:
    return {"tls": tls, **({"listeners": list(listeners)} if listeners else {})}


def listener(name: str = "certs", kind: str = "tls", **more: Any) -> Document:
    return {"name": name, "port": 9094, "tls": True, "authentication": {"type": kind}, **more}


def secret(api: Any, name: str) -> dict[str, str]:
    data = api.stored[ObjectKey("Secret", "kafka", name)]["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def test_secrets_are_there_before_anything_is_published(
    controller: ControllerManager, api: Any, cluster_manifest: Builder
) -> None:
    api.put(cluster_manifest(spec=spec()))

    assert asyncio.run(controller.reconcile(DEMO)) is False, "its nodes are not there yet"

    writes = [it for it in api.writes if "status" not in it]
    assert writes[:8] == ["create Secret", "apply Secret"] * 4
    assert "apply StatefulSet" in writes[8:]
    for name in SECRETS:
        stored = api.stored[ObjectKey("Secret", "kafka", name)]
        assert stored["type"] == "Opaque"
        assert stored["metadata"]["ownerReferences"][0]["kind"] == "Cluster"
    said = api.stored[DEMO]["status"]["certificates"]
    assert [it["name"] for it in said] == ["cluster-ca", "clients-ca", "nodes", "operator"]


def test_second_pass_writes_nothing(controller: ControllerManager, api: Any, cluster_manifest: Builder) -> None:
    api.put(cluster_manifest(spec=spec()))
    asyncio.run(controller.reconcile(DEMO))
    api.writes.clear()

    asyncio.run(controller.reconcile(DEMO))

    assert api.writes == []


def test_secrets_of_a_cluster_that_was_made_again_do_not_go_with_the_old_one(
    controller: ControllerManager, api: Any, cluster_manifest: Builder
) -> None:
    manifest = cluster_manifest(spec=spec())
    api.put(manifest, uid="old")
    asyncio.run(controller.reconcile(DEMO))
    before = {name: secret(api, name) for name in SECRETS}
    api.put(manifest, uid="new")

    asyncio.run(controller.reconcile(DEMO))

    for name in SECRETS:
        (reference,) = api.stored[ObjectKey("Secret", "kafka", name)]["metadata"]["ownerReferences"]
        assert reference["uid"] == "new", "otherwise it is garbage-collected with its keys"
        assert secret(api, name) == before[name]


def test_unusable_authority_stops_before_nodes_are_created(
    controller: ControllerManager, api: Any, cluster_manifest: Builder
) -> None:
    api.put(cluster_manifest(spec=spec(clusterCa={"secretName": "mine"})))
    entry = base64.b64encode(b"x").decode()
    data = {"ca.crt": entry, "ca.key": entry}
    api.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": data})

    assert asyncio.run(controller.reconcile(DEMO)) is True

    reason, message = api.reasons(DEMO)["Ready"][1], api.message(DEMO)
    assert reason == "CertificateUnusable"
    assert message.startswith("Secret mine has 0 certificates in ca.crt")
    assert not [it for it in api.writes if "Secret" in it or "StatefulSet" in it]


def test_user_has_certificate_and_trust_in_its_secret(
    controller: ControllerManager, api: Any, cluster_manifest: Builder, user_manifest: Builder, brokers: Any
) -> None:
    api.put(cluster_manifest(spec=spec(listener())))
    asyncio.run(controller.reconcile(DEMO))
    api.put(user_manifest("bob", type="tls"))

    assert asyncio.run(controller.reconcile(BOB)) is True

    entries = secret(api, "bob")
    assert api.reasons(BOB)["Ready"][1] == "AsSpecified"
    assert entries["ca.crt"] == secret(api, "demo-cluster-ca")["ca.crt"]
    assert entries["user.crt"].startswith("-----BEGIN CERTIFICATE-----")
    assert "ssl.keystore.key=-----BEGIN PRIVATE KEY-----" in entries["client.properties"]
    assert '"ssl.certificate.pem": "-----BEGIN CERTIFICATE-----' in entries["librdkafka.json"]
    assert entries["securityProtocol"] == "SSL"
    assert brokers.addresses[-1] == "demo-bootstrap.kafka.svc:9091", "the operator uses the nodes' listener"


def test_user_is_left_alone_while_nothing_changes(
    controller: ControllerManager, api: Any, cluster_manifest: Builder, user_manifest: Builder
) -> None:
    api.put(cluster_manifest(spec=spec(listener())))
    asyncio.run(controller.reconcile(DEMO))
    api.put(user_manifest("bob", type="tls"))
    asyncio.run(controller.reconcile(BOB))
    api.writes.clear()

    asyncio.run(controller.reconcile(BOB))

    assert api.writes == []


def test_user_without_a_listener_has_its_rules_and_no_secret(
    controller: ControllerManager, api: Any, cluster_manifest: Builder, user_manifest: Builder, brokers: Any
) -> None:
    api.put(cluster_manifest(spec=spec(listener("words", "scram-sha-512"))))
    asyncio.run(controller.reconcile(DEMO))
    api.put(user_manifest("bob", type="tls"))

    asyncio.run(controller.reconcile(BOB))

    reason, message = api.reasons(BOB)["Ready"][1], api.message(BOB)
    assert reason == "NoListener"
    assert "no listener of Cluster demo has authentication tls" in message
    assert len(brokers.acls) == 1
    assert ObjectKey("Secret", "kafka", "bob") not in api.stored


def test_users_are_observed_while_an_authority_is_replaced(
    controller: ControllerManager, api: Any, cluster_manifest: Builder, user_manifest: Builder
) -> None:
    api.put(cluster_manifest(spec=spec(listener())))
    asyncio.run(controller.reconcile(DEMO))
    api.put(user_manifest("bob", type="tls"))
    asyncio.run(controller.resync())
    asyncio.run(controller.reconcile(BOB))
    before = secret(api, "bob")["ca.crt"]
    api.stored[DEMO]["spec"]["tls"] = {"clusterCa": {"rotation": {"revision": "2"}}}
    asyncio.run(controller.reconcile(DEMO))

    asyncio.run(controller.reconcile(BOB))

    trusted = secret(api, "bob")["ca.crt"]
    assert trusted == secret(api, "demo-cluster-ca")["trusted.crt"]
    assert trusted.startswith(before)
    assert trusted != before, "the new authority next to the old one"


@pytest.fixture
def rotating(
    controller: ControllerManager,
    api: Any,
    cluster_manifest: Builder,
    user_manifest: Builder,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """A cluster in the first phase, whose node has read everything, and a User whose Secret was not rewritten."""
    shown: dict[str, ObservedNode] = {}
    observe = KubernetesHost.observe

    async def with_a_node(host: KubernetesHost, desired: DesiredCluster) -> ObservedCluster:
        return replace(await observe(host, desired), nodes=shown)

    monkeypatch.setattr(KubernetesHost, "observe", with_a_node)
    api.put(cluster_manifest(spec=spec(listener())))
    asyncio.run(controller.reconcile(DEMO))
    api.put(user_manifest("bob", type="tls"))
    asyncio.run(controller.reconcile(BOB))
    api.stored[DEMO]["spec"]["tls"] = {"clusterCa": {"rotation": {"revision": "2"}}}
    asyncio.run(controller.reconcile(DEMO))
    leaf = leaf_of(secret(api, "demo-nodes")["node.pem"])
    assert leaf is not None
    fingerprint = facts(leaf.certificate).fingerprint
    shown["demo-main-0"] = ObservedNode(name="demo-main-0", state=NodeState.UNREADY, certificate=fingerprint)
    return api


def annotations(api: Any) -> dict[str, str]:
    found: dict[str, str] = api.stored[ObjectKey("Secret", "kafka", "demo-cluster-ca")]["metadata"]["annotations"]
    return found


def is_seen(api: Any) -> bool:
    return '"seenAt": "2026' in annotations(api)["ottla.dev/authority"]


def test_user_that_no_watch_has_reported_is_waited_for(controller: ControllerManager, rotating: Any) -> None:
    asyncio.run(controller.reconcile(DEMO))
    assert not is_seen(rotating)

    asyncio.run(controller.reconcile(BOB))
    asyncio.run(controller.reconcile(DEMO))

    assert is_seen(rotating)


def test_deleted_user_is_not_waited_for(controller: ControllerManager, rotating: Any) -> None:
    rotating.stored[BOB]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"

    asyncio.run(controller.reconcile(DEMO))

    assert is_seen(rotating)


def test_stalled_user_is_waited_for(controller: ControllerManager, rotating: Any) -> None:
    status = {"observedGeneration": 1, "conditions": [{"type": "Stalled", "status": "True"}]}
    rotating.stored[BOB]["status"] = status

    asyncio.run(controller.reconcile(DEMO))

    assert not is_seen(rotating), "its Secret may still be updated, and the wait is bounded"


@pytest.mark.parametrize("case", ["secret-forbidden", "users-forbidden"])
def test_unreadable_user_is_named_and_fails_no_reconciliation(
    controller: ControllerManager, rotating: Any, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    get, objects = rotating.get, rotating.objects

    async def forbid_secret(kind: str, namespace: str, name: str) -> Any:
        if (kind, name) == ("Secret", "bob"):
            raise ApiError(403, "Forbidden", "no RoleBinding in this namespace")
        return await get(kind, namespace, name)

    async def forbid_users(kind: str, *rest: Any, **options: Any) -> Any:
        if kind == "User":
            raise ApiError(403, "Forbidden", "no RoleBinding in this namespace")
        return await objects(kind, *rest, **options)

    monkeypatch.setattr(rotating, "get", forbid_secret if case == "secret-forbidden" else get)
    monkeypatch.setattr(rotating, "objects", forbid_users if case == "users-forbidden" else objects)

    asyncio.run(controller.reconcile(DEMO))

    assert not is_seen(rotating)
    assert "waitedQuarters" in annotations(rotating)["ottla.dev/authority"], "the wait for them is bounded"
    assert rotating.reasons(DEMO)["Ready"][1] != "Forbidden"


def test_user_left_behind_is_a_warning_of_the_cluster(
    controller: ControllerManager, rotating: Any, caplog: pytest.LogCaptureFixture
) -> None:
    over = {"seenAt": "2025-12-31T00:00:00Z", "waitedAt": "2025-12-31T00:00:00Z", "waitedQuarters": 4}
    record = {**json.loads(annotations(rotating)["ottla.dev/authority"]), **over}
    annotations(rotating)["ottla.dev/authority"] = json.dumps(record)
    rotating.stored[DEMO]["spec"]["tls"]["clusterCa"]["rotation"]["overlapSeconds"] = 0

    asyncio.run(controller.reconcile(DEMO))

    said = next(it for it in rotating.stored[DEMO]["status"]["certificates"] if it["name"] == "cluster-ca")
    assert said["leftBehind"] == {"users": 1, "first": ["kafka/bob"]}
    (warning,) = [it.getMessage() for it in caplog.records if "without User kafka/bob" in it.getMessage()]
    assert warning.startswith("Cluster kafka/demo: continue the rotation of the cluster CA")
    assert [it[2] for it in rotating.events if it[0] == "LeaveUsersBehind"] == [True]


def test_certificate_is_requested_from_cert_manager_and_waited_for(
    controller: ControllerManager, api: Any, cluster_manifest: Builder
) -> None:
    api.put(cluster_manifest(spec=spec(listener(certificate={"issuerRef": {"name": "acme"}}))))
    asyncio.run(controller.reconcile(DEMO))

    asked = api.stored[ObjectKey("Certificate", "kafka", "demo-listener-certs")]
    assert asked["spec"]["issuerRef"] == {"name": "acme", "kind": "Issuer", "group": "cert-manager.io"}
    assert "demo-bootstrap.kafka.svc" in asked["spec"]["dnsNames"]
    assert asked["metadata"]["ownerReferences"][0]["name"] == "demo"
    assert api.reasons(DEMO)["Ready"][1] == "CertificateMissing"
    asked["spec"]["privateKey"]["encoding"] = "PKCS1"
    api.writes.clear()
    asyncio.run(controller.reconcile(DEMO))
    assert "apply Certificate" not in api.writes, "whatever cert-manager added"


@pytest.mark.parametrize("owner", ["demo", "somebody-else"])
def test_certificate_of_a_listener_that_is_gone_is_deleted_if_it_is_the_clusters(
    controller: ControllerManager, api: Any, cluster_manifest: Builder, owner: str
) -> None:
    certificate = ObjectKey("Certificate", "kafka", "demo-listener-certs")
    api.put(cluster_manifest(spec=spec(listener(certificate={"issuerRef": {"name": "acme"}}))))
    asyncio.run(controller.reconcile(DEMO))
    if owner != "demo":
        api.stored[certificate]["metadata"]["ownerReferences"] = [{"name": owner, "uid": owner}]
    api.put(cluster_manifest(spec=spec(listener())))

    asyncio.run(controller.reconcile(DEMO))

    assert (certificate in api.stored) == (owner != "demo")


def test_missing_cert_manager_is_reported(
    controller: ControllerManager, api: Any, cluster_manifest: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = api.apply

    async def without_cert_manager(document: Document) -> Document:
        if document["kind"] == "Certificate":
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return await apply(document)

    monkeypatch.setattr(api, "apply", without_cert_manager)
    api.put(cluster_manifest(spec=spec(listener(certificate={"issuerRef": {"name": "acme"}}))))

    assert asyncio.run(controller.reconcile(DEMO)) is True

    reason, message = api.reasons(DEMO)["Ready"][1], api.message(DEMO)
    assert reason == "CertManagerMissing"
    assert "which is not installed here; install it" in message


def test_no_private_key_is_in_status_events_or_log(
    controller: ControllerManager,
    api: Any,
    cluster_manifest: Builder,
    user_manifest: Builder,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    api.put(cluster_manifest(spec=spec(listener())))
    api.put(user_manifest("bob", type="tls"))
    for key in (DEMO, BOB):
        asyncio.run(controller.reconcile(key))

    said = str([api.stored[DEMO]["status"], api.stored[BOB]["status"], api.events, caplog.text])
    assert "write secret demo-cluster-ca" in said
    assert "BEGIN" not in said


def test_certificate_library_is_not_loaded_without_tls() -> None:
    code = (
        "import sys; import ottla_operator.local, ottla_operator.local.session;"
        "import ottla_operator.controllers.user.reconcile;"
        "sys.exit('cryptography' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
