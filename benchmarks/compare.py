"""Ottla and JVM Kafka on the same host, benchmark by benchmark: benchmarks/RESULTS.md.

    OTTLA_KAFKA_COMMAND='.../up 1 --dir {dir} --port-base {port} --node 1 --foreground' python -m benchmarks.compare
    python -m benchmarks.compare --only metadata,small           # a few rows; printed, no results file
    python -m benchmarks.compare --system ottla --raw raw.json   # one system

A round starts both systems on empty directories and alternates between them: each benchmark runs against the one and at
once against the other, which is idle meanwhile, so that changes of the host's speed affect both. The
order changes from benchmark to benchmark and from round to round. The report has the median over the rounds, and the
ratio of the medians.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks import measure, results, startup

OTTLA_COMMAND = f"{sys.executable} -m ottla dev --port {{port}} --data-dir {{dir}}"
BENCHMARKS = {
    # Memory first: its first figure is the node as it started.
    "memory": ["memory", "--megabytes", "300"],
    "metadata": ["metadata"],
    "librdkafka": ["throughput", "--client", "librdkafka", "--megabytes", "500"],
    "frames": ["throughput", "--client", "frames", "--megabytes", "1000"],
    "java": ["throughput", "--client", "java", "--megabytes", "500"],
    "java-defaults": ["throughput", "--client", "java-defaults", "--megabytes", "300"],
    "small": ["small_requests", "--seconds", "4"],
    "latency": ["latency", "--seconds", "5"],
    "startup": ["startup", "--rounds", "3"],
}
STARTUP = "startup"
"""Starts nodes of its own, so it runs when the others are down."""
Figures = dict[str, dict[str, list[float]]]
Facts = dict[str, dict[str, str]]


class Started(NamedTuple):
    """A system that runs, and where it may be reached."""

    port: int
    pid: int


class Comparison:
    """The figures of all rounds so far."""

    def __init__(self, commands: dict[str, str], chosen: list[str]) -> None:
        self.figures: Figures = defaultdict(lambda: defaultdict(list))
        self.facts: Facts = {}
        self._commands = commands
        self._chosen = chosen
        self._turns = 0
        self.rounds = 0

    def go_on_from(self, raw: Path) -> None:
        """Read the rounds of an earlier run on this host, so that rounds may be hours apart."""
        kept = json.loads(raw.read_text())
        if kept["machine"] != machine():
            raise SystemExit(f"{raw} was measured on another machine ({kept['machine']}): name another file")
        self.rounds = self._turns = kept["rounds"]
        self.facts = kept["facts"]
        for name, by_system in kept["figures"].items():
            self.figures[name] |= by_system

    def keep(self, raw: Path) -> None:
        kept = {"machine": machine(), "rounds": self.rounds, "figures": self.figures, "facts": self.facts}
        raw.write_text(json.dumps(kept, indent=1))

    def run_round(self) -> None:
        with ExitStack() as stack:
            started = {}
            for system, command in self._commands.items():
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{system}-")))
                port = startup.free_port()
                pid, _ = stack.enter_context(startup.running(command, folder, port))
                started[system] = Started(port, pid)
            for name in self._chosen:
                if name != STARTUP:
                    for system in self._turn():
                        port, pid = started[system]
                        self._run(system, name, ["--bootstrap-server", f"127.0.0.1:{port}", "--pid", str(pid)])
        if STARTUP in self._chosen:
            for system in self._turn():
                self._run(system, STARTUP, ["--command", self._commands[system]])
        self.rounds += 1

    def _turn(self) -> list[str]:
        self._turns += 1
        systems = list(self._commands)
        return systems if self._turns % 2 else systems[::-1]

    def _run(self, system: str, name: str, where: list[str]) -> None:
        measure.progress(f"{system}: {name}")
        script, *options = BENCHMARKS[name]
        with tempfile.NamedTemporaryFile("r", suffix=".json") as output:
            words = [sys.executable, "-m", f"benchmarks.{script}", *where, *options, "--json", output.name]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            for line in output:
                figure = json.loads(line)
                self.facts[figure["name"]] = {"unit": figure["unit"], "better": figure["better"]}
                self.figures[figure["name"]][system].append(figure["value"])


def table(figures: Figures, facts: Facts) -> str:
    """The medians as a table; a ratio above 1 is in Ottla's favour, whichever direction is good."""
    lines = ["| | Ottla | JVM Kafka | unit | Ottla is better by |", "|-|-:|-:|-|-:|"]
    for name, by_system in figures.items():
        ottla, kafka = (statistics.median(by_system[system]) for system in ("ottla", "kafka"))
        good, bad = (ottla, kafka) if facts[name]["better"] == "higher" else (kafka, ottla)
        ratio = f"{good / bad:.2f}x" if bad else "-"
        lines.append(f"| {name} | {ottla:,.2f} | {kafka:,.2f} | {facts[name]['unit']} | {ratio} |")
    return "\n".join(lines)


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores ({cpu}), Linux {platform.release()}, Python {platform.python_version()}"


