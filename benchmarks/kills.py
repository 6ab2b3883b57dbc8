"""Kill a node with SIGKILL, repeatedly, under an idempotent producer, and report the parts of each stall.

    python -m benchmarks.kills --kills 30
    python -m benchmarks.kills --kills 10 --who quorum --seed 7 --keep-logs kills

Three nodes as in `benchmarks.replicated`, six partitions of three replicas, acks=all, librdkafka with its defaults.
The stall of a kill is the longest that any record waited for its acknowledgement. Milestones are in ms
since the kill:

- ``fenced``: a controller has fenced the broker (the nodes' logs)
- ``elected``, ``active``: another node leads the quorum, and is the active controller (the nodes' logs)
- ``published``: no partition is led by the killed node any more, by Metadata of each of the others, every 5 ms
- ``requested``: when librdkafka requested metadata, with its reasons; ``received``: when it moved partitions to other
  brokers
- ``first ack``: of each partition that the killed node led, the first acknowledgement after the kill
"""

import argparse
import os
import random
import re
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import frames, measure, steady_load, three_nodes
from benchmarks.three_nodes import NODE_IDS, Cluster, View
from confluent_kafka.admin import AdminClient

PARTITIONS = 6
RATE_PER_S = 1000
CALM_S = 1.5
WATCH_INTERVAL_S = 0.005
LOG_LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z \S+ +\S+: (.*)")
IN_THE_LOG = {"fenced": b"fencing broker %d", "elected": b"leads the metadata quorum in", "active": b"is the active"}
NOTED_OF_THE_CLIENT = {"METADATA", "LEADER", "BRKMIGR", "TOPBRK", "FASTQUERY", "QRYLEADER", "DRAIN", "FAIL", "TERM"}
WHO = ("broker", "quorum")


