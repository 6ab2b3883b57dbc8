"""One node under attack: latency of an honest client, memory of the node, and its metrics and log lines.

    python -m benchmarks.attacks                          # every attack; writes "Under attack" of RESULTS.md
    python -m benchmarks.attacks --only idle,everything   # some, as a table
    python -m benchmarks.attacks --raw outcomes.json --most 5   # five of those that are missing there
    python -m benchmarks.attacks --large-requests        # those of `large_requests`, next to JVM Kafka

A node is started with listeners in the clear, under TLS and with SASL. Each attack is between two quiet stretches of
the same length, all in one run: an honest client (`benchmarks.honest_client`) works through the three of them, the
attackers (`benchmarks.attackers`) run as idle work. Neither runs on the node's core. The figures of "quiet" are those
of both quiet stretches together.
"""

import argparse
import base64
import contextlib
import dataclasses
import datetime
import ipaddress
import json
import os
import re
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import (
    attack_peers,
    attack_plans,
    attackers,
    compare,
    cores,
    either_system,
    frames,
    honest_client,
    large_requests,
    measure,
    results,
    startup,
)
from benchmarks.attack_outcomes import (
    GROWTH_MIB_MAX,
    LEVELS,
    P99_MS_MAX,
    P99_TIMES_MAX,
    Outcome,
    details,
    large_table,
    table,
    within_aim,
)
from confluent_kafka.admin import AdminClient, NewTopic

HOST = "127.0.0.1"
LOAD_MB = 300
SETTLE_S = 1.5
JVM_WARM_UP_S = 8
HONEST_TOPIC = "honest"

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={host}:{controller}
listeners=CLEAR://{host}:{plaintext},TLS://{host}:{tls},SASL://{host}:{sasl},NODES://{host}:{nodes},C://{host}:{controller}
listener.security.protocol.map=CLEAR:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,NODES:PLAINTEXT,C:PLAINTEXT
inter.broker.listener.name=NODES
controller.listener.names=C
ssl.keystore.type=PEM
ssl.keystore.location={directory}/node.pem
log.dirs={directory}/data
offsets.topic.replication.factor=1
ottla.admin.listener={host}:{admin}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The node that is attacked."""

    system: str
    process: measure.Node
    listeners: attackers.Listeners
    admin_port: int | None
    output: Path

    def metrics(self, names: tuple[str, ...]) -> dict[str, float]:
        """Return the named metrics, summed over their labels; empty for a node without the page."""
        if self.admin_port is None:
            return {}
        page = ""
        while not page:
            # A node under attack may respond with 503 to a request of the page.
            with (
                contextlib.suppress(urllib.error.HTTPError),
                urllib.request.urlopen(f"http://{HOST}:{self.admin_port}/metrics", timeout=30) as response,
            ):
                page = response.read().decode()
        sums: Counter[str] = Counter(dict.fromkeys(names, 0))
        for line in page.splitlines():
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            if name in names:
                sums[name] += float(line.rpartition(" ")[2])
        return sums

    def reset_peak(self) -> None:
        """Reset the peak of resident memory (Linux)."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


def percentiles(samples: list[honest_client.Sample]) -> dict[str, float]:
    found = {}
    for what in ("produce", "fetch"):
        values = [getattr(sample, f"{what}_ms") for sample in samples]
        for share in (50, 99):
            found[f"{what} p{share}"] = measure.percentile(values, share / 100)
    return found


