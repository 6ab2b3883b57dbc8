"""Ottla and JVM Kafka side by side on this machine, one at a time, rounds interleaved: benchmarks/RESULTS.md.

    OTTLA_KAFKA_COMMAND='.../up 1 --dir {dir} --port-base {port} --node 1 --foreground' python -m benchmarks.compare
    python -m benchmarks.compare --only ottla --raw raw.json     # one system, no results file

A round starts a system on an empty directory, runs every benchmark against it, and stops it; then the other one has
its turn. What is reported is the median over the rounds, and the ratio of the medians.
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
from pathlib import Path

from benchmarks import measure, results, startup

OTTLA_COMMAND = f"{sys.executable} -m ottla dev --port {{port}} --data-dir {{dir}}"
BENCHMARKS = [
    # Memory first: its first figure is the node as it started.
    ["memory_and_metadata", "--megabytes", "300"],
    ["throughput", "--client", "librdkafka", "--megabytes", "500"],
    ["throughput", "--client", "frames", "--megabytes", "1000"],
    ["throughput", "--client", "java", "--megabytes", "500"],
    ["small_requests", "--seconds", "4"],
    ["latency", "--seconds", "5"],
]
Figures = dict[str, dict[str, list[float]]]
Facts = dict[str, dict[str, str]]


def run_round(system: str, command: str, chosen: list[list[str]], figures: Figures, facts: Facts) -> None:
    """Start ``system``, run the benchmarks against it, stop it; add what was measured to ``figures``."""
    with tempfile.TemporaryDirectory(prefix=f"{system}-") as folder:
        output = Path(folder) / "figures.json"
        port = startup.free_port()
        with startup.running(command, Path(folder), port) as (pid, _):
            for benchmark, *options in chosen:
                measure.progress(f"{system}: {benchmark} {' '.join(options)}")
                where = ["--bootstrap-server", f"127.0.0.1:{port}", "--pid", str(pid)]
                run_script([benchmark, *where, *options, "--json", str(output)])
        run_script(["startup", "--command", command, "--rounds", "3", "--json", str(output)])
        for line in output.read_text().splitlines():
            figure = json.loads(line)
            facts[figure["name"]] = {"unit": figure["unit"], "better": figure["better"]}
            figures[figure["name"]][system].append(figure["value"])


def run_script(words: list[str]) -> None:
    subprocess.run([sys.executable, "-m", f"benchmarks.{words[0]}", *words[1:]], check=True, stdout=subprocess.DEVNULL)


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


def one_node(rounds: int, figures: Figures, facts: Facts, chosen: list[list[str]]) -> str:
    """The text of RESULTS.md that precedes its sections."""
    commands = "".join(f"    python -m benchmarks.{' '.join(words)}\n" for words in chosen)
    return f"""# Ottla beside JVM Kafka

Medians of {rounds} interleaved rounds, one system at a time, client and node on the same machine:
{machine()}.

{table(figures, facts)}

Made by

    export OTTLA_KAFKA_LIBS=...      # a folder with Kafka's jars
    export OTTLA_KAFKA_COMMAND=...   # runs one JVM Kafka node in the foreground on {{port}} and {{dir}}
    python -m benchmarks.compare --rounds {rounds}

which runs against each system

{commands}    python -m benchmarks.startup --rounds 3
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", choices=["ottla", "kafka"], help="measure one system, and write no results")
    options.add_argument("--benchmarks", nargs="+", help="only these, by name")
    options.add_argument("--ottla-command", default=OTTLA_COMMAND)
    options.add_argument("--kafka-command", default=os.environ.get("OTTLA_KAFKA_COMMAND"))
    options.add_argument("--raw", type=Path, metavar="FILE", help="keep every figure of every round as JSON")
    arguments = options.parse_args()
    commands = {"ottla": arguments.ottla_command, "kafka": arguments.kafka_command}
    systems = [arguments.only] if arguments.only else ["ottla", "kafka"]
    if commands["kafka"] is None and "kafka" in systems:
        options.error("--kafka-command or OTTLA_KAFKA_COMMAND must say how to run one node of JVM Kafka")
    chosen = [words for words in BENCHMARKS if not arguments.benchmarks or words[0] in arguments.benchmarks]
    if not os.environ.get("OTTLA_KAFKA_LIBS"):
        chosen = [words for words in chosen if "java" not in words]
        measure.progress("OTTLA_KAFKA_LIBS is not set: nothing is measured with the Java client")

    figures: Figures = defaultdict(lambda: defaultdict(list))
    facts: Facts = {}
    for number in range(arguments.rounds):
        # Whoever goes first in one round goes last in the next: a machine that warms up favours nobody.
        for system in systems if number % 2 == 0 else reversed(systems):
            measure.progress(f"round {number + 1} of {arguments.rounds}: {system}")
            run_round(system, commands[system], chosen, figures, facts)
            if arguments.raw is not None:
                arguments.raw.write_text(
                    json.dumps({"machine": machine(), "figures": figures, "facts": facts}, indent=1)
                )
    if arguments.only:
        for name, by_system in figures.items():
            print(f"{name:<45} {statistics.median(by_system[arguments.only]):>12,.2f} {facts[name]['unit']}")
        return
    results.write_section(None, one_node(arguments.rounds, figures, facts, chosen))
    measure.progress(f"written: {results.RESULTS}")


if __name__ == "__main__":
    main()
