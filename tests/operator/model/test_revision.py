"""Revisions of a configuration and their differences; the revision of a manifest is the same in every release.

Another revision restarts every node of every cluster when the operator is upgraded. After an intended change:
OTTLA_REWRITE_GOLDEN=1 pytest tests/operator/model, and a line in CHANGELOG.md.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla_operator.model import kubernetes_objects
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster
from ottla_operator.model.revision import changed_parts, describe_changes, encode

GOLDEN = Path(__file__).parent / "golden" / "revisions.json"
EXAMPLES = Path(__file__).parents[3] / "examples"
Builder = Callable[..., dict[str, Any]]


def desired(manifest: dict[str, Any], image: str = "ottla/broker:1", **annotations: str) -> DesiredCluster:
    status = {"clusterId": "c2FtZS1jbHVzdGVyLWlkIQ", "initialControllers": []}
    metadata = {"namespace": "kafka", "annotations": annotations, **manifest["metadata"]}
    cluster = Cluster.parse({**manifest, "metadata": metadata, "status": status})
    return desired_cluster(
        cluster,
        lambda pool, ordinal, _: kubernetes_objects.place(cluster, pool, ordinal),
        image=cluster.image or image,
    )


def test_examples_have_the_revisions_that_they_had() -> None:
    found = {
        f"{path.name}: {node.pool}": node.revision
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"] == "Cluster"
        for node in desired(document).templates
    }
    if os.environ.get("OTTLA_REWRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=2) + "\n")

    known = json.loads(GOLDEN.read_text())
    assert {name: found.get(name) for name in known} == known
    assert found.keys() == known.keys(), "examples without a golden revision"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"image": "ottla/broker:2"}, "image ottla/broker:1 -> ottla/broker:2", id="image"),
        pytest.param({"config": {"queued.max.requests": "4"}}, "config queued.max.requests", id="config"),
        pytest.param({"resources": {"limits": {"memory": "1Gi"}}}, "resources", id="resources"),
        pytest.param({"template": {"nodeSelector": {"a": "b"}}}, "pod template", id="template"),
        pytest.param({"ottla.dev/restart": "now"}, "annotation ottla.dev/restart", id="restart"),
        pytest.param(
            {"image": "ottla/broker:2", "config": {"queued.max.requests": "4", "a": "1"}},
            "image ottla/broker:1 -> ottla/broker:2; config a, queued.max.requests",
            id="several",
        ),
        pytest.param(
            {"config": {f"k{number}": "1" for number in range(6)}}, "config k0, k1, k2, k3 and 2 more", id="many"
        ),
    ],
)
def test_reason_of_a_restart_is_what_differs(cluster_manifest: Builder, change: dict[str, Any], said: str) -> None:
    pool = {name: change[name] for name in ("resources", "template") if name in change}
    spec = {"image": change["image"]} if "image" in change else {}
    annotations = {"ottla.dev/restart": change["ottla.dev/restart"]} if "ottla.dev/restart" in change else {}
    (before,) = desired(cluster_manifest()).templates
    (now,) = desired(cluster_manifest(config=change.get("config", {}), spec=spec, **pool), **annotations).templates

    assert now.revision != before.revision
    assert describe_changes(before.parts, now.parts) == said


@pytest.mark.parametrize("before", ["", "{", "[]"], ids=["none", "damaged", "no-object"])
def test_unknown_difference_has_a_general_reason(before: str) -> None:
    now = encode({"image": "b"}, {})

    assert changed_parts(before, now) == frozenset()
    assert describe_changes(before, now) == "its configuration changed"


def test_config_values_are_kept_as_digests() -> None:
    assert "secret" not in encode({"resources": "secret"}, {"ssl.key.password": "secret"})


def test_no_restart_annotation_is_no_other_revision(cluster_manifest: Builder) -> None:
    (without,) = desired(cluster_manifest()).templates
    (empty,) = desired(cluster_manifest(), **{"ottla.dev/restart": ""}).templates

    assert without.revision == empty.revision
