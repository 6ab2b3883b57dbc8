"""`FollowerSyncs`: group commit of the partitions that one fetcher copies; `LeaderSyncs` is that of a leader.

A fetch confirms to the leader that everything below its offset is on this replica. If records have to be on the disk
for that (ottla.acks.fsync, flush.messages), they are synced first, off the loop, and the fetch is sent when all of them
are.
"""

from collections.abc import Callable, Iterable
from functools import partial

from ottla.errors import ShortageError, StorageError
from ottla.replication.followed_partitions import Followed, FollowedPartitions


class FollowerSyncs:
    """See the module.

    Args of the constructor:
        on_done: called when all syncs that `start` has started are complete.
        fail: called with the error of a partition whose sync failed.
        retry_later: called with a partition that lacks descriptors or memory for a sync; it must leave the next fetch.
    """

    def __init__(
        self,
        *,
        partitions: FollowedPartitions,
        on_done: Callable[[], None],
        fail: Callable[[Followed, Exception], None],
        retry_later: Callable[[Followed, ShortageError], None],
    ) -> None:
        self._partitions = partitions
        self._on_done = on_done
        self._fail = fail
        self._retry_later = retry_later
        self._count = 0

    @property
    def are_under_way(self) -> bool:
        return self._count > 0

    def start(self, named: Iterable[Followed]) -> bool:
        """Sync what a fetch of ``named`` would confirm and has to be on the disk first; return whether there is any.

        The origin of the records does not matter: this replica may have led, restarted or truncated its log since its
        last sync.
        """
        unsynced = []
        for followed in named:
            log = followed.partition.log
            if log.confirmable_offset < log.log_end_offset:
                unsynced.append(followed)
        if not unsynced:
            return False
        self._count = len(unsynced) + 1
        for followed in unsynced:
            self._start_one(followed)
        self._end_one()  # the one that was counted until all had been started
        return True

    def _start_one(self, followed: Followed) -> None:
        try:
            followed.partition.log.flush_later(partial(self._on_synced, followed))
        except StorageError as error:
            self._on_synced(followed, error)
        except ShortageError as error:
            # Nothing is synced, so nothing is confirmed: the partition is left out until it is retried.
            self._retry_later(followed, error)
            self._end_one()
        except Exception as error:
            self._fail(followed, error)
            self._end_one()

    def _on_synced(self, followed: Followed, error: StorageError | None) -> None:
        failure = followed.partition.log.failure
        # An error without a failure is one of files that the log has left: it was moved to another log directory.
        if error is not None and failure is not None and self._partitions.is_current(followed):
            self._fail(followed, error)
        self._end_one()

    def _end_one(self) -> None:
        self._count -= 1
        if self._count == 0:
            self._on_done()
