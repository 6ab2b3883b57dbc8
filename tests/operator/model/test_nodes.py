"""server.properties of every node, in Kafka's keys, and when a node has to be restarted."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.config.node_config import NodeConfig
from ottla.config.properties import parse_properties
from ottla.metadata.format import parse_initial_controllers
from ottla.types import Endpoint
from ottla_operator.model.broker_configs import static_configs
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.node_listeners import Place
from ottla_operator.model.nodes import (
    DesiredCluster,
    desired_cluster,
    node_name,
    node_of_id,
    node_of_name,
)

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
        "default.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


@pytest.mark.parametrize(("nodes", "factor", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (4, "3", "2")])
def test_internal_topics_fit_on_the_nodes(cluster_manifest: Builder, nodes: int, factor: str, in_sync: str) -> None:
    properties = parse_properties(nodes_of(cluster_manifest(nodes=nodes)).nodes[0].properties)

    assert properties["offsets.topic.replication.factor"] == factor
    assert properties["default.replication.factor"] == factor
    assert properties["transaction.state.log.replication.factor"] == factor
    assert properties["transaction.state.log.min.isr"] == in_sync


def test_nodes_know_each_other(cluster_manifest: Builder) -> None:
    desired = nodes_of(cluster_manifest(nodes=2))

    assert [node.node_id for node in desired.nodes] == [0, 1]
    assert desired.addresses(lambda it: it.client_port) == "node-0:9092,node-1:9092"
    for node in desired.nodes:
        properties = parse_properties(node.properties)
        assert properties["controller.quorum.bootstrap.servers"] == "node-0:9093,node-1:9093"


def test_config_of_the_spec_is_written(cluster_manifest: Builder) -> None:
    (node,) = nodes_of(cluster_manifest(config={"offsets.topic.replication.factor": "2", "num.partitions": "3"})).nodes

    properties = parse_properties(node.properties)
    assert (properties["num.partitions"], properties["offsets.topic.replication.factor"]) == ("3", "2")


@given(config=st.dictionaries(st.text(min_size=1).filter(str.strip), st.text(), max_size=4))
@example(config={"min.insync.replicas": "2", "a=b": "x\ny=z"})
def test_no_text_of_a_manifest_becomes_another_key(config: dict[str, str]) -> None:
    manifest = {
        "kind": "Cluster",
        "metadata": {"name": "demo"},
        "spec": {"pools": [{"name": "main", "nodes": 1, "storage": {"size": "1Gi"}}], "config": config},
    }
    plain = parse_properties(nodes_of({**manifest, "spec": {**manifest["spec"], "config": {}}}).nodes[0].properties)

    written = parse_properties(nodes_of(manifest).nodes[0].properties)

    # Dynamic configs are not in the file.
    assert written == {**plain, **{key: value for key, value in static_configs(config).items() if key not in plain}}


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


STORAGE = {"size": "1Gi"}
MAIN = {"name": "main", "nodes": 3, "storage": STORAGE}
BROKERS = {"name": "brokers", "nodes": 2, "storage": STORAGE, "roles": ["broker"], "firstNodeId": 3}
QUORUM = {"name": "quorum", "nodes": 3, "storage": STORAGE, "roles": ["controller"], "firstNodeId": 10}


def cluster_of(*pools: dict[str, Any], status: dict[str, Any] | None = None) -> Cluster:
    manifest = {"kind": "Cluster", "metadata": {"name": "demo"}, "spec": {"pools": list(pools)}}
    return Cluster.parse({**manifest, **({"status": status} if status else {})})


def parsed(desired: DesiredCluster) -> dict[str, dict[str, str]]:
    return {node.name: parse_properties(node.properties) for node in desired.nodes}


def test_ids_of_a_pool_follow_its_first() -> None:
    desired = desired_cluster(cluster_of(MAIN, BROKERS), place)

    assert {node.name: node.node_id for node in desired.nodes} == {
        "demo-main-0": 0,
        "demo-main-1": 1,
        "demo-main-2": 2,
        "demo-brokers-0": 3,
        "demo-brokers-1": 4,
    }


def test_ids_stay_when_another_pool_grows() -> None:
    quorum = {**QUORUM, "nodes": 1}
    before = desired_cluster(cluster_of({**BROKERS, "firstNodeId": 0}, quorum), place)
    after = desired_cluster(cluster_of({**BROKERS, "firstNodeId": 0, "nodes": 5}, quorum), place)

    ids = {node.name: node.node_id for node in after.nodes}
    assert {node.name: node.node_id for node in before.nodes}.items() <= ids.items()


def test_node_has_the_listeners_of_its_roles() -> None:
    properties = parsed(desired_cluster(cluster_of({**BROKERS, "firstNodeId": 0}, QUORUM), place))

    broker, controller = properties["demo-brokers-0"], properties["demo-quorum-0"]
    assert (broker["process.roles"], broker["listeners"]) == ("broker", "PLAINTEXT://localhost:9092")
    assert (controller["process.roles"], controller["listeners"]) == ("controller", "CONTROLLER://localhost:9093")
    quorum = "node-10:9093,node-11:9093,node-12:9093"
    assert {it["controller.quorum.bootstrap.servers"] for it in properties.values()} == {quorum}


@pytest.mark.parametrize("pools", [(MAIN,), (MAIN, BROKERS), ({**BROKERS, "firstNodeId": 0}, QUORUM)])
def test_every_node_reads_what_is_written_for_it(pools: tuple[dict[str, Any], ...]) -> None:
    for node in desired_cluster(cluster_of(*pools), place).nodes:
        config = NodeConfig.from_text(node.properties)

        assert (config.node_id, config.is_broker, config.is_controller) == (
            node.node_id,
            node.is_broker,
            node.is_controller,
        )
        assert config.warnings == ()


def test_bootstrap_addresses_are_of_brokers_only() -> None:
    desired = desired_cluster(cluster_of({**BROKERS, "firstNodeId": 0}, QUORUM), place)

    assert desired.addresses(lambda it: it.client_port) == "node-0:9092,node-1:9092"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((MAIN, BROKERS), (MAIN, {**BROKERS, "nodes": 4})),
        ((MAIN, BROKERS), ({**MAIN, "nodes": 5}, BROKERS)),
        (({**MAIN, "nodes": 1},), (MAIN,)),
    ],
    ids=["brokers", "controllers", "the first copies"],
)
def test_scaling_is_no_new_revision(before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    first, second = (desired_cluster(cluster_of(*pools), place).templates for pools in (before, after))

    assert [(it.revision, it.parts) for it in first] == [(it.revision, it.parts) for it in second]


class TestFirstVoters:
    def test_they_are_all_controllers_of_a_new_cluster(self) -> None:
        desired = desired_cluster(cluster_of(MAIN, BROKERS), place)

        (option, text), *others = {node.format_arguments for node in desired.controllers}
        assert (option, others) == ("--initial-controllers", [])
        voters = parse_initial_controllers(text, "CONTROLLER")
        assert [(it.node_id, str(it.listeners["CONTROLLER"])) for it in voters] == [
            (number, f"node-{number}:9093") for number in range(3)
        ]
        assert len({voter.directory_id for voter in voters}) == 3

    def test_brokers_join(self) -> None:
        desired = desired_cluster(cluster_of(MAIN, BROKERS), place)

        assert {it.format_arguments for it in desired.nodes if not it.is_controller} == {("--no-initial-controllers",)}

    def test_initial_controllers_are_none_once_the_quorum_exists(self) -> None:
        for status in ({"clusterId": "x"}, {"clusterId": "x", "initialControllers": []}):
            desired = desired_cluster(cluster_of(MAIN, status=status), place)

            assert {node.format_arguments for node in desired.nodes} == {("--no-initial-controllers",)}

    def test_other_controllers_are_left_out_until_the_quorum_is_there(self) -> None:
        forming = {"clusterId": "x", "initialControllers": [0]}

        before = desired_cluster(cluster_of(MAIN, BROKERS, status=forming), place)
        after = desired_cluster(cluster_of(MAIN, BROKERS, status={**forming, "initialControllers": []}), place)

        assert [node.node_id for node in before.nodes] == [0, 3, 4]
        assert [node.node_id for node in after.nodes] == [0, 1, 2, 3, 4]


class TestLeaving:
    def test_node_beyond_the_spec_runs_on_under_its_id(self) -> None:
        desired = desired_cluster(cluster_of(MAIN, BROKERS), place, leaving=["demo-brokers-3", "demo-other-9"])

        beyond = [node for node in desired.nodes if node.is_leaving]
        assert [(node.name, node.node_id) for node in beyond] == [("demo-brokers-2", 5), ("demo-brokers-3", 6)]
        assert [node.node_id for node in desired.brokers] == [0, 1, 2, 3, 4]
        assert "node-5" not in desired.addresses(lambda it: it.client_port)

    def test_controller_beyond_the_spec_is_no_bootstrap_server(self) -> None:
        desired = desired_cluster(cluster_of(MAIN), place, leaving=["demo-main-4"])

        servers = {it["controller.quorum.bootstrap.servers"] for it in parsed(desired).values()}
        assert servers == {"node-0:9093,node-1:9093,node-2:9093"}


@pytest.mark.parametrize(
    ("node_id", "expected"),
    [
        pytest.param(0, "demo-main-0", id="first"),
        pytest.param(2, "demo-main-2", id="last-of-a-pool"),
        pytest.param(3, "demo-brokers-0", id="first-of-the-next"),
        pytest.param(7, "demo-brokers-4", id="beyond-all"),
    ],
)
def test_ids_and_names_lead_to_the_same_node(node_id: int, expected: str) -> None:
    cluster = cluster_of(MAIN, BROKERS)

    found = node_of_id(cluster, node_id)

    assert found is not None
    assert (node_name(cluster, *found), node_of_name(cluster, expected)) == (expected, found)


@pytest.mark.parametrize("name", ["demo-main", "demo-main-", "demo-main-x", "demo-main-٣", "other-main-0", ""])
def test_other_names_are_no_nodes(name: str) -> None:
    assert node_of_name(cluster_of(MAIN), name) is None


def test_id_below_all_pools_is_no_nodes() -> None:
    assert node_of_id(cluster_of({**MAIN, "firstNodeId": 5}), 4) is None
