"""Output of the charts, as files to read: by default, and with every option. Needs helm.

After an intended change: OTTLA_REWRITE_GOLDEN=1 pytest tests/charts, and read the difference.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"

Document = dict[str, Any]
Render = Callable[..., list[Document]]

OPERATOR_EVERYTHING = (
    "replicas=3",
    "watchNamespaces={a,b}",
    "metrics.podMonitor.enabled=true",
    "metrics.brokers.enabled=true",
    "metrics.rules.enabled=true",
    "metrics.dashboard.enabled=true",
    "networkPolicy.enabled=true",
    "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
    "priorityClassName=system-cluster-critical",
    "topologySpreadConstraints[0].topologyKey=topology.kubernetes.io/zone",
    "topologySpreadConstraints[0].maxSkew=1",
    "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
)
CLUSTER_EVERYTHING = (
    "keep=true",
    "cluster.tls.clusterCa.rotation.revision=first",
    "cluster.authorization.superUsers={User:root}",
    "cluster.paused=false",
    "cluster.deletionPolicy=Delete",
    "cluster.networkPolicy.httpFrom[0].podSelector.matchLabels.app=prometheus",
    "cluster.version=0.1.0",
    "topics.flights.partitions=6",
    "users.alice.authentication.type=scram-sha-512",
)


OLDEST = "1.29.0"
OTHERS_GROUPS = ("ottla.dev", "monitoring.coreos.com")
"""Of kinds that are no part of Kubernetes itself."""

CHECKED = (
    "clusterrole-rbac-v1",
    "clusterrolebinding-rbac-v1",
    "configmap-v1",
    "customresourcedefinition-apiextensions-v1",
    "deployment-apps-v1",
    "networkpolicy-networking-v1",
    "poddisruptionbudget-policy-v1",
    "role-rbac-v1",
    "rolebinding-rbac-v1",
    "serviceaccount-v1",
)
"""What charts render of Kubernetes' own: kubeconform says so when one is missing."""

CHARTS = pytest.mark.parametrize(
    ("name", "chart", "settings"),
    [
        pytest.param("operator", "ottla-operator", (), id="operator"),
        pytest.param("operator-everything", "ottla-operator", OPERATOR_EVERYTHING, id="operator-everything"),
        pytest.param("cluster", "ottla-cluster", (), id="cluster"),
        pytest.param("cluster-everything", "ottla-cluster", CLUSTER_EVERYTHING, id="cluster-everything"),
    ],
)


@CHARTS
def test_chart_output_equals_the_golden_files(render: Render, name: str, chart: str, settings: tuple[str, ...]) -> None:
    text = yaml.safe_dump_all([_shortened(it) for it in render(chart, *settings)], sort_keys=False, width=120)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("OTTLA_REWRITE_GOLDEN"):
        path.write_text(text)

    assert text == path.read_text()


@pytest.mark.parametrize("release", [OLDEST, kubernetes_validate.latest_version()])
@CHARTS
def test_kubernetes_defines_what_charts_render(
    render: Render, name: str, chart: str, settings: tuple[str, ...], release: str
) -> None:
    documents = render(chart, *settings, crds=True)
    own = [it for it in documents if it["apiVersion"].partition("/")[0] not in OTHERS_GROUPS]
    for document in own:
        kubernetes_validate.validate(document, release, strict=True)

    assert own or chart == "ottla-cluster", name
    assert f'kubeVersion: ">={OLDEST}' in (ROOT / "charts" / chart / "Chart.yaml").read_text()


@pytest.mark.skipif(shutil.which("kubeconform") is None, reason="needs kubeconform")
@pytest.mark.parametrize("release", [OLDEST, kubernetes_validate.latest_version()])
@CHARTS
def test_kubeconform_accepts_all_manifests(
    render: Render, name: str, chart: str, settings: tuple[str, ...], release: str, tmp_path: Path
) -> None:
    documents = render(chart, *settings, crds=True)
    own = [it for it in documents if it["apiVersion"].partition("/")[0] not in OTHERS_GROUPS]
    write_schemas(release, tmp_path)

    said = kubeconform(own, tmp_path)

    assert (said["valid"], said["invalid"], said["errors"], said["skipped"]) == (len(own), 0, 0, 0), said
    if own:
        wrong = [{**own[0], "metadata": {**own[0]["metadata"], "labls": {}}}]
        assert kubeconform(wrong, tmp_path)["invalid"] == 1


def kubeconform(documents: list[Document], schemas: Path) -> dict[str, int]:
    """Return how many of ``documents`` it finds valid, invalid, not to be checked or not to be known."""
    location = f"{schemas}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    done = subprocess.run(
        ("kubeconform", "-strict", "-summary", "-output", "json", "-schema-location", location),
        input=yaml.safe_dump_all(documents),
        capture_output=True,
        text=True,
        check=False,
    )
    summary: dict[str, int] = json.loads(done.stdout)["summary"]
    return summary


def write_schemas(release: str, folder: Path) -> None:
    """Write Kubernetes' schemas as kubeconform reads them: each with its references."""
    minor = ".".join(release.split(".")[:2])
    packaged = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v{minor}.0-local-strict"

    def read(file: Path) -> Document:
        found: Document = json.loads(file.read_text().replace('"/api/_definitions.json#', '"#'))
        return {key: value for key, value in found.items() if key != "$id"}

    definitions = read(packaged / "_definitions.json")["$defs"]
    for kind in CHECKED:
        (folder / f"{kind}.json").write_text(json.dumps({**read(packaged / f"{kind}.json"), "$defs": definitions}))


def test_monitoring_is_rendered_only_when_enabled(render: Render) -> None:
    kinds = {it["kind"] for it in render("ottla-operator")}

    assert not kinds & {"PodMonitor", "PrometheusRule", "NetworkPolicy", "ConfigMap"}


def test_single_operator_pod_can_be_evicted(render: Render) -> None:
    assert "PodDisruptionBudget" in {it["kind"] for it in render("ottla-operator")}
    assert "PodDisruptionBudget" not in {it["kind"] for it in render("ottla-operator", "replicas=1")}


def test_upgrade_brings_new_definitions_and_uninstalling_keeps_them(render: Render) -> None:
    """They are templates, not helm's `crds` folder, which an upgrade does not touch."""
    found = [it for it in render("ottla-operator", crds=True) if it["kind"] == "CustomResourceDefinition"]

    assert len(found) == 3
    assert {it["metadata"]["annotations"]["helm.sh/resource-policy"] for it in found} == {"keep"}
    assert not (ROOT / "charts" / "ottla-operator" / "crds").exists()


def _shortened(document: Document) -> Document:
    """Leave out parts with files of their own."""
    if document["kind"] == "ConfigMap":
        return {**document, "data": sorted(document["data"])}
    if document["kind"] == "PrometheusRule":
        return {**document, "spec": {"groups": [it["name"] for it in document["spec"]["groups"]]}}
    if document["kind"] in ("ClusterRole", "Role"):
        # Each verb is listed where it is explained: in test_rendering.py.
        return {key: value for key, value in document.items() if key != "rules"}
    return document
