"""The listener of a cluster for each type of authentication."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.model.client_access import listener_of
from ottla_operator.model.manifest import Cluster

Builder = Callable[..., dict[str, Any]]

TYPES = ("scram-sha-512", "tls", "tls-external", "oauth")


def listener_with(name: str, authentication: str | None = None) -> dict[str, Any]:
    asked = {} if authentication is None else {"tls": True, "authentication": {"type": authentication}}
    return {"name": name, "port": 9_000 + len(name), **asked}


@pytest.mark.parametrize("authentication", TYPES)
@pytest.mark.parametrize("spec", [{}, {"tls": {}}, {"tls": {}, "listeners": [{"name": "plaintext", "port": 9092}]}])
def test_all_users_use_the_only_plain_listener(
    cluster_manifest: Builder, authentication: str, spec: dict[str, Any]
) -> None:
    listener = listener_of(Cluster.parse(cluster_manifest(spec=spec)), authentication)

    assert listener is not None
    assert (listener.name, listener.port) == ("plaintext", 9092)


@pytest.mark.parametrize(
    ("authentication", "name"),
    [("scram-sha-512", "bb"), ("tls", "ccc"), ("tls-external", "ccc"), ("oauth", None)],
)
def test_user_uses_the_first_listener_of_its_authentication(
    cluster_manifest: Builder, authentication: str, name: str | None
) -> None:
    described = [
        listener_with("a"),
        listener_with("bb", "scram-sha-512"),
        listener_with("ccc", "tls"),
        listener_with("dddd", "scram-sha-512"),
    ]
    cluster = Cluster.parse(cluster_manifest(spec={"tls": {}, "listeners": described}))

    listener = listener_of(cluster, authentication)

    assert (None if listener is None else listener.name) == name


def test_listener_without_authentication_is_for_no_user(cluster_manifest: Builder) -> None:
    cluster = Cluster.parse(cluster_manifest(spec={"tls": {}, "listeners": [listener_with("a")]}))

    assert [listener_of(cluster, it) for it in TYPES] == [None] * 4
