"""A node that must not join logs the reason in one line, ends with exit code 1, and does no harm."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BROKER = "broker"
BOTH = "broker,controller"
OTHER = "another-cluster-00000A"
PATIENCE = {"initial_broker_registration_timeout_ms": "3000"}


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Any:
    """A node that is the whole quorum, and a broker that is not started yet."""
    made = new_cluster(BOTH, BROKER, offsets_topic_replication_factor="1", **PATIENCE)
    made.nodes[1].start()
    made.wait_ready(1)
    return made


def last_line(node: Any) -> str:
    assert node.wait(30) == 1, node.log_text()
    lines = [line for line in node.log_text().splitlines() if " CRITICAL " in line or line.startswith("error: ")]
    assert len(lines) == 1, node.log_text()
    assert "Traceback" not in node.log_text()
    return str(lines[0])


def change(path: Path, *changes: tuple[str, str]) -> None:
    """Replace texts in a file; each must be there."""
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def format_for_another_cluster(node: Any, cluster: Any) -> None:
    change(node.directory / "data" / "meta.properties", (f"cluster.id={cluster.cluster_id}", f"cluster.id={OTHER}"))


def test_broker_of_another_cluster(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(BOTH, BROKER, initial_broker_registration_timeout_ms="3600000")
    cluster.nodes[1].start()
    cluster.wait_ready(1)
    format_for_another_cluster(cluster.nodes[2], cluster)
    cluster.nodes[2].start()

    line = last_line(cluster.nodes[2])

    assert f"another cluster than this node's storage, which has the cluster id {OTHER}" in line
    assert "point controller.quorum.bootstrap.servers" in line


def test_voter_of_another_cluster(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(*("controller",) * 3, static_voters=True)
    format_for_another_cluster(cluster.nodes[3], cluster)
    for node_id in (1, 2, 3):
        cluster.nodes[node_id].start()

    assert f"which has the cluster id {OTHER}" in last_line(cluster.nodes[3])
    cluster.wait_ready(1)
    cluster.wait_ready(2)


def test_broker_whose_id_is_taken(cluster: Any) -> None:
    cluster.nodes[2].start()
    cluster.wait_ready(2)
    twin = cluster.nodes[2]
    home = twin.directory.with_name("twin")
    shutil.copytree(twin.directory, home, ignore=shutil.ignore_patterns("data", "node.log"))
    second = cluster.add_twin(twin, home)
    second.start()

    assert "a broker with node.id=2 is registered" in last_line(second)
    assert cluster.nodes[2].is_running


def test_broker_replaced_while_it_was_frozen_is_fenced_off(cluster: Any) -> None:
    frozen = cluster.nodes[2]
    frozen.start()
    cluster.wait_ready(2)
    frozen.signal(signal.SIGSTOP)
    home = frozen.directory.with_name("successor")
    shutil.copytree(frozen.directory, home, ignore=shutil.ignore_patterns("data", "node.log"))
    successor = cluster.add_twin(frozen, home)
    change(successor.config_path, ("timeout.ms=3000", "timeout.ms=60000"))
    successor.start()
    cluster.wait_line(successor, "node 2 is ready")
    frozen.signal(signal.SIGCONT)

    assert "another process has registered under the same node.id since" in last_line(frozen)
    assert successor.is_running


def test_broker_that_finds_no_controller(cluster: Any) -> None:
    cluster.nodes[1].kill()
    cluster.nodes[2].start()

    assert "no active controller could be reached" in last_line(cluster.nodes[2])


def test_directory_that_was_wiped(cluster: Any) -> None:
    shutil.rmtree(cluster.nodes[2].directory / "data")
    cluster.nodes[2].start()

    assert "is not formatted" in last_line(cluster.nodes[2])


def test_directory_of_another_node(cluster: Any) -> None:
    broker = cluster.nodes[2]
    change(broker.config_path, ("node.id=2", "node.id=3"))
    broker.start()

    assert "Stored node id 2" in last_line(broker)


def test_voter_with_a_reformatted_directory_becomes_an_observer_and_logs_it(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(*("controller",) * 3)
    cluster.start()
    voter = cluster.nodes[3]
    voter.kill()
    voter.log_path.unlink()
    change(voter.directory / "data" / "meta.properties", (voter.directory_id, OTHER))
    voter.start()
    cluster.wait_line(voter, "formatted again")

    (line,) = [each for each in voter.log_text().splitlines() if "formatted again" in each]
    assert f"the quorum has a voter 3 with the metadata directory {voter.directory_id}; this node's is {OTHER}" in line
    assert "kafka-metadata-quorum remove-controller" in line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            "controller.quorum.voters=1@",
            "controller.quorum.voters=9@",
            "If process.roles contains the 'controller' role, the node id 1 must be included in the set of voters",
            id="unknown-voter",
        ),
        pytest.param(
            "controller.listener.names=CONTROLLER",
            "controller.listener.names=CONTROLLER,QUORUM",
            "controller.listener.names has QUORUM, which listeners=",
            id="controller-listener-missing",
        ),
        pytest.param(
            "controller.listener.names=CONTROLLER",
            "controller.listener.names=CONTROLLER\ninter.broker.listener.name=INTERNAL",
            "Listener with name INTERNAL defined in inter.broker.listener.name not found",
            id="inter-broker-listener-missing",
        ),
        pytest.param(
            "process.roles=broker,controller",
            "process.roles=broker",
            "has CONTROLLER of controller.listener.names, but process.roles=broker does not run a controller",
            id="role-missing",
        ),
    ],
)
def test_configuration_that_contradicts_itself(new_cluster: Callable[..., Any], old: str, new: str, said: str) -> None:
    node = new_cluster(BOTH, static_voters=True).nodes[1]
    change(node.config_path, (old, new))
    node.start()

    assert said in last_line(node)


def test_voters_in_the_configuration_that_are_not_those_of_the_log(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(BOTH)
    cluster.start()
    node = cluster.nodes[1]
    assert node.stop() == 0
    node.log_path.unlink()
    servers = f"controller.quorum.bootstrap.servers=127.0.0.1:{node.controller_port}"
    voters = f"1@127.0.0.1:{node.controller_port},2@127.0.0.1:1"
    change(node.config_path, (servers, f"controller.quorum.voters={voters}"))
    node.start()

    line = last_line(node)

    assert "controller.quorum.voters names [1, 2], but the voters are kept in the metadata log and are [1]" in line
    assert "remove controller.quorum.voters and set controller.quorum.bootstrap.servers" in line


def test_voter_that_is_started_as_a_broker_only(cluster: Any) -> None:
    voter = cluster.nodes[1]
    assert voter.stop() == 0
    change(
        voter.config_path,
        (f"process.roles={BOTH}", "process.roles=broker"),
        (f",CONTROLLER://127.0.0.1:{voter.controller_port}", ""),
    )
    voter.log_path.unlink()
    voter.start()

    assert "is a voter of the metadata quorum" in last_line(voter)
