"""A quota that is full rejects the dry run of a pod, and has space for it once its predecessor is gone."""

from typing import Any

import pytest

from ottla_operator.adapters.kubernetes.pod_quota import fits_in_place_of

Document = dict[str, Any]


def pod(memory: str = "1Gi", **spec: Any) -> Document:
    container = {"name": "broker", "resources": {"requests": {"memory": memory, "cpu": "500m"}}}
    return {"spec": {"containers": [container], **spec}}


def rejection(requested: str, used: str, limited: str) -> str:
    """Return the words of Kubernetes 1.36."""
    return (
        f'pods "demo-main-0-dry-run" is forbidden: exceeded quota: all, requested: {requested}, used: {used}, '
        f"limited: {limited}"
    )


FORMATTING = {"name": "format", "resources": {"requests": {"memory": "3Gi"}}}
SIDECAR = {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}}
FULL = rejection("pods=1", "pods=3", "pods=3")


@pytest.mark.parametrize(
    ("former", "message", "fits"),
    [
        pytest.param(pod(), FULL, True, id="pods"),
        pytest.param(pod(), rejection("count/pods=1", "count/pods=3", "count/pods=3"), True, id="count-of-pods"),
        pytest.param(pod(), rejection("pods=1", "pods=4", "pods=3"), False, id="quota-was-lowered"),
        pytest.param(
            pod(), rejection("requests.memory=1Gi", "requests.memory=3Gi", "requests.memory=3Gi"), True, id="same-size"
        ),
        pytest.param(pod(), rejection("memory=1Gi", "memory=3Gi", "memory=3Gi"), True, id="short-name-of-requests"),
        pytest.param(
            pod(),
            rejection("requests.memory=1536Mi", "requests.memory=3Gi", "requests.memory=3584Mi"),
            True,
            id="larger-within-the-limit",
        ),
        pytest.param(
            pod(),
            rejection("requests.memory=1537Mi", "requests.memory=3Gi", "requests.memory=3584Mi"),
            False,
            id="larger-by-one-mebibyte-too-many",
        ),
        pytest.param(
            pod(),
            rejection("limits.memory=1Gi", "limits.memory=3Gi", "limits.memory=3Gi"),
            False,
            id="former-has-no-limit",
        ),
        pytest.param(
            pod(),
            rejection("cpu=500m,pods=1", "cpu=1500m,pods=3", "cpu=1500m,pods=3"),
            True,
            id="two-resources",
        ),
        pytest.param(
            pod(),
            rejection("cpu=600m,pods=1", "cpu=1500m,pods=3", "cpu=1500m,pods=3"),
            False,
            id="one-of-two-resources-does-not-fit",
        ),
        pytest.param(
            pod(initContainers=[FORMATTING]), rejection("memory=3Gi", "memory=3Gi", "memory=3Gi"), True, id="init"
        ),
        pytest.param(
            pod(initContainers=[SIDECAR]), rejection("memory=2Gi", "memory=2Gi", "memory=2Gi"), True, id="sidecar"
        ),
        pytest.param(
            pod(overhead={"memory": "1Gi"}), rejection("memory=2Gi", "memory=2Gi", "memory=2Gi"), True, id="overhead"
        ),
        pytest.param(pod(), 'pods "a" is forbidden: failed quota: all: must specify cpu', False, id="must-specify"),
        pytest.param(pod(), rejection("pods=1", "pods=much", "pods=3"), False, id="other-words"),
        pytest.param(pod(), rejection("pods=1", "cpu=3", "pods=3"), False, id="other-resources"),
    ],
)
def test_quota_has_space_once_the_former_pod_is_gone(former: Document, message: str, fits: bool) -> None:
    assert fits_in_place_of(former, pod(), message) is fits


@pytest.mark.parametrize(
    ("former", "new", "fits"),
    [
        pytest.param({}, {"priorityClassName": "high"}, False, id="another-class"),
        pytest.param({"priorityClassName": "high"}, {"priorityClassName": "high"}, True, id="same-class"),
        pytest.param({"priorityClassName": "default"}, {}, True, id="default-of-the-cluster"),
    ],
)
def test_pod_of_another_priority_class_makes_no_space(former: Document, new: Document, fits: bool) -> None:
    assert fits_in_place_of(pod(**former), pod(**new), FULL) is fits
