"""Secrets of users on Kubernetes: they are read back as written, and errors do not quote them."""

import asyncio
import base64
import copy
from dataclasses import replace
from typing import Any

import pytest

from ottla_operator.adapters.kubernetes.secret_store import KubernetesSecrets
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import Metadata
from ottla_operator.model.secret import Secret

OWNER = Metadata(kind="User", name="alice", namespace="kafka", uid="u")
SECRET = Secret(
    name="alice",
    entries={"password": 'é\n"x', "type": "kafka", "bytes": "\udcff"},
    labels={"a": "b"},
    annotations={"ottla.dev/user": "alice"},
)


@pytest.fixture
def secrets(api: Any) -> KubernetesSecrets:
    return KubernetesSecrets(api, "kafka")


def test_written_secret_is_read_back(secrets: KubernetesSecrets) -> None:
    asyncio.run(secrets.write(SECRET, OWNER))

    assert asyncio.run(secrets.read("alice")) == SECRET
    assert asyncio.run(secrets.read_entry("alice", "type")) == "kafka"
    assert asyncio.run(secrets.read_entry("alice", "nothing")) is None
    assert secrets.location("alice") == "alice"


def test_missing_secret_is_none(secrets: KubernetesSecrets) -> None:
    assert asyncio.run(secrets.read("alice")) is None
    assert asyncio.run(secrets.read_entry("alice", "password")) is None
    asyncio.run(secrets.delete("alice"))


def test_foreign_secret_has_no_owner(secrets: KubernetesSecrets, api: Any) -> None:
    api.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alice"}})
    found = asyncio.run(secrets.read("alice"))

    assert found is not None
    assert not found.belongs_to(OWNER)


@pytest.mark.parametrize("version", ["", "1"], ids=["made-meanwhile", "changed-meanwhile"])
def test_secret_that_was_not_read_is_not_overwritten(secrets: KubernetesSecrets, api: Any, version: str) -> None:
    foreign = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alice", "resourceVersion": "2"}}
    kept = copy.deepcopy(api.put(foreign))

    with pytest.raises(ApiError) as caught:
        asyncio.run(secrets.write(replace(SECRET, version=version), OWNER))

    assert caught.value.is_conflict
    assert api.stored["Secret", "kafka", "alice"] == kept


def test_secret_that_was_read_is_written(secrets: KubernetesSecrets) -> None:
    asyncio.run(secrets.write(SECRET, OWNER))
    found = asyncio.run(secrets.read("alice"))
    assert found is not None

    asyncio.run(secrets.write(replace(found, labels={}), OWNER))

    assert asyncio.run(secrets.read("alice")) == replace(SECRET, labels={})


def test_bytes_that_are_not_utf8_are_no_password(secrets: KubernetesSecrets, api: Any) -> None:
    data = {"pw": base64.b64encode(b"\xff\xfe").decode()}
    api.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": data})

    value = asyncio.run(secrets.read_entry("mine", "pw"))

    assert value is not None
    assert not value.isprintable()


def test_error_does_not_quote_the_servers_message(
    secrets: KubernetesSecrets, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reject(document: Any) -> None:
        raise ApiError(422, "Invalid", f"cannot take {document}")

    monkeypatch.setattr(api, "apply", reject)

    with pytest.raises(ApiError, match=r"^422 Invalid: Secret alice was not written$") as caught:
        asyncio.run(secrets.write(SECRET, OWNER))
    assert caught.value.__suppress_context__
