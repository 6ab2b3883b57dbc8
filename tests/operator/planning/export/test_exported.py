"""The destination of exported objects."""

import pytest

from ottla_operator.planning.export.exported import Destination


@pytest.mark.parametrize(
    ("destination", "namespace", "reference"),
    [
        pytest.param(Destination(cluster="demo"), None, {"name": "demo"}, id="kubectls-own"),
        pytest.param(
            Destination(cluster="demo", namespace="a", cluster_namespace="a"), "a", {"name": "demo"}, id="same"
        ),
        pytest.param(
            Destination(cluster="demo", namespace="a", cluster_namespace="kafka"),
            "a",
            {"name": "demo", "namespace": "kafka"},
            id="another",
        ),
    ],
)
def test_manifest_refers_to_the_cluster(destination: Destination, namespace: str | None, reference: object) -> None:
    manifest = destination.manifest("Topic", "flights", {"partitions": 1})

    assert manifest["metadata"].get("namespace") == namespace
    assert manifest["spec"] == {"clusterRef": reference, "partitions": 1}