@dataclass
class Kill:
    """Milestones of one kill; times are of ``time.perf_counter``."""

    victim: int
    leads_quorum: bool
    led: list[int]
    at_s: float
    milestones: dict[str, list[float]] = field(default_factory=dict)
    waited_s: dict[int, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def stall_s(self) -> float:
        return max(self.waited_s.values())

    def note(self, name: str, moment_s: float) -> None:
        self.milestones.setdefault(name, []).append((moment_s - self.at_s) * 1000)

    def line(self, number: int) -> str:
        role = ", the quorum's leader," if self.leads_quorum else ""
        slowest = max(self.waited_s, key=lambda partition: self.waited_s[partition])
        seen = "; ".join(
            f"{name} {' '.join(f'{ms:.0f}' for ms in moments)}" for name, moments in self.milestones.items()
        )
        return (
            f"kill {number}: node {self.victim}{role} led {self.led}: stall {self.stall_s * 1000:.0f} ms "
            f"(partition {slowest}); {seen}"
        )


@contextmanager
def watching(cluster: Cluster, kill: Kill, topic: str) -> Iterator[None]:
    """Request the topic's leaders from every remaining node, on threads of their own, until they change."""
    request = frames.frame(frames.METADATA, 1, struct.pack(">i", 1) + frames.text(topic))
    is_over = threading.Event()

    def watch(node: int) -> None:
        while not is_over.is_set():
            leaders = leaders_in(cluster.ask(node, request), topic)
            if leaders and kill.victim not in leaders.values() and -1 not in leaders.values():
                kill.note("published", time.perf_counter())
                return
            time.sleep(WATCH_INTERVAL_S)

    threads = [threading.Thread(target=watch, args=(node,)) for node in cluster.processes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def leaders_in(response: bytes, topic: str) -> dict[int, int]:
    """Partition to leader in a Metadata v1 response about one topic; empty when there is none."""
    start = response.rfind(frames.text(topic)) if response else -1
    if start < 0:
        return {}
    position = start + 2 + len(topic) + 1
    (count,) = struct.unpack_from(">i", response, position)
    position += 4
    leaders = {}
    for _ in range(count):
        _, partition, leader, replicas = struct.unpack_from(">hiii", response, position)
        position += 14 + 4 * replicas
        (in_sync,) = struct.unpack_from(">i", response, position)
        position += 4 + 4 * in_sync
        leaders[partition] = leader
    return leaders


def kill_one(cluster: Cluster, topic: str, victim: int, view: View, calm_s: float, rate_per_s: int) -> Kill:
    """Kill the node under load, wait until everything is acknowledged, and collect its milestones."""
    leader = cluster.quorum_leader()
    led = [partition for partition, (node, _) in view.partitions(topic).items() if node == victim]
    sizes = {node: cluster.output_path(node).stat().st_size for node in NODE_IDS}
    load_of = steady_load.running(
        cluster.bootstrap_server,
        topic,
        partitions=PARTITIONS,
        rate_per_s=rate_per_s,
        linger_ms=5,
        debug="topic,metadata,broker",
    )
    with load_of as load:
        time.sleep(calm_s)
        kill = Kill(victim, victim == leader, led, time.perf_counter())
        offset_s = time.time() - time.perf_counter()
        cluster.kill(victim)
        with watching(cluster, kill, topic):
            view.wait_until_led_without(victim, topic)
            time.sleep(CALM_S)
            outcome = load.stop()
    for node in cluster.processes:
        read_log(cluster.output_path(node), sizes[node], kill, offset_s)
    read_outcome(kill, outcome)
    return kill


def read_log(path: Path, position: int, kill: Kill, offset_s: float) -> None:
    with path.open("rb") as file:
        file.seek(position)
        text = file.read()
    for line in text.splitlines():
        found = LOG_LINE.match(line)
        if found is None:
            continue
        moment_s = datetime.fromisoformat(found[1].decode()).replace(tzinfo=UTC).timestamp() - offset_s
        if moment_s < kill.at_s - 0.002:
            continue
        kill.notes.append(f"{(moment_s - kill.at_s) * 1000:7.0f} {path.stem}: {found[2].decode()}")
        for name, wanted in IN_THE_LOG.items():
            if (wanted % kill.victim if b"%d" in wanted else wanted) in found[2]:
                kill.note(name, moment_s)


def read_outcome(kill: Kill, outcome: steady_load.Outcome) -> None:
    acknowledged: dict[int, float] = {}
    for partition, sent_at_s, waited_ms in zip(outcome.partitions, outcome.sent_at_s, outcome.waited_ms, strict=True):
        at_s = sent_at_s + waited_ms / 1000
        if at_s > kill.at_s:
            kill.waited_s[partition] = max(kill.waited_s.get(partition, 0), waited_ms / 1000)
            if at_s > kill.at_s + 0.002:
                acknowledged.setdefault(partition, at_s)
    for partition in acknowledged.keys() & set(kill.led):
        kill.note("first ack", acknowledged[partition])
    read_debug(kill, outcome)
    if outcome.errors:
        kill.notes.append(f"{0:7} client: {len(outcome.errors)} records failed: {sorted(set(outcome.errors))}")


def read_debug(kill: Kill, outcome: steady_load.Outcome) -> None:
    for at_s, text in outcome.debug:
        if at_s < kill.at_s:
            continue
        if text.split(" ", 1)[0] in NOTED_OF_THE_CLIENT:
            kill.notes.append(f"{(at_s - kill.at_s) * 1000:7.0f} client: {text}")
        if "Request metadata for" in text:
            kill.note("asked", at_s)
        elif "BRKMIGR" in text or "migrated from" in text:
            kill.note("received", at_s)


def start_again(cluster: Cluster, view: View, topic: str, node: int) -> None:
    """Bring the node back, wait until it is in sync, and give every partition its preferred leader again."""
    cluster.start(node)
    view.wait_until_in_sync(topic, PARTITIONS, 3)
    view.spread_leaders(topic, PARTITIONS)


def run(cluster: Cluster, arguments: argparse.Namespace) -> list[Kill]:
    random_source = random.Random(arguments.seed)
    view = View(AdminClient({"bootstrap.servers": cluster.bootstrap_server, "log_level": 0}))
    cluster.create_topic("kills", partitions=PARTITIONS, replicas=3)
    view.wait_until_in_sync("kills", PARTITIONS, 3)
    kills: list[Kill] = []
    for number in range(1, arguments.kills + 1):
        leader = cluster.quorum_leader()
        who = arguments.who or WHO[number % len(WHO)]
        victim = leader if who == "quorum" else random_source.choice([node for node in NODE_IDS if node != leader])
        kill = kill_one(cluster, "kills", victim, view, CALM_S + random_source.random(), arguments.rate)
        kills.append(kill)
        measure.progress(f"{kill.line(number)}; load average {os.getloadavg()[0]:.1f}")
        if kill.stall_s > arguments.tell_above_s:
            measure.progress("\n".join(sorted(kill.notes, key=lambda note: float(note[:7]))))
        start_again(cluster, view, "kills", victim)
    return kills


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=30)
    options.add_argument(
        "--who", choices=WHO, help="a broker that does not lead the quorum, or that does; else in turn"
    )
    options.add_argument("--system", choices=["ottla", "kafka"], default="ottla")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--rate", type=int, default=RATE_PER_S, help="records per second")
    options.add_argument("--port-base", type=int, default=27600)
    options.add_argument("--kafka-command", default=os.environ.get("OTTLA_KAFKA_CLUSTER_COMMAND"))
    options.add_argument("--tell-above-s", type=float, default=1.0, help="print everything seen of a longer stall")
    options.add_argument("--keep-logs", type=Path, metavar="DIR", help="keep the nodes' directories there")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="kills-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        if arguments.keep_logs:
            directory = arguments.keep_logs / f"{arguments.system}-{time.time_ns()}"
            directory.mkdir(parents=True)
        nodes = three_nodes.running(arguments.system, directory, arguments.port_base, arguments.kafka_command)
        with nodes as (cluster, _):
            kills = run(cluster, arguments)
    for name, chosen in (("a broker", False), ("the quorum's leader", True)):
        stalls_s = sorted(kill.stall_s for kill in kills if kill.leads_quorum is chosen)
        if stalls_s:
            print(
                f"kill -9 of {name}: {len(stalls_s)} kills, stall p50 {measure.percentile(stalls_s, 0.5):.2f} s, "
                f"longest {stalls_s[-1]:.2f} s, above 1 s: {sum(stall_s > 1 for stall_s in stalls_s)}"
            )


if __name__ == "__main__":
    main()
