"""The operator as a process: two of which one leads, hand-overs, definitions that go, return and change, manifests."""

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla_operator.model import schema
from ottla_operator.model.document import KINDS

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
TOPIC = {
    "apiVersion": "ottla.dev/v1",
    "kind": "Topic",
    "metadata": {"name": "waits"},
    "spec": {"clusterRef": {"name": "nobody"}, "partitions": 1},
}


def test_both_are_ready_and_one_leads(operator: Any) -> None:
    operator.system.eventually(lambda: operator.leader() in operator.pods(), "one of them leads", 60)

    ready = [[it["ready"] for it in pod["status"]["containerStatuses"]] for pod in operator.pods().values()]
    assert ready == [[True], [True]]


@pytest.mark.parametrize(("grace", "within_s"), [("30", 10), ("0", 40)], ids=["told-to-stop", "killed"])
def test_successor_leads_soon(operator: Any, namespace: Any, grace: str, within_s: float) -> None:
    first = operator.leader()
    # With force, a pod's name is removed before its process ends; the Lease shows the leader.
    force = ["--force"] if grace == "0" else []
    operator.system.kubectl("delete", "pod", first, f"--grace-period={grace}", "--wait=false", *force)

    operator.system.eventually(lambda: operator.leader() not in ("", first), "another one leads", within_s)

    name = f"waits-{grace}"
    namespace.apply({**TOPIC, "metadata": {"name": name}})
    namespace.wait_for("jsonpath={.status.conditions[0].reason}=ClusterMissing", f"topic.ottla.dev/{name}")
    operator.wait_rolled_out()
    assert operator.leader() in set(operator.pods()) - {first}


def test_definition_that_is_deleted_and_put_back_is_watched_again(operator: Any, namespace: Any) -> None:
    def restarts() -> int:
        return sum(it["restartCount"] for pod in operator.pods().values() for it in pod["status"]["containerStatuses"])

    before, known = restarts(), set(operator.pods())
    operator.system.kubectl("delete", "crd", "users.ottla.dev", "--wait=true")
    operator.install()
    namespace.apply({**TOPIC, "metadata": {"name": "after"}})
    namespace.wait_for("jsonpath={.status.conditions[0].reason}=ClusterMissing", "topic.ottla.dev/after")

    operator.system.wait_ready(*(f"pod/{name}" for name in operator.pods()))
    assert (restarts(), set(operator.pods())) == (before, known)


def of_older_release(directory: Path) -> Path:
    """Copy the operator's chart, with definitions that lack a field, a column and a rule of today's."""
    chart = directory / "ottla-operator"
    shutil.copytree(ROOT / "charts" / "ottla-operator", chart)
    path = chart / "files" / "crds" / "topic.yaml"
    definition = yaml.safe_load(path.read_text())
    (version,) = definition["spec"]["versions"]
    topic = version["schema"]["openAPIV3Schema"]
    del topic["properties"]["spec"]["properties"]["paused"]
    del topic["x-kubernetes-validations"]
    version["additionalPrinterColumns"] = version["additionalPrinterColumns"][:-1]
    path.write_text(yaml.safe_dump(definition))
    return chart


def definitions(operator: Any) -> dict[str, list[Any]]:
    """Return the versions of each of Ottla's definitions that the API server has."""
    listed = json.loads(operator.system.kubectl("get", "crd", "-o", "json"))["items"]
    return {it["spec"]["names"]["kind"]: it["spec"]["versions"] for it in listed if it["spec"]["group"] == "ottla.dev"}


def upgrade(operator: Any) -> None:
    operator.install()


def uninstall_and_install(operator: Any) -> None:
    before = definitions(operator)
    operator.uninstall()
    assert definitions(operator) == before, "they are kept"
    operator.install()


def apply_by_hand(operator: Any) -> None:
    operator.install("crds.enabled=false")
    operator.system.kubectl("apply", "--server-side", "--force-conflicts", "-f", "crds/")


