"""kopf's watches against a real HTTP server: marks, signs of life, and every way in which a watch ends."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from http_api import Fault, HttpApi, credentials, until
from kubernetes.aio.client import Configuration

from ottla_operator.adapters.kubernetes.api import KubernetesApi
from ottla_operator.adapters.kubernetes.api_calls import ApiCall
from ottla_operator.runtime import watches
from ottla_operator.runtime.handlers.events import Marks
from ottla_operator.runtime.watch_health import WatchHealth
from ottla_operator.runtime.watches import Watches, kopf_settings, watch_targets

Document = dict[str, Any]

ALL = {"clusters", "topics", "users", "statefulsets"}


class Diary:
    """Records marks in place of the controller."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, str]] = []

    def seen(self, document: Document) -> None:
        self.marks.append(("seen", document["metadata"]["name"]))

    def gone(self, document: Document) -> None:
        self.marks.append(("gone", document["metadata"]["name"]))

    def child_seen(self, namespace: str, cluster: str) -> None:
        self.marks.append(("child", cluster))


class World:
    """A server, and watches on it."""

    def __init__(self) -> None:
        self.server = HttpApi()
        self.diary = Diary()
        self.calls: list[ApiCall] = []
        self.gaps: list[float] = []
        self.tokens = ["first"]
        self.health = WatchHealth(watch_targets(()), time.monotonic())

    async def load(self) -> Configuration:
        return await credentials(self.server.address, self.tokens[-1])()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[asyncio.Future[None]]:
        async with self.server.serving(), KubernetesApi(self.load) as api:
            running = asyncio.ensure_future(
                Watches(
                    api,
                    self.diary,
                    namespaces=(),
                    health=self.health,
                    on_call=self.calls.append,
                    gap=lambda: self.gaps.append(time.monotonic()),
                    load=self.load,
                ).run()
            )
            try:
                yield running
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await until(lambda: "kopf" not in {it.name for it in threading.enumerate()})

    @property
    def is_open(self) -> bool:
        return self.health.problem is None and self.server.open_watches == ALL


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(watches, "_BACKOFF_S_MIN", 0.05)
    monkeypatch.setattr(watches, "_BACKOFF_S_MAX", 0.1)
    monkeypatch.setattr(watches, "_RELOGIN_S", 0.05)
    return World()


def topic(name: str) -> Document:
    return {"apiVersion": "ottla.dev/v1", "kind": "Topic", "metadata": {"name": name, "namespace": "kafka"}, "spec": {}}


def test_objects_become_marks_as_they_come_change_and_go(world: World) -> None:
    async def run() -> None:
        world.server.put("topics", topic("before"))
        async with world.watching():
            await until(lambda: world.is_open)
            world.server.put("topics", topic("after"))
            world.server.remove("topics", "kafka", "before")
            await until(lambda: len(world.diary.marks) >= 3)

    asyncio.run(run())
    # Per object in order; kopf has a queue for each.
    assert world.diary.marks[0] == ("seen", "before")
    assert set(world.diary.marks[1:]) == {("seen", "after"), ("gone", "before")}
    assert not world.gaps


def test_kopf_writes_nothing(world: World) -> None:
    async def run() -> None:
        world.server.put("topics", topic("before"))
        async with world.watching():
            await until(lambda: world.is_open and world.diary.marks)

    asyncio.run(run())
    assert {it.split()[0] for it in world.server.requests} == {"GET"}


def test_watch_that_the_server_ends_is_opened_again_without_a_gap(world: World) -> None:
    async def run() -> None:
        async with world.watching():
            await until(lambda: world.is_open)
            before = world.server.count("GET", "topics?watch=true")
            world.server.end_watches()
            await until(lambda: world.server.count("GET", "topics?watch=true") > before and world.is_open)
            world.server.put("topics", topic("after"))
            await until(lambda: world.diary.marks)

    asyncio.run(run())
    assert not world.gaps


@pytest.mark.parametrize(
    "error",
    [
        pytest.param({"code": 410, "reason": "Expired", "message": "too old resource version"}, id="gone"),
        pytest.param({"code": 500, "reason": "InternalError", "message": "etcd is away"}, id="any-other"),
    ],
)
def test_error_on_a_watch_does_not_end_the_operator(world: World, error: Document) -> None:
    async def run() -> None:
        async with world.watching() as running:
            await until(lambda: world.is_open)
            world.server.send_to_watches({"type": "ERROR", "object": error})
            before = len(world.server.requests)
            await until(lambda: len(world.server.requests) >= before + 4 and world.is_open)
            world.server.put("topics", topic("after"))
            await until(lambda: ("seen", "after") in world.diary.marks)
            assert not running.done()

    asyncio.run(run())


