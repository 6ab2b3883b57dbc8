"""One node under attack: what an honest client notices, what memory it costs, and what the node says of it.

    python -m benchmarks.attacks                          # every attack; writes "Under attack" of RESULTS.md
    python -m benchmarks.attacks --only idle,everything   # some, as a table
    python -m benchmarks.attacks --raw outcomes.json --most 5   # five of those that are missing there

A node is started with listeners in the clear, under TLS and with SASL. Each attack lies between two quiet stretches of
the same length, all in one run: an honest client (`benchmarks.honest_client`) goes on through the three of them, the
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
import shlex
import signal
import subprocess
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

from benchmarks import attackers, compare, cores, frames, honest_client, measure, results, startup
from confluent_kafka.admin import AdminClient, NewTopic

HOST = "127.0.0.1"
LOAD_MB = 300
SETTLE_S = 1.5
HONEST_TOPIC = "honest"
_LEVELS = re.compile(r"\b(WARNING|ERROR|CRITICAL)\b")

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={host}:{controller}
listeners=CLEAR://{host}:{plaintext},TLS://{host}:{tls},SASL://{host}:{sasl},NODES://{host}:{nodes},C://{host}:{controller}
listener.security.protocol.map=CLEAR:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,NODES:PLAINTEXT,C:PLAINTEXT
inter.broker.listener.name=NODES
controller.listener.names=C
sasl.enabled.mechanisms={mechanism}
ssl.keystore.type=PEM
ssl.keystore.location={directory}/node.pem
log.dirs={directory}/data
offsets.topic.replication.factor=1
ottla.admin.listener={host}:{admin}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The node that is attacked."""

    process: measure.Node
    doors: attackers.Doors
    admin_port: int
    output: Path

    def metrics(self, names: tuple[str, ...]) -> dict[str, float]:
        """The named metrics, summed over their labels."""
        page = ""
        while not page:
            # A node that is under attack may say that it has no time for the page just now.
            with (
                contextlib.suppress(urllib.error.HTTPError),
                urllib.request.urlopen(f"http://{HOST}:{self.admin_port}/metrics", timeout=30) as answer,
            ):
                page = answer.read().decode()
        sums: Counter[str] = Counter(dict.fromkeys(names, 0))
        for line in page.splitlines():
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            if name in names:
                sums[name] += float(line.rpartition(" ")[2])
        return sums

    def forget_peak(self) -> None:
        """Have the peak of resident memory begin anew (Linux)."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of one attack. Times are milliseconds, memory MiB, CPU in cores, counters how far they moved."""

    name: str
    quiet_ms: dict[str, float]
    attack_ms: dict[str, float]
    rss_mib: tuple[float, float, float]
    """Before, at its peak, afterwards."""
    cores: dict[str, float]
    did: dict[str, float]
    """What the attackers got done, a second."""
    metrics: dict[str, tuple[float, float]]
    """At the end of the attack, and how far that is from before."""
    lines: list[str]
    attack_s: float

    @property
    def p99_ratio(self) -> float:
        return max(self.attack_ms[f"{what} p99"] / self.quiet_ms[f"{what} p99"] for what in ("produce", "fetch"))


def percentiles(samples: list[honest_client.Sample]) -> dict[str, float]:
    found = {}
    for what in ("produce", "fetch"):
        values = [getattr(sample, f"{what}_ms") for sample in samples]
        for share in (50, 99):
            found[f"{what} p{share}"] = measure.percentile(values, share / 100)
    return found


@contextmanager
def running(directory: Path, command: str, topic: str | None) -> Iterator[Target]:
    """Format and start a node, and give it the honest client's topic and the one that an attack asks for."""
    ports = {name: startup.free_port() for name in ("plaintext", "tls", "sasl", "nodes", "controller", "admin")}
    (directory / "node.pem").write_text(certificate())
    config = directory / "server.properties"
    config.write_text(PROPERTIES.format(host=HOST, directory=directory, mechanism=attackers.MECHANISM, **ports))
    cluster_id = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
    credential = f"{attackers.MECHANISM}=[name=alice,password={base64.b64encode(os.urandom(12)).decode()}]"
    words = [*shlex.split(command), "format", "-t", cluster_id, "-c", str(config), "--standalone"]
    subprocess.run([*words, "--add-scram", credential], check=True, stdout=subprocess.DEVNULL)
    run = f"{command} run --config {{dir}}/server.properties"
    with startup.running(run, directory, ports["plaintext"]) as (pid, _):
        doors = {name: (HOST, ports[name]) for name in ("plaintext", "tls", "sasl")}
        target = Target(
            process=measure.Node(pid),
            doors=attackers.Doors(**doors),
            admin_port=ports["admin"],
            output=directory / "node.out",
        )
        fill(doors["plaintext"], topic)
        yield target


