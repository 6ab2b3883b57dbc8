"""An API server that is busy, fails, hangs, closes connections, or rejects: what is retried, and what is raised."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from http_api import Fault, HttpApi, credentials

from ottla_operator.adapters.kubernetes import retries
from ottla_operator.adapters.kubernetes.api import KubernetesApi
from ottla_operator.adapters.kubernetes.api_calls import ApiCall
from ottla_operator.errors import ApiError, LeadershipLostError

Document = dict[str, Any]
Work = Callable[[KubernetesApi], Awaitable[Any]]

SECRET: Document = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "x", "namespace": "kafka"},
}


def get(api: KubernetesApi) -> Awaitable[Any]:
    return api.get("Secret", "kafka", "x")


def apply(api: KubernetesApi) -> Awaitable[Any]:
    return api.apply(SECRET)


def create(api: KubernetesApi) -> Awaitable[Any]:
    return api.create({**SECRET, "metadata": {"name": "new", "namespace": "kafka"}})


def delete(api: KubernetesApi) -> Awaitable[Any]:
    return api.delete("Secret", "kafka", "x")


@pytest.fixture
def server() -> HttpApi:
    server = HttpApi()
    server.put("secrets", SECRET)
    return server


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let no time pass between attempts, and return the delays."""
    found: list[float] = []
    sleep = asyncio.sleep

    async def at_once(delay_s: float) -> None:
        if delay_s:
            found.append(delay_s)
        await sleep(0)

    monkeypatch.setattr(retries.asyncio, "sleep", at_once)
    return found


def ask(server: HttpApi, work: Work, **options: Any) -> Any:
    async def run() -> Any:
        async with (
            server.serving() as address,
            KubernetesApi(credentials(address), **options) as api,
        ):
            return await work(api)

    return asyncio.run(run())


@pytest.mark.parametrize("work", [get, apply, create, delete], ids=lambda it: it.__name__)
def test_every_request_is_retried_at_a_busy_server(server: HttpApi, waits: list[float], work: Work) -> None:
    server.faults = [Fault(status=429, times=2, headers={"Retry-After": "3"})]

    ask(server, work)

    assert len(waits) == 2
    assert all(3 <= wait_s <= 6 for wait_s in waits)


def test_retries_at_a_busy_server_are_limited(server: HttpApi, waits: list[float]) -> None:
    server.faults = [Fault(status=429, times=100)]

    with pytest.raises(ApiError) as raised:
        ask(server, get)

    assert raised.value.status == 429
    assert len(server.requests) == 4
    assert sum(waits) < 2


def test_long_retry_after_is_an_error_at_once(server: HttpApi, waits: list[float]) -> None:
    server.faults = [Fault(status=429, headers={"Retry-After": "60"})]

    with pytest.raises(ApiError) as raised:
        ask(server, get)

    assert raised.value.retry_after_s == 60
    assert not waits


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("work", [get, apply], ids=lambda it: it.__name__)
def test_repeatable_request_is_retried_at_a_failing_server(
    server: HttpApi, waits: list[float], work: Work, status: int
) -> None:
    server.faults = [Fault(status=status, times=3)]

    ask(server, work)

    assert [round(it, 3) <= limit for it, limit in zip(waits, (0.25, 0.5, 1), strict=True)] == [True] * 3


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(cut=True, done=True)], ids=["fails", "answer-lost"])
@pytest.mark.parametrize("work", [create, delete], ids=lambda it: it.__name__)
def test_request_that_may_have_been_executed_is_not_repeated(
    server: HttpApi, waits: list[float], work: Work, fault: Fault
) -> None:
    """A deleted pod may have a successor of its name by now."""
    server.faults = [replace(fault)]

    with pytest.raises((ApiError, OSError)):
        ask(server, work)

    assert len(server.requests) == 1
    assert not waits


def test_connection_lost_within_a_response_is_retried(server: HttpApi, waits: list[float]) -> None:
    server.faults = [Fault(cut=True, times=3)]

    assert ask(server, get)["metadata"]["name"] == "x"
    assert len(waits) == 3


def test_connection_that_is_always_lost_is_an_os_error(server: HttpApi, waits: list[float]) -> None:
    server.faults = [Fault(cut=True, times=9)]

    with pytest.raises(OSError, match="did not respond to GET /api/v1/namespaces/kafka/secrets/x"):
        ask(server, get)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
def test_rejection_is_not_retried(server: HttpApi, waits: list[float], status: int) -> None:
    server.faults = [Fault(status=status, body={"reason": "No", "message": "no"})]

    with pytest.raises(ApiError):
        ask(server, apply)

    assert len(server.requests) == 1


