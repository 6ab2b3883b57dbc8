"""Connections to the nodes of a cluster from outside of Kubernetes: a ``kubectl port-forward`` for each node in use.

Brokers advertise names that only pods can resolve. The client connects to each through a local port that kubectl
forwards to the pod, or to the bootstrap Service; other names (of an external listener) are connected to directly.
"""

import asyncio
import re
import select
import subprocess
import tempfile
import threading
from typing import IO

from ottla.cli.kubernetes.kubectl import Kubectl
from ottla.client.errors import BrokerUnreachableError
from ottla.types import Endpoint

_HOST = "127.0.0.1"
_LISTENS = re.compile(rf"Forwarding from {re.escape(_HOST)}:(\d+) -> ")
_LISTENS_WITHIN_S = 30.0
_SERVICE = 3
"""Labels of ``demo-bootstrap.default.svc``; a pod's name has one more in front."""


class Forwards:
    """The forwards of one command. `route` opens them, `close` ends them."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._open: dict[Endpoint, tuple[subprocess.Popen[str], Endpoint]] = {}
        # Commands run several event loops in sequence, and a forward outlives them.
        self._lock = threading.Lock()

    async def route(self, endpoint: Endpoint) -> Endpoint:
        """Return the local address that is forwarded to ``endpoint``.

        Raises:
            BrokerUnreachableError: kubectl does not forward there, with its message.
        """
        target = target_of(endpoint.host)
        if target is None:
            return endpoint
        return await asyncio.to_thread(self._local, target, endpoint)

    def close(self) -> None:
        """End every forward."""
        for process, _ in self._open.values():
            _end(process)
        self._open.clear()

    def _local(self, target: str, endpoint: Endpoint) -> Endpoint:
        with self._lock:
            before = self._open.get(endpoint)
            if before is not None:
                if before[0].poll() is None:
                    return before[1]
                # The pod of the forward has ended.
                _end(before[0])
            self._open[endpoint] = self._forward(target, endpoint)
            return self._open[endpoint][1]

    def _forward(self, target: str, endpoint: Endpoint) -> tuple[subprocess.Popen[str], Endpoint]:
        command = self._kubectl.command("port-forward", f"--address={_HOST}", target, f":{endpoint.port}")
        with tempfile.TemporaryFile("w+") as errors:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
                )
            except FileNotFoundError:
                raise BrokerUnreachableError(
                    "kubectl is not in $PATH; install it, it is what reaches the cluster"
                ) from None
            # The pipe stays open: kubectl prints a line for each connection, and thousands fit in it.
            assert process.stdout is not None, "stdout is a pipe"
            has_spoken, _, _ = select.select([process.stdout], [], [], _LISTENS_WITHIN_S)
            found = _LISTENS.match(process.stdout.readline()) if has_spoken else None
            if found is None:
                _end(process)
                silence = "it ended silently" if has_spoken else f"it printed nothing for {_LISTENS_WITHIN_S:g} s"
                raise BrokerUnreachableError(f"kubectl does not forward to {target}: {_last_words(errors) or silence}")
        return process, Endpoint(_HOST, int(found[1]))


def target_of(host: str) -> str | None:
    """Return the pod or Service to forward to for an advertised ``host``; None if that is no name of the cluster."""
    labels = host.split(".")
    if "svc" not in labels:
        return None
    before = labels.index("svc") + 1
    if before == _SERVICE:
        return f"service/{labels[0]}"
    return f"pod/{labels[0]}" if before == _SERVICE + 1 else None


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
    assert process.stdout is not None, "stdout is a pipe"
    process.stdout.close()


def _last_words(errors: IO[str]) -> str:
    errors.seek(0)
    lines = errors.read().strip().splitlines()
    return lines[-1] if lines else ""
