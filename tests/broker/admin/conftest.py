"""A node in memory that has served something, and HTTP to its admin pages."""

import http.client
from collections.abc import Callable, Iterator

import pytest

from ottla.admin.server import AdminServer, open_admin_listener
from ottla.simulator.world.single_node import RunningNode
from ottla.types import Endpoint

Post = Callable[[Callable[[], None]], None]


def run_at_once(action: Callable[[], None]) -> None:
    """Stand in for the loop of a node that no other thread drives."""
    action()


@pytest.fixture
def new_admin(running: RunningNode) -> Iterator[Callable[..., AdminServer]]:
    """Start admin servers on ports of their own; ``post`` may replace the loop."""
    started = []

    def start(
        post: Post = run_at_once,
        *,
        loop_timeout_s: float = 5.0,
        start_grace_s: float = 0.0,
        disk_wait_s: Callable[[], float] = lambda: 0.0,
    ) -> AdminServer:
        server = AdminServer(
            running.node,
            post,
            open_admin_listener(Endpoint("127.0.0.1", 0)),
            disk_wait_s=disk_wait_s,
            disk_wait_max_s=600,
            start_grace_s=start_grace_s,
            loop_timeout_s=loop_timeout_s,
        )
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def get() -> Callable[..., tuple[int, str, str]]:
    """Return status, content type and body of a page."""

    def get(server: AdminServer, path: str, **headers: str) -> tuple[int, str, str]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.headers["Content-Type"], response.read().decode()
        finally:
            connection.close()

    return get
