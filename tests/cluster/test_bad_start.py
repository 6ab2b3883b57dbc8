"""A node that must not take part says why in one line, ends with exit code 1, and hurts nobody."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest

BROKER = "broker"
BOTH = "broker,controller"
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


def test_a_broker_of_another_cluster(cluster: Any, new_cluster: Callable[..., Any]) -> None:
    other = new_cluster(BOTH, BROKER, **PATIENCE)
    stranger = other.nodes[2]
    config = stranger.config_path.read_text()
    wrong, right = (f"127.0.0.1:{each.nodes[1].controller_port}" for each in (other, cluster))
    stranger.config_path.write_text(config.replace(wrong, right))
    stranger.start()
    stranger.wait(30)

    assert "it belongs to another cluster than this node" in stranger.log_text()
    assert "broker 2 cannot enter the cluster" in last_line(stranger)


def test_a_broker_whose_id_is_taken(cluster: Any) -> None:
    cluster.nodes[2].start()
    cluster.wait_ready(2)
    twin = cluster.nodes[2]
    home = twin.directory.with_name("twin")
    shutil.copytree(twin.directory, home, ignore=shutil.ignore_patterns("data", "node.log"))
    second = cluster.add_twin(twin, home)
    second.start()

    assert "a broker with node.id=2 is registered" in last_line(second)
    assert cluster.nodes[2].is_running


def test_a_broker_that_finds_no_controller(cluster: Any) -> None:
    cluster.nodes[1].kill()
    cluster.nodes[2].start()

    assert "no active controller could be reached" in last_line(cluster.nodes[2])


def test_a_directory_that_was_wiped(cluster: Any) -> None:
    shutil.rmtree(cluster.nodes[2].directory / "data")
    cluster.nodes[2].start()

    assert "is not formatted" in last_line(cluster.nodes[2])


def test_a_directory_of_another_node(cluster: Any) -> None:
    broker = cluster.nodes[2]
    broker.config_path.write_text(broker.config_path.read_text().replace("node.id=2", "node.id=3"))
    broker.start()

    assert "Stored node id 2" in last_line(broker)


def test_a_voter_that_is_started_as_a_broker_only(cluster: Any) -> None:
    voter = cluster.nodes[1]
    assert voter.stop() == 0
    config = voter.config_path.read_text()
    config = config.replace(f"process.roles={BOTH}", "process.roles=broker")
    config = config.replace(f",CONTROLLER://127.0.0.1:{voter.controller_port}", "")
    voter.config_path.write_text(config)
    voter.log_path.unlink()
    voter.start()

    assert "is a voter of the metadata quorum" in last_line(voter)
