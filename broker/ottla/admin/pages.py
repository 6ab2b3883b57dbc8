"""The admin pages themselves, served by aiohttp in an event loop of their own. Slow to import: see `admin.server`."""

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


class NoAnswerError(Exception):
    """The node's loop does not answer; the message says why not."""


class AdminPages:
    """Asks the node through ``post``, which runs an action on the node's loop soon."""

    def __init__(self, node: Node, post: Callable[[Callable[[], None]], None], *, answer_timeout_s: float) -> None:
        self._node = node
        self._post = post
        self._answer_timeout_s = answer_timeout_s
        self._asked: set[asyncio.Future[Any]] = set()
        self._is_stopping = False

    async def serve(self, listening: socket.socket, until: asyncio.Event) -> None:
        """Serve on a socket that listens already."""
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
            self._dismiss()
            await runner.cleanup()

    def _dismiss(self) -> None:
        """Let nobody wait for a loop that has ended: cleaning up would wait with them."""
        self._is_stopping = True
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(_stopping())

    async def _healthz(self, _: web.Request) -> web.Response:
        try:
            await self._ask(lambda: None)
        except NoAnswerError as error:
            return web.json_response({"alive": False, "reasons": [str(error)]}, status=503)
        return web.json_response({"alive": True})

    async def _readyz(self, _: web.Request) -> web.Response:
        try:
            reasons = await self._ask(self._node.readiness)
        except NoAnswerError as error:
            reasons = [str(error)]
        # Whoever restarts nodes needs to know who has only lost the quorum's leader and who never came up.
        page = {"ready": not reasons, "reasons": reasons, "hasServed": self._node.has_served}
        return web.json_response(page, status=503 if reasons else 200)

    async def _metrics(self, request: web.Request) -> web.Response:
        try:
            page = await self._metrics_page()
        except NoAnswerError as error:
            return web.json_response({"reasons": [str(error)]}, status=503)
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(page), headers={"Content-Type": content_type})

    async def _metrics_page(self) -> MetricsPage:
        asked_at_s = time.monotonic()
        loop_delay_s = await self._ask(time.monotonic) - asked_at_s
        taken: list[NodeSnapshot] = []
        slices = take_snapshot(self._node, taken)
        while not taken:
            await self._ask(lambda: next(slices, None))
        return MetricsPage(taken[0], loop_delay_s=loop_delay_s)

    async def _ask(self, question: Callable[[], T]) -> T:
        """Return what ``question`` returns on the node's loop.

        Raises:
            NoAnswerError: the loop does not turn, or not any more.
        """
        if self._is_stopping:
            raise _stopping()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def deliver(set_result: Callable[[Any], None], value: object) -> None:
            if not answer.done():
                set_result(value)

        def ask() -> None:
            try:
                outcome: tuple[Callable[[Any], None], object] = (answer.set_result, question())
            except Exception as error:
                outcome = (answer.set_exception, error)
            with suppress(RuntimeError):  # the pages are closed meanwhile
                loop.call_soon_threadsafe(deliver, *outcome)

        self._asked.add(answer)
        try:
            self._post(ask)
            return await asyncio.wait_for(answer, self._answer_timeout_s)
        except TimeoutError:
            raise NoAnswerError(f"the node's loop has not answered for {self._answer_timeout_s:g} seconds") from None
        finally:
            self._asked.discard(answer)


def _stopping() -> NoAnswerError:
    return NoAnswerError("the node is stopping")
