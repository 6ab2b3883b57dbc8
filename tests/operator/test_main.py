"""How the operator is put together: kopf's settings, credentials, and ends that are not quiet."""

import asyncio
import logging
from pathlib import Path
from typing import Any, cast

import kopf
import pytest

from ottla_operator import main
from ottla_operator.controller import Controller


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
    assert len(list(registry._watching.get_all_handlers())) == 3


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
