"""A node whose configuration contradicts the quorum fails before it takes part."""

import logging

import pytest

from ottla.config.node_config import NodeConfig
from ottla.errors import ConfigurationError
from ottla.node.quorum_check import check_quorum
from ottla.raft.voter_set import Voter, VoterSet
from ottla.types import Endpoint, Uuid

MINE, OTHER = Uuid(b"m" * 16), Uuid(b"o" * 16)


def config_of(**overrides: str) -> NodeConfig:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "log.dirs": "/data",
    }
    return NodeConfig.from_properties(properties | {key.replace("_", "."): overrides[key] for key in overrides})


def voters_of(*node_ids: int, listener: str = "CONTROLLER", directory_id: Uuid = MINE) -> VoterSet:
    return VoterSet.of(Voter(each, directory_id, {listener: Endpoint(f"node{each}", 9093)}) for each in node_ids)


BROKER = {"process_roles": "broker", "listeners": "PLAINTEXT://localhost:9092"}


@pytest.mark.parametrize(
    ("overrides", "voters", "kraft_version"),
    [
        pytest.param({}, voters_of(1, 2, 3), 1, id="a-voter-that-is-a-controller"),
        pytest.param({}, voters_of(2, 3), 1, id="a-controller-that-is-no-voter-yet"),
        pytest.param(BROKER, voters_of(2, 3), 1, id="a-broker-that-is-no-voter"),
        pytest.param({}, VoterSet({}), 0, id="no-voters-known-yet"),
        pytest.param(
            {"controller_quorum_voters": "1@a:1,2@b:1"}, voters_of(1, 3), 0, id="static-voters-are-not-in-the-log"
        ),
        pytest.param({"controller_quorum_voters": "1@a:1,3@b:1"}, voters_of(1, 3), 1, id="both-say-the-same"),
    ],
)
def test_consistent_configuration_is_accepted(overrides: dict[str, str], voters: VoterSet, kraft_version: int) -> None:
    check_quorum(config_of(**overrides), voters, kraft_version=kraft_version, directory_id=MINE)


@pytest.mark.parametrize(
    ("overrides", "voters", "said"),
    [
        pytest.param(
            BROKER, voters_of(1, 2), "is a voter .* process.roles does not have controller", id="voter-as-broker"
        ),
        pytest.param(
            {"controller_quorum_voters": "1@a:1,2@b:1"},
            voters_of(1, 2, 3),
            r"names \[1, 2\].* are \[1, 2, 3\]: remove controller.quorum.voters",
            id="static-voters-that-differ",
        ),
        pytest.param(
            {}, voters_of(1, listener="QUORUM"), "the listener CONTROLLER.* they have QUORUM", id="no-listener"
        ),
    ],
)
def test_contradicting_configuration_is_rejected(overrides: dict[str, str], voters: VoterSet, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        check_quorum(config_of(**overrides), voters, kraft_version=1, directory_id=MINE)


def test_reformatted_voter_logs_that_it_is_an_observer(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check_quorum(config_of(), voters_of(1, 2, 3, directory_id=OTHER), kraft_version=1, directory_id=MINE)

    assert "it is an observer" in caplog.text
