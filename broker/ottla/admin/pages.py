"""The admin pages, served by aiohttp in an event loop of their own. Slow to import: see `admin.server`."""

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from ottla.admin.exposition import MetricsPage
from ottla.admin.snapshot import NodeSnapshot, take_snapshot
from ottla.node.node import Node

T = TypeVar("T")


class LoopStuckError(Exception):
    """The node's event loop did not run a call; the message says why."""


class DiskWaitError(LoopStuckError):
    """The loop waits for a disk, for ``waited_s`` so far."""

    def __init__(self, waited_s: float) -> None:
        super().__init__(f"the node's event loop has been waiting for a disk for {waited_s:.0f} seconds")
        self.waited_s = waited_s


class AdminPages:
    """The HTTP handlers; they read the node through ``post``, which runs an action on the node's loop soon."""

    def __init__(
        self,
        node: Node,
        post: Callable[[Callable[[], None]], None],
        *,
        loop_timeout_s: float,
        disk_wait_s: Callable[[], float],
        disk_wait_max_s: float,
    ) -> None:
        self._node = node
        self._post = post
        self._loop_timeout_s = loop_timeout_s
        self._disk_wait_s = disk_wait_s
        self._disk_wait_max_s = disk_wait_max_s
        self._pending: set[asyncio.Future[Any]] = set()
        self._is_stopping = False

    async def serve(self, listening: socket.socket, until: asyncio.Event) -> None:
        """Serve on a listening socket."""
        application = web.Application()
        application.add_routes(
            [web.get("/healthz", self._healthz), web.get("/readyz", self._readyz), web.get("/metrics", self._metrics)]
        )
        runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await web.SockSite(runner, listening).start()
            await until.wait()
        finally:
            self._fail_pending_calls()
            await runner.cleanup()

    def _fail_pending_calls(self) -> None:
        """Fail the calls that wait for a loop that has ended: the cleanup waits for their requests."""
        self._is_stopping = True
        for result in self._pending:
            if not result.done():
                result.set_exception(_stopping())

    async def _healthz(self, _: web.Request) -> web.Response:
        try:
            await self._call_on_loop(lambda: None)
        except DiskWaitError as error:
            # To kill it would not end the wait, and the next process would wait for the same disk; when that responds,
            # this one continues in milliseconds.
            is_alive = error.waited_s < self._disk_wait_max_s
            return web.json_response({"alive": is_alive, "reasons": [str(error)]}, status=200 if is_alive else 503)
        except LoopStuckError as error:
            return web.json_response({"alive": False, "reasons": [str(error)]}, status=503)
        return web.json_response({"alive": True})

    async def _readyz(self, _: web.Request) -> web.Response:
        try:
            reasons = await self._call_on_loop(self._node.readiness)
        except LoopStuckError as error:
            reasons = [str(error)]
        # Programs that restart nodes must distinguish a node without the quorum's leader from one that never served.
        page = {"ready": not reasons, "reasons": reasons, "hasServed": self._node.has_served}
        return web.json_response(page, status=503 if reasons else 200)

    async def _metrics(self, request: web.Request) -> web.Response:
        try:
            page = await self._metrics_page()
        except LoopStuckError as error:
            return web.json_response({"reasons": [str(error)]}, status=503)
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(page), headers={"Content-Type": content_type})

    async def _metrics_page(self) -> MetricsPage:
        called_at_s = time.monotonic()
        loop_delay_s = await self._call_on_loop(time.monotonic) - called_at_s
        taken: list[NodeSnapshot] = []
        slices = take_snapshot(self._node, taken)
        while not taken:
            await self._call_on_loop(lambda: next(slices, None))
        return MetricsPage(taken[0], loop_delay_s=loop_delay_s)

    async def _call_on_loop(self, function: Callable[[], T]) -> T:
        """Call ``function`` on the node's event loop and return its result.

        Raises:
            LoopStuckError: the loop does not run the call in time, or has stopped.
        """
        if self._is_stopping:
            raise _stopping()
        # A probe's own time-out may be that of the call: a loop that has been waiting for long is not called.
        self._require_no_disk_wait()
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def deliver(set_result: Callable[[Any], None], value: object) -> None:
            if not result.done():
                set_result(value)

        def call() -> None:
            try:
                outcome: tuple[Callable[[Any], None], object] = (result.set_result, function())
            except Exception as error:
                outcome = (result.set_exception, error)
            with suppress(RuntimeError):  # the pages' event loop has been closed meanwhile
                loop.call_soon_threadsafe(deliver, *outcome)

        self._pending.add(result)
        try:
            self._post(call)
            return await asyncio.wait_for(result, self._loop_timeout_s)
        except TimeoutError:
            self._require_no_disk_wait()
            raise LoopStuckError(
                f"the node's event loop has not responded for {self._loop_timeout_s:g} seconds"
            ) from None
        finally:
            self._pending.discard(result)

    def _require_no_disk_wait(self) -> None:
        waited_s = self._disk_wait_s()
        if waited_s:
            raise DiskWaitError(waited_s)


def _stopping() -> LoopStuckError:
    return LoopStuckError("the node is stopping")
