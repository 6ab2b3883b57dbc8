"""A transaction coordinator with a log in memory, for each test."""

import pytest

from transaction_node import TransactionNode


@pytest.fixture
def node() -> TransactionNode:
    return TransactionNode()
