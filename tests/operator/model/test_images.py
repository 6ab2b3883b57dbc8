"""Which image nodes run."""

from typing import Any

import pytest

from ottla_operator.model.images import broker_image
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