def test_hanging_server_times_out_without_a_retry(server: HttpApi) -> None:
    server.faults = [Fault(hang=True, times=9)]

    with pytest.raises(TimeoutError, match="did not respond to GET /api/v1/namespaces/kafka/secrets/x in time"):
        ask(server, get, request_timeout_s=0.2)

    assert len(server.requests) == 1


def test_listing_whose_page_expired_restarts(server: HttpApi) -> None:
    server.faults = [
        Fault(status=200, body={"apiVersion": "v1", "items": [SECRET], "metadata": {"continue": "next"}}),
        Fault(where="continue", status=410, body={"reason": "Expired", "message": "too old"}),
    ]

    found = ask(server, lambda api: api.objects("Secret", "kafka"))

    assert [it["metadata"]["name"] for it in found] == ["x"]
    assert len(server.requests) == 3


def test_listing_that_always_expires_is_an_error(server: HttpApi) -> None:
    server.faults = [Fault(times=99, status=410, body={"reason": "Expired", "message": "too old"})]

    with pytest.raises(ApiError) as raised:
        ask(server, lambda api: api.objects("Secret", "kafka"))

    assert raised.value.is_expired
    assert len(server.requests) == 3


def test_creation_in_a_terminating_namespace_differs_from_a_missing_permission(server: HttpApi) -> None:
    server.terminating.add("kafka")

    with pytest.raises(ApiError) as raised:
        ask(server, create)

    assert (raised.value.status, raised.value.reason) == (403, "NamespaceTerminating")
    assert raised.value.is_terminating


def test_standby_sends_no_writes(server: HttpApi) -> None:
    for work in (apply, create, delete):
        with pytest.raises(LeadershipLostError, match="is not sent: this operator does not lead"):
            ask(server, work, may_write=lambda: False)

    assert not server.requests
    assert ask(server, get, may_write=lambda: False) is not None


def test_leadership_lost_between_two_attempts_ends_them(server: HttpApi, waits: list[float]) -> None:
    server.faults = [Fault(status=503, times=9)]
    leads = [True, False]

    with pytest.raises(LeadershipLostError):
        ask(server, apply, may_write=lambda: leads.pop(0))

    assert len(server.requests) == 1


def test_leadership_lost_during_another_login_ends_the_write(server: HttpApi) -> None:
    """New credentials may take long, as those of a plugin: the Lease can end meanwhile."""
    server.faults = [Fault(method="DELETE", status=401)]
    leads = [True, False]

    with pytest.raises(LeadershipLostError):
        ask(server, delete, may_write=lambda: leads.pop(0))

    assert server.count("DELETE", "secrets") == 1


def test_replacement_is_rejected_when_the_object_has_changed(server: HttpApi) -> None:
    async def work(api: KubernetesApi) -> None:
        read = await api.get("Secret", "kafka", "x")
        assert read is not None
        await api.replace({**read, "data": {"a": "b"}})
        with pytest.raises(ApiError, match="Conflict"):
            await api.replace(read)

    ask(server, work)

    assert server.stored["secrets", "kafka", "x"]["data"] == {"a": "b"}


def test_every_request_is_reported_in_rbac_terms(server: HttpApi, waits: list[float]) -> None:
    calls: list[ApiCall] = []
    server.faults = [Fault(method="PATCH", status=503), Fault(method="POST", cut=True)]

    async def work(api: KubernetesApi) -> None:
        await api.objects("Secret")
        await get(api)
        await api.apply_status(server.put("secrets", SECRET), {"a": "b"})
        await delete(api)
        await create(api)

    with pytest.raises(OSError, match="did not respond to POST"):
        ask(server, work, on_call=calls.append)

    assert [(it.verb, it.resource, it.namespace, it.code) for it in calls] == [
        ("list", "secrets", "", 200),
        ("get", "secrets", "kafka", 200),
        ("patch", "secrets/status", "kafka", 503),
        ("patch", "secrets/status", "kafka", 200),
        ("delete", "secrets", "kafka", 200),
        ("create", "secrets", "kafka", 200),
    ]
    assert all(it.seconds >= 0 for it in calls)
    assert [it.error for it in calls if it.error] == ["503 Service Unavailable"]


def test_unreachable_server_is_code_0() -> None:
    calls: list[ApiCall] = []

    async def run() -> None:
        async with KubernetesApi(credentials("http://127.0.0.1:1"), on_call=calls.append, request_timeout_s=1) as api:
            await api.delete("Secret", "kafka", "x")

    with pytest.raises(OSError, match="did not respond to DELETE"):
        asyncio.run(run())
    assert [(it.verb, it.code) for it in calls] == [("delete", 0)]
