"""``ottla dev``: one node in the foreground, ready at once, for development.

The banner is printed only after a record has been produced and consumed.
"""

import errno
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla import __version__
from ottla.cli.exit_codes import ExitCode
from ottla.cli.interruption import sigterm_interrupts, uninterrupted
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import default_bootstrap
from ottla.cli.output import emphasize, talk
from ottla.cli.ports import free_port, is_free
from ottla.cli.run import LOG_LEVELS, set_up_logging
from ottla.errors import ConfigurationError, OttlaError

if TYPE_CHECKING:
    from ottla.runtime.assembly import NodeHandle

DEFAULT_PORT = 9092
DEFAULT_HTTP_PORT = 8080
STOP_TIMEOUT_S = 1.0
PORT_ATTEMPTS = 5
"""How often other free ports are tried when another process binds one before the node does."""


@click.command(
    cls=ExampleCommand,
    examples=[
        "ottla dev                         # on 9092, without persistent data",
        "ottla dev --port 0 --sample       # on any free port, with a topic of samples",
        "ottla dev --data-dir ./data       # with persistent data",
    ],
)
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0: any free one.")
@click.option("--http-port", type=click.IntRange(0, 65535), help="Of health and metrics.  [default: 8080 or free]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at; 0.0.0.0 for all.")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Keep the data here.")
@click.option("--sample", is_flag=True, help="Produce thermometer readings to a topic `sample`.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="warning", show_default=True)
def dev(*, port: int, http_port: int | None, host: str, data_dir: Path | None, sample: bool, log_level: str) -> int:
    """Run one node for development until Ctrl-C."""
    started_s = time.monotonic()
    from ottla.cli.storage import format_node, random_cluster_id
    from ottla.config.node_config import NodeConfig
    from ottla.runtime.assembly import run_node

    set_up_logging(log_level)
    _require_free(host, port, "--port")
    with sigterm_interrupts(), _kept_or_temporary(data_dir) as directory:
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            chosen = _http_port(host, http_port)
            config = NodeConfig.from_properties(node_properties(host, port, chosen, directory))
            format_node(config, random_cluster_id(), standalone=True, ignore_formatted=True)
            watch = _Watch(host, chosen, data_dir, sample=sample, started_s=started_s)
            try:
                exit_code = run_node(config, on_ready=watch.on_ready)
                break
            except ConfigurationError as error:
                if not attempts_left or not _is_port_taken(error):
                    raise
                _require_free(host, port, "--port")
        watch.stop()
        if watch.has_failed:
            return ExitCode.ERROR
        if not watch.has_greeted and exit_code == ExitCode.OK:
            raise KeyboardInterrupt
        return exit_code


@contextmanager
def _kept_or_temporary(data_dir: Path | None) -> Iterator[Path]:
    """Yield ``data_dir``; without one, a temporary directory."""
    if data_dir is not None:
        yield data_dir
        return
    directory = Path(tempfile.mkdtemp(prefix="ottla-dev-"))
    try:
        yield directory
    finally:
        with uninterrupted():
            shutil.rmtree(directory, ignore_errors=True)


def node_properties(host: str, port: int, http_port: int, directory: Path) -> dict[str, str]:
    """Return the server.properties of a single node that is broker and controller."""
    quorum_port = free_port("127.0.0.1")
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{quorum_port}",
        "advertised.listeners": f"PLAINTEXT://localhost:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{quorum_port}",
        "log.dirs": str(directory.absolute()),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # A consumer's first poll should not wait for the default of 3 s for more members.
        "group.initial.rebalance.delay.ms": "0",
        "ottla.advertise.dialled.address": "true",
        "ottla.admin.listener": f"{host}:{http_port}",
    }


def _require_free(host: str, port: int, option: str) -> None:
    """Reject a port that is in use, before any file is created.

    Raises:
        ConfigurationError: with the port, and the option to choose another.
    """
    if port and not is_free(host, port):
        raise ConfigurationError(
            f"{host}:{port} is in use (is another broker running?). "
            f"Choose another with {option} N, or {option} 0 for any."
        )


