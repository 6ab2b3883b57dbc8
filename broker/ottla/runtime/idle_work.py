"""`IdleWork`: something that is done step by step while no connection has anything to do."""

from collections.abc import Iterator

from ottla.runtime.defects import Defects


class IdleWork:
    """See the module; one work at a time."""

    def __init__(self, defects: Defects) -> None:
        self._defects = defects
        self._work: Iterator[None] | None = None

    @property
    def has_work(self) -> bool:
        return self._work is not None

    def begin(self, work: Iterator[None]) -> None:
        """Take the steps of ``work`` from now on; a step should take no more than a few milliseconds."""
        self._work = work

    def take_step(self) -> None:
        """Take the next step; after one that raises, the rest is left undone."""
        assert self._work is not None, "`has_work` was asked"
        try:
            next(self._work)
        except StopIteration:
            self._work = None
        except Exception as error:
            self._work = None
            self._defects.note("work for an idle node was dropped", error)
