"""How the operator is put together: kopf's settings, credentials, and ends that are not quiet."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import kopf
import pytest

from ottla_operator import main
from ottla_operator.controller import Controller
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.settings import Settings

YOUNGER, OLDER = ObjectKey("User", "kafka", "alice"), ObjectKey("User", "kafka", "older")


def test_kopf_marks_nothing_under_its_own_name() -> None:
    settings = main.kopf_configuration()

    assert settings.persistence.finalizer.startswith("ottla.dev/")
    assert cast(Any, settings.persistence.progress_storage).prefix == "ottla.dev"
    assert cast(Any, settings.persistence.diffbase_storage).prefix == "ottla.dev"
    assert settings.posting.enabled is False


def test_forgotten_watches_end_by_themselves() -> None:
    settings = main.kopf_configuration()

    assert settings.watching.server_timeout is not None
    assert settings.watching.client_timeout is not None
    assert settings.watching.server_timeout < settings.watching.client_timeout


def test_registry_has_a_login_and_every_kind() -> None:
    registry = main.registry(cast(Controller, None))

    assert len(list(registry._activities.get_all_handlers())) == 1
    assert len(list(registry._watching.get_all_handlers())) == 4


def test_login_without_credentials_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(kopf.LoginError, match="neither a service account's token nor a KUBECONFIG"):
        main.login(main.kopf_configuration())


def test_login_by_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    config.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],"
        "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}"
    )
    monkeypatch.setenv("KUBECONFIG", str(config))

    connection = main.login(main.kopf_configuration())

    assert (connection.server, connection.token) == ("http://127.0.0.1:1", "t")


@pytest.mark.parametrize("raises", [False, True], ids=["ends", "fails"])
def test_end_of_one_part_ends_all(raises: bool) -> None:
    ended = []

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("other")

    async def short() -> None:
        if raises:
            raise ValueError("broken")

    async def run() -> None:
        await main._until_one_ends([for_ever(), short()], asyncio.Event())

    if raises:
        with pytest.raises(ValueError, match="broken"):
            asyncio.run(run())
    else:
        asyncio.run(run())
    assert ended == ["other"]


@pytest.mark.parametrize(
    "failure",
    [OSError("no answer"), TimeoutError(), ApiError(503, "Unavailable", "busy")],
    ids=["network", "time", "api"],
)
def test_listing_that_fails_is_tried_again_soon(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    failures, waits = [failure, failure], []

    class Lists:
        async def resync(self) -> None:
            if failures:
                raise failures.pop()

    class Done(Exception):
        pass

    async def sleep(delay_s: float) -> None:
        waits.append(delay_s)
        if len(waits) == 3:
            raise Done

    monkeypatch.setattr(main.asyncio, "sleep", sleep)
    probes = SimpleNamespace(is_ready=isinstance(failure, ApiError))

    listed = asyncio.Event()
    with pytest.raises(Done):
        asyncio.run(main._resync(cast(Any, Lists()), cast(Any, probes), Settings(resync_s=300), listed))

    assert probes.is_ready
    assert listed.is_set()
    assert [wait_s < 10 for wait_s in waits] == [True, True, False]


def test_younger_user_that_a_watch_shows_first_waits_for_the_first_listing(
    controller: Controller, api: Any, brokers: Any, user_manifest: Any, with_cluster: Any
) -> None:
    younger = api.put(user_manifest(), creationTimestamp="2026-01-01T00:00:01Z")
    api.put(user_manifest("older", userName="alice"))

    async def run() -> bool:
        listed, probes = asyncio.Event(), cast(Any, SimpleNamespace(is_ready=False))
        controller.seen(younger)
        parts = [asyncio.ensure_future(main._work(controller, listed))]
        for _ in range(100):
            await asyncio.sleep(0)
        is_untouched = not api.writes
        parts.append(asyncio.ensure_future(main._resync(controller, probes, Settings(resync_s=300), listed)))
        for _ in range(1_000):
            await asyncio.sleep(0)
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        return is_untouched

    assert asyncio.run(run())
    reasons = {
        key: [it["reason"] for it in api.stored[key]["status"]["conditions"] if it["type"] == "Ready"]
        for key in (YOUNGER, OLDER)
    }
    assert reasons == {YOUNGER: ["UserClaimedElsewhere"], OLDER: ["AsSpecified"]}


def test_stop_ends_every_part() -> None:
    async def run() -> None:
        stop = asyncio.Event()

        async def for_ever() -> None:
            await asyncio.Event().wait()

        asyncio.get_running_loop().call_soon(stop.set)
        await main._until_one_ends([for_ever()], stop)

    asyncio.run(run())


def test_bad_environment_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTTLA_OPERATOR_WORKERS", "none")
    caplog.set_level(logging.CRITICAL)

    assert main.main() == 1
    assert capsys.readouterr().err.startswith("ottla-operator: OTTLA_OPERATOR_WORKERS is 'none'")
