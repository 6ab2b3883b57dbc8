"""Pods that the API server rejects: in the status in its words, before the first stop and after it, until they pass."""

import asyncio
import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import kubernetes_validate
import pytest
from fake_kubernetes import FakeKubernetes

from ottla_operator.adapters.kubernetes.admission import find_rejections, pod_of
from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.cluster.reconcile import reconcile_cluster
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Halted, Reached, Waiting
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.objects.metadata import REJECTED_ANNOTATION
from ottla_operator.ports.cluster_view import QuorumMember

Document = dict[str, Any]
Builder = Callable[..., Document]
PASSES_MAX = 40
LASTING_PASSES = 4
"""One a second: a rejection is one of a moment in the first three."""
NO_CLASS = "no PriorityClass with name missing was found"


def forbidden(document: Document, words: str) -> ApiError:
    name = document["metadata"]["name"]
    return ApiError(403, "Forbidden", f'{document["kind"].lower()}s "{name}" is forbidden: {words}')


def reject_missing_class(document: Document) -> ApiError | None:
    is_missing = document["spec"].get("priorityClassName") == "missing"
    return forbidden(document, NO_CLASS) if is_missing else None


def reject_every_pod(document: Document) -> ApiError | None:
    return forbidden(document, NO_CLASS) if document["kind"] == "Pod" else None


def reject_claims(document: Document) -> ApiError | None:
    words = "exceeded quota: disks, requested: requests.storage=1Gi, used: requests.storage=0, limited: 0"
    return forbidden(document, words) if document["kind"] == "PersistentVolumeClaim" else None


def reject_beyond_three_pods(document: Document) -> ApiError | None:
    words = "exceeded quota: three, requested: pods=1, used: pods=3, limited: pods=3"
    return forbidden(document, words) if document["kind"] == "Pod" else None


def reject_a_fourth_pod(world: FakeKubernetes) -> Callable[[Document], ApiError | None]:
    def admit(document: Document) -> ApiError | None:
        return reject_beyond_three_pods(document) if len(world.uids("Pod")) >= 3 else None

    return admit


class Operator:
    """A Cluster of three nodes in a Kubernetes in memory, with healthy brokers."""

    def __init__(self, world: FakeKubernetes, brokers: Any, manifest: Document) -> None:
        self.world = world
        self.brokers = brokers
        self.manifest = copy.deepcopy(manifest)
        self.manifest["metadata"] |= {"namespace": "kafka", "uid": "u-1"}
        self.manifest["status"] = {"clusterId": brokers.cluster_id, "initialControllers": []}
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def ask(self, **pool: Any) -> None:
        self.manifest["spec"]["pools"][0].update(copy.deepcopy(pool))

    def reconcile(self) -> ReconcileResult:
        self.now += timedelta(seconds=1)
        host = KubernetesHost(self.world, "kafka", "ottla/broker:1", now=lambda: self.now)
        return asyncio.run(reconcile_cluster(Cluster.parse(self.manifest), host, self.brokers.connect))

    def until(self, kind: type) -> ReconcileResult:
        """Reconcile, with time in between, until the readiness is of a kind."""
        for _ in range(PASSES_MAX):
            result = self.reconcile()
            if isinstance(result.readiness, kind):
                return result
            self.world.tick()
        pytest.fail(f"not {kind.__name__} after {PASSES_MAX} reconciliations: {result.readiness}")

    def is_marked(self) -> bool:
        metadata = self.world.stored["StatefulSet", "demo-main"]["metadata"]
        return REJECTED_ANNOTATION in metadata.get("annotations", {})


@pytest.fixture
def new(brokers: Any, cluster_manifest: Builder) -> Operator:
    brokers.broker_ids = tuple(range(3))
    brokers.voters = tuple(QuorumMember(node_id=node, directory_id=f"d{node}", is_caught_up=True) for node in range(3))
    return Operator(FakeKubernetes(), brokers, cluster_manifest(nodes=3))


@pytest.fixture
def running(new: Operator) -> Operator:
    new.until(Reached)
    new.world.restarts.clear()
    return new


def test_rejected_template_stops_no_pod(running: Operator) -> None:
    running.world.admission = reject_missing_class
    running.ask(template={"priorityClassName": "missing"})

    result = running.until(Halted)

    assert result.readiness == Halted(
        "PodRejected",
        "node demo-main-0 and 2 more is not stopped, as its new pod cannot start: "
        f'pods "demo-main-0-dry-run" is forbidden: {NO_CLASS}',
    )
    assert result.degradation is not None
    assert (result.degradation.reason, result.degradation.message) == ("PodRejected", result.readiness.message)
    assert running.world.restarts == []
    assert running.world.stored["PodDisruptionBudget", "demo"]["spec"]["maxUnavailable"] == 0, "no pod is evicted"
    running.ask(template={})
    running.until(Reached)
    assert running.world.restarts == []


def test_no_second_pod_is_stopped_after_a_rejection(running: Operator) -> None:
    running.ask(template={"terminationGracePeriodSeconds": 60})
    running.until(Waiting)
    assert running.world.restarts == ["demo-main-1"]
    running.world.admission = reject_every_pod
    running.world.tick()

    result = [running.reconcile() for _ in range(LASTING_PASSES)][-1]

    assert isinstance(result.readiness, Halted)
    assert f'pods "demo-main-1" is forbidden: {NO_CLASS}' in result.readiness.message
    assert running.world.restarts == ["demo-main-1"]
    assert running.is_marked()
    running.world.admission = lambda _: None
    running.reconcile()
    assert not running.is_marked(), "its controller is woken"
    running.until(Reached)
    assert running.world.restarts == ["demo-main-1", "demo-main-2", "demo-main-0"]


