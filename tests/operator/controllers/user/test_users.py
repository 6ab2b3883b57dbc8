"""The controller and its Users: finalizers, Secrets, precedence, and no password in any output."""

import asyncio
import base64
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.user import USER_FINALIZER

Document = dict[str, Any]
Builder = Callable[..., Document]
ALICE, SECRET = ObjectKey("User", "kafka", "alice"), ObjectKey("Secret", "kafka", "alice")
DELETED = {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": [USER_FINALIZER]}


def entries(api: Any) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in api.stored[SECRET]["data"].items()}


def test_user_is_created_and_has_its_secret(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    api.put(user_manifest(quotas={"consumerByteRate": 5}))

    assert asyncio.run(controller.reconcile(ALICE)) is True

    assert api.reasons(ALICE)["Ready"] == ("True", "AsSpecified")
    assert brokers.accepting_mechanisms("alice", entries(api)["password"]) == {2}
    assert len(brokers.acls) == 1
    assert brokers.quotas == {"alice": {"consumer_byte_rate": 5.0}}
    secret = api.stored[SECRET]
    assert secret["type"] == "servicebinding.io/kafka"
    assert secret["metadata"]["ownerReferences"] == [
        {"apiVersion": "ottla.dev/v1", "kind": "User", "name": "alice", "uid": "uid-alice", "controller": True}
    ]
    assert entries(api)["bootstrap-servers"] == "demo-bootstrap.kafka.svc:9092"
    status = api.stored[ALICE]["status"]
    assert (status["principal"], status["secret"], status["rules"]) == ("User:alice", "alice", 1)
    assert api.stored[ALICE]["metadata"]["finalizers"] == [USER_FINALIZER]


def test_second_pass_changes_nothing(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    api.put(user_manifest())
    asyncio.run(controller.reconcile(ALICE))
    api.writes.clear()
    brokers.changes.clear()

    assert asyncio.run(controller.reconcile(ALICE)) is True
    assert (api.writes, brokers.changes) == ([], [])


def test_principal_is_known_before_the_first_step(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    brokers.fails["alter_scram"] = KafkaError(ErrorCode.NOT_CONTROLLER)
    api.put(user_manifest())
    asyncio.run(controller.reconcile(ALICE))

    assert api.writes.index("apply Secret") > api.writes.index("status User")
    assert api.stored[ALICE]["status"]["principal"] == "User:alice"


def test_deleted_user_leaves_nothing(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    api.put(user_manifest(quotas={"consumerByteRate": 5}))
    asyncio.run(controller.reconcile(ALICE))
    api.stored[ALICE]["metadata"] |= DELETED

    assert asyncio.run(controller.reconcile(ALICE)) is True

    assert (brokers.acls, brokers.scram, brokers.quotas) == (set(), {}, {})
    assert SECRET not in api.stored
    assert api.stored[ALICE]["metadata"]["finalizers"] == []


def test_deleted_user_waits_for_its_brokers(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    api.put({**user_manifest(), "status": {"principal": "User:alice"}}, **DELETED)
    brokers.is_reachable = False

    assert asyncio.run(controller.reconcile(ALICE)) is False
    assert api.stored[ALICE]["metadata"]["finalizers"] == [USER_FINALIZER]
    assert api.reasons(ALICE)["Ready"] == ("False", "BrokerUnreachable")


@pytest.mark.parametrize("cluster", ["missing", "being-deleted"])
def test_user_of_a_cluster_that_is_gone_is_released(
    controller: ControllerManager, api: Any, user_manifest: Builder, cluster_manifest: Builder, cluster: str
) -> None:
    api.put({**user_manifest(), "status": {"principal": "User:alice"}}, **DELETED)
    if cluster == "being-deleted":
        api.put(cluster_manifest(), deletionTimestamp="2026-01-02T00:00:00Z")

    assert asyncio.run(controller.reconcile(ALICE)) is True
    assert api.stored[ALICE]["metadata"]["finalizers"] == []


def test_user_that_was_never_created_is_released_without_brokers(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    brokers.is_reachable = False
    api.put(user_manifest(), **DELETED)

    assert asyncio.run(controller.reconcile(ALICE)) is True
    assert api.stored[ALICE]["metadata"]["finalizers"] == []


def test_younger_of_two_users_is_stalled_and_gets_the_name_later(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    older = api.put(user_manifest("older", userName="alice", rules=[]))
    api.put(user_manifest(), creationTimestamp="2026-01-01T00:00:01Z")

    async def scenario() -> list[tuple[str, str]]:
        await controller.resync()
        await controller.reconcile(ObjectKey("User", "kafka", "older"))
        await controller.reconcile(ALICE)
        first = api.reasons(ALICE)["Stalled"]
        api.stored[ObjectKey("User", "kafka", "older")]["metadata"] |= DELETED
        controller.seen(api.stored[ObjectKey("User", "kafka", "older")])
        await controller.reconcile(ALICE)
        await controller.reconcile(ObjectKey("User", "kafka", "older"))
        controller.gone(older)
        await controller.reconcile(ALICE)
        return [first, api.reasons(ALICE)["Ready"]]

    assert asyncio.run(scenario()) == [("True", "UserClaimedElsewhere"), ("True", "AsSpecified")]
    assert len(brokers.acls) == 1, "the older object, which went, left them to its heir"
    assert brokers.accepting_mechanisms("alice", entries(api)["password"]) == {2}
    assert ObjectKey("Secret", "kafka", "older") not in api.stored


def test_super_user_of_the_cluster_is_left_alone_and_its_object_may_go(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, cluster_manifest: Builder
) -> None:
    cluster = cluster_manifest(config={"super.users": "User:node; User:alice"})
    api.put({**cluster, "status": {"bootstrapServers": "demo:9092"}})
    api.put(user_manifest())

    asyncio.run(controller.reconcile(ALICE))

    assert api.reasons(ALICE)["Stalled"] == ("True", "PrincipalReserved")
    assert (brokers.changes, SECRET in api.stored) == ([], False)
    api.stored[ALICE]["metadata"] |= DELETED
    assert asyncio.run(controller.reconcile(ALICE)) is True
    assert brokers.changes == []
    assert api.stored[ALICE]["metadata"]["finalizers"] == []


def test_users_of_one_name_and_different_certificates_do_not_meet(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    api.put(user_manifest())
    api.put(user_manifest("other", userName="alice", type="tls"))

    async def scenario() -> None:
        await controller.resync()
        await controller.reconcile(ALICE)
        await controller.reconcile(ObjectKey("User", "kafka", "other"))

    asyncio.run(scenario())
    assert {acl.principal for acl in brokers.acls} == {"User:alice", "User:CN=alice"}


@pytest.mark.parametrize("status", [403, 422], ids=["forbidden", "immutable"])
def test_unwritable_secret_does_not_delay_a_revocation(
    controller: ControllerManager,
    api: Any,
    brokers: Any,
    user_manifest: Builder,
    with_cluster: Document,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
) -> None:
    api.put(user_manifest())
    asyncio.run(controller.reconcile(ALICE))

    async def reject(document: Document) -> Document:
        raise ApiError(status, "Rejected", "no")

    monkeypatch.setattr(api, "apply", reject)
    api.put(user_manifest(rules=[], secret={"labels": {"a": "b"}}))
    asyncio.run(controller.reconcile(ALICE))

    assert api.reasons(ALICE)["Stalled"] == ("True", "Rejected")
    assert brokers.acls == set()


def test_password_of_another_secret_is_used(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    reference = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "pw"}}}
    api.put(user_manifest(authentication={"password": reference}))

    assert asyncio.run(controller.reconcile(ALICE)) is False
    assert api.reasons(ALICE)["Reconciling"] == ("True", "PasswordMissing")

    data = {"pw": base64.b64encode(b"open sesame").decode()}
    api.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": data})
    assert asyncio.run(controller.reconcile(ALICE)) is True
    assert brokers.accepting_mechanisms("alice", "open sesame") == {2}


def test_password_is_in_no_output_of_the_operator(
    controller: ControllerManager,
    api: Any,
    brokers: Any,
    user_manifest: Builder,
    with_cluster: Document,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Through success, rejections that quote the request, an unexpected error, and deletion."""
    caplog.set_level(logging.DEBUG)
    planted = "pla'nted\"-pass\\word-7f3a"
    encoded = base64.b64encode(planted.encode()).decode()
    reference = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "pw"}}}
    api.put(user_manifest(authentication={"password": reference}))
    api.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": {"pw": encoded}})
    true_apply = api.apply

    async def quoting(document: Document) -> Document:
        raise ApiError(422, "Invalid", f"cannot take {document}")

    monkeypatch.setattr(api, "apply", quoting)
    asyncio.run(controller.reconcile(ALICE))
    assert api.reasons(ALICE)["Stalled"] == ("True", "Invalid")
    monkeypatch.setattr(api, "apply", true_apply)
    for error in (KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "no"), KeyError("a bug of ours")):
        brokers.fails["alter_scram"] = error
        asyncio.run(controller.reconcile(ALICE))
    brokers.fails.clear()
    assert asyncio.run(controller.reconcile(ALICE)) is True
    assert brokers.accepting_mechanisms("alice", planted) == {2}
    api.stored[ALICE]["metadata"] |= DELETED
    status = api.stored[ALICE]["status"]
    assert asyncio.run(controller.reconcile(ALICE)) is True

    said = "\n".join([caplog.text, repr(api.events), repr(status), repr(api.stored[ALICE]), repr(api.writes)])
    assert "KeyError" in said
    for form in (planted, encoded, planted.replace("\\", "\\\\"), "7f3a"):
        assert form not in said
