"""Which door of a cluster is for whom."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.model.client_access import listener_of
from ottla_operator.model.manifest import Cluster

Builder = Callable[..., dict[str, Any]]

TYPES = ("scram-sha-512", "tls", "tls-external", "oauth")


def door(name: str, authentication: str | None = None) -> dict[str, Any]:
    asked = {} if authentication is None else {"tls": True, "authentication": {"type": authentication}}
    return {"name": name, "port": 9_000 + len(name), **asked}


@pytest.mark.parametrize("authentication", TYPES)
@pytest.mark.parametrize("spec", [{}, {"tls": {}}, {"tls": {}, "listeners": [{"name": "plaintext", "port": 9092}]}])
def test_everybody_comes_in_where_there_is_one_plain_door(
    cluster_manifest: Builder, authentication: str, spec: dict[str, Any]
) -> None:
    listener = listener_of(Cluster.parse(cluster_manifest(spec=spec)), authentication)

    assert listener is not None
    assert (listener.name, listener.port) == ("plaintext", 9092)


@pytest.mark.parametrize(
    ("authentication", "name"),
    [("scram-sha-512", "bb"), ("tls", "ccc"), ("tls-external", "ccc"), ("oauth", None)],
)
def test_user_comes_in_by_the_first_door_that_asks_for_what_it_has(
    cluster_manifest: Builder, authentication: str, name: str | None
) -> None:
    doors = [door("a"), door("bb", "scram-sha-512"), door("ccc", "tls"), door("dddd", "scram-sha-512")]
    cluster = Cluster.parse(cluster_manifest(spec={"tls": {}, "listeners": doors}))

    listener = listener_of(cluster, authentication)

    assert (None if listener is None else listener.name) == name


def test_door_that_asks_nobody_is_for_no_user(cluster_manifest: Builder) -> None:
    cluster = Cluster.parse(cluster_manifest(spec={"tls": {}, "listeners": [door("a")]}))

    assert [listener_of(cluster, it) for it in TYPES] == [None] * 4