@contextmanager
def running(directory: Path, system: str, ottla_command: str, plan: attack_plans.Plan) -> Iterator[Target]:
    """Format and start a node, and create the topics of the honest client and of the attack."""
    ports = {name: startup.free_port() for name in ("plaintext", "tls", "sasl", "nodes", "controller", "admin")}
    (directory / "node.pem").write_text(certificate())
    properties = PROPERTIES.format(host=HOST, directory=directory, **ports) + either_system.SCRAM_PROPERTIES
    node = either_system.running(
        system,
        directory,
        properties,
        port=ports["plaintext"],
        user="alice",
        password=base64.b64encode(os.urandom(12)).decode(),
        libs=os.environ.get("OTTLA_KAFKA_LIBS"),
        ottla_command=ottla_command,
    )
    with node as pid:
        listeners = {name: (HOST, ports[name]) for name in ("plaintext", "tls", "sasl")}
        target = Target(
            system=system,
            process=measure.Node(pid),
            listeners=attackers.Listeners(**listeners),
            admin_port=ports["admin"] if system == "ottla" else None,
            output=directory / "node.out",
        )
        fill(listeners["plaintext"], plan.topic)
        if plan.large_request is not None:
            large_requests.REQUESTS[plan.large_request].prepare(listeners["plaintext"])
        yield target


def fill(address: tuple[str, int], topic: str | None) -> None:
    admin = AdminClient({"bootstrap.servers": f"{address[0]}:{address[1]}", "log_level": 0})
    partitions = {
        HONEST_TOPIC: 1,
        attack_peers.LOAD_TOPIC: attack_peers.LOAD_PARTITIONS,
        attack_peers.WIDE_TOPIC: 1_000,
    }
    for name in (HONEST_TOPIC, topic):
        if name is not None:
            admin.create_topics([NewTopic(name, partitions[name], 1)])[name].result(timeout=60)
    if topic != attack_peers.LOAD_TOPIC:
        return
    records = frames.batch([b"x" * 1_000] * 1_000)
    connection = frames.connect(address)
    with connection.socket:
        for number in range(LOAD_MB):
            frames.produce(connection, frames.produce_request(topic, number % attack_peers.LOAD_PARTITIONS, records))
    # Writes that the system has still to do would delay the honest client's records.
    os.sync()


def certificate() -> str:
    """Return a key and its self-signed certificate, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "node")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + signed.public_bytes(Encoding.PEM)
    return pem.decode()


def attack(name: str, target: Target, *, seconds: float, rate_per_s: float, warm_up_s: float = SETTLE_S) -> Outcome:
    """Let an honest client work in quiet, under attack, and in quiet again."""
    plan = attack_plans.PLANS[name]
    said_before = len(target.output.read_text(errors="replace"))
    with honest_client.running(target.listeners.plaintext, HONEST_TOPIC, rate_per_s) as honest:
        time.sleep(warm_up_s)
        before_mib, before = target.process.rss_mib(), target.metrics(plan.metrics)
        target.reset_peak()
        quiet_s = time.perf_counter()
        time.sleep(seconds)
        quiet_ended_s = time.perf_counter()
        attackers_started_s = time.perf_counter()
        with attackers.running(plan, target.listeners) as attacking:
            if plan.is_standing:
                time.sleep(plan.open_max / plan.rate_per_s + SETTLE_S)
            cpu_s, attacked_s = target.process.cpu_s(), time.perf_counter()
            time.sleep(seconds)
            attack_ended_s, cpu_s = time.perf_counter(), target.process.cpu_s() - cpu_s
            after = target.metrics(plan.metrics)
            attackers_outcome = attacking.stop()
        attackers_s = time.perf_counter() - attackers_started_s
        peak_mib = target.process.rss_peak_mib()
        time.sleep(SETTLE_S)
        quiet_again_s = time.perf_counter()
        time.sleep(seconds)
        samples, honest_cpu_s = honest.stop()
        honest_s = time.perf_counter() - quiet_s + SETTLE_S
    lasted_s = attack_ended_s - attacked_s
    quiet = [it for it in samples if quiet_s <= it.at_s < quiet_ended_s or it.at_s >= quiet_again_s]
    attacked = [it for it in samples if it.at_s < attack_ended_s and it.ended_s > attacked_s]
    said = target.output.read_text(errors="replace")[said_before:].splitlines()
    return Outcome(
        name=name,
        system=target.system,
        quiet_ms=percentiles(quiet),
        attack_ms=percentiles(attacked),
        rss_mib=(before_mib, peak_mib, target.process.rss_mib()),
        cores={
            "node": cpu_s / lasted_s,
            "attackers": attackers_outcome.cpu_s / attackers_s,
            "honest": honest_cpu_s / honest_s,
        },
        did={
            what: count / attackers_s / (1e6 if what == "MB" else 1) for what, count in attackers_outcome.counts.items()
        },
        served=sum(attacked_s <= at_s < attack_ended_s for at_s in attackers_outcome.served_at_s),
        rejections=sum(it.rejections for it in attacked),
        metrics={metric: (value, value - before[metric]) for metric, value in after.items()},
        lines=[line for line in said if LEVELS.search(line)],
        attack_s=lasted_s,
    )


def section(outcomes: list[Outcome], arguments: argparse.Namespace) -> str:
    return f"""An honest client produces a record of 1,000 bytes with acks=all and fetches it,
{arguments.rate} times a second, through {arguments.seconds:.0f} s of quiet, of each attack, and of
quiet again. The node has a core of its own, as if clients were on other hosts: a client that
Linux wakes on the core of a busy node waits for the end of a time slice. Client and attackers
have the others, the client with the highest priority (SCHED_RR), attackers as idle work (SCHED_IDLE), of
{compare.machine()}.
"times" is the worse of the two p99, which a stretch has {arguments.rate * arguments.seconds:.0f} records for: other
load on the host moves them. Of each attack's {arguments.rounds} rounds the median by "times" is shown.
Written by `python -m benchmarks.attacks --rounds {arguments.rounds}`.

