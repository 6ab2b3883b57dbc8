"""Kubernetes' reasons of a node that is down, each in the status of a Cluster: crds/cluster.md has them as a table.

A Cluster per cause that starts with it, all at once, and one that runs, whose new pods the API server rejects.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes_namespace import Namespace, run
from small_volume import mount_small, unmount_small, volume

Document = dict[str, Any]
CAUSE_S = 90
ADMITTED_S = 15
"""Between the end of a rejection and the pod: the operator tries every five seconds."""
FILL = """
import contextlib
with open("/var/lib/ottla/filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
    while True:
        filler.write(bytes(65536))
"""


def pool(**more: Any) -> Document:
    return {"name": "main", "nodes": 1, "storage": {"size": "1Gi"}, **more}


LIMITED = pool(resources={"limits": {"memory": "512Mi"}})
UNCONFINED = {"container.apparmor.security.beta.kubernetes.io/broker": "unconfined"}
RESTART = {"terminationGracePeriodSeconds": 31}
"""A change that takes another pod, and that the API server admits."""


class Causes:
    """The Clusters of the module's namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        nodes = json.loads(run("kubectl", "get", "nodes", "-l", "!node-role.kubernetes.io/control-plane", "-o", "json"))
        self.machine: str = nodes["items"][0]["metadata"]["name"]
        self.folder = f"/var/lib/{namespace.name}"
        self.small, self.absent = f"{namespace.name}-small", f"{namespace.name}-absent"

    def start(self) -> None:
        mount_small(self.machine, self.folder)
        self.namespace.apply(
            volume(self.small, self.machine, self.folder), volume(self.absent, self.machine, f"{self.folder}-absent")
        )
        self.declare("demo", LIMITED)
        self.declare("full", pool(storage={"size": "1Gi", "storageClassName": self.small}))
        self.declare("mount", pool(storage={"size": "1Gi", "storageClassName": self.absent}))
        self.declare("image", pool(), image="ottla/broker:none")
        self.declare("nowhere", pool(template={"nodeSelector": {"nowhere": "true"}}))
        self.declare("memory", pool(resources={"limits": {"memory": "20Mi"}}))
        self.declare("config", pool(), config={"queued.max.requests": "many"})

    def end(self) -> None:
        """Remove what outlives the namespace."""
        self.namespace.kubectl("delete", "clusters.ottla.dev", "--all")
        self.namespace.eventually(lambda: not self.namespace.names("pods", "ottla.dev/cluster"), "all pods are gone")
        run("kubectl", "delete", "persistentvolume", self.small, self.absent, "--wait=false")
        unmount_small(self.machine, self.folder)

    def declare(self, name: str, *pools: Document, **spec: Any) -> None:
        self.namespace.declare("Cluster", name, pools=list(pools), **spec)

    def conditions(self, name: str) -> dict[str, Document]:
        """Return the conditions that are True, and Ready, of the latest generation; none before it is observed."""
        found = self.namespace.get("cluster.ottla.dev", name)
        listed = found.get("status", {}).get("conditions", [])
        return {
            it["type"]: it
            for it in listed
            if it["observedGeneration"] == found["metadata"]["generation"]
            and (it["type"] == "Ready" or it["status"] == "True")
        }

    def until(self, name: str, condition: str, reason: str | tuple[str, ...], words: str) -> Document:
        """Wait until a condition has a reason that begins with ``reason`` and a message with ``words``; return all."""

        def is_reported() -> bool:
            found = self.conditions(name).get(condition, {"reason": "", "message": ""})
            return found["reason"].startswith(reason) and words in found["message"]

        self.namespace.eventually(is_reported, f"{condition} of {name} is {reason}: {words}", CAUSE_S)
        return self.conditions(name)

    def until_ready(self) -> None:
        self.until("demo", "Ready", "Ready", "1 of 1 nodes are ready")


@pytest.fixture(scope="module")
def causes(namespace: Any, operator: Any) -> Iterator[Causes]:
    started = Causes(namespace)
    started.start()
    yield started
    started.end()


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        pytest.param("nowhere", "Unschedulable", "didn't match Pod's node affinity/selector", id="no-kubernetes-node"),
        pytest.param("image", ("ErrImagePull", "ImagePullBackOff"), "ottla/broker:none", id="no-image"),
        pytest.param("config", "CrashLoopBackOff", "exit code 1: error: Invalid value many", id="exit-code"),
        pytest.param("memory", "OOMKilled", "exit code 137 (OOMKilled, its memory limit is 20Mi)", id="out-of-memory"),
        pytest.param("mount", "FailedMount", "does not exist", id="volume-cannot-be-mounted"),
    ],
)
def test_cause_of_a_node_that_does_not_start_is_the_reason(
    causes: Causes, name: str, reason: str | tuple[str, ...], words: str
) -> None:
    found = causes.until(name, "Ready", reason, words)

    assert found["Ready"]["message"].startswith(f"node {name}-main-0: ")
    assert found.keys() == {"Ready", "Progressing", "Reconciling"}