def test_rejection_of_a_moment_is_waited_for(running: Operator) -> None:
    running.ask(template={"terminationGracePeriodSeconds": 60})
    running.until(Waiting)
    # The quota still counts the deleted pod.
    running.world.admission = reject_beyond_three_pods
    running.world.tick()

    results = [running.reconcile() for _ in range(LASTING_PASSES)]

    assert [type(it.readiness) for it in results] == [Waiting, Waiting, Waiting, Halted]
    assert {it.readiness.reason for it in results} == {"PodRejected"}
    assert running.world.restarts == ["demo-main-1"]


def test_quota_without_space_for_a_fourth_pod_stops_no_roll(running: Operator) -> None:
    running.world.admission = reject_a_fourth_pod(running.world)
    running.ask(template={"terminationGracePeriodSeconds": 60})

    running.until(Reached)

    assert running.world.restarts == ["demo-main-1", "demo-main-2", "demo-main-0"]


@pytest.mark.parametrize(
    ("admission", "words"),
    [
        pytest.param(reject_every_pod, NO_CLASS, id="pods"),
        pytest.param(reject_claims, "exceeded quota: disks", id="claims"),
    ],
)
def test_new_cluster_whose_pods_are_rejected_is_stalled_and_not_degraded(
    new: Operator, admission: Callable[[Document], ApiError | None], words: str
) -> None:
    new.world.admission = admission
    new.manifest["status"]["initialControllers"] = [0, 1, 2]

    result = new.until(Halted)

    assert result.readiness.reason == "PodRejected"
    assert words in result.readiness.message
    assert result.degradation is None
    new.world.admission = lambda _: None
    new.manifest["status"]["initialControllers"] = []
    new.until(Reached)


STATEFUL_SET: Document = {
    "metadata": {"name": "demo-main", "namespace": "kafka", "uid": "u-2"},
    "spec": {
        "serviceName": "demo-nodes",
        "template": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"ottla.dev/revision": "r"}},
            "spec": {"containers": [{"name": "broker", "image": "ottla/broker:1"}], "volumes": []},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
    },
}
POD: Document = {
    "metadata": {"name": "demo-main-1", "annotations": {"ottla.dev/revision": "old"}},
    "spec": {"containers": []},
}
UNKNOWN = 'pods is forbidden: User "o" cannot create resource "pods" in API group "" in the namespace "kafka"'
OLD_WEBHOOK = 'admission webhook "a.b" does not support dry run'
DENIED = 'admission webhook "a.b" denied the request: no'
SILENT = 'Internal error occurred: failed calling webhook "a.b": connection refused'


class FakeDryRun:
    """An API server whose every dry run ends with one error; ``tried`` has their objects."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.error = error
        self.tried: list[Document] = []

    async def dry_run_create(self, document: Document) -> None:
        self.tried.append(document)
        if self.error is not None:
            raise self.error


def find(api: Any, claims: tuple[str, ...] = ("data-demo-main-0",)) -> dict[str, str]:
    return dict(asyncio.run(find_rejections(api, STATEFUL_SET, ["demo-main-0"], [POD], claims)))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(None, "", id="admitted"),
        pytest.param(ApiError(403, "Forbidden", NO_CLASS), NO_CLASS, id="admission"),
        pytest.param(ApiError(422, "Invalid", "tolerations: wrong"), "tolerations: wrong", id="validation"),
        pytest.param(ApiError(418, "Teapot", DENIED), DENIED, id="webhook-with-a-status-of-its-own"),
        pytest.param(ApiError(500, "InternalError", SILENT), SILENT, id="webhook-does-not-respond"),
        pytest.param(ApiError(409, "AlreadyExists", "it exists"), "", id="its-controller-was-faster"),
        pytest.param(ApiError(403, "Forbidden", UNKNOWN), "", id="no-permission-for-dry-runs"),
        pytest.param(ApiError(400, "BadRequest", OLD_WEBHOOK), "", id="webhook-without-dry-runs"),
        pytest.param(ApiError(403, "NamespaceTerminating", "it goes"), "", id="namespace-is-deleted"),
    ],
)
def test_rejection_is_in_the_words_of_the_api_server(error: ApiError | None, message: str) -> None:
    expected = {"demo-main-0": message, "demo-main-1": message} if message else {}

    assert find(FakeDryRun(error)) == expected


@pytest.mark.parametrize("status", [429, 500, 503])
def test_failing_dry_run_is_an_error(status: int) -> None:
    with pytest.raises(ApiError):
        find(FakeDryRun(ApiError(status, "Failing", "later")))


def test_dry_runs_are_of_what_the_controller_of_the_stateful_set_creates() -> None:
    api = FakeDryRun()

    find(api, claims=())

    assert [(it["kind"], it["metadata"]["name"]) for it in api.tried] == [
        ("PersistentVolumeClaim", "data-demo-main-0"),
        ("Pod", "demo-main-0"),
        ("Pod", "demo-main-1-dry-run"),
    ]
    pod = pod_of(STATEFUL_SET, "demo-main-0")
    kubernetes_validate.validate(pod, "1.34", strict=True)
    assert pod["metadata"]["labels"] == {
        "a": "b",
        "statefulset.kubernetes.io/pod-name": "demo-main-0",
        "apps.kubernetes.io/pod-index": "0",
    }
    assert pod["metadata"]["ownerReferences"] == [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "demo-main", "uid": "u-2", "controller": True}
    ]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("demo-main-0", "demo-nodes")
    assert pod["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-demo-main-0"}},
    ]
