"""Hosts of one network, each a network namespace, whose packets can be lost or delayed. Linux, as root.

A process of its own, the relay, reads each host's packets from a TUN device and writes them to the receiver's, unless
the way from the one to the other is impaired. Everything above it, TCP with its retransmissions first, is the
kernel's. The caller's own namespace gets the address of `CALLER`, and all devices end with the relay.
"""

import errno
import fcntl
import heapq
import os
import selectors
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Final

from benchmarks import background_process

CALLER: Final = 254
"""The host that is the namespace of the caller."""
TUN: Final = Path("/dev/net/tun")
TOOLS: Final = ("ip", "nsenter")
_RESERVATION: Final = "\0ottla-sick-network"
"""Name of a socket in the caller's network namespace; it ends with the process."""
_PREFIX: Final = "198.18.0."
"""For benchmarks of networks (RFC 2544), so no other network has it."""
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_IPV4: Final = 4
_SOURCE, _DESTINATION = 15, 19
"""Positions of the last bytes of an IPv4 packet's addresses, which are the hosts."""
_PACKET_BYTES_MAX: Final = 65_536
_PACKETS_AT_ONCE: Final = 64


@dataclass(frozen=True, kw_only=True)
class Impairment:
    """What happens to packets on one way, from a host to another."""

    loss: float = 0.0
    """The share of packets that are lost, at random."""
    delay_s: float = 0.0


CUT: Final = Impairment(loss=1.0)


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network that is running: how to run commands on its hosts, and how to impair it."""

    name: str
    hosts: tuple[int, ...]
    relay: Connection
    impaired: dict[tuple[int, int], Impairment] = field(default_factory=dict)
    """By sender and receiver."""

    def address(self, host: int) -> str:
        return address(host)

    def command(self, host: int, words: Sequence[str]) -> list[str]:
        """Return the command that runs ``words`` on ``host``."""
        return ["nsenter", f"--net=/run/netns/{_namespace(self.name, host)}", *words]

    def impair(self, senders: Iterable[int], receivers: Iterable[int], impairment: Impairment) -> None:
        """Impair each way from a sender to a receiver that is another host, besides those that are impaired."""
        receiving = tuple(receivers)
        for sender in senders:
            self.impaired.update({(sender, receiver): impairment for receiver in receiving if sender != receiver})
        self._inform_relay()

    def heal(self) -> None:
        """End every impairment; packets that are delayed arrive at their time."""
        self.impaired.clear()
        self._inform_relay()

    def everyone_but(self, *hosts: int) -> tuple[int, ...]:
        return tuple(host for host in (*self.hosts, CALLER) if host not in hosts)

    def _inform_relay(self) -> None:
        self.relay.send(self.impaired)
        self.relay.recv()


def missing() -> str | None:
    """Return what is missing to make a network; None if nothing is."""
    if os.geteuid() != 0:
        return "root"
    if not TUN.exists():
        return str(TUN)
    return ", ".join(tool for tool in TOOLS if shutil.which(tool) is None) or None


def address(host: int) -> str:
    return f"{_PREFIX}{host}"


@contextmanager
def running(hosts: Sequence[int], *, seed: int = 1) -> Iterator[Network]:
    """Make the hosts; they and their network end with the ``with``. ``seed`` says which packets will be lost.

    Waits for the end of another process's network: both have the same addresses, and the times of both would be wrong.
    """
    name = f"sick{os.getpid()}"
    with _reserved(), ExitStack() as stack:
        for host in hosts:
            _ip("netns", "add", _namespace(name, host))
            stack.callback(_ip, "netns", "delete", _namespace(name, host))
        relay = stack.enter_context(background_process.running(_relay, name, tuple(hosts), seed))
        yield Network(name=name, hosts=tuple(hosts), relay=relay.pipe)


@contextmanager
def _reserved() -> Iterator[None]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reservation:
        while True:
            try:
                reservation.bind(_RESERVATION)
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                sleep(0.1)
        yield


def _namespace(name: str, host: int) -> str:
    return f"{name}-{host}"


def _relay(name: str, hosts: tuple[int, ...], seed: int, pipe: Connection) -> None:
    """Forward packets until ``pipe`` ends; it receives the impaired ways, and sends None once they are in force."""
    devices = {host: _open_device(name, host) for host in hosts}
    devices[CALLER] = _open_device(name, None)
    forwarding = _Forwarding(devices, Random(seed))
    selector = selectors.DefaultSelector()
    for device in (*devices.values(), pipe):
        selector.register(device, selectors.EVENT_READ)
    pipe.send(None)
    while True:
        for key, _ in selector.select(forwarding.due_in_s()):
            if key.fileobj is not pipe:
                forwarding.forward(_packets(key.fd))
                continue
            try:
                forwarding.ways = pipe.recv()
            except EOFError:
                return
            pipe.send(None)
        forwarding.send_delayed()


class _Forwarding:
    """Packets on their ways, and those that are delayed."""

    def __init__(self, devices: dict[int, int], random: Random) -> None:
        self.ways: dict[tuple[int, int], Impairment] = {}
        self._devices = devices
        self._random = random
        self._delayed: list[tuple[float, int, int, bytes]] = []
        """Times, numbers, receivers' devices and packets: a heap."""
        self._count = 0

    def due_in_s(self) -> float | None:
        return max(0.0, self._delayed[0][0] - monotonic()) if self._delayed else None

    def forward(self, packets: Iterable[bytes]) -> None:
        for packet in packets:
            way = packet[_SOURCE], packet[_DESTINATION]
            device = self._devices.get(way[1])
            if packet[0] >> 4 != _IPV4 or device is None:
                continue
            impairment = self.ways.get(way)
            if impairment is None:
                _write(device, packet)
            elif self._random.random() >= impairment.loss:
                self._count += 1
                heapq.heappush(self._delayed, (monotonic() + impairment.delay_s, self._count, device, packet))

    def send_delayed(self) -> None:
        while self._delayed and self._delayed[0][0] <= monotonic():
            _, _, device, packet = heapq.heappop(self._delayed)
            _write(device, packet)


def _open_device(name: str, host: int | None) -> int:
    """Return the TUN device of a host, or of the caller's namespace, with its address."""
    number = CALLER if host is None else host
    device = _namespace(name, number)
    opened = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(opened, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TUN | _IFF_NO_PI))
    inside: tuple[str, ...] = ()
    if host is not None:
        _ip("link", "set", device, "netns", _namespace(name, host))
        inside = ("-n", _namespace(name, host))
        _ip(*inside, "link", "set", "lo", "up")
    _ip(*inside, "address", "add", f"{address(number)}/24", "dev", device)
    _ip(*inside, "link", "set", device, "up")
    return opened


def _packets(device: int) -> Iterator[bytes]:
    for _ in range(_PACKETS_AT_ONCE):
        try:
            yield os.read(device, _PACKET_BYTES_MAX)
        except BlockingIOError:
            return


def _write(device: int, packet: bytes) -> None:
    try:
        os.write(device, packet)
    except BlockingIOError:
        # The receiver's queue is full: lost, as on any network.
        return


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
