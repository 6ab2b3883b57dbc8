"""`TaskProcess`: a process that has no GIL in common with the loop, and the thread that speaks with it.

The thread sends requests (`task_server`) and waits for their results, which both block without the GIL.
"""

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from ottla.errors import ShortageError

_PROGRAM: Final = "from ottla.runtime.task_server import serve_requests; serve_requests()"
"""With ``-m`` the module would exist twice, and with it the values of its enumeration."""


class _Item(NamedTuple):
    """A request for the process, and the receiver of its result on the loop; None if there is none."""

    request: object
    done: Callable[[Any], None] | None


class TaskProcess:
    """One process and its thread; its methods are called on the loop.

    Args of the constructor:
        post: schedules a function on the loop.
        on_idle: called on the loop with this object when no request has come for a while.
        inherited: returns the descriptors that the process keeps open.
        idle_s: that while.
    """

    def __init__(
        self,
        post: Callable[[Callable[[], None]], object],
        on_idle: Callable[["TaskProcess"], None],
        inherited: Callable[[], Sequence[int]],
        idle_s: float,
    ) -> None:
        self._post = post
        self._on_idle = on_idle
        self._inherited = inherited
        self._idle_s = idle_s
        self._items: SimpleQueue[_Item | None] = SimpleQueue()
        self._child: subprocess.Popen[bytes] | None = None
        # A daemon thread: a disk that does not respond must not keep the node's process from exiting.
        self._thread = threading.Thread(target=self._run, name="ottla-task", daemon=True)

    def start(self) -> None:
        """Start the thread; the process starts with the first request.

        Raises:
            RuntimeError: the system starts no thread.
        """
        self._thread.start()

    def send(self, request: object, done: Callable[[Any], None] | None = None) -> None:
        """Send ``request``; call ``done`` on the loop with its outcome, a ShortageError if the process has ended."""
        self._items.put(_Item(request, done))

    def end(self) -> None:
        """End thread and process after the requests so far."""
        self._items.put(None)

    def kill(self) -> None:
        """End the process at once, and wait for the thread."""
        self.end()
        child = self._child
        if child is not None:
            child.kill()
        self._thread.join()

    def _run(self) -> None:
        try:
            while (item := self._next_item()) is not None:
                self._perform(item)
        finally:
            self._end_child()

    def _next_item(self) -> _Item | None:
        try:
            return self._items.get(timeout=self._idle_s)
        except Empty:
            self._post(lambda: self._on_idle(self))
            return self._items.get()

    def _perform(self, item: _Item) -> None:
        outcome: object
        try:
            outcome = self._exchange(item)
        except (OSError, EOFError) as error:
            outcome = ShortageError(f"the process of a background task has ended or cannot be started: {error!r}")
            self._end_child()
        except Exception as error:  # a request that cannot be pickled; its sender decides about it
            outcome = error
        done = item.done
        if done is not None:
            self._post(lambda: done(outcome))

    def _exchange(self, item: _Item) -> object:
        child = self._child
        if child is None or callable(item.request):
            if not callable(item.request):
                raise EOFError("its process has ended before")
            child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(pickle.dumps(item.request))
        child.stdin.flush()
        return None if item.done is None else pickle.load(child.stdout)  # noqa: S301 -- from this very program

    def _started(self) -> "subprocess.Popen[bytes]":
        """Return the process, started again if it has died while it was idle."""
        if self._child is not None and self._child.poll() is not None:
            self._end_child()
        if self._child is None:
            # As this process found its modules, so does that one.
            paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": paths},
                pass_fds=self._inherited(),
                start_new_session=True,  # see `task_server`
            )
        return self._child

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:  # what was not sent does not matter any more
                continue
