"""Cost of a fleet for one operator on a real Kubernetes: `python -m benchmarks.operator_fleet`.

Fifty Clusters of one node, each in a namespace of its own, with 40 Topics and 10 Users each, by default. Measured are
the time until all are Ready, the requests and the load of the operator while nothing changes, and then how long single
changes of Topics take until they are Ready. Needs what `benchmarks.operator_on_kubernetes` needs; its namespaces are
removed.
"""

import argparse
import json
import random
import statistics
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.measure import Figure
from benchmarks.operator_on_kubernetes import Namespace, Operator, is_ready, manifest, run
from kubernetes import client, config

Document = dict[str, Any]

GROUP, VERSION = "ottla.dev", "v1"
POLL_S = 3.0
"""Between two listings of a whole kind, which cost the API server something, too."""
STALLED_S = 1_800
CHANGE_POLL_S = 0.02


def cluster() -> Document:
    """Return a Cluster of one node, with TLS, passwords and rules, as production has them."""
    spec = {
        "pools": [{"name": "main", "nodes": 1, "storage": {"size": "1Gi"}}],
        "tls": {},
        "listeners": [{"name": "clients", "port": 9094, "tls": True, "authentication": {"type": "scram-sha-512"}}],
        "authorization": {"superUsers": ["User:admin"]},
    }
    return manifest("Cluster", "demo", spec)


def topic(number: int) -> Document:
    spec = {"clusterRef": {"name": "demo"}, "partitions": 1, "replicationFactor": 1}
    return manifest("Topic", f"topic-{number:02}", {**spec, "config": {"retention.ms": "86400000"}})


def user(number: int, topics: int) -> Document:
    resource = {"type": "topic", "name": f"topic-{number % topics:02}"}
    spec = {
        "clusterRef": {"name": "demo"},
        "authentication": {"type": "scram-sha-512"},
        "authorization": {"rules": [{"resource": resource, "operations": ["Read", "Describe"]}]},
    }
    return manifest("User", f"user-{number:02}", spec)


@contextmanager
def namespaces(count: int) -> Iterator[list[Namespace]]:
    """Create namespaces, and remove them at the end."""
    run_id = uuid.uuid4().hex[:6]
    names = [f"fleet-{run_id}-{number:02}" for number in range(count)]
    listed = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    run("kubectl", "apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
    try:
        yield [Namespace(name) for name in names]
    finally:
        run("kubectl", "delete", "namespace", *names, "--wait=false")


def ready_counts(prefix: str) -> dict[str, int]:
    """Return how many objects of each kind are Ready, in namespaces that begin with ``prefix``."""
    found = {}
    for plural in ("clusters", "topics", "users"):
        items: list[Document] = json.loads(run("kubectl", "get", "--raw", f"/apis/{GROUP}/{VERSION}/{plural}"))["items"]
        found[plural] = sum(is_ready(it) for it in items if it["metadata"]["namespace"].startswith(prefix))
    return found


def wait_ready(prefix: str, wanted: dict[str, int]) -> dict[str, float]:
    """Return after how many seconds all objects of each kind were Ready."""
    began, done = time.perf_counter(), dict[str, float]()
    while len(done) < len(wanted):
        counts, elapsed_s = ready_counts(prefix), time.perf_counter() - began
        for plural, count in wanted.items():
            if counts[plural] == count:
                done.setdefault(plural, elapsed_s)
        measure.progress(f"{counts} Ready after {elapsed_s:.0f} s")
        if elapsed_s > STALLED_S:
            raise RuntimeError(f"only {counts} are Ready after {STALLED_S} s")
        time.sleep(POLL_S)
    return done


def changes(targets: list[Namespace], topics: int, count: int) -> list[float]:
    """Change single Topics, one after the other; return the seconds until each was Ready."""
    config.load_kube_config()
    api = client.CustomObjectsApi()
    chosen, found = random.Random(1), []
    for number in range(count):
        place = (GROUP, VERSION, chosen.choice(targets).name, "topics", f"topic-{chosen.randrange(topics):02}")
        retention = {"spec": {"config": {"retention.ms": str(1_000_000 + number)}}}
        began = time.perf_counter()
        api.patch_namespaced_custom_object(*place, retention)
        while not is_ready(api.get_namespaced_custom_object(*place)):
            if time.perf_counter() - began > STALLED_S:
                raise RuntimeError(f"{place} is not Ready after {STALLED_S} s")
            time.sleep(CHANGE_POLL_S)
        found.append(time.perf_counter() - began)
    return found


def fleet(given: argparse.Namespace, operator: Operator) -> list[Figure]:
    """Create the fleet, and measure it."""
    figures: list[Figure] = []

    def note(name: str, value: float, unit: str) -> None:
        figures.append(Figure(name=name, value=value, unit=unit, better="lower"))
        measure.progress(f"{name}: {value:.2f} {unit}")

    topics, users = given.topics // given.clusters, given.users // given.clusters
    with namespaces(given.clusters) as targets:
        cpu_s = operator.cpu_s()
        documents = [cluster(), *map(topic, range(topics)), *(user(number, topics) for number in range(users))]
        for target in targets:
            target.apply(documents)
        wanted = {
            plural: len(targets) * each for plural, each in (("clusters", 1), ("topics", topics), ("users", users))
        }
        prefix = targets[0].name.rpartition("-")[0]
        for plural, seconds in wait_ready(prefix, wanted).items():
            note(f"{wanted[plural]} {plural} Ready, after the last apply", seconds, "s")
        note("CPU of the operator until then", operator.cpu_s() - cpu_s, "s")
        time.sleep(given.settle_s)
        before, cpu_s = operator.requests(), operator.cpu_s()
        time.sleep(given.idle_s)
        seen = operator.requests() - before
        for verb in sorted({verb for verb, _ in seen}):
            count = sum(it for (its, _), it in seen.items() if its == verb)
            note(f"idle for {given.idle_s:g} s: {verb}", count, "requests")
        note("idle: CPU of the operator", (operator.cpu_s() - cpu_s) / given.idle_s * 100, "% of a core")
        measure.progress(f"most of these: {seen.most_common(12)}")
        found = sorted(changes(targets, topics, given.changes))
        note(f"{given.changes} changes of one Topic until it is Ready: median", statistics.median(found), "s")
        note("- p99", found[min(len(found) - 1, len(found) * 99 // 100)], "s")
        note("- longest", found[-1], "s")
        note("resident", operator.rss_mib(), "MiB")
        note("resident at most", operator.rss_peak_mib(), "MiB")
    return figures


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, metavar="FILE", help="also append the figures to FILE")
    options.add_argument("--clusters", type=int, default=50)
    options.add_argument("--topics", type=int, default=2_000, help="of all Clusters")
    options.add_argument("--users", type=int, default=500, help="of all Clusters")
    options.add_argument("--changes", type=int, default=100)
    options.add_argument("--settle-s", type=float, default=70.0, help="until nothing is left to do")
    options.add_argument("--idle-s", type=float, default=60.0, help="as long as from resync to resync")
    given = options.parse_args()
    operator = Operator()
    operator.install()
    measure.report(fleet(given, operator), given.json)


if __name__ == "__main__":
    main()
