"""A real Kubernetes for the end-to-end tests: kubectl and helm, one operator, and a namespace per module.

The tests need KUBECONFIG and the images ottla/operator:0.1.0, ottla/broker:0.1.0 and ottla/spark:dev on every node;
`tests/e2e/run` provides both.
"""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from api_objects import api_objects
from installed_operator import Operator
from kubernetes_namespace import CommandFailedError, Document, Namespace, output_of, run
from ledger_pod import Ledger
from pod_watch import PodWatch

from ottla.cli.yaml_form import to_yaml

ON_ONE_MACHINE = frozenset({"rancher.io/local-path", "k8s.io/minikube-hostpath", "kubernetes.io/no-provisioner"})
"""Provisioners of volumes that are folders or disks of one Kubernetes node."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(900))
            if not os.environ.get("KUBECONFIG"):
                item.add_marker(pytest.mark.skip(reason="needs a Kubernetes: set KUBECONFIG, or run `make e2e`"))


@pytest.fixture
def helm() -> Callable[..., str]:
    """Run helm from the repository's root."""
    return lambda *arguments: run("helm", *arguments)


@pytest.fixture(scope="session")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The installed operator; removed at the end of all workers of pytest-xdist, which share it."""
    installed = Operator()
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of the run; each worker has its own inside
    with installed.shared(folder / "users-of-the-operator"):
        yield installed


@pytest.fixture
def own_release(operator: Operator) -> Iterator[None]:
    """Restore the operator's installation after the test."""
    yield
    operator.install()


def default_storage_class() -> Document:
    """Return the StorageClass of claims that name none."""
    found = api_objects().list("storageclasses", "")
    mark = "storageclass.kubernetes.io/is-default-class"
    return next(it for it in found if it["metadata"].get("annotations", {}).get(mark) == "true")


@pytest.fixture
def growing_volumes() -> None:
    """Require volumes that can grow, which those of kind cannot."""
    if not default_storage_class().get("allowVolumeExpansion"):
        pytest.skip("needs a default StorageClass whose volumes can grow")


@pytest.fixture
def travelling_volumes() -> None:
    """Require volumes that follow their pod to another Kubernetes node, unlike those of kind, which are its folders."""
    provisioner = default_storage_class()["provisioner"]
    if provisioner in ON_ONE_MACHINE:
        pytest.skip(f"needs a default StorageClass whose volumes follow their pods; those of {provisioner} do not")


@pytest.fixture
def ledger() -> Callable[..., Ledger]:
    """Start a ledger of a topic in a namespace, of a User if one is named; its `check` ends it."""

    def start(namespace: Namespace, topic: str, user: str | None = None) -> Ledger:
        started = Ledger(namespace, topic, user)
        started.start()
        return started

    return start


@pytest.fixture
def watch_pods() -> Callable[..., contextlib.AbstractContextManager[PodWatch]]:
    """Return the context manager that watches a cluster's pods."""
    return PodWatch


@pytest.fixture(scope="session")
def leaving(operator: Operator) -> Iterator[dict[str, str]]:
    """Namespaces under deletion, with the module of each; they are deleted while other tests run.

    The end of the session waits for all of them, which is a test of its own: no finalizer may keep a namespace.
    """
    modules: dict[str, str] = {}
    yield modules
    for name, module in modules.items():
        try:
            run("kubectl", "wait", "--for=delete", f"namespace/{name}", "--timeout=120s")
        except CommandFailedError as error:
            pytest.fail(
                f"the namespace of {module} stays: {error}\n{output_of('kubectl', 'get', 'ns', name, '-o', 'yaml')}"
            )


@contextlib.contextmanager
def restricted_namespace(module: str, leaving: dict[str, str]) -> Iterator[Namespace]:
    """A new namespace that enforces the restricted Pod Security Standard, and is ``leaving`` at the end."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    run("kubectl", "create", "-f", "-", text=to_yaml(manifest))
    yield Namespace(name)
    run("kubectl", "delete", "namespace", name, "--ignore-not-found", "--wait=false")
    leaving[name] = module


@pytest.fixture(scope="module")
def namespace(request: pytest.FixtureRequest, leaving: dict[str, str]) -> Iterator[Namespace]:
    """A namespace of the module's own, with an operator in the cluster."""
    with restricted_namespace(request.node.name, leaving) as made:
        yield made


@pytest.fixture(scope="module")
def other_namespace(request: pytest.FixtureRequest, leaving: dict[str, str]) -> Iterator[Namespace]:
    """Another namespace next to the module's own."""
    with restricted_namespace(request.node.name, leaving) as made:
        yield made
