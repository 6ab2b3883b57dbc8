"""The operator's metrics: reconciliations, requests, and the state of each Cluster; no series of removed ones."""

from typing import Any

import pytest
from prometheus_client import generate_latest

from ottla_operator.adapters.kubernetes.api_calls import ApiCall
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.runtime.metrics import OperatorMetrics

KEY = ObjectKey("Cluster", "kafka", "demo")
STATUS: dict[str, Any] = {
    "conditions": [{"type": "Ready", "status": "False"}, {"type": "Degraded", "status": "True"}],
    "certificates": [{"name": "nodes", "notAfter": "2027-01-01T00:00:00Z"}],
    "operation": {
        "kind": "Roll",
        "done": 2,
        "total": 9,
        "blockedBy": ["t-0 would have 1 in sync"],
        "startedAt": "2026-01-01T00:00:00Z",
    },
}


@pytest.fixture
def metrics() -> OperatorMetrics:
    return OperatorMetrics()


def lines(metrics: OperatorMetrics) -> set[str]:
    return {it for it in generate_latest(metrics.registry).decode().splitlines() if not it.startswith("#")}


def test_status_of_a_cluster_is_exported(metrics: OperatorMetrics) -> None:
    metrics.clusters.observe_status(KEY, STATUS)

    assert lines(metrics) >= {
        'ottla_operator_cluster_condition{cluster="demo",condition="Ready",namespace="kafka"} 0.0',
        'ottla_operator_cluster_condition{cluster="demo",condition="Degraded",namespace="kafka"} 1.0',
        'ottla_operator_operation_done{cluster="demo",namespace="kafka",operation="Roll"} 2.0',
        'ottla_operator_operation_total{cluster="demo",namespace="kafka",operation="Roll"} 9.0',
        'ottla_operator_operation_blocked{cluster="demo",namespace="kafka",operation="Roll"} 1.0',
        'ottla_operator_operation_started_timestamp_seconds{cluster="demo",namespace="kafka",operation="Roll"}'
        " 1.7672256e+09",
        'ottla_operator_certificate_expiry_timestamp_seconds{certificate="nodes",cluster="demo",namespace="kafka"}'
        " 1.7987616e+09",
    }


@pytest.mark.parametrize("status", [{}, {"conditions": [], "operation": {}}], ids=["nothing-yet", "empty"])
def test_cluster_without_status_has_no_series(metrics: OperatorMetrics, status: dict[str, Any]) -> None:
    metrics.clusters.observe_status(KEY, status)

    assert not [it for it in lines(metrics) if "demo" in it]


def test_operation_that_ended_and_cluster_that_went_leave_nothing(metrics: OperatorMetrics) -> None:
    metrics.clusters.observe_status(KEY, STATUS)
    metrics.clusters.observe_status(KEY, {"conditions": STATUS["conditions"]})
    metrics.observe_reconcile(KEY, is_reached=True)
    assert not [it for it in lines(metrics) if "operation" in it]
    assert [it for it in lines(metrics) if it.startswith("ottla_operator_cluster_last_success_timestamp_seconds{")]

    metrics.clusters.remove(KEY)
    assert not [it for it in lines(metrics) if "demo" in it]


def test_invalid_time_is_no_series(metrics: OperatorMetrics) -> None:
    metrics.clusters.observe_status(KEY, {"certificates": [{"name": "nodes", "notAfter": "soon"}, {"name": "none"}]})

    assert not [it for it in lines(metrics) if "certificate_expiry" in it]


def test_success_is_exported_by_kind(metrics: OperatorMetrics) -> None:
    metrics.observe_reconcile(ObjectKey("Topic", "kafka", "a"), is_reached=True)
    metrics.observe_reconcile(ObjectKey("User", "kafka", "a"), is_reached=False)

    found = [it for it in lines(metrics) if it.startswith("ottla_operator_last_success_timestamp_seconds")]
    assert [it.partition("}")[0] for it in found] == ['ottla_operator_last_success_timestamp_seconds{kind="Topic"']


def test_requests_are_counted_by_verb_resource_and_code(metrics: OperatorMetrics) -> None:
    metrics.observe_api_call(ApiCall("get", "topics", "kafka", 200, 0.01, ""))
    metrics.observe_api_call(ApiCall("watch", "topics", "", 0, 99, "no answer"))

    text = lines(metrics)
    assert 'ottla_operator_api_requests_total{code="200",resource="topics",verb="get"} 1.0' in text
    assert 'ottla_operator_api_requests_total{code="0",resource="topics",verb="watch"} 1.0' in text
    assert 'ottla_operator_api_request_seconds_count{resource="topics",verb="get"} 1.0' in text
    assert not [it for it in text if "request_seconds" in it and "watch" in it]


def test_version_is_exported(metrics: OperatorMetrics) -> None:
    assert [it for it in lines(metrics) if it.startswith('ottla_operator_build_info{version="')]
