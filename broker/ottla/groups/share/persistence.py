"""Requests to the persister for many share-partitions, in slices between the requests of other clients.

Those of one group are sent one after the other: a state that is initialized while an older deletion is being sent would
be deleted again.

Source: GroupCoordinatorService of Apache Kafka 4.3, which sends them in one request.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from ottla.errors import ErrorCode
from ottla.groups.modern.jobs import GroupJob, GroupJobs
from ottla.purgatory import Delayed
from ottla.purgatory.delayed import when_all
from ottla.share_state.persister import Persister, SharePartitionKey, StateResult
from ottla.types import Offset

ItemT = TypeVar("ItemT")

IN_PLACE_MAX: Final = 64
"""Requests that are sent at once."""
_PER_STEP: Final = 8
_JOB: Final = "share-persister"


def initialize_in_slices(
    jobs: GroupJobs,
    persister: Persister,
    group_id: str,
    offsets: Sequence[tuple[SharePartitionKey, Offset]],
    *,
    state_epoch: int,
) -> Delayed[list[StateResult]]:
    """Create or reset the state of share-partitions; return the results in order."""
    return _in_slices(
        jobs,
        group_id,
        offsets,
        lambda each: persister.initialize(each[0], state_epoch=state_epoch, start_offset=each[1]),
    )


def delete_in_slices(
    jobs: GroupJobs, persister: Persister, group_id: str, keys: Sequence[SharePartitionKey]
) -> Delayed[list[StateResult]]:
    """Delete the state of share-partitions; return the results in order."""
    return _in_slices(jobs, group_id, keys, persister.delete)


def first_error(results: Iterable[StateResult]) -> ErrorCode:
    """Return the error of the first request that failed, or NONE."""
    return next((each.error for each in results if each.error), ErrorCode.NONE)


def _in_slices(
    jobs: GroupJobs, group_id: str, items: Sequence[ItemT], send: Callable[[ItemT], Delayed[StateResult]]
) -> Delayed[list[StateResult]]:
    if len(items) <= IN_PLACE_MAX and not jobs.is_running(_JOB, group_id):
        return when_all([send(item) for item in items])
    results: Delayed[list[StateResult]] = Delayed()

    def job() -> GroupJob:
        sent: list[Delayed[StateResult]] = []
        try:
            yield None
            for item in items:
                sent.append(send(item))
                if len(sent) % _PER_STEP == 0:
                    yield None
        finally:
            if len(sent) < len(items):
                # The shard is gone: what was not sent is repeated by its next coordinator.
                results.complete([StateResult(ErrorCode.NOT_COORDINATOR)] * len(items))
            else:
                when_all(sent).on_complete(results.complete)

    started = job()
    # A generator that has not started yet would be closed without its `finally`.
    next(started)
    jobs.start_after_others(_JOB, group_id, started)
    return results