def fill(address: tuple[str, int], topic: str | None) -> None:
    admin = AdminClient({"bootstrap.servers": f"{address[0]}:{address[1]}", "log_level": 0})
    partitions = {HONEST_TOPIC: 1, attackers.LOAD_TOPIC: attackers.LOAD_PARTITIONS, attackers.WIDE_TOPIC: 1_000}
    for name in (HONEST_TOPIC, topic):
        if name is not None:
            admin.create_topics([NewTopic(name, partitions[name], 1)])[name].result(timeout=60)
    if topic != attackers.LOAD_TOPIC:
        return
    records = frames.batch([b"x" * 1_000] * 1_000)
    connection = frames.connect(address)
    with connection.socket:
        for number in range(LOAD_MB):
            request = frames.produce_request(topic, number % attackers.LOAD_PARTITIONS, records)
            while True:
                try:
                    frames.check_produced(connection.exchange(request))
                except RuntimeError:  # its leader is not yet in office
                    time.sleep(0.01)
                    continue
                break
    # What the system still has to write would hold up the honest client's records.
    os.sync()


def certificate() -> str:
    """A key and its own certificate, as PEM."""
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


def attack(name: str, target: Target, *, seconds: float, rate_per_s: float) -> Outcome:
    """Let an honest client work in quiet, under attack, and in quiet again."""
    plan = attackers.PLANS[name]
    said_before = len(target.output.read_text(errors="replace"))
    with honest_client.running(target.doors.plaintext, HONEST_TOPIC, rate_per_s) as honest:
        time.sleep(SETTLE_S)
        before_mib, before = target.process.rss_mib(), target.metrics(plan.metrics)
        target.forget_peak()
        quiet_s = time.perf_counter()
        time.sleep(seconds)
        quiet_ended_s = time.perf_counter()
        crowd_began_s = time.perf_counter()
        with attackers.running(plan, target.doors) as crowd:
            if plan.is_standing:
                time.sleep(plan.open_max / plan.rate_per_s + SETTLE_S)
            cpu_s, attacked_s = target.process.cpu_s(), time.perf_counter()
            time.sleep(seconds)
            attack_ended_s, cpu_s = time.perf_counter(), target.process.cpu_s() - cpu_s
            after = target.metrics(plan.metrics)
            counts, crowd_cpu_s = crowd.stop()
        crowd_s = time.perf_counter() - crowd_began_s
        peak_mib = target.process.rss_peak_mib()
        time.sleep(SETTLE_S)
        quiet_again_s = time.perf_counter()
        time.sleep(seconds)
        samples, honest_cpu_s = honest.stop()
        honest_s = time.perf_counter() - quiet_s + SETTLE_S
    lasted_s = attack_ended_s - attacked_s
    quiet = [it for it in samples if quiet_s <= it.at_s < quiet_ended_s or it.at_s >= quiet_again_s]
    attacked = [it for it in samples if attacked_s <= it.at_s < attack_ended_s]
    said = target.output.read_text(errors="replace")[said_before:].splitlines()
    return Outcome(
        name=name,
        quiet_ms=percentiles(quiet),
        attack_ms=percentiles(attacked),
        rss_mib=(before_mib, peak_mib, target.process.rss_mib()),
        cores={"node": cpu_s / lasted_s, "attackers": crowd_cpu_s / crowd_s, "honest": honest_cpu_s / honest_s},
        did={what: count / crowd_s / (1e6 if what == "MB" else 1) for what, count in counts.items()},
        metrics={metric: (after[metric], after[metric] - before[metric]) for metric in plan.metrics},
        lines=[line for line in said if _LEVELS.search(line)],
        attack_s=lasted_s,
    )


def table(outcomes: list[Outcome]) -> str:
    lines = [
        "| attack | produce p50, p99 quiet | under attack | fetch p50, p99 quiet | under attack | p99, times | "
        "memory before, peak, after | node, attackers | log lines |",
        "|-|-:|-:|-:|-:|-:|-:|-:|-:|",
    ]
    for one in outcomes:
        cells = [attackers.PLANS[one.name].title]
        for what in ("produce", "fetch"):
            for values in (one.quiet_ms, one.attack_ms):
                cells.append(f"{values[f'{what} p50']:.2f}, {values[f'{what} p99']:.2f} ms")
        cells.append(f"{one.p99_ratio:.2f}")
        cells.append(", ".join(f"{mib:.0f}" for mib in one.rss_mib) + " MiB")
        cells.append(f"{one.cores['node']:.2f}, {one.cores['attackers']:.2f} cores")
        cells.append(f"{len(one.lines)} in {one.attack_s:.0f} s")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def details(outcomes: list[Outcome]) -> str:
    """What the attackers got done, which metrics told of it, and the first line that the node logged."""
    lines = []
    for one in outcomes:
        did = ", ".join(f"{what} {rate:,.0f}/s" for what, rate in sorted(one.did.items()))
        metrics = ", ".join(f"`{name}` {value:,.0f} ({moved:+,.0f})" for name, (value, moved) in one.metrics.items())
        lines.append(f"- {attackers.PLANS[one.name].title}: {did}. {metrics}.")
        if one.lines:
            found = _LEVELS.search(one.lines[0])
            assert found is not None, "why it is kept"
            lines.append(f"  `{one.lines[0][found.start() :][:240]}`")
    return "\n".join(lines)


