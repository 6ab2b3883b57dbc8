"""Mutations of offsets in transactions, of versions, and of the removal of keys, in the form of `catalog`."""

from typing import Any

from catalog import MUTATIONS, mutation
from hunting import SetAttribute, measure
from ottla.groups.offsets import fetch, transactional_commit
from ottla.groups.offsets.store import OffsetStore
from ottla.groups.shard import GroupCoordinatorShard
from ottla.log.cleaner import batch_filter
from ottla.replication.isr.remote_replica import RemoteReplica
from ottla.replication.replica_manager import ReplicaManager
from ottla.transactions import enlist
from ottla.transactions.shard import TransactionShard
from ottla.transactions.state import TransactionState
from ottla.wire.records import NO_PRODUCER_ID

IN_COPIES: dict[str, int] = {"seeds_from": 14, "seeds_step": 16, "seeds_max": 206}
"""The seeds whose runs have copiers, and levels of transaction.version."""
IN_KEYED_TOPICS: dict[str, int] = {"seeds_from": 10, "seeds_step": 16, "seeds_max": 202}
"""The seeds whose runs have a topic from which compaction removes keys."""


@mutation("a marker does not make pending offsets visible", known_seed=46, **IN_COPIES)
def _commit_no_offsets(set_attribute: SetAttribute) -> None:
    set_attribute(OffsetStore, "_commit_pending", lambda self, producer_id, key: None)


@mutation("an abort does not drop pending offsets", **IN_COPIES)
def _commit_aborted_offsets(set_attribute: SetAttribute) -> None:
    end = OffsetStore.end_transaction
    set_attribute(
        OffsetStore, "end_transaction", lambda self, producer_id, *, commit: end(self, producer_id, commit=True)
    )


@mutation("offsets of open transactions count at once", **IN_COPIES)
def _commit_offsets_at_once(set_attribute: SetAttribute) -> None:
    replay = GroupCoordinatorShard.replay
    set_attribute(
        GroupCoordinatorShard, "replay", lambda self, record, producer_id: replay(self, record, NO_PRODUCER_ID)
    )


@mutation("OffsetFetch ignores require_stable", known_seed=446, **IN_COPIES | {"seeds_max": 446})
def _fetch_unstable(set_attribute: SetAttribute) -> None:
    partition = fetch._partition
    set_attribute(fetch, "_partition", lambda store, key, require_stable: partition(store, key, False))


@mutation("TxnOffsetCommit of an old generation is accepted", known_seed=158, **IN_COPIES)
def _accept_old_generations(set_attribute: SetAttribute) -> None:
    set_attribute(transactional_commit, "_check", lambda rebalancer, request: None)


@mutation("a transaction is not aborted after its time-out", known_seed=174, **IN_COPIES)
def _wait_for_ever(set_attribute: SetAttribute) -> None:
    check = TransactionShard.check

    def check_ends(self: TransactionShard, transactional_id: str) -> Any:
        metadata = self.transactions.get(transactional_id)
        is_open = metadata is not None and metadata.state is TransactionState.ONGOING
        return None if is_open else check(self, transactional_id)

    set_attribute(TransactionShard, "check", check_ends)


@mutation("partitions are verified for producers of every epoch", known_seed=78, **IN_COPIES)
def _verify_old_epochs(set_attribute: SetAttribute) -> None:
    set_attribute(enlist, "require_producer", lambda shard, request: shard.transactions[request.transactional_id])


@mutation("tombstones go in the cleaning that reads them first", **IN_KEYED_TOPICS)
def _remove_tombstones_at_once(set_attribute: SetAttribute) -> None:
    select_retained = batch_filter._select_retained
    set_attribute(batch_filter, "_select_retained", lambda *arguments, is_due: select_retained(*arguments, is_due=True))


@mutation("the delete horizon does not count delete.retention.ms", known_seed=330, **IN_KEYED_TOPICS)
def _delete_at_once(set_attribute: SetAttribute) -> None:
    build = batch_filter.build_retained_batch

    def build_due_batch(batch: Any, *arguments: Any, delete_horizon_ms: int | None) -> bytes:
        starts = delete_horizon_ms is not None and delete_horizon_ms != batch.delete_horizon_ms
        return build(batch, *arguments, delete_horizon_ms=0 if starts else delete_horizon_ms)

    set_attribute(batch_filter, "build_retained_batch", build_due_batch)


@mutation("a coordinator needs no confirmation to read", seeds_max=None)
def _read_unconfirmed(set_attribute: SetAttribute) -> None:
    set_attribute(ReplicaManager, "is_leadership_confirmed", lambda self, topic_partition: True)


@mutation("a follower confirms its leader when its fetch is read", seeds_max=None)
def _confirm_on_arrival(set_attribute: SetAttribute) -> None:
    set_attribute(RemoteReplica, "following_confirmed_ms", property(lambda self: self.last_active_ms))


if __name__ == "__main__":
    measure([each._replace(known_seed=None) for each in MUTATIONS if each.apply.__module__ == "__main__"])
