"""Work in a process of its own, next to the benchmark that measures: started, stopped, and asked for its outcome."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

OutcomeT = TypeVar("OutcomeT")


@dataclass(kw_only=True)
class BackgroundProcess(Generic[OutcomeT]):
    """A process that works until it is stopped, and then sends its outcome."""

    process: BaseProcess
    pipe: Connection

    def stop(self) -> OutcomeT:
        """Stop it and return its outcome."""
        self.pipe.send("stop")
        outcome: OutcomeT = self.pipe.recv()
        self.process.join()
        return outcome


@contextmanager
def running(work: Callable[..., None], *arguments: object) -> Iterator[BackgroundProcess[Any]]:
    """Call ``work(*arguments, pipe)`` in a new process; enter the ``with`` when it has sent its first message.

    It ends after `stop`, when it has sent its outcome, or else with the ``with``.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(*arguments, theirs))
    process.start()
    theirs.close()  # so that the end of the process ends `recv`
    ours.recv()
    try:
        yield BackgroundProcess(process=process, pipe=ours)
    finally:
        process.kill()
        process.join()