def section(outcomes: list[Outcome], arguments: argparse.Namespace) -> str:
    return f"""An honest client produces a record of 1,000 bytes with acks=all and fetches it,
{arguments.rate} times a second, through {arguments.seconds:.0f} s of quiet, of each attack, and of
quiet again. The node has a core of its own, as where clients are on other machines: a client that
Linux wakes on the core of a busy node waits for the end of a slice of time. Client and attackers
have the others, the client as the first to be woken (SCHED_RR), attackers as idle work (SCHED_IDLE), of
{compare.machine()}.
"times" is the worse of the two p99, which a stretch has {arguments.rate * arguments.seconds:.0f} records for: other
work on the machine moves them. Of each attack's {arguments.rounds} the one is shown that is the median by "times".
Made by `python -m benchmarks.attacks --rounds {arguments.rounds}`.

{table(outcomes)}

What the attackers got done a second, and which metrics told of it (and how far each moved):

{details(outcomes)}
"""


def read(raw: Path) -> dict[str, Outcome]:
    """The outcomes that an earlier run kept, by attack."""
    return {kept["name"]: Outcome(**kept) for kept in json.loads(raw.read_text())}


def attack_new_node(name: str, arguments: argparse.Namespace) -> Outcome:
    of_node, of_others = arguments.cores
    cores.keep_to(of_node)
    with (
        tempfile.TemporaryDirectory(prefix="attacks-") as folder,
        running(Path(folder), arguments.ottla_command, attackers.PLANS[name].topic) as target,
    ):
        cores.keep_to(of_others)
        if arguments.first:
            cores.put_first(target.process.pid)
        outcome = attack(name, target, seconds=arguments.seconds, rate_per_s=arguments.rate)
    measure.progress("  " + table([outcome]).splitlines()[-1])
    return outcome


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", metavar="NAME,...", help=f"some of {','.join(attackers.PLANS)}; writes no results")
    options.add_argument("--seconds", type=float, default=10, help="of each stretch")
    options.add_argument("--rate", type=int, default=100, help="the honest client's records per second")
    options.add_argument("--rounds", type=int, default=1, help="how often each is repeated; the median p99 counts")
    options.add_argument("--ottla-command", default=f"{sys.executable} -m ottla", help="what runs a node")
    options.add_argument("--raw", type=Path, metavar="FILE", help="keep outcomes as JSON; go on with what is missing")
    options.add_argument("--most", type=int, default=len(attackers.PLANS), help="so many attacks in this run")
    options.add_argument(
        "--first",
        action="store_true",
        help="node and honest client go before other work (Linux; as root, in setsid)",
    )
    arguments = options.parse_args()
    chosen = arguments.only.split(",") if arguments.only else list(attackers.PLANS)
    unknown = set(chosen) - set(attackers.PLANS)
    if unknown:
        options.error(f"--only knows {', '.join(attackers.PLANS)}, not {', '.join(sorted(unknown))}")
    attackers.lift_descriptor_limit()
    arguments.cores = cores.shared_out()
    if arguments.first:
        cores.put_first(os.getpid())
    # What is told to end ends its node, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    outcomes = {} if arguments.raw is None or not arguments.raw.exists() else read(arguments.raw)
    for name in [name for name in chosen if name not in outcomes][: arguments.most]:
        measure.progress(f"{name}: {attackers.PLANS[name].title}")
        found = [attack_new_node(name, arguments) for _ in range(arguments.rounds)]
        outcomes[name] = sorted(found, key=lambda one: one.p99_ratio)[len(found) // 2]
        if arguments.raw is not None:
            arguments.raw.write_text(json.dumps([dataclasses.asdict(one) for one in outcomes.values()], indent=1))
    cores.keep_to(set.union(*arguments.cores))
    done = [outcomes[name] for name in chosen if name in outcomes]
    if arguments.only or len(done) < len(chosen):
        print(f"{table(done)}\n\n{details(done)}")
    else:
        results.write_section("Under attack", section(done, arguments))
        measure.progress(f"written: {results.RESULTS}")


if __name__ == "__main__":
    main()
