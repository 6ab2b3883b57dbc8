"""Outcomes of attacks on a node, and the tables of `benchmarks.attacks` about them."""

import re
from dataclasses import dataclass
from typing import Final

from benchmarks import attack_plans, large_requests

LEVELS: Final = re.compile(r"\b(WARNING|ERROR|CRITICAL|OutOfMemoryError)\b")
P99_TIMES_MAX: Final = 2
P99_MS_MAX: Final = 20
GROWTH_MIB_MAX: Final = 64
NAMES: Final = {"ottla": "Ottla", "kafka": "JVM Kafka"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of one attack. Times are milliseconds, memory MiB, CPU in cores, counters how far they moved."""

    name: str
    system: str
    quiet_ms: dict[str, float]
    attack_ms: dict[str, float]
    rss_mib: tuple[float, float, float]
    """Before, at its peak, afterwards."""
    cores: dict[str, float]
    did: dict[str, float]
    """Rates of the attackers, per second."""
    served: int
    """Large requests that were served while the honest client's samples were taken."""
    rejections: int
    """Of the honest client's requests under attack: errors, and fetches that lacked a record."""
    metrics: dict[str, tuple[float, float]]
    """At the end of the attack, and how far that is from before."""
    lines: list[str]
    attack_s: float

    @property
    def p99_ratio(self) -> float:
        return max(self.attack_ms[f"{what} p99"] / self.quiet_ms[f"{what} p99"] for what in ("produce", "fetch"))

    @property
    def request_cpu_ms(self) -> float | None:
        """The node's CPU milliseconds for each large request that it served."""
        return 1000 * self.cores["node"] * self.attack_s / self.served if self.served else None

    def time_cells(self) -> list[str]:
        """Median and p99 of produce in quiet and under attack, then of fetch."""
        return [
            f"{values[f'{what} p50']:.2f}, {values[f'{what} p99']:.2f} ms"
            for what in ("produce", "fetch")
            for values in (self.quiet_ms, self.attack_ms)
        ]

    @property
    def out_of_memory(self) -> str | None:
        """The first line that the node logged about it."""
        return next((line for line in self.lines if "OutOfMemoryError" in line), None)

    def misses(self) -> list[str]:
        """Return the figures that miss the aim for large requests."""
        before_mib, peak_mib, _ = self.rss_mib
        p99_ms = max(self.attack_ms["produce p99"], self.attack_ms["fetch p99"])
        beyond = {
            "times": self.p99_ratio > P99_TIMES_MAX,
            "p99": p99_ms >= P99_MS_MAX,
            "memory": peak_mib - before_mib > GROWTH_MIB_MAX,
            f"{self.rejections} rejections": self.rejections > 0,
            "out of memory": self.out_of_memory is not None,
            "the node ended": self.rss_mib[2] == 0,
        }
        return [what for what, is_beyond in beyond.items() if is_beyond]


def table(outcomes: list[Outcome]) -> str:
    lines = [
        "| attack | produce p50, p99 quiet | under attack | fetch p50, p99 quiet | under attack | p99, times | "
        "memory before, peak, after | node, attackers | log lines |",
        "|-|-:|-:|-:|-:|-:|-:|-:|-:|",
    ]
    for one in outcomes:
        cells = [attack_plans.PLANS[one.name].title]
        cells += one.time_cells()
        cells.append(f"{one.p99_ratio:.2f}")
        cells.append(", ".join(f"{mib:.0f}" for mib in one.rss_mib) + " MiB")
        cells.append(f"{one.cores['node']:.2f}, {one.cores['attackers']:.2f} cores")
        cells.append(f"{len(one.lines)} in {one.attack_s:.0f} s")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def details(outcomes: list[Outcome], *, are_of_both: bool = False) -> str:
    """Return rates of the attackers, the metrics that show the attack, and the first line that the node logged."""
    lines = []
    for one in outcomes:
        did = ", ".join(f"{what} {rate:,.0f}/s" for what, rate in sorted(one.did.items()))
        metrics = ", ".join(f"`{name}` {value:,.0f} ({moved:+,.0f})" for name, (value, moved) in one.metrics.items())
        if are_of_both and not metrics and not one.lines:
            continue
        system = f"{NAMES[one.system]}, " if are_of_both else ""
        shown = f" {metrics}." if metrics else ""
        lines.append(f"- {system}{attack_plans.PLANS[one.name].title}: {did}.{shown}")
        if one.lines:
            line = one.out_of_memory or one.lines[0]
            found = LEVELS.search(line)
            assert found is not None, "why it is kept"
            lines.append(f"  `{line[found.start() :][:240]}`")
    return "\n".join(lines)


def large_table(outcomes: list[Outcome]) -> str:
    """A row for each large request and system."""
    lines = [
        "| 10 clients that repeat | node | produce p50, p99 quiet | under attack | fetch p50, p99 quiet "
        "| under attack | p99, times | memory before, peak, after | node | requests/s | CPU of a request "
        "| within the aim |",
        "|-|-|-:|-:|-:|-:|-:|-:|-:|-:|-:|-|",
    ]
    for one in outcomes:
        cells = [large_requests.REQUESTS[one.name].title, NAMES[one.system]]
        cells += one.time_cells()
        cells.append(f"{one.p99_ratio:.2f}")
        cells.append(", ".join(f"{mib:.0f}" for mib in one.rss_mib) + " MiB")
        cells.append(f"{one.cores['node']:.2f} cores")
        cells.append(f"{one.served / one.attack_s:,.1f}")
        cells.append("none served" if one.request_cpu_ms is None else f"{one.request_cpu_ms:,.2f} ms")
        cells.append(", ".join(one.misses()) or "yes")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def within_aim(outcomes: list[Outcome]) -> str:
    """Return how many rows of each system are within the aim."""
    parts = []
    for system, name in NAMES.items():
        rows = [one for one in outcomes if one.system == system]
        parts.append(f"{name} is within it in {sum(not one.misses() for one in rows)} of {len(rows)} rows")
    return ", ".join(parts) + "."
