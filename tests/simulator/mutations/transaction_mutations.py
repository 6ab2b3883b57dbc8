"""Mutations of transactions, in the form of `catalog`; measured in the same way."""

from collections.abc import Iterable
from typing import Any

from catalog import MUTATIONS, mutation
from hunting import SetAttribute, measure
from ottla.log.log_state import LogState
from ottla.log.producer_state import ProducerState
from ottla.log.transaction_index import TransactionIndex
from ottla.log.verifications import Verifications
from ottla.replication.fetch import consumer_fetch
from ottla.transactions.append_attempt import AppendAttempt
from ottla.transactions.markers import MarkerSender
from ottla.transactions.metadata import TransactionMetadata
from ottla.transactions.shard import TransactionShard
from ottla.transactions.state import TransactionState

SEEDS_FROM = 6
IN_TRANSACTIONS: dict[str, int] = {"seeds_from": SEEDS_FROM, "seeds_step": 16, "seeds_max": 102}
"""The seeds whose runs have transactions."""


@mutation("the end of a transaction does not wait for all of its markers", known_seed=54, **IN_TRANSACTIONS)
def _complete_early(set_attribute: SetAttribute) -> None:
    finish = MarkerSender._finish_if_written

    def finish_at_once(self: MarkerSender, unfinished: Any) -> None:
        unfinished.missing.clear()
        finish(self, unfinished)

    set_attribute(MarkerSender, "_finish_if_written", finish_at_once)


@mutation("a new coordinator sends no markers of old decisions", known_seed=54, **IN_TRANSACTIONS)
def _resume_nothing(set_attribute: SetAttribute) -> None:
    on_loaded = TransactionShard.on_loaded

    def load_only(self: TransactionShard) -> Iterable[Any]:
        on_loaded(self)
        return []

    set_attribute(TransactionShard, "on_loaded", load_only)


@mutation("leaders accept batches of fenced producers", **IN_TRANSACTIONS)
def _accept_fenced(set_attribute: SetAttribute) -> None:
    set_attribute(ProducerState, "require_epoch", lambda self, producer_id, producer_epoch, offset: None)
    _verify_nothing(set_attribute)


@mutation("readers of committed records read up to the high watermark", **IN_TRANSACTIONS)
def _read_open(set_attribute: SetAttribute) -> None:
    set_attribute(LogState, "last_stable_offset", property(lambda self: self.high_watermark))


@mutation("responses do not name aborted transactions", **IN_TRANSACTIONS)
def _hide_aborts(set_attribute: SetAttribute) -> None:
    set_attribute(consumer_fetch, "AbortedTransaction", lambda producer_id, first_offset: _NEVER_STARTED)


_NEVER_STARTED = consumer_fetch.AbortedTransaction(producer_id=-1, first_offset=0)


@mutation("the transaction index keeps no aborted transaction", known_seed=22, **IN_TRANSACTIONS)
def _index_nothing(set_attribute: SetAttribute) -> None:
    set_attribute(TransactionIndex, "append", lambda self, transaction: None)


@mutation("every decision becomes a commit", known_seed=22, **IN_TRANSACTIONS)
def _commit_all(set_attribute: SetAttribute) -> None:
    prepared = TransactionMetadata.prepared

    def committed(self: TransactionMetadata, **arguments: Any) -> TransactionMetadata:
        if self.state is TransactionState.ONGOING:
            arguments["is_commit"] = True
        return prepared(self, **arguments)

    set_attribute(TransactionMetadata, "prepared", committed)


@mutation("markers that failed are not requested again", known_seed=1398, **IN_TRANSACTIONS)
def _request_markers_once(set_attribute: SetAttribute) -> None:
    set_attribute(MarkerSender, "_retry_later", lambda self, unfinished, partition: None)


@mutation("a marker does not end the transaction in the log", **IN_TRANSACTIONS)
def _ignore_markers(set_attribute: SetAttribute) -> None:
    set_attribute(ProducerState, "complete", lambda self, transaction: None)


@mutation("batches enter a transaction unverified, and no coordinator knows of them", **IN_TRANSACTIONS)
def _append_unverified(set_attribute: SetAttribute) -> None:
    _verify_nothing(set_attribute)


@mutation("ends have no epoch of their own under transaction.version 2", known_seed=86, **IN_TRANSACTIONS)
def _keep_epochs(set_attribute: SetAttribute) -> None:
    prepared = TransactionMetadata.prepared

    def keep_epoch(self: TransactionMetadata, **arguments: Any) -> TransactionMetadata:
        return prepared(self, **arguments | {"client_transaction_version": 0})

    set_attribute(TransactionMetadata, "prepared", keep_epoch)


def _verify_nothing(set_attribute: SetAttribute) -> None:
    set_attribute(AppendAttempt, "start", lambda self, adds_partitions: None)
    set_attribute(Verifications, "require_guard", lambda self, batch, guard: None)


if __name__ == "__main__":
    measure([each._replace(known_seed=None) for each in MUTATIONS if each.apply.__module__ == "__main__"])
