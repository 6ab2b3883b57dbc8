"""The pattern of ListTransactions is one of RE2, within the bounds of expressions."""

from typing import Any

import pytest

from ottla.config.patterns import PATTERN_SIZE_MAX
from ottla.errors import ErrorCode
from ottla.simulator.world.single_node import RunningNode, World
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

IDS = ["orders-1", "orders-2", "x-orders-1"]


@pytest.fixture
def node(world: World) -> RunningNode:
    """A node that coordinates all transactions."""
    running = world.start_node(
        transaction_state_log_num_partitions="1",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
    )
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[IDS[0]])
    running.connect().ask(request, FindCoordinatorResponse, 4)
    running.run(2_000)
    return running


def list_transactions(node: RunningNode, pattern: str | None) -> Any:
    request = ListTransactionsRequest(transactional_id_pattern=pattern)
    return node.connect().ask(request, ListTransactionsResponse, 2)


def test_pattern_is_matched_against_whole_ids(node: RunningNode) -> None:
    for each in IDS:
        request = InitProducerIdRequest(transactional_id=each, transaction_timeout_ms=1_000)
        response = node.connect().ask(request, InitProducerIdResponse, 4)
        assert response.error_code == ErrorCode.NONE

    listed = list_transactions(node, "orders-.")

    assert sorted(each.transactional_id for each in listed.transaction_states) == ["orders-1", "orders-2"]


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        pytest.param("a" * PATTERN_SIZE_MAX, ErrorCode.NONE, id="longest"),
        pytest.param("a" * (PATTERN_SIZE_MAX + 1), ErrorCode.INVALID_REGULAR_EXPRESSION, id="too-long"),
        pytest.param("(?i)" + r"\pL" * 10_000, ErrorCode.INVALID_REGULAR_EXPRESSION, id="many-unicode-classes"),
        pytest.param("(", ErrorCode.INVALID_REGULAR_EXPRESSION, id="syntax"),
    ],
)
def test_pattern_is_bounded(node: RunningNode, pattern: str, error: ErrorCode) -> None:
    assert list_transactions(node, pattern).error_code == error
