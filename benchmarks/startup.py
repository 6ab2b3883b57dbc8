"""Start-up: from exec to the first Metadata response with a broker, on an empty directory and on one that is full.

    python -m benchmarks.startup --command 'ottla dev --port {port} --data-dir {dir}' --partitions 1000

The command runs one node in the foreground; ``{port}`` and ``{dir}`` are filled in.
"""

import argparse
import contextlib
import os
import shlex
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import frames, measure
from confluent_kafka.admin import AdminClient, NewTopic

START_TIMEOUT_S = 120
ASK_AGAIN_S = 0.005
_ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""An installed package has its bytecode; with that variable a clone would be compiled again at each start."""


@contextmanager
def running(
    command_template: str, directory: Path, port: int, *, stop_timeout_s: float = START_TIMEOUT_S
) -> Iterator[tuple[int, float]]:
    """Run a node; yield its process id and the seconds until it served. It ends by SIGTERM, else SIGKILL."""
    command = shlex.split(command_template.format(port=port, dir=shlex.quote(str(directory))))
    with (directory / "node.out").open("ab") as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, env=_ENVIRONMENT, stdout=output, stderr=output, start_new_session=True)
    try:
        while not serves_metadata(port):
            if process.poll() is not None or time.perf_counter() - started > START_TIMEOUT_S:
                raise RuntimeError(f"the node did not start; see {directory}/node.out")
            time.sleep(ASK_AGAIN_S)
        yield process.pid, time.perf_counter() - started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=stop_timeout_s)
        except subprocess.TimeoutExpired:
            # A JVM without heap left does not get to its end.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def serves_metadata(port: int) -> bool:
    """Return whether Metadata v1 without topics has at least one broker."""
    request = frames.frame(frames.METADATA, 1, struct.pack(">i", 0))
    with contextlib.suppress(OSError):
        connection = frames.connect(("127.0.0.1", port))
        with connection.socket:
            return int(struct.unpack_from(">i", connection.exchange(request), 4)[0]) > 0
    return False


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--command", required=True)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--partitions", type=int, default=1000, help="how many the full directory has")
    options.add_argument("--json", type=Path, metavar="FILE")
    arguments = options.parse_args()
    figures = []
    with tempfile.TemporaryDirectory(prefix="startup-") as folder:
        directory, port = Path(folder), free_port()
        # The first start may write the node's identity; it is not measured.
        with running(arguments.command, directory, port):
            pass
        for label, partitions in (("empty", 0), (f"{arguments.partitions} partitions", arguments.partitions)):
            if partitions:
                measure.progress(f"filling the directory with {partitions:,} partitions")
                with running(arguments.command, directory, port):
                    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
                    topic = NewTopic("full", num_partitions=partitions, replication_factor=1)
                    admin.create_topics([topic])["full"].result(timeout=120)
                    del admin
            measure.progress(f"starting {arguments.rounds} times, {label}")
            seconds, cpu_s = [], []
            for _ in range(arguments.rounds):
                with running(arguments.command, directory, port) as (pid, took_s):
                    cpu_s.append(measure.Node(pid).cpu_s())
                    seconds.append(took_s)
            for name, values in ((f"start-up, {label}", seconds), (f"start-up, {label}: CPU", cpu_s)):
                figures.append(measure.Figure(name=name, value=statistics.median(values), unit="s", better="lower"))
    measure.report(figures, arguments.json)


if __name__ == "__main__":
    main()
