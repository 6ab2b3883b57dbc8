"""A node with TLS and SASL next to JVM Kafka, on the same server.properties: records over TLS, SCRAM authentication.

    OTTLA_KAFKA_LIBS=... python -m benchmarks.locked                          # writes "Locked" of RESULTS.md
    python -m benchmarks.locked --rounds 1 --only logins                      # one row; printed

Both nodes stay up through all rounds, and alternate within each; the other one is idle meanwhile. The order changes
from round to round. The report has the median over the rounds, and the ratio of the medians.
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import attacks, compare, either_system, measure, results, startup

HOST = "127.0.0.1"
USER = "alice"
BENCHMARKS = {
    "records": ["throughput", "--client", "librdkafka", "--megabytes", "500"],
    "logins": [
        "logins",
        "--mechanism",
        either_system.MECHANISM,
        "--user",
        USER,
        "--warm-up-seconds",
        "12",
        "--seconds",
        "8",
    ],
}
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={host}:{controller}
listeners=CLEAR://{host}:{clear},TLS://{host}:{tls},SASL://{host}:{sasl},C://{host}:{controller}
listener.security.protocol.map=CLEAR:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,C:PLAINTEXT
inter.broker.listener.name=CLEAR
controller.listener.names=C
ssl.keystore.type=PEM
ssl.keystore.location={directory}/node.pem
log.dirs={directory}/data
offsets.topic.replication.factor=1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One node that runs."""

    clear: str
    tls: str
    sasl: str
    pid: int
    ca: Path
    password: str

    def where(self, benchmark: str) -> list[str]:
        """The options that lead a benchmark to this node."""
        if benchmark == "logins":
            return ["--bootstrap-server", self.sasl, "--password", self.password, "--pid", str(self.pid)]
        tls = ["--tls-server", self.tls, "--tls-ca", str(self.ca)]
        return ["--bootstrap-server", self.clear, *tls, "--pid", str(self.pid)]


def started(stack: ExitStack, system: str, libs: str) -> Target:
    """Format and start a node that ends with ``stack``."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{system}-")))
    ports = {name: startup.free_port() for name in ("clear", "tls", "sasl", "controller")}
    (directory / "node.pem").write_text(attacks.certificate())
    (directory / "ca.pem").write_text("-----BEGIN" + (directory / "node.pem").read_text().rpartition("-----BEGIN")[2])
    password = base64.b64encode(os.urandom(12)).decode()
    properties = PROPERTIES.format(host=HOST, directory=directory, **ports) + either_system.SCRAM_PROPERTIES
    node = either_system.running(
        system, directory, properties, port=ports["clear"], user=USER, password=password, libs=libs
    )
    pid = stack.enter_context(node)
    addresses = {name: f"{HOST}:{ports[name]}" for name in ("clear", "tls", "sasl")}
    return Target(**addresses, pid=pid, ca=directory / "ca.pem", password=password)


def measured(target: Target, benchmark: str, figures: compare.Figures, facts: compare.Facts, system: str) -> None:
    measure.progress(f"{system}: {benchmark}")
    script, *options = BENCHMARKS[benchmark]
    with tempfile.NamedTemporaryFile("r", suffix=".json") as output:
        words = [sys.executable, "-m", f"benchmarks.{script}", *target.where(benchmark), *options]
        subprocess.run([*words, "--json", output.name], check=True, stdout=subprocess.DEVNULL)
        for line in output:
            figure = json.loads(line)
            facts[figure["name"]] = {"unit": figure["unit"], "better": figure["better"]}
            figures[figure["name"]][system].append(figure["value"])


def section(table: str, rounds: int) -> str:
    commands = "".join(f"    python -m benchmarks.{' '.join(words)}\n" for words in BENCHMARKS.values())
    return f"""Medians of {rounds} interleaved rounds, the same server.properties for both: a listener under TLS 1.3
with an ECDSA P-256 certificate, one with {either_system.MECHANISM} in the clear. {compare.machine()}.

{table}

Made by

    export OTTLA_KAFKA_LIBS=...      # a folder with Kafka's jars
    python -m benchmarks.locked --rounds {rounds}

which runs against each system

{commands}"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", choices=list(BENCHMARKS), help="one of the two; writes no results")
    arguments = options.parse_args()
    libs = os.environ.get("OTTLA_KAFKA_LIBS")
    if libs is None:
        options.error("OTTLA_KAFKA_LIBS must name a folder with Kafka's jars")
    chosen = [arguments.only] if arguments.only else list(BENCHMARKS)
    figures: compare.Figures = defaultdict(lambda: defaultdict(list))
    facts: compare.Facts = {}
    with ExitStack() as stack:
        targets = {system: started(stack, system, libs) for system in ("ottla", "kafka")}
        for number in range(arguments.rounds):
            measure.progress(f"round {number + 1} of {arguments.rounds}")
            for benchmark in chosen:
                for system in sorted(targets, reverse=number % 2 == 0):
                    measured(targets[system], benchmark, figures, facts, system)
    if arguments.only:
        print(compare.table(figures, facts))
    else:
        results.write_section("Locked", section(compare.table(figures, facts), arguments.rounds))
        measure.progress(f"written: {results.RESULTS}")


if __name__ == "__main__":
    main()
