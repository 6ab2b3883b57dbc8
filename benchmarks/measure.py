"""Common parts of the benchmarks: the address and process to measure, CPU and memory from /proc, figures as a table.

The measured system is the one at ``--bootstrap-server``. With ``--pid`` the figures include the cost for the node: CPU
seconds and resident memory of that process and all its descendants. MB is 10**6 bytes, MiB is 2**20.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

SETTLE_S_MAX = 20
STANDS_STILL_S = 2
STANDS_STILL_MIB = 0.5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number; ``better`` is the good direction: ``higher`` or ``lower``."""

    name: str
    value: float
    unit: str
    better: str = "higher"


@dataclass(frozen=True, slots=True)
class Node:
    """The measured process and its descendants; without a pid nothing is known of it."""

    pid: int | None

    def cpu_s(self) -> float:
        """CPU time used so far, user and system."""
        return sum(_cpu_ticks(pid) for pid in self._pids()) / TICKS_PER_S

    def rss_mib(self) -> float:
        """Resident memory now, summed over the processes: pages that they share count in each."""
        return sum(_status_kb(pid, "VmRSS") for pid in self._pids()) / 1024

    def settled_rss_mib(self) -> float:
        """Resident memory once it has stood still for two seconds; as it is after twenty, where it never does."""
        deadline = time.monotonic() + SETTLE_S_MAX
        last_mib, since = self.rss_mib(), time.monotonic()
        while time.monotonic() - since < STANDS_STILL_S and time.monotonic() < deadline:
            time.sleep(0.1)
            mib = self.rss_mib()
            if abs(mib - last_mib) > STANDS_STILL_MIB:
                last_mib, since = mib, time.monotonic()
        return self.rss_mib()

    def rss_peak_mib(self) -> float:
        """The highest resident memory of any moment, summed over the processes."""
        return sum(_status_kb(pid, "VmHWM") for pid in self._pids()) / 1024

    def _pids(self) -> Iterator[int]:
        queue = [] if self.pid is None else [self.pid]
        while queue:
            pid = queue.pop()
            yield pid
            for task in Path(f"/proc/{pid}/task").iterdir():
                queue += [int(child) for child in (task / "children").read_text().split()]


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _status_kb(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    # A process that has ended and is not yet reaped has no memory, and no such line.
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bootstrap-server", default="127.0.0.1:9092", help="HOST:PORT of the system to measure")
    options.add_argument("--pid", type=int, help="the node's process id: adds its CPU time and memory to the figures")
    options.add_argument(
        "--json", type=Path, metavar="FILE", help="also append the figures to FILE, a line of JSON each"
    )
    return options


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def report(figures: list[Figure], json_file: Path | None) -> None:
    """Print the figures as a table on stdout, and append them to ``json_file``."""
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        print(f"{figure.name:<{width}}  {figure.value:>12,.2f} {figure.unit}")
    if json_file is not None:
        with json_file.open("a") as out:
            out.writelines(json.dumps(asdict(figure)) + "\n" for figure in figures)


@contextmanager
def temporary_topic(bootstrap_server: str, prefix: str, partitions: int, replicas: int = 1) -> Iterator[str]:
    """Create a topic, wait until every partition is ready, yield its name, and delete it at the end."""
    admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 0})
    name = f"{prefix}-{time.time_ns()}"
    new = NewTopic(name, num_partitions=partitions, replication_factor=replicas)
    admin.create_topics([new])[name].result(timeout=60)
    while len(admin.list_topics(name, timeout=30).topics[name].partitions) != partitions:
        time.sleep(0.001)
    places = {TopicPartition(name, partition): OffsetSpec.latest() for partition in range(partitions)}
    # A leader that has not applied its election rejects the request.
    while any(future.exception(timeout=60) for future in admin.list_offsets(places).values()):
        time.sleep(0.001)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(timeout=60)


def add_partition(bootstrap_server: str, topic: str) -> None:
    """Give the topic one partition more."""
    admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 0})
    count = len(admin.list_topics(topic, timeout=30).topics[topic].partitions) + 1
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(timeout=60)
    while len(admin.list_topics(topic, timeout=30).topics[topic].partitions) != count:
        time.sleep(0.001)


def address_of(bootstrap_server: str) -> tuple[str, int]:
    host, port = bootstrap_server.split(",", maxsplit=1)[0].rsplit(":", 1)
    return host, int(port)


def percentile(values: list[float], share: float) -> float:
    """The value that ``share`` (0 to 1) of the sorted ``values`` lie below."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
