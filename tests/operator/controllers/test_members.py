"""Topics and Users that refer to a Cluster of another namespace: permission, precedence, and deletion."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.topic import TOPIC_FINALIZER
from ottla_operator.model.user import USER_FINALIZER

Document = dict[str, Any]
Builder = Callable[..., Document]
TOPIC, USER = ObjectKey("Topic", "team-a", "flights"), ObjectKey("User", "team-a", "alice")
ABROAD = {"name": "demo", "namespace": "kafka"}
GOING = {"deletionTimestamp": "2026-01-02T00:00:00Z"}


@pytest.fixture
def allow(api: Any, cluster_manifest: Builder) -> Callable[..., None]:
    """Return a function that sets spec.allowedNamespaces of the Cluster of namespace kafka to ``namespaces``."""

    def allow(*namespaces: str) -> None:
        status = {"bootstrapServers": "demo-bootstrap.kafka.svc:9092"}
        api.put({**cluster_manifest(spec={"allowedNamespaces": list(namespaces)}), "status": status})

    return allow


@pytest.fixture
def abroad(api: Any, topic_manifest: Builder, user_manifest: Builder) -> Callable[..., Document]:
    """Return a builder of a stored Topic or User of namespace team-a, of the Cluster of namespace kafka."""

    def build(kind: str, name: str | None = None, *, status: Document | None = None, **metadata: Any) -> Document:
        spec = {"clusterRef": ABROAD, **metadata.pop("spec", {})}
        manifest = (
            user_manifest(name or "alice", **spec) if kind == "User" else topic_manifest(name or "flights", **spec)
        )
        return api.put({**manifest, "status": status or {}}, **{"namespace": "team-a", **metadata})

    return build


@pytest.fixture
def overdue(api: Any, brokers: Any, allow: Callable[..., None]) -> Callable[[str], ControllerManager]:
    """Return a builder of a controller at a moment of the day on which everything was deleted at midnight.

    Brokers accept members of team-a, and do not respond.
    """
    allow("team-a")
    brokers.is_reachable = False

    def at(time: str) -> ControllerManager:
        return ControllerManager(
            api,
            lambda namespace: KubernetesHost(api, namespace, "ottla/broker:1"),
            brokers.connect,
            now=lambda: f"2026-01-02T{time}Z",
        )

    return at


def put_deleted(abroad: Builder, kind: str) -> ObjectKey:
    """Store a deleted Topic or User of namespace team-a with a topic or entries on its brokers."""
    if kind == "User":
        abroad("User", status={"principal": "User:alice"}, finalizers=[USER_FINALIZER], **GOING)
        return USER
    abroad("Topic", status={"topicId": "x"}, spec={"deletionPolicy": "Delete"}, finalizers=[TOPIC_FINALIZER], **GOING)
    return TOPIC


@pytest.mark.parametrize(
    ("kind", "stays"),
    [
        pytest.param(
            "User",
            "credentials, access control entries and quotas of User:alice stay in Cluster kafka/demo; "
            "to remove what stays: "
            "kubectl ottla -n kafka --cluster demo user remove alice; "
            "kubectl ottla -n kafka --cluster demo acl remove --principal User:alice; "
            "kubectl ottla -n kafka --cluster demo quota remove --user alice",
            id="user",
        ),
        pytest.param(
            "Topic",
            "topic flights stays in Cluster kafka/demo; to remove what stays: "
            "kubectl ottla -n kafka --cluster demo topic delete flights",
            id="topic",
        ),
    ],
)
def test_unreachable_brokers_do_not_block_a_terminating_namespace(
    overdue: Callable[[str], ControllerManager],
    api: Any,
    abroad: Builder,
    kind: str,
    stays: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = put_deleted(abroad, kind)
    api.going.add("team-a")

    assert asyncio.run(overdue("00:05:00").reconcile(key)) is True

    assert api.stored[key]["metadata"]["finalizers"] == []
    ((reason, note, is_warning),) = api.events
    assert (reason, is_warning, api.regarded) == ("Abandoned", True, [ObjectKey("Cluster", "kafka", "demo")])
    assert stays in note
    assert "no broker responds at demo-bootstrap.kafka.svc:9092" in note
    assert [it.message for it in caplog.records if it.levelname == "WARNING"] == [note]


@pytest.mark.parametrize("kind", ["User", "Topic"])
@pytest.mark.parametrize(
    ("time", "going"),
    [pytest.param("00:04:59", {"team-a"}, id="not-for-long"), pytest.param("23:00:00", {"kafka"}, id="not-its-own")],
)
def test_deleted_object_waits_for_its_brokers_otherwise(
    overdue: Callable[[str], ControllerManager],
    api: Any,
    abroad: Builder,
    kind: str,
    time: str,
    going: set[str],
) -> None:
    key = put_deleted(abroad, kind)
    api.going |= going

    assert asyncio.run(overdue(time).reconcile(key)) is False

    assert api.stored[key]["metadata"]["finalizers"] != []
    assert api.reasons(key)["Ready"] == ("False", "BrokerUnreachable")
    assert api.events == []


def test_terminating_namespace_keeps_the_entries_of_another_user_of_the_principal(
    overdue: Callable[[str], ControllerManager],
    api: Any,
    abroad: Builder,
    user_manifest: Builder,
) -> None:
    put_deleted(abroad, "User")
    api.put(user_manifest())
    api.going.add("team-a")
    controller = overdue("00:05:00")
    asyncio.run(controller.resync())

    asyncio.run(controller.reconcile(USER))

    ((_, note, _),) = api.events
    assert "stay in Cluster kafka/demo; User kafka/alice has it now" in note
    assert "to remove" not in note


def test_reachable_brokers_are_cleaned_up_in_a_terminating_namespace(
    overdue: Callable[[str], ControllerManager], api: Any, brokers: Any, abroad: Builder
) -> None:
    brokers.is_reachable, topic_id = True, brokers.add_topic("flights")
    abroad(
        "Topic",
        status={"topicId": topic_id},
        spec={"deletionPolicy": "Delete"},
        finalizers=[TOPIC_FINALIZER],
        **GOING,
    )
    api.going.add("team-a")

    assert asyncio.run(overdue("00:05:00").reconcile(TOPIC)) is True
    assert (brokers.topics, api.stored[TOPIC]["metadata"]["finalizers"]) == ({}, [])
    assert "Abandoned" not in [reason for reason, _, _ in api.events]


@pytest.mark.parametrize("namespaces", [("team-a",), ("team-b", "team-a"), ("*",)])
def test_topic_of_an_allowed_namespace_is_created(
    controller: ControllerManager,
    api: Any,
    brokers: Any,
    allow: Callable[..., None],
    abroad: Builder,
    namespaces: tuple[str, ...],
) -> None:
    allow(*namespaces)
    abroad("Topic")

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert brokers.addresses == ["demo-bootstrap.kafka.svc:9092"]
    assert api.reasons(TOPIC)["Ready"] == ("True", "AsSpecified")


@pytest.mark.parametrize("namespaces", [(), ("team-b",)])
@pytest.mark.parametrize("key", [TOPIC, USER], ids=["topic", "user"])
def test_message_names_the_field_that_would_allow_the_namespace(
    controller: ControllerManager,
    api: Any,
    brokers: Any,
    allow: Callable[..., None],
    abroad: Builder,
    namespaces: tuple[str, ...],
    key: ObjectKey,
) -> None:
    allow(*namespaces)
    abroad(key.kind)

    assert asyncio.run(controller.reconcile(key)) is True
    assert api.reasons(key)["Stalled"] == ("True", "NamespaceNotAllowed")
    assert "add team-a to spec.allowedNamespaces of Cluster demo in namespace kafka" in api.message(key)
    assert brokers.changes == []


def test_own_namespace_is_always_allowed(
    controller: ControllerManager, api: Any, allow: Callable[..., None], topic_manifest: Builder
) -> None:
    allow("team-a")
    api.put(topic_manifest(clusterRef=ABROAD))

    assert asyncio.run(controller.reconcile(ObjectKey("Topic", "kafka", "flights"))) is True
    assert api.reasons(ObjectKey("Topic", "kafka", "flights"))["Ready"] == ("True", "AsSpecified")


def test_member_of_a_namespace_removed_from_the_list_is_stalled_and_unchanged(
    controller: ControllerManager, api: Any, brokers: Any, allow: Callable[..., None], abroad: Builder
) -> None:
    allow("team-a")
    abroad("Topic", spec={"deletionPolicy": "Delete"})
    abroad("User")

    async def both() -> None:
        await controller.reconcile(TOPIC)
        await controller.reconcile(USER)

    asyncio.run(both())
    allow("team-b")
    api.stored[TOPIC]["spec"]["partitions"] = 9
    brokers.changes.clear()
    asyncio.run(both())

    assert [api.reasons(key)["Stalled"] for key in (TOPIC, USER)] == [("True", "NamespaceNotAllowed")] * 2
    assert api.stored[TOPIC]["status"]["partitions"] == 6
    for key in (TOPIC, USER):
        api.stored[key]["metadata"] |= GOING
    asyncio.run(both())

    assert brokers.changes == [], "nothing was changed or deleted"
    assert [api.stored[key]["metadata"]["finalizers"] for key in (TOPIC, USER)] == [[], []]
    assert ("flights" in brokers.topics, bool(brokers.acls)) == (True, True)


def test_change_of_allowed_namespaces_marks_members(
    controller: ControllerManager, api: Any, allow: Callable[..., None], abroad: Builder
) -> None:
    allow()

    async def scenario() -> list[ObjectKey]:
        controller.seen(abroad("Topic"))
        controller.seen(abroad("User", "stranger", spec={"clusterRef": {"name": "demo"}}))
        controller.queue._waiting_since.clear()
        allow("team-a")
        await controller.reconcile(ObjectKey("Cluster", "kafka", "demo"))
        return list(controller.queue._waiting_since)

    assert asyncio.run(scenario()) == [TOPIC]


def test_members_of_one_cluster_are_one_group_in_all_namespaces(
    controller: ControllerManager, allow: Callable[..., None], abroad: Builder, topic_manifest: Builder, api: Any
) -> None:
    async def scenario() -> set[object]:
        for document in (abroad("Topic"), abroad("User"), api.put(topic_manifest("home"))):
            controller.seen(document)
        return {controller.queue._group(key) for key in (TOPIC, USER, ObjectKey("Topic", "kafka", "home"))}

    assert asyncio.run(scenario()) == {ObjectKey("Cluster", "kafka", "demo")}


def test_claims_are_of_the_cluster_and_not_of_the_namespace(
    controller: ControllerManager, api: Any, allow: Callable[..., None], abroad: Builder, topic_manifest: Builder
) -> None:
    allow("team-a")
    abroad("Topic", creationTimestamp="2026-01-01T00:00:01Z")
    api.put(topic_manifest())
    elsewhere = api.put(topic_manifest(), namespace="team-b")

    async def scenario() -> None:
        await controller.resync()
        for key in (TOPIC, ObjectKey("Topic", "kafka", "flights")):
            await controller.reconcile(key)

    asyncio.run(scenario())
    assert elsewhere["spec"]["clusterRef"] == {"name": "demo"}, "another cluster, of namespace team-b"
    assert api.reasons(TOPIC)["Stalled"] == ("True", "TopicClaimedElsewhere")
    assert "Topic kafka/flights" in api.message(TOPIC)
    assert api.reasons(ObjectKey("Topic", "kafka", "flights"))["Ready"] == ("True", "AsSpecified")


@pytest.mark.parametrize("kind", ["Topic", "User"])
def test_claim_of_a_namespace_that_is_not_allowed_does_not_count(
    controller: ControllerManager,
    api: Any,
    allow: Callable[..., None],
    abroad: Builder,
    topic_manifest: Builder,
    user_manifest: Builder,
    kind: str,
) -> None:
    """Otherwise any namespace could reserve a name against the cluster's own members."""
    allow()
    abroad(kind)
    mine = topic_manifest() if kind == "Topic" else user_manifest()
    key = ObjectKey(kind, "kafka", mine["metadata"]["name"])
    api.put(mine, creationTimestamp="2026-01-01T00:00:01Z")

    async def scenario() -> None:
        await controller.resync()
        await controller.reconcile(key)

    asyncio.run(scenario())
    assert api.reasons(key)["Ready"] == ("True", "AsSpecified")