def _is_port_taken(error: ConfigurationError) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE


def _http_port(host: str, chosen: int | None) -> int:
    if chosen is None:
        return DEFAULT_HTTP_PORT if is_free(host, DEFAULT_HTTP_PORT) else free_port(host)
    _require_free(host, chosen, "--http-port")
    return chosen or free_port(host)


class _Watch:
    """A thread next to the node: checks that it works, prints the banner, and produces to the sample topic."""

    def __init__(self, host: str, http_port: int, data_dir: Path | None, *, sample: bool, started_s: float) -> None:
        self.has_failed = False
        self.has_greeted = False
        self._shown_host = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::1", "::") else host  # noqa: S104
        self._http_port = http_port
        self._data_dir = data_dir
        self._sample = sample
        self._started_s = started_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._cancel: Callable[[], object] | None = None

    def on_ready(self, handle: "NodeHandle") -> None:
        """Start the thread; called on the node's loop."""
        port = next(listener.port for listener in handle.listeners if listener.name == "PLAINTEXT")
        thread = threading.Thread(target=self._run, args=(port, handle.stop), name="watch", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._skip_self_check(f"{self._shown_host}:{port}", error)
        else:
            self._thread = thread

    def _skip_self_check(self, bootstrap: str, error: RuntimeError) -> None:
        """Print the banner if no thread can be started: the node serves with fewer threads, or without any."""
        talk(f"warning: the self check and the samples do not run: {error}; raise the limit of processes (ulimit -u)")
        self._sample = False
        self._greet(bootstrap)

    def stop(self) -> None:
        """End the thread at any point: the node has stopped."""
        self._stopping.set()
        if self._cancel is not None:
            with suppress(RuntimeError):  # its event loop has been closed meanwhile
                self._cancel()
        if self._thread is not None:
            self._thread.join(timeout=STOP_TIMEOUT_S)

    def _run(self, port: int, stop: Callable[[], None]) -> None:
        import asyncio

        bootstrap = f"{self._shown_host}:{port}"
        try:
            asyncio.run(self._watch(bootstrap))
        except asyncio.CancelledError:
            return
        except RuntimeError as error:
            # The client resolves names in threads.
            if "can't start new thread" not in str(error):
                raise
            self._skip_self_check(bootstrap, error)
        except OttlaError as error:
            # A node that is being stopped fails too, and prints that it was stopped.
            if not self._stopping.wait(STOP_TIMEOUT_S):
                self.has_failed = True
                talk(f"error: the node runs, but a record did not get through: {error}")
                stop()

    async def _watch(self, bootstrap: str) -> None:
        import asyncio

        from ottla.cli.samples import feed_samples, make_sample_topic, self_check

        task = asyncio.current_task()
        assert task is not None
        self._cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
        if self._stopping.is_set():
            return
        await self_check(bootstrap)
        if self._sample:
            await make_sample_topic(bootstrap)
        self._greet(bootstrap)
        if self._sample:
            await feed_samples(bootstrap)

    def _greet(self, bootstrap: str) -> None:
        kept = f"data in {self._data_dir}" if self._data_dir else "data is temporary; --data-dir ./data keeps it"
        http = f"http://{self._shown_host}:{self._http_port}"
        host, _, port = bootstrap.rpartition(":")
        found = {bootstrap, f"127.0.0.1:{port}"} if host == "localhost" else {bootstrap}
        option = "" if default_bootstrap() in found else f" -b {bootstrap}"
        topic = "sample" if self._sample else "hello"
        self.has_greeted = True
        talk(f"{emphasize('ottla ' + __version__)}  dev ({kept})")
        talk(f"  Kafka    {bootstrap}")
        talk(f"  Health   {http}/readyz")
        talk(f"  Metrics  {http}/metrics")
        talk(f"Ready in {time.monotonic() - self._started_s:.2f} s.  Next: ottla produce hello{option}")
        talk(f"                        ottla consume {topic}{option}")