def test_full_volume_is_the_reason(causes: Causes) -> None:
    causes.until("full", "Ready", "Ready", "1 of 1 nodes are ready")
    causes.namespace.kubectl("exec", "full-main-0", "-c", "broker", "--", "python", "-c", FILL)

    causes.until("full", "Ready", "VolumeFull", "No space left on device")
    found = causes.until("full", "Degraded", "QuorumLost", "No space left on device")

    assert "Stalled" not in found


def limit_range(namespace: str) -> Document:
    limit = {"type": "Container", "max": {"memory": "100Mi"}}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": [limit]}}


def quota(namespace: str, pods: int = 0) -> Document:
    hard = {"count/pods": str(pods)}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": hard}}


def webhook(namespace: str) -> Document:
    """Return a webhook for the namespace's pods that cannot be reached."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [
            {
                "name": "pods.ottla.test",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [rule],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 1,
            }
        ],
    }


@pytest.mark.parametrize(
    ("cause", "template", "words"),
    [
        pytest.param(None, {"priorityClassName": "missing"}, "no PriorityClass with name missing", id="priority-class"),
        pytest.param(None, {"metadata": {"annotations": UNCONFINED}}, "violates PodSecurity", id="pod-security"),
        pytest.param(limit_range, RESTART, "maximum memory usage per Container is 100Mi", id="limit-range"),
        pytest.param(quota, RESTART, "exceeded quota: pods", id="quota"),
        pytest.param(webhook, RESTART, "failed calling webhook", id="webhook"),
    ],
)
def test_rejected_pod_is_reported_before_the_first_stop(
    causes: Causes, cause: Any, template: Document, words: str
) -> None:
    causes.until_ready()
    before, object_of_cause = causes.namespace.lives(), cause and cause(causes.namespace.name)
    if cause:
        causes.namespace.apply(object_of_cause)
        # The API server's own caches follow within a moment.
        time.sleep(1)
    causes.declare("demo", {**LIMITED, "template": template})
    found = causes.until("demo", "Stalled", "PodRejected", words)
    causes.declare("demo", LIMITED)
    if cause:
        causes.namespace.kubectl("delete", object_of_cause["kind"], object_of_cause["metadata"]["name"])
    causes.until_ready()

    assert {found[it]["reason"] for it in ("Ready", "Degraded", "Stalled")} == {"PodRejected"}
    assert causes.namespace.lives() == before


def test_missing_pod_comes_back_soon_after_it_is_admitted(causes: Causes) -> None:
    causes.until_ready()
    causes.namespace.apply(quota(causes.namespace.name))
    causes.namespace.kubectl("delete", "pod", "demo-main-0")
    found = causes.until("demo", "Stalled", "PodRejected", 'pods "demo-main-0" is forbidden: exceeded quota: pods')
    # Longer than the first back-offs of the StatefulSet's controller.
    time.sleep(5)
    causes.namespace.kubectl("delete", "resourcequota", "pods")
    causes.namespace.eventually(causes.namespace.pods, "its pod is created", ADMITTED_S)
    causes.until_ready()

    assert {found[it]["reason"] for it in ("Ready", "Degraded", "Stalled")} == {"PodRejected"}


def test_full_quota_stops_no_roll(causes: Causes) -> None:
    causes.until_ready()
    before = causes.namespace.uids()
    pods = len(causes.namespace.names("pods"))
    causes.namespace.apply(quota(causes.namespace.name, pods))
    causes.namespace.eventually(
        lambda: (
            causes.namespace.get("resourcequota", "pods").get("status", {}).get("used", {}).get("count/pods")
            == str(pods)
        ),
        "the quota is full",
    )
    causes.declare("demo", {**LIMITED, "template": RESTART})
    causes.until_ready()
    causes.namespace.kubectl("delete", "resourcequota", "pods")

    assert causes.namespace.uids() != before