def test_secret_is_where_the_user_is(
    controller: ControllerManager, api: Any, brokers: Any, allow: Callable[..., None], abroad: Builder
) -> None:
    allow("*")
    abroad("User")

    assert asyncio.run(controller.reconcile(USER)) is True
    assert ObjectKey("Secret", "team-a", "alice") in api.stored
    assert ObjectKey("Secret", "kafka", "alice") not in api.stored


@pytest.mark.parametrize(("kind", "finalizer"), [("Topic", TOPIC_FINALIZER), ("User", USER_FINALIZER)])
def test_cluster_that_is_gone_releases_members_of_other_namespaces(
    controller: ControllerManager, api: Any, abroad: Builder, kind: str, finalizer: str
) -> None:
    status = {"topicId": "id-1", "principal": "User:alice"}
    document = abroad(
        kind,
        status=status,
        spec={"deletionPolicy": "Delete"} if kind == "Topic" else {},
        finalizers=[finalizer],
        **GOING,
    )
    key = ObjectKey(kind, "team-a", document["metadata"]["name"])

    assert asyncio.run(controller.reconcile(key)) is True
    assert api.stored[key]["metadata"]["finalizers"] == []


class TestSomeNamespaces:
    """An operator that watches some namespaces only."""

    @pytest.fixture
    def controller(self, api: Any, brokers: Any) -> ControllerManager:
        return ControllerManager(
            api,
            lambda namespace: KubernetesHost(api, namespace, "ottla/broker:1"),
            brokers.connect,
            namespaces=("team-a", "team-b"),
            now=lambda: "2026-01-01T00:00:00Z",
        )

    def test_cluster_in_an_unwatched_namespace_is_not_read(
        self, controller: ControllerManager, api: Any, abroad: Builder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        get = api.get

        async def watched(kind: str, namespace: str, name: str) -> Document | None:
            asked.append(namespace)
            return await get(kind, namespace, name)

        monkeypatch.setattr(api, "get", watched)
        abroad("Topic")

        assert asyncio.run(controller.reconcile(TOPIC)) is True
        assert set(asked) == {"team-a"}, "it has no right to look into namespace kafka"
        assert api.reasons(TOPIC)["Stalled"] == ("True", "NamespaceNotWatched")
        assert "watches the namespaces team-a, team-b" in api.message(TOPIC)
        assert "add kafka to watchNamespaces" in api.message(TOPIC)

    def test_deletion_does_not_wait_for_a_cluster_elsewhere(
        self, controller: ControllerManager, api: Any, abroad: Builder
    ) -> None:
        abroad("User", status={"principal": "User:alice"}, finalizers=[USER_FINALIZER], **GOING)

        assert asyncio.run(controller.reconcile(USER)) is True
        assert api.stored[USER]["metadata"]["finalizers"] == []

    def test_users_of_a_cluster_are_found_in_every_namespace(
        self,
        controller: ControllerManager,
        api: Any,
        abroad: Builder,
        allow: Callable[..., None],
        cluster_manifest: Builder,
    ) -> None:
        manifest = cluster_manifest(spec={"allowedNamespaces": ["team-b"]})
        cluster = Cluster.parse(api.put(manifest, namespace="team-a"))
        reference = {"spec": {"clusterRef": {"name": "demo", "namespace": "team-a"}}}
        for namespace in ("team-a", "team-b", "kafka"):
            abroad("User", f"of-{namespace}", namespace=namespace, **reference)

        found = asyncio.run(controller._users.users_of(cluster))
        assert [it["metadata"]["name"] for it in found] == ["of-team-a", "of-team-b"]


def test_deletion_of_the_younger_of_two_objects_leaves_the_topic_of_the_older(
    controller: ControllerManager, api: Any, brokers: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.put(topic_manifest())
    api.put(topic_manifest("second", topicName="flights", deletionPolicy="Delete"), creationTimestamp="2026-02-01")
    second = ObjectKey("Topic", "kafka", "second")

    async def scenario() -> None:
        await controller.resync()
        await controller.reconcile(ObjectKey("Topic", "kafka", "flights"))
        await controller.reconcile(second)
        assert api.reasons(second)["Stalled"] == ("True", "TopicClaimedElsewhere")
        api.stored[second]["metadata"] |= GOING
        await controller.reconcile(second)

    asyncio.run(scenario())
    assert "flights" in brokers.topics
    assert api.stored[second]["metadata"]["finalizers"] == []


def test_topic_is_handed_over_to_another_object_that_claims_it(
    controller: ControllerManager, api: Any, brokers: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    """As when an object moves to another namespace: created there first, deleted here next."""
    first, second = ObjectKey("Topic", "kafka", "flights"), ObjectKey("Topic", "kafka", "second")
    api.put(topic_manifest(deletionPolicy="Delete"))
    api.put(topic_manifest("second", topicName="flights"), creationTimestamp="2026-02-01")

    async def scenario() -> None:
        await controller.resync()
        await controller.reconcile(first)
        api.stored[first]["metadata"] |= GOING
        controller.seen(api.stored[first])
        await controller.reconcile(first)
        await controller.reconcile(second)

    asyncio.run(scenario())
    assert brokers.changes == ["create flights 6"]
    assert api.stored[first]["metadata"]["finalizers"] == []
    assert api.reasons(second)["Ready"] == ("True", "AsSpecified")