@pytest.fixture(scope="module")
def definitions_of_helm(operator: Any) -> Iterator[None]:
    """Return the definitions to the chart in the end, also after other field managers have written them."""
    yield
    operator.install()
    for kind in KINDS:
        # A field manager that applies no field of an object owns none.
        definition = schema.definition(kind)
        bare = {**definition, "metadata": {"name": definition["metadata"]["name"]}}
        del bare["spec"]
        operator.system.kubectl("apply", "--server-side", "-f", "-", text=json.dumps(bare))


@pytest.mark.usefixtures("definitions_of_helm")
@pytest.mark.parametrize("way", [upgrade, uninstall_and_install, apply_by_hand])
def test_definitions_of_an_older_release_become_those_of_this_one(
    operator: Any, namespace: Any, tmp_path: Path, way: Callable[[Any], None]
) -> None:
    operator.install(chart=of_older_release(tmp_path))
    name = way.__name__.replace("_", "-")
    older, newer = {**TOPIC, "metadata": {"name": name}}, copy.deepcopy(TOPIC)
    newer |= {"metadata": {"name": name}, "spec": {**TOPIC["spec"], "paused": True}}
    with pytest.raises(AssertionError, match=r"unknown field \"spec\.paused\""):
        namespace.apply(newer)
    namespace.apply(older)
    before = namespace.get("topic.ottla.dev", name)["metadata"]["uid"]

    way(operator)

    assert definitions(operator) == {kind: schema.definition(kind)["spec"]["versions"] for kind in KINDS}
    namespace.apply(newer)
    after = namespace.get("topic.ottla.dev", name)
    assert (after["metadata"]["uid"], after["spec"]["paused"]) == (before, True), "what was made before is still there"


def test_definitions_that_are_kept_go_to_a_release_in_another_namespace(
    operator: Any, namespace: Any, helm: Callable[..., str]
) -> None:
    before = definitions(operator)
    elsewhere = ("install", "other", "charts/ottla-operator", "-n", namespace.name, "--wait", "--timeout=120s")
    operator.uninstall()
    try:
        with pytest.raises(AssertionError, match="invalid ownership metadata"):
            helm(*elsewhere)
        helm(*elsewhere, "--take-ownership")
        namespace.apply({**TOPIC, "metadata": {"name": "moved"}})
        namespace.wait_for("jsonpath={.status.conditions[0].reason}=ClusterMissing", "topic.ottla.dev/moved")
        helm("uninstall", "other", "-n", namespace.name, "--wait")
    finally:
        operator.install(options=["--take-ownership"])

    assert definitions(operator) == before


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param((), id="operator"),
        pytest.param(("--set", "networkPolicy.enabled=true,metrics.dashboard.enabled=true"), id="operator-and-more"),
    ],
)
def test_rendered_manifests_are_admitted_by_the_api_server(
    operator: Any, helm: Callable[..., str], settings: tuple[str, ...]
) -> None:
    rendered = helm("template", "dry", "charts/ottla-operator", "--namespace", operator.system.name, *settings)
    checks = ("--dry-run=server", "--validate=strict", "--server-side", "--force-conflicts")

    said = operator.system.kubectl("apply", *checks, "-f", "-", text=rendered)

    assert {line.rpartition(" (")[2] for line in said.splitlines()} == {"server dry run)"}


def test_failure_report_has_the_logs_of_all_containers(namespace: Any) -> None:
    def pod(name: str, image: str) -> dict[str, Any]:
        container = {"name": "c", "image": image, "command": ["python", "-uc", "print('I speak'); input()"]}
        container |= {"stdin": True, "imagePullPolicy": "IfNotPresent"}
        container |= {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
        security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        metadata = {"name": name, "labels": {"ottla.dev/cluster": "nobody"}}
        spec = {"securityContext": security, "terminationGracePeriodSeconds": 0, "containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    namespace.apply(pod("speaks", "ottla/broker:0.1.0"))
    namespace.wait_ready("pod/speaks")
    namespace.apply(pod("mute", "ottla/nowhere:0.1.0"))

    with pytest.raises(AssertionError) as failure:
        namespace.wait_for("condition=Ready", "pod/mute", timeout_s=2)

    said = str(failure.value)
    assert "timed out waiting for the condition on pods/mute" in said
    assert "I speak" in said
