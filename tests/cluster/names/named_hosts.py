"""Hosts whose names are known to one name server only, which tests stop and continue. Linux, as root."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NAME_SERVER = Path(__file__).with_name("name_server.py")
NAME_SERVER_ADDRESS = "127.53.0.1"
"""Port 53, the only one that resolvers use."""

DOMAIN = "ottla.test"
RESOLVER_CONFIG = f"nameserver {NAME_SERVER_ADDRESS}\n"
IN_MOUNT_NAMESPACE = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'


def missing() -> str | None:
    """Return what is missing to have a name server; None if nothing is."""
    if os.geteuid() != 0:
        return "root"
    if not Path("/etc/resolv.conf").exists():
        return "/etc/resolv.conf"
    return None if shutil.which("unshare") else "unshare"


class NamedHosts:
    """Hosts on this machine; what runs on them resolves names with a name server of its own."""

    def __init__(self, name_server: subprocess.Popen[bytes], resolver_config: Path) -> None:
        self._name_server = name_server
        self._resolver_config = resolver_config

    def address(self, host: int) -> str:
        return f"node-{host}.{DOMAIN}"

    def command(self, _: int, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` on a host."""
        return ["unshare", "--mount", "sh", "-c", IN_MOUNT_NAMESPACE, str(self._resolver_config), *command]

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Let the name server receive requests, and respond to none."""
        self._name_server.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._name_server.send_signal(signal.SIGCONT)


@contextmanager
def running(bound: Sequence[str]) -> Iterator[NamedHosts]:
    """Run the name server; ``bound`` is put before its command."""
    command = [*bound, sys.executable, str(NAME_SERVER), NAME_SERVER_ADDRESS, DOMAIN]
    with tempfile.TemporaryDirectory(prefix="names-") as folder:
        resolver_config = Path(folder, "resolv.conf")
        resolver_config.write_text(RESOLVER_CONFIG)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as name_server:
            try:
                assert name_server.stdout is not None
                assert name_server.stdout.readline() == b"ready\n"
                yield NamedHosts(name_server, resolver_config)
            finally:
                name_server.kill()
