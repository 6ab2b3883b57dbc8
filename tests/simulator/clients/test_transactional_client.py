"""Transactional clients of the simulator follow the finalized transaction.version, as Java's TransactionManager."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.peers.client import PeerClient
from ottla.simulator.runs.plan import draw_plan
from ottla.simulator.runs.simulation import Simulation
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

COPIES_SEED = 174
RUN_MS = 4_000
ENLISTING = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int]]:
    """Requests of transactional clients, with their versions, in order."""
    requests: list[tuple[Any, int]] = []
    transmit = PeerClient._transmit

    def recorded(self: PeerClient, peer: Any, pending: Any) -> None:
        if self._config.client_id == "transactional-clients":
            requests.append((pending.request, pending.api.version))
        transmit(self, peer, pending)

    monkeypatch.setattr(PeerClient, "_transmit", recorded)
    return requests


def run(*levels: int) -> None:
    plan = replace(draw_plan(COPIES_SEED), transaction_versions=levels)
    outcome = Simulation(COPIES_SEED, plan=plan, faulty=False).run(RUN_MS)

    assert outcome.failure is None
    assert outcome.committed > 0


def versions_of(sent: list[tuple[Any, int]], kind: type) -> set[int]:
    return {version for request, version in sent if isinstance(request, kind)}


@pytest.mark.parametrize("level", [0, 1])
def test_client_before_version_2_enlists_partitions_and_offsets(sent: list[tuple[Any, int]], level: int) -> None:
    run(level)

    assert all(versions_of(sent, kind) for kind in ENLISTING)
    assert versions_of(sent, ProduceRequest) == {11}
    assert versions_of(sent, TxnOffsetCommitRequest) == versions_of(sent, EndTxnRequest) == {4}


def test_client_of_version_2_enlists_nothing_itself(sent: list[tuple[Any, int]]) -> None:
    run(2)

    assert not any(versions_of(sent, kind) for kind in ENLISTING)
    assert versions_of(sent, ProduceRequest) == {13}
    assert versions_of(sent, TxnOffsetCommitRequest) == versions_of(sent, EndTxnRequest) == {5}


def test_upgraded_client_requests_another_epoch_for_its_producer_id(sent: list[tuple[Any, int]]) -> None:
    run(1, 2)

    bumps = [request for request, _ in sent if isinstance(request, InitProducerIdRequest) and request.producer_id >= 0]
    assert bumps
    assert versions_of(sent, EndTxnRequest) == {4, 5}


def test_downgraded_client_enlists_again(sent: list[tuple[Any, int]]) -> None:
    run(2, 1)

    ends = [version for request, version in sent if isinstance(request, EndTxnRequest)]
    assert (ends[0], ends[-1]) == (5, 4)
