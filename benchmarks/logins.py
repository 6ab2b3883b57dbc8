"""Logins: connections per second that log in with SCRAM and end, several under way at once.

The client's slow part, salting the password, is done once: the measured cost is the server's for each authentication,
and the connection itself. The listener has SASL_PLAINTEXT, and the user has a credential there.

python -m benchmarks.logins --bootstrap-server 127.0.0.1:9092 --pid 4711 --user alice --password secret
"""

import argparse
import secrets
import selectors
import socket
import struct
import time

from benchmarks import measure

from ottla.sasl.client_login import ClientLogin

HANDSHAKE, AUTHENTICATE = 17, 36


def frame(api_key: int, body: bytes) -> bytes:
    return struct.pack(">ihhih", 10 + len(body), api_key, 1, 1, -1) + body


class Attempt:
    """One connection that logs in."""

    def __init__(self, address: tuple[str, int], login: ClientLogin) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._exchange = login.new_exchange(secrets.randbelow)
        self._has_chosen = False
        self._received = b""
        name = login.mechanism.encode()
        self.socket.sendall(frame(HANDSHAKE, struct.pack(">h", len(name)) + name))

    def go_on(self) -> bool:
        """Read the response, send the next token; return whether the SASL exchange is complete."""
        self._received += self.socket.recv(4_096)
        if len(self._received) < 4 or len(self._received) < 4 + struct.unpack(">i", self._received[:4])[0]:
            assert self._received, "the server has closed the connection"
            return False
        response, self._received = self._received[8:], b""
        (error,) = struct.unpack_from(">h", response)
        assert error == 0, f"the server responded with error {error}"
        if not self._has_chosen:
            self._has_chosen = True
            self._send(self._exchange.first())
            return False
        (message_bytes,) = struct.unpack_from(">h", response, 2)
        start = 4 + max(message_bytes, 0)
        (size,) = struct.unpack_from(">i", response, start)
        token = self._exchange.evaluate(response[start + 4 : start + 4 + size])
        if token is not None:
            self._send(token)
        return self._exchange.is_complete

    def _send(self, token: bytes) -> None:
        self.socket.sendall(frame(AUTHENTICATE, struct.pack(">i", len(token)) + token))


def log_in_for(seconds: float, address: tuple[str, int], login: ClientLogin, connections: int) -> tuple[int, float]:
    """Log in over ``connections`` at a time; return how many logins there were, and in how many seconds."""
    selector = selectors.DefaultSelector()
    began = time.monotonic()
    logins = 0

    def begin() -> None:
        attempt = Attempt(address, login)
        selector.register(attempt.socket, selectors.EVENT_READ, attempt)

    for _ in range(connections):
        begin()
    while time.monotonic() - began < seconds:
        for key, _ in selector.select(1):
            if key.data.go_on():
                logins += 1
                selector.unregister(key.fileobj)
                key.data.socket.close()
                begin()
    elapsed_s = time.monotonic() - began
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    selector.close()
    return logins, elapsed_s


def main() -> None:
    options = measure.parser(__doc__ or "")
    options.add_argument("--mechanism", default="SCRAM-SHA-512")
    options.add_argument("--user", default="alice")
    options.add_argument("--password", default="secret")
    options.add_argument("--connections", type=int, default=20)
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--warm-up-seconds", type=float, default=8, help="a JVM compiles what it has seen often")
    arguments = options.parse_args()
    measure.report(run(arguments), arguments.json)


def run(arguments: argparse.Namespace) -> list[measure.Figure]:
    address, node = measure.address_of(arguments.bootstrap_server), measure.Node(arguments.pid)
    login = ClientLogin(arguments.mechanism, arguments.user, arguments.password)
    name = f"logins with {arguments.mechanism}"
    measure.progress(f"{name}, {arguments.connections} at a time")
    log_in_for(arguments.warm_up_seconds, address, login, arguments.connections)
    cpu_s = node.cpu_s()
    logins, seconds = log_in_for(arguments.seconds, address, login, arguments.connections)
    cpu_s = node.cpu_s() - cpu_s
    figures = [measure.Figure(name=name, value=logins / seconds, unit="logins/s")]
    if node.pid is not None:
        cost_us = cpu_s / logins * 1e6
        figures.append(measure.Figure(name=f"{name}: CPU", value=cost_us, unit="us/login", better="lower"))
    return figures


if __name__ == "__main__":
    main()
