"""Users while the authority of their cluster is replaced: the Secret follows, or the status says why it does not."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey

Document = dict[str, Any]
Builder = Callable[..., Document]
DEMO, BOB = ObjectKey("Cluster", "kafka", "demo"), ObjectKey("User", "kafka", "bob")
MINE = ObjectKey("Secret", "kafka", "mine")
IMPACT = (
    "ca.crt of Secret bob is outdated, and its clients cannot connect once Cluster kafka/demo has replaced its "
    "authority: let the operator write the Secret before"
)


def entry(api: Any, name: str, key: str) -> str:
    return base64.b64decode(api.stored[ObjectKey("Secret", "kafka", name)]["data"][key]).decode()


@pytest.fixture
def rotating(controller: ControllerManager, api: Any, cluster_manifest: Builder, user_manifest: Builder) -> Any:
    """A cluster whose new authority is trusted, and a User with a given password that was not reconciled since."""
    listener = {"name": "apps", "port": 9094, "tls": True, "authentication": {"type": "scram-sha-512"}}
    api.put(cluster_manifest(spec={"tls": {}, "listeners": [listener]}))
    asyncio.run(controller.reconcile(DEMO))
    data = {"pw": base64.b64encode(b"open sesame").decode()}
    api.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": data})
    reference = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "pw"}}}
    api.put(user_manifest("bob", authentication={"password": reference}))
    asyncio.run(controller.reconcile(BOB))
    api.stored[DEMO]["spec"]["tls"] = {"clusterCa": {"rotation": {"revision": "2"}}}
    asyncio.run(controller.reconcile(DEMO))
    assert entry(api, "bob", "ca.crt") != entry(api, "demo-cluster-ca", "trusted.crt")
    return api


def test_secret_without_its_password_trusts_the_new_authority(controller: ControllerManager, rotating: Any) -> None:
    del rotating.stored[MINE]

    asyncio.run(controller.reconcile(BOB))

    assert entry(rotating, "bob", "ca.crt") == entry(rotating, "demo-cluster-ca", "trusted.crt")
    assert entry(rotating, "bob", "password") == "open sesame"
    assert rotating.reasons(BOB)["Ready"] == ("False", "PasswordMissing")
    assert IMPACT not in rotating.message(BOB)


def test_paused_user_reports_the_impact(controller: ControllerManager, rotating: Any) -> None:
    rotating.stored[BOB]["spec"]["paused"] = True

    asyncio.run(controller.reconcile(BOB))

    assert rotating.message(BOB) == f"spec.paused is true; next: write secret bob; {IMPACT}"


def test_rejected_write_reports_the_impact(
    controller: ControllerManager, rotating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reject(_: Document) -> Document:
        raise ApiError(403, "Forbidden", "no")

    monkeypatch.setattr(rotating, "apply", reject)

    asyncio.run(controller.reconcile(BOB))

    assert rotating.reasons(BOB)["Stalled"] == ("True", "Forbidden")
    assert rotating.message(BOB).startswith("could not write secret bob: ")
    assert rotating.message(BOB).endswith(IMPACT)


def test_user_that_is_rejected_for_its_rules_trusts_the_new_authority(
    controller: ControllerManager, rotating: Any, brokers: Any
) -> None:
    brokers.has_authorizer = False

    asyncio.run(controller.reconcile(BOB))

    assert rotating.reasons(BOB)["Ready"][1] == "SecurityDisabled"
    assert entry(rotating, "bob", "ca.crt") == entry(rotating, "demo-cluster-ca", "trusted.crt")
