"""Cost of the operator on a real Kubernetes: `python -m benchmarks.operator_on_kubernetes topics` or `roll`.

`topics`: a thousand Topics by one apply, until all are Ready, and the operator's writes and load when nothing
changes any more. `roll`: nine brokers in three racks, whose nodes are all restarted, one by one and rack by rack.

Needs kubectl, helm, KUBECONFIG, and the images ottla/operator:0.1.0 and ottla/broker:0.1.0 on every node. The operator
is installed or upgraded as release `ottla` in `ottla-system`, and stays; the Cluster has a namespace of its own, which
is removed at the end.
"""

import argparse
import json
import re
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.measure import Figure

Document = dict[str, Any]

SYSTEM, RELEASE = "ottla-system", "ottla"
STALLED_S = 900
WRITES = frozenset({"create", "update", "patch", "delete"})


def run(*command: str, text: str | None = None) -> str:
    """Run a command and return its output.

    Raises:
        RuntimeError: it failed; with its output.
    """
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


class Namespace:
    """A namespace of the benchmark's own, by kubectl."""

    def __init__(self, name: str) -> None:
        self.name = name

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        return run("kubectl", "--namespace", self.name, *arguments, text=text)

    def apply(self, documents: list[Document]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.kubectl("apply", "--server-side", "-f", "-", text=json.dumps(listed))

    def objects(self, plural: str) -> list[Document]:
        """Return all objects of one of Ottla's kinds, by one request."""
        path = f"/apis/ottla.dev/v1/namespaces/{self.name}/{plural}"
        found: list[Document] = json.loads(run("kubectl", "get", "--raw", path))["items"]
        return found

    def wait_until(self, is_so: Callable[[], bool], what: str) -> float:
        """Wait until ``is_so``; return the elapsed seconds."""
        began = time.perf_counter()
        while not is_so():
            if time.perf_counter() - began > STALLED_S:
                raise RuntimeError(f"{what}: not within {STALLED_S} s")
            time.sleep(0.5)
        return time.perf_counter() - began


class Operator:
    """The operator that leads."""

    def install(self) -> None:
        chart = ("helm", "upgrade", "--install", RELEASE, "charts/ottla-operator")
        run(*chart, "-n", SYSTEM, "--create-namespace", "--wait", "--set", "rbac.nodes=true,resyncSeconds=60")
        # The Lease may still name a pod of an earlier installation, until one of the new ones has taken over.
        names = ("kubectl", "-n", SYSTEM, "get", "pods", "-o", "name")
        began = time.perf_counter()
        while f"pod/{self.pod()}" not in run(*names).split():
            if time.perf_counter() - began > STALLED_S:
                raise RuntimeError(f"no pod of the operator leads after {STALLED_S} s")
            time.sleep(0.5)

    def pod(self) -> str:
        lease = json.loads(run("kubectl", "-n", SYSTEM, "get", "lease", RELEASE, "-o", "json"))
        return str(lease["spec"]["holderIdentity"]).rpartition("_")[0]

    def requests(self) -> Counter[tuple[str, str]]:
        """Return its number of requests by verb and resource, without those of its Lease."""
        pattern = re.compile(r"^ottla_operator_api_requests_total\{(.*)\} (\S+)$", re.MULTILINE)
        found = Counter[tuple[str, str]]()
        for labels, value in pattern.findall(self._metrics()):
            named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if named["resource"] != "leases":
                found[named["verb"], named["resource"]] += int(float(value))
        return found

    def writes(self) -> int:
        """Return its number of writes, without those of its Lease."""
        return sum(count for (verb, _), count in self.requests().items() if verb in WRITES)

    def cpu_s(self) -> float:
        return self._value("process_cpu_seconds_total")

    def rss_mib(self) -> float:
        return self._value("process_resident_memory_bytes") / 2**20

    def rss_peak_mib(self) -> float:
        program = "print(open('/proc/1/status').read())"
        status = run("kubectl", "-n", SYSTEM, "exec", self.pod(), "--", "/opt/ottla/bin/python", "-c", program)
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024

    def _value(self, name: str) -> float:
        return next(float(line.split()[1]) for line in self._metrics().splitlines() if line.startswith(f"{name} "))

    def _metrics(self) -> str:
        return run("kubectl", "get", "--raw", f"/api/v1/namespaces/{SYSTEM}/pods/{self.pod()}:8080/proxy/metrics")


def manifest(kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": "ottla.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def topic(name: str, partitions: int, replication_factor: int) -> Document:
    spec = {"clusterRef": {"name": "demo"}, "partitions": partitions, "replicationFactor": replication_factor}
    return manifest("Topic", name, {**spec, "config": {"retention.ms": "86400000"}})


def is_ready(document: Document) -> bool:
    """Return whether an object is Ready in its latest generation."""
    conditions = document.get("status", {}).get("conditions", [])
    generation = document["metadata"]["generation"]
    return any(
        (it["type"], it["status"]) == ("Ready", "True") and it.get("observedGeneration", generation) == generation
        for it in conditions
    )


@contextmanager
def cluster(spec: Document) -> Iterator[Namespace]:
    """Run a Cluster `demo` in a namespace of its own; that of an earlier run is not found again."""
    namespace = Namespace(f"bench-{uuid.uuid4().hex[:8]}")
    run("kubectl", "create", "namespace", namespace.name)
    try:
        namespace.apply([manifest("Cluster", "demo", spec)])
        seconds = namespace.wait_until(
            lambda: all(map(is_ready, namespace.objects("clusters"))), "a Cluster that is Ready"
        )
        measure.progress(f"the Cluster is Ready after {seconds:.1f} s")
        yield namespace
    finally:
        run("kubectl", "delete", "namespace", namespace.name, "--timeout=300s")


def topics(given: argparse.Namespace, operator: Operator) -> list[Figure]:
    """Apply many Topics at once, wait until all are Ready, and then until nothing has happened for a while."""
    figures: list[Figure] = []

    def note(name: str, value: float, unit: str) -> None:
        figures.append(Figure(name=name, value=value, unit=unit, better="lower"))
        measure.progress(f"{name}: {value:.2f} {unit}")

    nodes, count = given.nodes, given.topics
    with cluster({"pools": [{"name": "main", "nodes": nodes, "storage": {"size": "1Gi"}}]}) as namespace:
        writes, cpu_s, began = operator.writes(), operator.cpu_s(), time.perf_counter()
        namespace.apply([topic(f"topic-{number:04}", given.partitions, nodes) for number in range(count)])
        note(f"{count} Topics: the apply itself", time.perf_counter() - began, "s")
        namespace.wait_until(lambda: sum(map(is_ready, namespace.objects("topics"))) == count, "Topics that are Ready")
        note(f"{count} Topics Ready", time.perf_counter() - began, "s")
        note(f"{count} Topics: writes to the API", operator.writes() - writes, "")
        note(f"{count} Topics: CPU of the operator", operator.cpu_s() - cpu_s, "s")
        # Work that was started has ended by then.
        time.sleep(10)
        writes, cpu_s = operator.writes(), operator.cpu_s()
        time.sleep(given.idle_s)
        note("idle: writes to the API", operator.writes() - writes, "")
        note("idle: CPU of the operator", (operator.cpu_s() - cpu_s) / given.idle_s * 100, "% of a core")
        note("resident", operator.rss_mib(), "MiB")
        note("resident at most", operator.rss_peak_mib(), "MiB")
    return figures


def roll(given: argparse.Namespace, _: Operator) -> list[Figure]:
    """Restart every broker by another request of resources, one by one and rack by rack."""
    storage = {"size": "1Gi"}
    figures: list[Figure] = []
    controllers: Document = {"name": "main", "nodes": given.controllers, "roles": ["controller"], "storage": storage}
    brokers: Document = {
        "name": "more",
        "nodes": given.brokers,
        "roles": ["broker"],
        "firstNodeId": 10,
        "storage": storage,
    }
    spec: Document = {"rack": {"topologyKey": "topology.kubernetes.io/zone"}, "pools": [controllers, brokers]}
    with cluster(spec) as namespace:
        namespace.apply([topic("spread", given.partitions, 3)])
        namespace.wait_until(lambda: all(map(is_ready, namespace.objects("topics"))), "a Topic that is Ready")
        for turn, parallelism in enumerate(("Node", "Rack")):
            brokers["resources"] = {"requests": {"memory": f"{64 + turn}Mi"}}
            seconds = rolled(namespace, {**spec, "rolling": {"parallelism": parallelism}})
            figures.append(Figure(name=f"roll by {parallelism}", value=seconds, unit="s", better="lower"))
            measure.progress(f"{given.brokers} brokers, roll by {parallelism}: {seconds:.1f} s")
    return figures


def rolled(namespace: Namespace, spec: Document) -> float:
    """Apply the Cluster, and return the seconds until it is Ready with other pods for all of its brokers."""
    before = pods(namespace)

    def is_rolled() -> bool:
        return all(map(is_ready, namespace.objects("clusters"))) and not before & pods(namespace)

    namespace.apply([manifest("Cluster", "demo", spec)])
    return namespace.wait_until(is_rolled, "a Cluster that is Ready, with other brokers")


def pods(namespace: Namespace) -> set[str]:
    """Return the uids of the brokers' pods."""
    listed = json.loads(namespace.kubectl("get", "pods", "-l", "ottla.dev/pool=more", "-o", "json"))
    return {it["metadata"]["uid"] for it in listed["items"]}


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, metavar="FILE", help="also append the figures to FILE")
    kinds = options.add_subparsers(required=True)
    many = kinds.add_parser("topics", help="many Topics by one apply")
    many.add_argument("--topics", type=int, default=1_000)
    many.add_argument("--nodes", type=int, default=3, help="of the Cluster; each Topic has as many replicas")
    many.add_argument("--partitions", type=int, default=1, help="of each Topic")
    many.add_argument("--idle-s", type=float, default=60.0)
    many.set_defaults(measured=topics)
    rolls = kinds.add_parser("roll", help="brokers in three racks, one by one and rack by rack")
    rolls.add_argument("--brokers", type=int, default=9)
    rolls.add_argument("--controllers", type=int, default=3)
    rolls.add_argument("--partitions", type=int, default=18, help="of the Topic, with three replicas")
    rolls.set_defaults(measured=roll)
    given = options.parse_args()
    operator = Operator()
    operator.install()
    measure.report(given.measured(given, operator), given.json)


if __name__ == "__main__":
    main()
