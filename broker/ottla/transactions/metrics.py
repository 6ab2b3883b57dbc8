"""The metrics of the transactions that this broker coordinates."""

from dataclasses import dataclass
from typing import Final

from ottla.metrics.registry import Rows, gauge


@dataclass(frozen=True, slots=True)
class TransactionSample:
    """Counts of transactional ids."""

    ids: int
    open: int
    awaiting_markers: int


ROWS: Final[Rows[TransactionSample]] = (
    gauge("ottla_transactional_ids", "Transactional ids that this broker coordinates.", lambda it: it.ids),
    gauge("ottla_open_transactions", "Transactions that are neither committed nor aborted.", lambda it: it.open),
    gauge(
        "ottla_transactions_awaiting_markers",
        "Decided transactions whose markers are not all written; after seconds, a partition's leader is missing.",
        lambda it: it.awaiting_markers,
    ),
)
