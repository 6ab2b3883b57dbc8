"""What waits for a time, or for a change of another object, is reconciled then and not at the next resync."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from fake_api import FakeApi
from fake_brokers import FakeBrokers
from virtual_time import run
from working_controller import at_work, loop_now

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Reached, Rejected, Waiting
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.timestamps import instant
from ottla_operator.planning.steps.topic import AdoptTopic

Document = dict[str, Any]
Builder = Callable[..., Document]
OVERLAP_S = 25
ALICE = ObjectKey("User", "kafka", "alice")


def controller_key(document: Document) -> ObjectKey:
    metadata = document["metadata"]
    return ObjectKey(document["kind"], metadata["namespace"], metadata["name"])


@pytest.fixture
def controller(api: Any, brokers: Any) -> ControllerManager:
    return ControllerManager(
        api,
        lambda namespace: KubernetesHost(api, namespace, "ottla/broker:1", now=lambda: instant(loop_now())),
        brokers.connect,
        now=loop_now,
    )


def test_previous_password_goes_when_its_overlap_ends(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    def rotated(revision: str) -> Document:
        rotation = {"revision": revision, "overlapSeconds": OVERLAP_S}
        return user_manifest(authentication={"rotation": rotation})  # type: ignore[no-any-return]

    messages: list[str] = []

    async def scenario() -> list[set[int]]:
        seen = []
        async with at_work(controller):
            for generation, revision in enumerate("12", start=1):
                controller.seen(api.put(rotated(revision), generation=generation))
                await asyncio.sleep(1)
            for wait_s in (0, OVERLAP_S - 3, 3):
                await asyncio.sleep(wait_s)
                seen.append(set(brokers.scram["alice"]))
                assert api.reasons(ALICE)["Progressing"] == ("False", "NotProgressing")
                messages.append(api.message(ALICE))
        return seen

    assert run(scenario) == [{1, 2}, {1, 2}, {1}]
    as_specified = "User:alice (scram-sha-512): 1 rules, 0 limits"
    during = f"{as_specified}; the previous password is valid until 2026-01-01T00:17:06Z"
    assert messages == [during, during, as_specified]


def test_cluster_whose_pods_are_rejected_recovers_within_seconds(
    controller: ControllerManager, api: Any, with_cluster: Document
) -> None:
    async def scenario() -> tuple[str, str]:
        async with at_work(controller):
            key = controller_key(with_cluster)
            api.rejects = ("Pod", ApiError(403, "Forbidden", "no PriorityClass with name missing was found"))
            controller.seen(with_cluster)
            # Long enough for a back-off of a minute.
            await asyncio.sleep(300)
            before = api.reasons(key)["Stalled"][1]
            api.rejects = None
            await asyncio.sleep(6)
        return before, api.reasons(key)["Ready"][1]

    assert run(scenario) == ("PodRejected", "PodMissing")


@pytest.mark.parametrize(
    "readiness",
    [Rejected("ReplicationFactorTooLarge", "shrink it"), Waiting("Draining", "wait")],
    ids=["rejected", "waits"],
)
def test_cluster_that_may_wait_for_a_topic_is_reconciled_when_the_topic_has_changed(
    controller: ControllerManager,
    api: Any,
    topic_manifest: Builder,
    with_cluster: Document,
    monkeypatch: pytest.MonkeyPatch,
    readiness: Rejected | Waiting,
) -> None:
    results: dict[str, ReconcileResult] = {"Cluster": ReconcileResult(readiness, {})}
    reconciled: list[tuple[str, float]] = []

    class Reconciler:
        async def reconcile(self, cluster: ObjectKey, documents: dict[ObjectKey, Document]) -> Any:
            reconciled.extend((key.kind, asyncio.get_running_loop().time()) for key in documents)
            return {key: results[key.kind] for key in documents}

    monkeypatch.setattr(controller, "_reconcilers", {"Cluster": Reconciler(), "Topic": Reconciler()})
    topic = topic_manifest()
    step = AdoptTopic("flights", 6, 3, ())
    results["Topic"] = ReconcileResult(Reached("AsSpecified", ""), {}, (step,))

    async def scenario() -> float:
        async with at_work(controller):
            controller.seen(with_cluster)
            await asyncio.sleep(101)
            since_s = asyncio.get_running_loop().time()
            controller.seen(api.put(topic))
            await asyncio.sleep(1)
        return since_s

    since_s = run(scenario)

    assert [kind for kind, at_s in reconciled if at_s >= since_s][:2] == ["Topic", "Cluster"]


class World(NamedTuple):
    """The API server with a Cluster, its brokers, and builders of manifests."""

    api: FakeApi
    brokers: FakeBrokers
    topic: Builder
    user: Builder
    cluster: Builder

    def secret(self, name: str, **data: str) -> None:
        encoded = {key.replace("_", "-"): base64.b64encode(text.encode()).decode() for key, text in data.items()}
        self.api.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded})

    def remove_secret(self, name: str) -> None:
        del self.api.stored[ObjectKey("Secret", "kafka", name)]


@pytest.fixture
def world(
    api: FakeApi,
    brokers: FakeBrokers,
    topic_manifest: Builder,
    user_manifest: Builder,
    cluster_manifest: Builder,
    with_cluster: Document,
) -> World:
    return World(api, brokers, topic_manifest, user_manifest, cluster_manifest)


class Cause(NamedTuple):
    """A cause that is in no object that the operator watches, and its remedy."""

    reason: str
    make: Callable[[World], Document]
    """Returns the object that is affected."""
    fix: Callable[[World], object]


def user_with_password(world: World) -> Document:
    reference = {"name": "hidden", "key": "password"}
    return world.user(authentication={"password": {"valueFrom": {"secretKeyRef": reference}}})  # type: ignore[no-any-return]


def user_with_bad_password(world: World) -> Document:
    world.secret("hidden", password="")
    return user_with_password(world)


def user_whose_secret_is_taken(world: World) -> Document:
    world.secret("alice", theirs="x")
    return world.user()  # type: ignore[no-any-return]


def user_without_authorizer(world: World) -> Document:
    world.brokers.has_authorizer = False
    return world.user()  # type: ignore[no-any-return]


def topic_of_unreachable_brokers(world: World) -> Document:
    world.brokers.is_reachable = False
    return world.topic()  # type: ignore[no-any-return]


def topic_with_an_unknown_config(world: World) -> Document:
    return world.topic(config={"future.setting": "1"})  # type: ignore[no-any-return]


def cluster_without_its_certificate(world: World) -> Document:
    listener = {"name": "clients", "port": 9094, "tls": True, "certificate": {"secretName": "hidden"}}
    return world.cluster(spec={"tls": {}, "listeners": [listener]})  # type: ignore[no-any-return]


def cluster_without_its_authority(world: World) -> Document:
    return world.cluster(spec={"tls": {"clusterCa": {"secretName": "hidden"}}})  # type: ignore[no-any-return]


CAUSES = [
    Cause("PasswordMissing", user_with_password, lambda it: it.secret("hidden", password="a-long-password")),
    Cause("PasswordUnusable", user_with_bad_password, lambda it: it.secret("hidden", password="a-long-password")),
    Cause("SecretTaken", user_whose_secret_is_taken, lambda it: it.remove_secret("alice")),
    Cause("SecurityDisabled", user_without_authorizer, lambda it: setattr(it.brokers, "has_authorizer", True)),
    Cause("BrokerUnreachable", topic_of_unreachable_brokers, lambda it: setattr(it.brokers, "is_reachable", True)),
    Cause("InvalidConfig", topic_with_an_unknown_config, lambda it: it.brokers.known_configs.add("future.setting")),
    Cause("CertificateMissing", cluster_without_its_certificate, lambda it: it.secret("hidden", tls_crt="x")),
    Cause("AuthorityMissing", cluster_without_its_authority, lambda it: it.secret("hidden", tls_crt="x")),
]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda it: it.reason)
def test_condition_changes_soon_after_its_cause_is_gone(
    controller: ControllerManager, world: World, cause: Cause
) -> None:
    """No watch reports a Secret or the state of brokers: the operator looks again within 5 s, whatever came before."""
    api = world.api

    async def scenario() -> list[tuple[str, str]]:
        document = api.put(cause.make(world))
        key = ObjectKey(document["kind"], "kafka", document["metadata"]["name"])
        async with at_work(controller):
            controller.seen(document)
            await asyncio.sleep(1_001)
            before = api.reasons(key)["Ready"]
            cause.fix(world)
            await asyncio.sleep(5)
            return [before, api.reasons(key)["Ready"]]

    before, after = run(scenario)

    assert before == ("False", cause.reason)
    assert after[1] != cause.reason
