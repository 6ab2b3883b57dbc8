"""The thin API client: paths, verbs and content types on the wire, pages, error responses, and expiring tokens."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from http_api import credentials
from kubernetes.aio.client import Configuration

from ottla_operator.adapters.kubernetes.api import KubernetesApi
from ottla_operator.errors import ApiError

Document = dict[str, Any]
Responder = Callable[[web.Request], web.Response]


class FakeServer:
    """An HTTP server that records requests and sends the responses of the test."""

    def __init__(self) -> None:
        self.requests: list[Document] = []
        self.responses: list[tuple[int, Document | str]] = []
        self.tokens = ["first"]
        self.valid_token = "first"
        self.port = 0

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubernetesApi]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            async with KubernetesApi(self._load) as api:
                yield api
        finally:
            await runner.cleanup()

    async def _load(self) -> Configuration:
        token = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        return await credentials(f"http://127.0.0.1:{self.port}", token)()

    async def _handle(self, request: web.Request) -> web.Response:
        if request.headers["Authorization"] != f"Bearer {self.valid_token}":
            return web.json_response({"reason": "Unauthorized", "message": "Unauthorized"}, status=401)
        text = await request.text()
        self.requests.append(
            {
                "method": request.method,
                "path": request.path,
                "query": dict(request.query),
                "type": request.content_type,
                "body": json.loads(text) if text else None,
            }
        )
        status, body = self.responses.pop(0) if self.responses else (200, {})
        if isinstance(body, str):
            return web.Response(text=body, content_type="text/html", status=status)
        return web.json_response(body, status=status)


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def ask(server: FakeServer, work: Callable[[KubernetesApi], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with server.client() as api:
            return await work(api)

    return asyncio.run(run())


TOPIC: Document = {
    "apiVersion": "ottla.dev/v1",
    "kind": "Topic",
    "metadata": {"name": "flights", "namespace": "kafka", "resourceVersion": "7", "finalizers": ["a"]},
    "spec": {},
}


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Topic", "/apis/ottla.dev/v1/namespaces/kafka/topics/x"),
        ("StatefulSet", "/apis/apps/v1/namespaces/kafka/statefulsets/x"),
        ("Service", "/api/v1/namespaces/kafka/services/x"),
    ],
)
def test_object_is_read_at_the_path_of_its_kind(server: FakeServer, kind: str, path: str) -> None:
    server.responses = [(200, {"found": True})]

    assert ask(server, lambda api: api.get(kind, "kafka", "x")) == {"found": True}
    assert (server.requests[0]["method"], server.requests[0]["path"]) == ("GET", path)


def test_missing_object_is_none(server: FakeServer) -> None:
    server.responses = [(404, {"reason": "NotFound", "message": "no"})]

    assert ask(server, lambda api: api.get("Topic", "kafka", "x")) is None


def test_listing_continues_until_the_last_page(server: FakeServer) -> None:
    server.responses = [
        (200, {"apiVersion": "apps/v1", "items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "next"}}),
        (200, {"apiVersion": "apps/v1", "items": [{"metadata": {"name": "b"}}], "metadata": {}}),
    ]

    found = ask(server, lambda api: api.objects("StatefulSet", "kafka", "x=y"))

    assert found == [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}} for name in ("a", "b")
    ], "what a list leaves out is there"
    assert server.requests[0]["query"] == {"limit": "500", "labelSelector": "x=y"}
    assert server.requests[1]["query"]["continue"] == "next"


def test_listing_of_all_namespaces_names_none(server: FakeServer) -> None:
    server.responses = [(200, {"apiVersion": "v1", "items": [], "metadata": {}})]
    ask(server, lambda api: api.objects("Cluster"))

    assert server.requests[0]["path"] == "/apis/ottla.dev/v1/clusters"


def test_apply_is_server_side_by_one_manager(server: FakeServer) -> None:
    ask(server, lambda api: api.apply(TOPIC))

    (request,) = server.requests
    assert (request["method"], request["path"]) == ("PATCH", "/apis/ottla.dev/v1/namespaces/kafka/topics/flights")
    assert request["query"] == {"fieldManager": "ottla-operator", "force": "true"}
    assert (request["type"], request["body"]) == ("application/apply-patch+yaml", TOPIC)


def test_creation_adopts_no_existing_object(server: FakeServer) -> None:
    server.responses = [(409, {"reason": "AlreadyExists", "message": "there"})]

    with pytest.raises(ApiError, match="AlreadyExists"):
        ask(server, lambda api: api.create(TOPIC))

    (request,) = server.requests
    assert (request["method"], request["path"]) == ("POST", "/apis/ottla.dev/v1/namespaces/kafka/topics")
    assert (request["query"], request["body"]) == ({"fieldManager": "ottla-operator"}, TOPIC)


def test_dry_run_creates_nothing(server: FakeServer) -> None:
    ask(server, lambda api: api.dry_run_create(TOPIC))

    (request,) = server.requests
    assert (request["method"], request["path"]) == ("POST", "/apis/ottla.dev/v1/namespaces/kafka/topics")
    assert request["query"] == {"fieldManager": "ottla-operator", "dryRun": "All"}
    assert request["body"] == TOPIC


def test_warnings_are_those_about_one_object(server: FakeServer) -> None:
    server.responses = [(200, {"items": [{"reason": "FailedMount"}]})]
    pod = {"kind": "Pod", "metadata": {"name": "demo-main-0", "namespace": "kafka", "uid": "u-1"}}

    found = ask(server, lambda api: api.warnings_about(pod))

    (request,) = server.requests
    assert found == [{"reason": "FailedMount"}]
    assert request["path"] == "/apis/events.k8s.io/v1/namespaces/kafka/events"
    assert request["query"] == {"fieldSelector": "type=Warning,regarding.uid=u-1", "limit": "500"}


def test_status_is_applied_without_spec_only_on_the_version_that_was_read(server: FakeServer) -> None:
    server.responses = [(200, {"stored": True})]

    assert ask(server, lambda api: api.apply_status(TOPIC, {"partitions": 6})) == {"stored": True}

    (request,) = server.requests
    assert request["path"].endswith("/topics/flights/status")
    assert request["body"] == {
        "apiVersion": "ottla.dev/v1",
        "kind": "Topic",
        "metadata": {"name": "flights", "namespace": "kafka", "resourceVersion": "7"},
        "status": {"partitions": 6},
    }


def test_part_of_a_status_is_merged_only_on_the_version_that_was_read(server: FakeServer) -> None:
    patch = {"operator": {"name": "a/b", "challenger": None}}
    server.responses = [(200, {"merged": True})]

    assert ask(server, lambda api: api.patch_status(TOPIC, patch)) == {"merged": True}

    (request,) = server.requests
    assert (request["method"], request["path"].rpartition("/topics/")[2]) == ("PATCH", "flights/status")
    assert request["type"] == "application/merge-patch+json"
    version = TOPIC["metadata"]["resourceVersion"]
    assert request["body"] == {"metadata": {"resourceVersion": version}, "status": patch}


def test_finalizers_are_replaced_only_on_the_version_that_was_read(server: FakeServer) -> None:
    ask(server, lambda api: api.replace_finalizers(TOPIC, ["a", "b"]))

    (request,) = server.requests
    assert request["type"] == "application/merge-patch+json"
    assert request["body"] == {"metadata": {"resourceVersion": "7", "finalizers": ["a", "b"]}}


def test_object_is_patched_only_on_the_version_that_was_read(server: FakeServer) -> None:
    removal = {"op": "remove", "path": "/spec/partitions"}

    ask(server, lambda api: api.patch(TOPIC, [removal]))

    (request,) = server.requests
    assert (request["method"], request["type"]) == ("PATCH", "application/json-patch+json")
    assert request["body"] == [{"op": "add", "path": "/metadata/resourceVersion", "value": "7"}, removal]


@pytest.mark.parametrize(("uid", "conditions"), [("", {}), ("u-1", {"preconditions": {"uid": "u-1"}})])
def test_deletion_is_conditional_on_the_observed_uid(server: FakeServer, uid: str, conditions: Document) -> None:
    ask(server, lambda api: api.delete("Pod", "kafka", "demo-main-0", uid=uid))

    (request,) = server.requests
    assert (request["method"], request["path"]) == ("DELETE", "/api/v1/namespaces/kafka/pods/demo-main-0")
    assert request["body"] == {"propagationPolicy": "Background"} | conditions


@pytest.mark.parametrize(("is_warning", "kind"), [(True, "Warning"), (False, "Normal")])
def test_event_regards_its_object_and_is_short_enough(server: FakeServer, is_warning: bool, kind: str) -> None:
    document = {**TOPIC, "metadata": {**TOPIC["metadata"], "uid": "u-1"}}
    ask(server, lambda api: api.record_event(document, reason="Why", note="n" * 2_000, is_warning=is_warning))

    (request,) = server.requests
    assert (request["method"], request["path"]) == ("POST", "/apis/events.k8s.io/v1/namespaces/kafka/events")
    body = request["body"]
    assert (body["type"], body["reason"], len(body["note"])) == (kind, "Why", 1_000)
    assert body["regarding"] == {
        "apiVersion": "ottla.dev/v1",
        "kind": "Topic",
        "namespace": "kafka",
        "name": "flights",
        "uid": "u-1",
    }


@pytest.mark.parametrize(
    ("status", "causes", "going"),
    [
        pytest.param(201, [], False, id="there"),
        pytest.param(403, [{"reason": "NamespaceTerminating"}], True, id="going"),
    ],
)
def test_terminating_namespace_rejects_a_dry_run_of_an_event(
    server: FakeServer, status: int, causes: list[Document], going: bool
) -> None:
    server.responses = [(status, {"reason": "Forbidden", "details": {"causes": causes}})]
    document = {**TOPIC, "metadata": {**TOPIC["metadata"], "uid": "u-1"}}

    assert ask(server, lambda api: api.is_namespace_terminating(document)) is going

    (request,) = server.requests
    assert (request["method"], request["path"]) == ("POST", "/apis/events.k8s.io/v1/namespaces/kafka/events")
    assert dict(request["query"]) == {"dryRun": "All"}


def test_missing_permission_is_no_terminating_namespace(server: FakeServer) -> None:
    server.responses = [(403, {"reason": "Forbidden"})]
    document = {**TOPIC, "metadata": {**TOPIC["metadata"], "uid": "u-1"}}

    with pytest.raises(ApiError, match="403 Forbidden"):
        ask(server, lambda api: api.is_namespace_terminating(document))


def test_notes_of_events_are_truncated_by_bytes(server: FakeServer) -> None:
    document = {**TOPIC, "metadata": {**TOPIC["metadata"], "uid": "u-1"}}

    ask(server, lambda api: api.record_event(document, reason="Why", note="\N{EURO SIGN}" * 2_000, is_warning=False))

    assert server.requests[0]["body"]["note"] == "\N{EURO SIGN}" * 333


@pytest.mark.parametrize("status", [200, 404], ids=["there", "gone-already"])
def test_deletion_is_in_the_background(server: FakeServer, status: int) -> None:
    server.responses = [(status, {"reason": "x"})]
    ask(server, lambda api: api.delete("Pod", "kafka", "x"))

    (request,) = server.requests
    assert (request["method"], request["body"]) == ("DELETE", {"propagationPolicy": "Background"})


@pytest.mark.parametrize("status", [200, 404], ids=["there", "gone"])
def test_one_object_is_deleted_by_its_uid_and_what_it_owns_stays(server: FakeServer, status: int) -> None:
    server.responses = [(status, {"reason": "x"})]
    seen = {"kind": "StatefulSet", "metadata": {"namespace": "kafka", "name": "x", "uid": "u-1"}}
    ask(server, lambda api: api.delete_only(seen))

    (request,) = server.requests
    assert request["method"] == "DELETE"
    assert request["body"] == {"propagationPolicy": "Orphan", "preconditions": {"uid": "u-1"}}


@pytest.mark.parametrize(
    ("work", "status", "reason"),
    [
        pytest.param(lambda api: api.get("Topic", "kafka", "x"), 403, "Forbidden", id="get"),
        pytest.param(lambda api: api.apply(TOPIC), 422, "Invalid", id="apply"),
        pytest.param(lambda api: api.delete("Pod", "kafka", "x"), 409, "Conflict", id="delete"),
        pytest.param(lambda api: api.objects("Topic"), 500, "InternalError", id="list"),
    ],
)
def test_error_carries_the_servers_message(
    server: FakeServer, work: Callable[[KubernetesApi], Awaitable[Any]], status: int, reason: str
) -> None:
    # As often as it is retried.
    server.responses = [(status, {"reason": reason, "message": "because"})] * 4

    with pytest.raises(ApiError, match="because") as raised:
        ask(server, work)

    assert (raised.value.status, raised.value.reason) == (status, reason)
    assert raised.value.is_conflict is (status == 409)


def test_error_page_of_a_proxy_is_an_api_error(server: FakeServer) -> None:
    server.responses = [(502, "<html>Bad Gateway</html>")] * 4

    with pytest.raises(ApiError) as raised:
        ask(server, lambda api: api.get("Topic", "kafka", "x"))

    assert (raised.value.status, raised.value.reason) == (502, "Bad Gateway")


def test_page_in_place_of_a_response_is_an_os_error(server: FakeServer) -> None:
    server.responses = [(200, "<html>Please log in</html>")]

    with pytest.raises(OSError, match="is not JSON"):
        ask(server, lambda api: api.get("Topic", "kafka", "x"))


def test_token_that_expires_under_several_requests_is_read_again_once(server: FakeServer) -> None:
    server.tokens, server.valid_token = ["first", "second", "third"], "second"

    async def work(api: KubernetesApi) -> list[Document | None]:
        return await asyncio.gather(*(api.get("Topic", "kafka", f"x{number}") for number in range(5)))

    assert ask(server, work) == [{}] * 5
    assert server.tokens == ["third"]


def test_expired_token_is_read_again(server: FakeServer) -> None:
    server.tokens, server.valid_token = ["first", "second"], "second"
    server.responses = [(200, {"found": True})]

    assert ask(server, lambda api: api.get("Topic", "kafka", "x")) == {"found": True}


def test_token_that_stays_invalid_is_an_error(server: FakeServer) -> None:
    server.valid_token = "other"

    with pytest.raises(ApiError) as raised:
        ask(server, lambda api: api.get("Topic", "kafka", "x"))

    assert raised.value.status == 401


def test_server_that_does_not_respond_is_an_os_error() -> None:
    async def run() -> None:
        async with KubernetesApi(credentials("http://127.0.0.1:1")) as api:
            await api.get("Topic", "kafka", "x")

    with pytest.raises(OSError, match="did not respond to GET"):
        asyncio.run(run())
