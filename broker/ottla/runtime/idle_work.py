"""`IdleWork`: work in small steps while no connection has an event."""

from collections.abc import Iterator

from ottla.runtime.defects import Defects


class IdleWork:
    """At most one iterator of steps, run while the loop is idle."""

    def __init__(self, defects: Defects) -> None:
        self._defects = defects
        self._work: Iterator[None] | None = None

    @property
    def has_work(self) -> bool:
        return self._work is not None

    def start(self, work: Iterator[None]) -> None:
        """Run the steps of ``work`` from now on; a step should take no more than a few milliseconds."""
        self._work = work

    def take_step(self) -> None:
        """Run the next step; if it raises, drop the rest."""
        assert self._work is not None, "the caller checks `has_work`"
        try:
            next(self._work)
        except StopIteration:
            self._work = None
        except Exception as error:
            self._work = None
            self._defects.note("work for an idle node was dropped", error)