{table(outcomes)}

Rates of the attackers, and the metrics that show the attack (with the change of each):

{details(outcomes)}
"""


def large_section(outcomes: list[Outcome], arguments: argparse.Namespace) -> str:
    return f"""Ten clients repeat one large request without a pause, against a node of each system on the same
server.properties and the same core, with the honest client of above: {arguments.seconds:.0f} s of quiet, of the attack,
and of quiet again, {arguments.rounds} rounds of each, of which the median by "times" is shown. Each has a new node.
JVM Kafka's has 1 GiB of heap, which it may use in any case, and {JVM_WARM_UP_S} s of the honest client's work to
compile before the first stretch; code for the attack's requests is not compiled yet. "CPU of a request" is the node's
CPU during the attack, the honest client's records included, per request of the attackers that it served.
The aim is a p99 within {P99_TIMES_MAX} times of the quiet one and below {P99_MS_MAX} ms, and memory within
{GROWTH_MIB_MAX} MiB of what it was: {within_aim(outcomes)}
{compare.machine()}.

{large_table(outcomes)}

Metrics and log lines of the node, where it has any of the attack:

{details(outcomes, are_of_both=True)}

Written by

    export OTTLA_KAFKA_LIBS=...      # a folder with Kafka's jars
    python -m benchmarks.attacks --large-requests --seconds {arguments.seconds:.0f} --rounds {arguments.rounds}
