"""The pipeline in the cluster: a pod streams the flights in, Spark pods read them, and gold equals the CSV."""

from typing import Any

import pytest

JOB_TIMEOUT_S = 600


@pytest.fixture(scope="module")
def flights(namespace: Any) -> Any:
    """The cluster `demo` with the flights in its topics."""
    namespace.apply_file("examples/cluster.yaml")
    namespace.apply_file("examples/flights/topic.yaml")
    namespace.kubectl("apply", "-k", "spark-on-k8s/manifests")
    namespace.wait_ready("cluster.ottla.dev/demo", "topic.ottla.dev/flights", "topic.ottla.dev/flights-dead-letter")
    namespace.apply_file("spark-on-k8s/manifests/feed.yaml")
    namespace.wait_for("condition=Complete", "job/ottla-flights-feed", timeout_s=JOB_TIMEOUT_S)
    return namespace


def test_gold_equals_the_csv(flights: Any) -> None:
    flights.apply_file("spark-on-k8s/manifests/job.yaml")
    flights.wait_for("condition=Complete", "job/ottla-flights", timeout_s=JOB_TIMEOUT_S)

    assert "gold equals the CSV" in flights.kubectl("logs", "job/ottla-flights", "--tail=-1")