def one_node(comparison: Comparison, chosen: list[str]) -> str:
    """The text of RESULTS.md that precedes its sections."""
    commands = "".join(f"    python -m benchmarks.{' '.join(BENCHMARKS[name])}\n" for name in chosen)
    return f"""# Ottla next to JVM Kafka

Medians of {comparison.rounds} interleaved rounds; the systems take turns, client and node on the same machine:
{machine()}.

{table(comparison.figures, comparison.facts)}

Made by

    export OTTLA_KAFKA_LIBS=...      # a folder with Kafka's jars
    export OTTLA_KAFKA_COMMAND=...   # runs one JVM Kafka node in the foreground on {{port}} and {{dir}}
    python -m benchmarks.compare --rounds {comparison.rounds}

which runs against each system

{commands}"""


def arguments_of(options: argparse.ArgumentParser) -> argparse.Namespace:
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", metavar="NAME,...", help=f"some of {','.join(BENCHMARKS)}; writes no results")
    options.add_argument("--system", choices=["ottla", "kafka"], help="measure one system, and write no results")
    options.add_argument("--ottla-command", default=OTTLA_COMMAND)
    options.add_argument("--kafka-command", default=os.environ.get("OTTLA_KAFKA_COMMAND"))
    options.add_argument(
        "--raw", type=Path, metavar="FILE", help="keep every round's figures as JSON, and continue from it"
    )
    arguments = options.parse_args()
    arguments.chosen = arguments.only.split(",") if arguments.only else list(BENCHMARKS)
    unknown = set(arguments.chosen) - set(BENCHMARKS)
    if unknown:
        options.error(f"--only knows {', '.join(BENCHMARKS)}, not {', '.join(sorted(unknown))}")
    commands = {"ottla": arguments.ottla_command, "kafka": arguments.kafka_command}
    arguments.commands = {arguments.system: commands[arguments.system]} if arguments.system else commands
    if None in arguments.commands.values():
        options.error("--kafka-command or OTTLA_KAFKA_COMMAND must say how to run one node of JVM Kafka")
    java = [name for name in arguments.chosen if name.startswith("java")]
    if java and not os.environ.get("OTTLA_KAFKA_LIBS"):
        arguments.chosen = [name for name in arguments.chosen if name not in java]
        measure.progress("OTTLA_KAFKA_LIBS is not set: nothing is measured with the Java client")
    return arguments


def main() -> None:
    arguments = arguments_of(
        argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    )
    comparison = Comparison(arguments.commands, arguments.chosen)
    if arguments.raw is not None and arguments.raw.exists():
        comparison.go_on_from(arguments.raw)
    for number in range(arguments.rounds):
        measure.progress(f"round {number + 1} of {arguments.rounds}")
        comparison.run_round()
        if arguments.raw is not None:
            comparison.keep(arguments.raw)
    if arguments.system:
        for name, by_system in comparison.figures.items():
            value = statistics.median(by_system[arguments.system])
            print(f"{name:<45} {value:>12,.2f} {comparison.facts[name]['unit']}")
    elif arguments.only:
        print(table(comparison.figures, comparison.facts))
    else:
        results.write_section(None, one_node(comparison, arguments.chosen))
        measure.progress(f"written: {results.RESULTS}")


if __name__ == "__main__":
    main()
