"""The NetworkPolicy of a Cluster exists with ``spec.networkPolicy``, and never locks the operator out."""

from collections.abc import Callable
from typing import Any

import pytest
from host_observations import publish

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.errors import HostError
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.objects.network_policy import OperatorPods

Document = dict[str, Any]
POLICY = ObjectKey("NetworkPolicy", "kafka", "demo")


def published(api: Any, manifest: Document, *, knows_itself: bool = True) -> tuple[str, ...]:
    """Return the outdated names, after publishing them."""
    manifest["metadata"] |= {"namespace": "kafka", "uid": "u-1"}
    pods = OperatorPods(namespace="ottla-system", labels={"a": "b"}) if knows_itself else None
    return publish(KubernetesHost(api, "kafka", "ottla/broker:1", pods), Cluster.parse(manifest))


def test_policy_is_written_first_and_removed_again(api: Any, cluster_manifest: Callable[..., Document]) -> None:
    assert published(api, cluster_manifest(spec={"networkPolicy": {}}))[0] == "NetworkPolicy/demo"
    assert published(api, cluster_manifest(spec={"networkPolicy": {}})) == ()
    assert published(api, cluster_manifest(spec={"networkPolicy": {"httpFrom": []}})) == ("NetworkPolicy/demo",)

    assert published(api, cluster_manifest()) == ("no NetworkPolicy/demo",)

    assert POLICY not in api.stored


def test_operator_that_does_not_know_its_pods_rejects_a_network_policy(
    api: Any, cluster_manifest: Callable[..., Document]
) -> None:
    with pytest.raises(HostError, match="would block this operator"):
        published(api, cluster_manifest(spec={"networkPolicy": {}}), knows_itself=False)

    assert published(api, cluster_manifest(), knows_itself=False)
    assert POLICY not in api.stored
