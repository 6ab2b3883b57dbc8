"""A cluster by helm: install, use, uninstall, install again, and every record is there."""

from typing import Any


def test_uninstalled_cluster_leaves_its_data(namespace: Any, helm: Any) -> None:
    chart = "charts/ottla-cluster"
    values = ("--set", "cluster.pools[0].storage.size=1Gi", "--set", "topics.flights.partitions=2")
    # Helm does not complete the first element of a list with its defaults: the pool's other fields are set, too.
    pool = ("--set", "cluster.pools[0].name=main", "--set", "cluster.pools[0].nodes=1")
    # In the clear, so that a pod without a Secret can tell whether the records are there.
    pool += ("--set", "cluster.tls=null", "--set", "cluster.listeners=null", "--set", "cluster.authorization=null")
    helm("install", "shop", chart, "-n", namespace.name, *values, *pool)
    namespace.start_client()
    namespace.wait_ready("cluster.ottla.dev/shop", "topic.ottla.dev/flights")
    namespace.ottla("produce", "flights", "-b", "shop-bootstrap:9092", text="kept\n")

    helm("uninstall", "shop", "-n", namespace.name, "--wait")
    namespace.wait_for("delete", "pod/shop-main-0")
    helm("install", "shop", chart, "-n", namespace.name, *values, *pool)
    namespace.wait_ready("cluster.ottla.dev/shop", "topic.ottla.dev/flights")

    assert namespace.ottla("consume", "flights", "-b", "shop-bootstrap:9092", "-O", ":end") == "kept\n"
