"""server.properties of every node, in Kafka's keys, and when a node has to be restarted."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.node_config import NodeConfig
from ottla.config.properties import parse_properties
from ottla.types import Endpoint
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.nodes import DesiredCluster, Place, desired_cluster

Builder = Callable[..., dict[str, Any]]


def place(_: Pool, __: int, node_id: int) -> Place:
    return Place(
        listen_host="localhost",
        client_host=f"node-{node_id}",
        client_port=9092,
        controller_port=9093,
        admin_port=8080,
        log_directory=f"/data/{node_id}",
    )


def nodes_of(manifest: dict[str, Any], image: str = "") -> DesiredCluster:
    return desired_cluster(Cluster.parse(manifest), place, image=image)


def test_single_node_is_broker_and_controller(cluster_manifest: Builder) -> None:
    (node,) = nodes_of(cluster_manifest()).nodes

    assert (node.name, node.node_id) == ("demo-main-0", 0)
    assert parse_properties(node.properties) == {
        "process.roles": "broker,controller",
        "node.id": "0",
        "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "advertised.listeners": "PLAINTEXT://node-0:9092,CONTROLLER://node-0:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "node-0:9093",
        "log.dirs": "/data/0",
        "ottla.admin.listener": "localhost:8080",
        "offsets.topic.replication.factor": "1",
    }


@pytest.mark.parametrize(("nodes", "factor"), [(1, "1"), (2, "2"), (3, "3"), (4, "3")])
def test_internal_topics_fit_on_the_nodes(cluster_manifest: Builder, nodes: int, factor: str) -> None:
    properties = parse_properties(nodes_of(cluster_manifest(nodes=nodes)).nodes[0].properties)

    assert properties["offsets.topic.replication.factor"] == factor


def test_nodes_know_each_other(cluster_manifest: Builder) -> None:
    desired = nodes_of(cluster_manifest(nodes=2))

    assert [node.node_id for node in desired.nodes] == [0, 1]
    assert desired.bootstrap_servers == "node-0:9092,node-1:9092"
    for node in desired.nodes:
        properties = parse_properties(node.properties)
        assert properties["controller.quorum.bootstrap.servers"] == "node-0:9093,node-1:9093"


def test_config_of_the_spec_is_written(cluster_manifest: Builder) -> None:
    (node,) = nodes_of(cluster_manifest(config={"offsets.topic.replication.factor": "2", "num.partitions": "3"})).nodes

    properties = parse_properties(node.properties)
    assert (properties["num.partitions"], properties["offsets.topic.replication.factor"]) == ("3", "2")


@given(config=st.dictionaries(st.text(min_size=1).filter(str.strip), st.text(), max_size=4))
def test_no_text_of_a_manifest_becomes_another_key(config: dict[str, str]) -> None:
    manifest = {
        "kind": "Cluster",
        "metadata": {"name": "demo"},
        "spec": {"pools": [{"name": "main", "nodes": 1, "storage": {"size": "1Gi"}}], "config": config},
    }
    plain = parse_properties(nodes_of({**manifest, "spec": {**manifest["spec"], "config": {}}}).nodes[0].properties)

    written = parse_properties(nodes_of(manifest).nodes[0].properties)

    assert written == {**plain, **{key: value for key, value in config.items() if key not in plain}}


@pytest.mark.parametrize(
    ("config", "resources", "image"),
    [
        pytest.param({"num.partitions": "4"}, {}, "one", id="config"),
        pytest.param({}, {"limits": {"cpu": 1}}, "one", id="resources"),
        pytest.param({}, {}, "two", id="image"),
    ],
)
def test_revision_changes_with_what_needs_a_restart(
    cluster_manifest: Builder, config: dict[str, str], resources: dict[str, Any], image: str
) -> None:
    before = nodes_of(cluster_manifest(config={}, resources={}), "one")
    same = nodes_of(cluster_manifest(config={}, resources={}), "one")
    after = nodes_of(cluster_manifest(config=config, resources=resources), image)

    assert before == same
    assert before.nodes[0].revision != after.nodes[0].revision


def test_broker_reads_what_is_written_for_it(cluster_manifest: Builder) -> None:
    (node,) = nodes_of(cluster_manifest(config={"num.partitions": "3"})).nodes

    config = NodeConfig.from_text(node.properties)

    assert (config.node_id, config.is_broker, config.is_controller) == (0, True, True)
    assert config.ottla_admin_listener == Endpoint("localhost", 8080)
    assert [str(it) for it in config.advertised_listeners] == ["PLAINTEXT://node-0:9092"]
    assert config.warnings == ()
