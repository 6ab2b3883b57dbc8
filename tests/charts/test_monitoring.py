"""Rules and dashboard of the chart: every queried series is one that operator or nodes export."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.admin.exposition import node_metrics
from ottla.admin.snapshot import NodeSnapshot, take_snapshot
from ottla.simulator.clients.requests import create_topic
from ottla.simulator.world.cluster import Cluster
from ottla_operator.runtime.metrics import OperatorMetrics

FILES = Path(__file__).parents[2] / "charts" / "ottla-operator" / "files"
RULES = [rule for group in yaml.safe_load((FILES / "rules.yaml").read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((FILES / "dashboard.json").read_text())
EXPRESSIONS = {rule["alert"]: rule["expr"] for rule in RULES} | {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}
_SERIES = re.compile(r"\b(?:ottla|kafka)_[a-z0-9_]+\b")
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "summary": ("_count", "_sum")}


def series(families: Any) -> Iterator[str]:
    for family in families:
        yield from (family.name + suffix for suffix in _SUFFIXES.get(family.type, ("",)))
        yield from (sample.name for sample in family.samples)


@pytest.fixture(scope="module")
def exported() -> set[str]:
    """The names of all series of the operator, and of a node that is broker and controller and has a topic."""
    cluster = Cluster(seed=5, brokers=1, controllers=1)
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", partitions=1, replicas=1)
    cluster.run(2_000)
    found = set(series(OperatorMetrics().registry.collect()))
    for node in cluster.nodes.values():
        taken: list[NodeSnapshot] = []
        for _ in take_snapshot(node.node, taken):
            pass
        found |= set(series(node_metrics(taken[0], loop_delay_s=0)))
    return found


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_queried_series_are_exported(where: str, exported: set[str]) -> None:
    asked = set(_SERIES.findall(EXPRESSIONS[where]))

    assert asked
    assert asked <= exported


def test_variables_of_the_dashboard_come_from_what_is_exported(exported: set[str]) -> None:
    queries = [it["query"] for it in DASHBOARD["templating"]["list"] if it["type"] == "query"]

    assert {name for query in queries for name in _SERIES.findall(query)} <= exported


def test_every_alert_has_a_severity_and_a_description() -> None:
    assert {rule["labels"]["severity"] for rule in RULES} == {"critical", "warning"}
    assert all(rule["annotations"]["summary"].rstrip().endswith(".") for rule in RULES)
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


def test_every_queried_condition_is_one_of_a_cluster() -> None:
    words = " ".join(EXPRESSIONS.values())

    asked = set(re.findall(r'condition!?="([A-Za-z]+)"', words))
    assert asked == {"Ready", "Degraded"}
