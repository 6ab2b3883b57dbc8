"""Mutations of share groups (KIP-932), in the form of `catalog`."""

from typing import Any

from catalog import MUTATIONS, mutation
from hunting import SetAttribute, measure
from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.share_partitions.settings import ShareGroupSettings
from ottla.share_partitions.share_partition import SharePartition
from ottla.share_state.client import PersisterClient
from ottla.share_state.persister import ReadState, StateResult

IN_SHARE_GROUPS: dict[str, int] = {"seeds_from": 4, "seeds_step": 16, "seeds_max": 160}
"""The seeds whose runs have a share group."""


@mutation("acknowledgements are confirmed before they are stored", **IN_SHARE_GROUPS)
def _confirm_before_storing(set_attribute: SetAttribute) -> None:
    set_attribute(PersisterClient, "write", lambda self, key, write: Delayed.of(StateResult(ErrorCode.NONE)))


@mutation("a new leader of share groups reads no batches", known_seed=20, **IN_SHARE_GROUPS)
def _read_no_batches(set_attribute: SetAttribute) -> None:
    read = PersisterClient.read

    def read_start(self: PersisterClient, *arguments: Any, **fields: Any) -> Delayed[ReadState]:
        return read(self, *arguments, **fields).then(lambda state: state._replace(batches=()))

    set_attribute(PersisterClient, "read", read_start)


@mutation("records are delivered more often than the limit", **IN_SHARE_GROUPS)
def _exceed_the_limit(set_attribute: SetAttribute) -> None:
    set_attribute(ShareGroupSettings, "delivery_count_limit", lambda self, group_id: 10)


@mutation("acquisition locks do not time out", known_seed=68, **IN_SHARE_GROUPS)
def _keep_locks(set_attribute: SetAttribute) -> None:
    def expire_nothing(self: SharePartition, now_ms: int) -> Steps[None]:
        return
        yield

    set_attribute(SharePartition, "expire_locks", expire_nothing)


@mutation("acquisition locks time out too early", known_seed=20, **IN_SHARE_GROUPS)
def _shorten_locks(set_attribute: SetAttribute) -> None:
    set_attribute(ShareGroupSettings, "record_lock_duration_ms", lambda self, group_id: 100)


if __name__ == "__main__":
    measure([each._replace(known_seed=None) for each in MUTATIONS if each.apply.__module__ == "__main__"])
