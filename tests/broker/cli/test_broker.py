"""`ottla broker` and the voters of `ottla quorum`, against one node: output and rejections."""

import json
from pathlib import Path
from typing import Any

import pytest


def test_brokers_are_listed_with_their_replicas(ottla: Any, topic: str) -> None:
    (broker,) = json.loads(ottla("broker", "list", "-o", "json").out)

    assert (broker["id"], broker["state"], broker["quorum"], broker["lagging"]) == (1, "running", "leader", 0)
    assert broker["leads"] == broker["replicas"] >= 3
    assert ottla("broker", "list", "-o", "name").out == "broker/1\n"


@pytest.mark.parametrize("command", ["drain", "decommission"])
def test_unknown_broker_is_not_found(ottla: Any, command: str) -> None:
    ran = ottla("broker", command, "7", "--yes")

    assert (ran.code, "no broker has the id 7" in ran.err) == (3, True)


@pytest.mark.parametrize("command", ["drain", "decommission"])
def test_only_broker_cannot_be_drained(ottla: Any, topic: str, command: str) -> None:
    ran = ottla("broker", command, "1", "--yes")

    assert (ran.code, "too few brokers" in ran.err) == (10, True)


def test_controller_that_is_no_observer_cannot_become_a_voter(ottla: Any) -> None:
    ran = ottla("quorum", "add", "7", "--endpoint", "CONTROLLER://localhost:9093")

    assert (ran.code, "start it, formatted with --no-initial-controllers" in ran.err) == (3, True)


def test_voter_cannot_be_added_again(ottla: Any) -> None:
    ran = ottla("quorum", "add", "1", "--endpoint", "CONTROLLER://localhost:9093")

    assert (ran.code, "it is already a voter" in ran.err) == (3, True)


def test_controller_is_named_by_its_configuration(ottla: Any, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=controller\nnode.id=8\nlisteners=CONTROLLER://localhost:9093\nlog.dirs=/nowhere\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
    )

    ran = ottla("quorum", "add", "-c", str(file))

    assert (ran.code, "no observer of the quorum has the id 8" in ran.err) == (3, True)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="no-arguments"),
        pytest.param(["4"], id="no-endpoint"),
        pytest.param(["4", "--endpoint", "localhost:9093"], id="endpoint-without-name"),
        pytest.param(["4", "--endpoint", "A://localhost:99999"], id="no-port"),
    ],
)
def test_controller_without_an_address_is_wrong_usage(ottla: Any, arguments: list[str]) -> None:
    assert ottla("quorum", "add", *arguments).code == 2


def test_unknown_voter_is_not_found(ottla: Any) -> None:
    assert ottla("quorum", "remove", "7", "--yes").code == 3


def test_dry_run_and_missing_yes_remove_no_voter(ottla: Any) -> None:
    assert ottla("quorum", "remove", "1", "--dry-run").err == "voter 1 would leave the quorum; 0 would be left\n"
    assert ottla("quorum", "remove", "1").code == 2