"""


def read(raw: Path) -> dict[tuple[str, str], Outcome]:
    """Read the outcomes that an earlier run kept, by attack and system."""
    return {(kept["name"], kept["system"]): Outcome(**kept) for kept in json.loads(raw.read_text())}


def attack_new_node(name: str, system: str, arguments: argparse.Namespace) -> Outcome:
    of_node, of_others = arguments.cores
    cores.keep_to(of_node)
    with (
        tempfile.TemporaryDirectory(prefix="attacks-") as folder,
        running(Path(folder), system, arguments.ottla_command, attack_plans.PLANS[name]) as target,
    ):
        cores.keep_to(of_others)
        if arguments.first:
            cores.put_first(target.process.pid)
        warm_up_s = JVM_WARM_UP_S if system == "kafka" else SETTLE_S
        outcome = attack(name, target, seconds=arguments.seconds, rate_per_s=arguments.rate, warm_up_s=warm_up_s)
    measure.progress(
        "  " + (large_table if attack_plans.PLANS[name].large_request else table)([outcome]).splitlines()[-1]
    )
    return outcome


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME,...", help=f"some of {','.join(attack_plans.PLANS)}; writes no results")
    parser.add_argument(
        "--large-requests",
        action="store_true",
        help="repeat large requests against a node of each system; OTTLA_KAFKA_LIBS names a folder with Kafka's jars",
    )
    parser.add_argument("--system", choices=either_system.SYSTEMS, help="attack a node of this one; writes no results")
    parser.add_argument("--seconds", type=float, default=10, help="of each stretch")
    parser.add_argument("--rate", type=int, default=100, help="the honest client's records per second")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is repeated; the median p99 counts")
    parser.add_argument("--ottla-command", default=f"{sys.executable} -m ottla", help="the command that runs a node")
    parser.add_argument(
        "--raw", type=Path, metavar="FILE", help="keep outcomes as JSON; continue with the missing ones"
    )
    parser.add_argument("--most", type=int, default=2 * len(attack_plans.PLANS), help="so many attacks in this run")
    parser.add_argument(
        "--first",
        action="store_true",
        help="node and honest client go before other work (Linux; as root, in setsid)",
    )
    return parser


def main() -> None:
    parser = options()
    arguments = parser.parse_args()
    are_large = arguments.large_requests
    names = [name for name, plan in attack_plans.PLANS.items() if (plan.large_request is not None) is are_large]
    if arguments.only:
        names = arguments.only.split(",")
    unknown = set(names) - set(attack_plans.PLANS)
    if unknown:
        parser.error(f"--only knows {', '.join(attack_plans.PLANS)}, not {', '.join(sorted(unknown))}")
    systems = [arguments.system] if arguments.system else either_system.SYSTEMS if are_large else ["ottla"]
    if "kafka" in systems and "OTTLA_KAFKA_LIBS" not in os.environ:
        parser.error("OTTLA_KAFKA_LIBS must name a folder with Kafka's jars")
    attackers.lift_descriptor_limit()
    arguments.cores = cores.shared_out()
    if arguments.first:
        cores.put_first(os.getpid())
    # SIGTERM must end the node, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    outcomes = {} if arguments.raw is None or not arguments.raw.exists() else read(arguments.raw)
    chosen = [(name, system) for name in names for system in systems]
    for name, system in [key for key in chosen if key not in outcomes][: arguments.most]:
        measure.progress(f"{system}, {name}: {attack_plans.PLANS[name].title}")
        found = [attack_new_node(name, system, arguments) for _ in range(arguments.rounds)]
        outcomes[name, system] = sorted(found, key=lambda one: one.p99_ratio)[len(found) // 2]
        if arguments.raw is not None:
            arguments.raw.write_text(json.dumps([dataclasses.asdict(one) for one in outcomes.values()], indent=1))
    cores.keep_to(set.union(*arguments.cores))
    report([outcomes[key] for key in chosen if key in outcomes], arguments, is_whole=set(chosen) <= set(outcomes))


def report(done: list[Outcome], arguments: argparse.Namespace, *, is_whole: bool) -> None:
    """Write a whole run's section or subsection; print a part of one."""
    are_large = arguments.large_requests
    if arguments.only or arguments.system or not is_whole:
        print(f"{large_table(done) if are_large else table(done)}\n\n{details(done, are_of_both=are_large)}")
        return
    if are_large:
        results.write_subsection("Under attack", "Large requests, next to JVM Kafka", large_section(done, arguments))
    else:
        results.write_section("Under attack", section(done, arguments))
    measure.progress(f"written: {results.RESULTS}")


if __name__ == "__main__":
    main()
