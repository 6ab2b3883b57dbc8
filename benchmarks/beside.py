"""Work in a process of its own, beside the benchmark that measures: begun, told to stop, and asked what came of it."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

OutcomeT = TypeVar("OutcomeT")


@dataclass(kw_only=True)
class Beside(Generic[OutcomeT]):
    """The work under way; what came of it is known once it was stopped."""

    process: BaseProcess
    pipe: Connection

    def stop(self) -> OutcomeT:
        """End it; return what it sent then."""
        self.pipe.send("stop")
        outcome: OutcomeT = self.pipe.recv()
        self.process.join()
        return outcome


@contextmanager
def running(work: Callable[..., None], *arguments: object) -> Iterator[Beside[Any]]:
    """Call ``work(*arguments, pipe)`` in a new process; returns control when it has sent something for the first time.

    It is over when it was told to stop and has sent its outcome, or else with the ``with``.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(*arguments, theirs))
    process.start()
    theirs.close()  # so that its end is noticed
    ours.recv()
    try:
        yield Beside(process=process, pipe=ours)
    finally:
        process.kill()
        process.join()
