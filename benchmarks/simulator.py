"""The simulator: simulated seconds per second of CPU, three nodes under light load, every invariant checked.

    python -m benchmarks.simulator

Three combined nodes, one topic of three partitions with three replicas, an idempotent producer with two batches a
second, a consumer, no faults. The pieces are timed one by one: on a host with other load, the fastest is the
cost of the code, and the mean that of the host.
"""

import argparse
import statistics
import time
from pathlib import Path

from benchmarks import measure

from ottla.simulator.runs.campaign import sparing_the_collector
from ottla.simulator.runs.plan import Plan, TopicPlan
from ottla.simulator.runs.simulation import Simulation

PIECE_S = 10
PLAN = Plan(
    seed=1,
    brokers=3,
    controllers=3,
    combined=True,
    fastest_ms=1,
    slowest_ms=3,
    drift_ppm_max=0,
    skew_ms_max=0,
    pause_ms=5_000,
    pace_ms=500,
    topics=(TopicPlan("t", 3, 3, 2, ((-1, True),), 1, 0),),
    overrides={"metadata.max.idle.interval.ms": "5000"},
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=int, default=300, help="how long to simulate")
    options.add_argument("--json", type=Path, metavar="FILE")
    arguments = options.parse_args()
    simulation = Simulation(PLAN.seed, plan=PLAN, faulty=False)
    simulation.form()
    simulation.work(PIECE_S * 1000)
    spent_s = []
    with sparing_the_collector():
        for _ in range(arguments.seconds // PIECE_S):
            started_s = time.process_time()
            simulation.cluster.run(PIECE_S * 1000)
            spent_s.append(time.process_time() - started_s)
    speeds = {"fastest": PIECE_S / min(spent_s), "mean": PIECE_S / statistics.mean(spent_s)}
    unit = "simulated s/CPU s"
    measure.report(
        [
            measure.Figure(name=f"simulator, {name} {PIECE_S} s", value=speed, unit=unit)
            for name, speed in speeds.items()
        ],
        arguments.json,
    )


if __name__ == "__main__":
    main()
