"""The admin pages respond to probes with the reasons of a failure, in every state of the node."""

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ottla.admin.server import open_admin_listener
from ottla.errors import ConfigurationError
from ottla.simulator.world.single_node import RunningNode
from ottla.types import Endpoint


def test_serving_node_is_ready(new_admin: Any, get: Any) -> None:
    server = new_admin()

    assert get(server, "/healthz")[::2] == (200, '{"alive": true}')
    assert get(server, "/readyz")[::2] == (200, '{"ready": true, "reasons": [], "hasServed": true}')


def test_node_that_shuts_down_is_alive_but_not_ready(new_admin: Any, get: Any, running: RunningNode) -> None:
    server = new_admin()
    running.node.begin_shutdown()

    status, _, body = get(server, "/readyz")

    assert status == 503
    assert json.loads(body)["reasons"][0] == "the node is shutting down"
    assert json.loads(body)["hasServed"] is True
    assert get(server, "/healthz")[0] == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_blocked_loop_is_reported(new_admin: Any, get: Any, path: str) -> None:
    server = new_admin(lambda action: None, loop_timeout_s=0.05)

    status, _, body = get(server, path)

    assert status == 503
    assert json.loads(body)["reasons"] == ["the node's event loop has not responded for 0.05 seconds"]


@pytest.mark.parametrize(
    ("waited_s", "status"), [(0.5, 200), (300.0, 200), (600.0, 503)], ids=["just-begun", "for-minutes", "for-too-long"]
)
def test_node_that_waits_for_its_disk_is_alive_for_a_while(
    new_admin: Any, get: Any, waited_s: float, status: int
) -> None:
    server = new_admin(lambda action: None, loop_timeout_s=0.05, disk_wait_s=lambda: waited_s)

    seen, _, body = get(server, "/healthz")

    reasons = [f"the node's event loop has been waiting for a disk for {waited_s:.0f} seconds"]
    assert (seen, json.loads(body)) == (status, {"alive": status == 200, "reasons": reasons})
    seen, _, body = get(server, "/readyz")
    assert (seen, json.loads(body)["reasons"]) == (503, reasons)


def test_loop_that_waits_for_a_disk_is_not_called(new_admin: Any, get: Any) -> None:
    calls: list[Callable[[], None]] = []
    server = new_admin(calls.append, disk_wait_s=lambda: 2.0)

    assert get(server, "/healthz")[0] == 200
    assert calls == [], "a probe would time out before the call does"


def test_late_result_is_ignored(new_admin: Any, get: Any) -> None:
    kept: list[Callable[[], None]] = []
    server = new_admin(kept.append, loop_timeout_s=0.05)
    assert get(server, "/healthz")[0] == 503

    for action in kept:
        action()
    server.stop()
    for action in kept:
        action()

    assert kept


def test_failed_call_is_a_500_and_the_next_request_succeeds(
    new_admin: Any, get: Any, running: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_admin()
    with monkeypatch.context() as patched:
        patched.setattr(running.node, "readiness", lambda: 1 / 0)
        assert get(server, "/readyz")[0] == 500

    assert get(server, "/readyz")[0] == 200


def test_requests_before_the_grace_has_passed_wait_and_succeed(new_admin: Any, get: Any) -> None:
    server = new_admin(start_grace_s=3600.0)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as early:
        early.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        server.node_is_ready()
        assert early.recv(100).startswith(b"HTTP/1.0 200 OK")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_request_to_an_ended_loop_fails_when_the_server_stops(new_admin: Any, get: Any, path: str) -> None:
    asked = threading.Event()
    server = new_admin(lambda action: asked.set(), loop_timeout_s=3600.0)
    responses: list[tuple[int, str, str]] = []
    caller = threading.Thread(target=lambda: responses.append(get(server, path)))
    caller.start()
    asked.wait(30)

    server.stop()

    caller.join(30)
    assert responses[0][0] == 503
    assert json.loads(responses[0][2])["reasons"] == ["the node is stopping"]


def test_server_can_stop_before_it_has_started(new_admin: Any) -> None:
    server = new_admin(start_grace_s=3600.0)
    port = server.port
    server.stop()
    server.stop()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_address_in_use_is_reported_with_its_key() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = Endpoint("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ConfigurationError, match=r"ottla\.admin\.listener=127\.0\.0\.1:\d+ cannot be opened"):
            open_admin_listener(endpoint)


def test_unknown_page_is_not_found(new_admin: Any, get: Any) -> None:
    assert get(new_admin(), "/")[0] == 404