def test_watches_that_fail_at_once_are_logged_without_tracebacks_of_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with world.watching():
            await until(lambda: world.is_open)
            world.server.send_to_watches({"type": "ERROR", "object": {"code": 500, "message": "etcd is away"}})
            await until(lambda: "etcd is away" in (world.health.problem or ""))

    # kopf's own records hold the errors with their frames, and so the tasks.
    caplog.set_level(logging.CRITICAL, logger="kopf")
    caplog.handler.setLevel(logging.WARNING)
    asyncio.run(run())
    gc.collect()
    never_awaited = [it for it in caplog.records if "never retrieved" in it.message]
    assert never_awaited
    assert all(it.exc_info is None and "etcd is away" in it.message for it in never_awaited)


def test_deleted_crd_is_logged_and_watched_again_once_it_returns(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with world.watching() as running:
            await until(lambda: world.is_open)
            world.server.missing.add("topics")
            world.server.end_watches()
            await until(lambda: "topics.ottla.dev installed?" in (world.health.problem or ""))
            assert world.health.ages_s(time.monotonic())["topics"] < 5
            world.server.missing.clear()
            await until(lambda: world.is_open)
            world.server.put("topics", topic("again"))
            await until(lambda: ("seen", "again") in world.diary.marks)
            assert not running.done()

    asyncio.run(run())
    said = [
        it.message
        for it in caplog.records
        if it.name == "ottla_operator.runtime.watches" and "nothing is" in it.message
    ]
    assert 1 <= len(said) <= 3
    assert len(world.gaps) == 1


def test_missing_crd_is_waited_for(world: World) -> None:
    world.server.missing.add("clusters")

    async def run() -> None:
        async with world.watching():
            await until(lambda: "clusters.ottla.dev installed?" in (world.health.problem or ""))
            world.server.missing.clear()
            await until(lambda: world.is_open)

    asyncio.run(run())


def test_missing_permission_is_logged(world: World) -> None:
    world.server.faults = [Fault(where="/users", times=2, status=403, body={"reason": "Forbidden", "message": "no"})]

    async def run() -> None:
        async with world.watching():
            await until(lambda: "users cannot be listed: 403 Forbidden: no" in (world.health.problem or ""))
            await until(lambda: world.is_open)

    asyncio.run(run())


def test_token_that_was_replaced_is_read_again(world: World) -> None:
    async def run() -> None:
        world.server.valid_tokens = {"first"}
        async with world.watching() as running:
            await until(lambda: world.is_open)
            world.tokens.append("second")
            world.server.valid_tokens = {"second"}
            world.server.end_watches()
            await until(lambda: 401 in {it.code for it in world.calls})
            await until(lambda: world.is_open)
            world.server.put("topics", topic("after"))
            await until(lambda: ("seen", "after") in world.diary.marks)
            assert not running.done()

    asyncio.run(run())


def test_rejected_credentials_are_not_retried_in_a_tight_loop(world: World) -> None:
    async def run() -> None:
        world.server.valid_tokens = {"first"}
        async with world.watching():
            await until(lambda: world.is_open)
            world.server.valid_tokens = set()
            before = len(world.server.requests)
            world.server.end_watches()
            await asyncio.sleep(0.5)
            assert len(world.server.requests) - before < 80
            world.server.valid_tokens = {"first"}
            await until(lambda: world.is_open)

    asyncio.run(run())


def test_requests_of_kopf_are_reported(world: World) -> None:
    async def run() -> None:
        async with world.watching():
            await until(lambda: world.is_open)

    asyncio.run(run())
    assert {("watch", it, 200) for it in ALL} <= {(it.verb, it.resource, it.code) for it in world.calls}


def test_kopf_marks_nothing_under_its_own_name() -> None:
    settings = kopf_settings()

    assert settings.persistence.finalizer.startswith("ottla.dev/")
    assert cast(Any, settings.persistence.progress_storage).prefix == "ottla.dev"
    assert cast(Any, settings.persistence.diffbase_storage).prefix == "ottla.dev"
    assert settings.posting.enabled is False


def test_watches_lost_by_the_server_end_by_themselves() -> None:
    settings = kopf_settings()

    assert settings.watching.server_timeout is not None
    assert settings.watching.client_timeout is not None
    assert settings.watching.server_timeout < settings.watching.client_timeout


def test_registry_has_a_login_and_every_kind() -> None:
    registered = watches.registry(cast(Marks, None), lambda call: None, credentials("http://127.0.0.1:1"))

    assert len(list(registered._activities.get_all_handlers())) == 1
    assert len(list(registered._watching.get_all_handlers())) == 4
