"""The image of a cluster's nodes."""

from typing import Any

import pytest

from ottla_operator.model.images import broker_image, rollback_patch, version_of
from ottla_operator.model.manifest import Cluster

DEFAULT = "registry.example:5000/ottla/broker:0.1.0"


@pytest.mark.parametrize(
    ("changes", "default", "image"),
    [
        ({}, DEFAULT, DEFAULT),
        ({"version": "0.2.0"}, DEFAULT, "registry.example:5000/ottla/broker:0.2.0"),
        ({"version": "0.2.0"}, "broker", "broker:0.2.0"),
        ({"version": "0.2.0"}, "ottla/broker@sha256:aa", "ottla/broker:0.2.0"),
        ({"version": "0.2.0"}, "ottla/broker:1@sha256:aa", "ottla/broker:0.2.0"),
        ({"version": "0.2.0", "image": "mine:1"}, DEFAULT, "mine:1"),
    ],
    ids=["the operator's", "another release", "no registry", "a digest", "tag and digest", "an image wins"],
)
def test_image_of_a_cluster(cluster_manifest: Any, changes: dict[str, Any], default: str, image: str) -> None:
    cluster = Cluster.parse(cluster_manifest(spec=changes))
    assert broker_image(cluster, default) == image


@pytest.mark.parametrize(
    ("image", "default", "version"),
    [
        pytest.param("registry.example:5000/ottla/broker:0.2.0", DEFAULT, "0.2.0", id="of-the-repository"),
        pytest.param("registry.example:5000/ottla/broker:0.2.0-rc.1", DEFAULT, "0.2.0-rc.1", id="candidate"),
        pytest.param("registry.example:5000/ottla/broker:latest", DEFAULT, None, id="no-release"),
        pytest.param("ottla/broker@sha256:aa", "ottla/broker@sha256:aa", None, id="digest"),
        pytest.param("mine:0.2.0", DEFAULT, None, id="of-another-repository"),
    ],
)
def test_version_means_an_image_of_the_operators_repository(image: str, default: str, version: str | None) -> None:
    assert version_of(image, default) == version


@pytest.mark.parametrize("version", [None, "0.3.0"])
def test_version_of_an_image_is_the_one_that_asks_for_it(cluster_manifest: Any, version: str | None) -> None:
    cluster = Cluster.parse(cluster_manifest(spec={} if version is None else {"version": version}))

    assert version_of(broker_image(cluster, DEFAULT), DEFAULT) == (version or "0.1.0")


@pytest.mark.parametrize(
    ("image", "version", "known", "fields"),
    [
        pytest.param(None, "0.3.0", ("r:0.2.0", "0.2.0"), {"version": "0.2.0"}, id="version"),
        pytest.param(None, None, ("r:0.2.0", "0.2.0"), {"version": "0.2.0"}, id="the-operators-own"),
        pytest.param("bad:1", "0.2.0", ("r:0.2.0", "0.2.0"), {"version": "0.2.0", "image": None}, id="image-over-it"),
        pytest.param("bad:1", None, ("r:0.2.0", "0.2.0"), {"image": "r:0.2.0"}, id="image"),
        pytest.param(None, "0.3.0", ("mine:1", None), {"image": "mine:1"}, id="no-version-means-it"),
        pytest.param(None, "0.2.0", ("r:0.2.0", "0.2.0"), {}, id="version-is-there"),
        pytest.param("mine:1", "0.3.0", ("mine:1", None), {}, id="image-is-there"),
        pytest.param("bad:1", None, (None, None), {}, id="nothing-ran-yet"),
    ],
)
def test_rollback_patch_restores_the_last_image(
    image: str | None,
    version: str | None,
    known: tuple[str | None, str | None],
    fields: dict[str, str | None],
) -> None:
    assert rollback_patch(image=image, version=version, known_image=known[0], known_version=known[1]) == fields
