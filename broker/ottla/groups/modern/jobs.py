"""`GroupJobs`: long work on a group, done in slices between the requests of other clients.

A job is a generator. It yields None at least once per 200 us of its work, or records to write, or a result that is
applied when they are written; between two slices members come and go, so it looks up what it needs again.

Rejected: work in a thread. An assignment is made of small Python objects, for which a thread competes with the loop.
"""

from collections import deque
from collections.abc import Generator
from dataclasses import replace
from itertools import chain
from typing import Final, TypeAlias, TypeVar

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.shard import CoordinatorTimer
from ottla.errors import ErrorCode
from ottla.groups.log import GroupRecord
from ottla.groups.result import GroupResult
from ottla.purgatory.steps import Steps

GroupJob: TypeAlias = Generator[list[GroupRecord] | GroupResult | None, None, None]

T = TypeVar("T")

STEPS_PER_SLICE: Final = 10
"""Steps of 200 us at most: a slice takes 2 ms."""
_DELAY_MS: Final = 1


def in_job(steps: Steps[T]) -> Generator[None, None, T]:
    """Run ``steps``, which wait for nothing, as part of a job; return their result."""
    while True:
        try:
            waits_for = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        assert waits_for is None, "a job is run by time, not by events"
        yield None


class GroupJobs:
    """The jobs of one shard, by kind and group; one of a kind per group runs at a time."""

    def __init__(self, timer: CoordinatorTimer[GroupRecord]) -> None:
        self._timer = timer
        self._jobs: dict[tuple[str, str], GroupJob] = {}
        self._waiting: dict[tuple[str, str], deque[GroupJob]] = {}

    def is_running(self, kind: str, group_id: str) -> bool:
        return (kind, group_id) in self._jobs

    def is_waiting(self, kind: str, group_id: str) -> bool:
        """Return whether a job of the kind has not started yet, because another one is running."""
        return (kind, group_id) in self._waiting

    def start(self, kind: str, group_id: str, job: GroupJob) -> None:
        """Run ``job`` instead of the one of its kind that the group has, if any."""
        self.cancel(kind, group_id)
        self._jobs[kind, group_id] = job
        self._schedule(kind, group_id)

    def start_after_others(self, kind: str, group_id: str, job: GroupJob) -> None:
        """Run ``job`` after those of its kind that the group has."""
        if self.is_running(kind, group_id):
            self._waiting.setdefault((kind, group_id), deque()).append(job)
        else:
            self.start(kind, group_id, job)

    def stop(self) -> None:
        """Close all jobs, when the shard is no longer served; its timers are cancelled already."""
        jobs = [*self._jobs.values(), *chain.from_iterable(self._waiting.values())]
        self._jobs, self._waiting = {}, {}
        for job in jobs:
            job.close()

    def cancel(self, kind: str, group_id: str) -> None:
        """Stop a job, if there is one, and those that wait for it."""
        job = self._jobs.pop((kind, group_id), None)
        waiting = self._waiting.pop((kind, group_id), ())
        if job is not None:
            job.close()
            self._timer.cancel((kind, group_id))
        for each in waiting:
            each.close()

    def _end(self, kind: str, group_id: str) -> None:
        """Remove a job that has ended, and run the next one."""
        del self._jobs[kind, group_id]
        waiting = self._waiting.get((kind, group_id))
        if waiting is None:
            return
        self._jobs[kind, group_id] = waiting.popleft()
        if not waiting:
            del self._waiting[kind, group_id]
        self._schedule(kind, group_id)

    def _schedule(self, kind: str, group_id: str) -> None:
        self._timer.schedule((kind, group_id), _DELAY_MS, lambda: self._run_slice(kind, group_id))

    def _run_slice(self, kind: str, group_id: str) -> GroupResult | None:
        job = self._jobs[kind, group_id]
        found: list[GroupRecord] | GroupResult | None = None
        for _ in range(STEPS_PER_SLICE):
            try:
                found = next(job)
            except StopIteration:
                self._end(kind, group_id)
                return None
            except BaseException:
                # The event loop reports an error of the code. The next heartbeat may start the job again.
                self._end(kind, group_id)
                raise
            if found:
                # Written before the job goes on: it reads the state that they change.
                break
        self._schedule(kind, group_id)
        if not found:
            return None

        def end_if_rejected(error: ErrorCode) -> None:
            # The next batches would be based on one that is missing. The next heartbeat may start the job again.
            if error is not ErrorCode.NONE:
                self.cancel(kind, group_id)

        result = CoordinatorResult(records=found, response=None) if isinstance(found, list) else found
        return replace(result, on_append=end_if_rejected)
