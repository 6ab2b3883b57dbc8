"""Cost of many Topics and Users for the operator: `python -m benchmarks.operator_scale`.

The real operator process, three real nodes of Ottla, and `benchmarks.kubernetes_double` instead of the Kubernetes API.
A thousand Topics and then two hundred Users are created by one apply each; nothing is changed after that. The time
until all are Ready includes the brokers' time to create the topics.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import measure, three_nodes
from benchmarks.measure import Figure, Node
from confluent_kafka.admin import AdminClient

Document = dict[str, Any]

NAMESPACE = "bench"
RULES = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:ANONYMOUS\n"
NODES_OWN = frozenset({"Fetch", "FetchSnapshot", "BrokerHeartbeat", "BrokerRegistration", "Vote", "AlterPartition"})
"""Requests that only nodes send to each other."""
STALLED_S = 300


class Api:
    """The double, from outside."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def wait_until_up(self) -> None:
        """Wait until its process listens; raises URLError after `STALLED_S`."""
        began = time.perf_counter()
        while True:
            try:
                self.figures()
            except urllib.error.URLError:
                if time.perf_counter() - began > STALLED_S:
                    raise
                time.sleep(0.05)
            else:
                return

    def put(self, documents: list[Document]) -> None:
        body = json.dumps(documents).encode()
        request = urllib.request.Request(f"{self.address}/bench/objects", body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=60).read()

    def figures(self) -> Document:
        found: Document = json.loads(urllib.request.urlopen(f"{self.address}/bench/figures", timeout=60).read())
        return found

    def writes(self) -> int:
        return int(self.figures()["counts"].get("writes", 0))

    def wait_until_ready(self, plural: str, count: int) -> float:
        """Wait until ``count`` objects are Ready; return the elapsed seconds."""
        began, reported = time.perf_counter(), 0
        while (ready := int(self.figures()["ready"].get(plural, 0))) < count:
            if time.perf_counter() - began > STALLED_S:
                raise RuntimeError(f"{ready} of {count} {plural} are Ready after {STALLED_S} s")
            if ready // 100 > reported:
                reported = ready // 100
                measure.progress(f"{ready} of {count} {plural} are Ready after {time.perf_counter() - began:.1f} s")
            time.sleep(0.2)
        return time.perf_counter() - began


def manifest(kind: str, name: str, spec: Document, **more: Document) -> Document:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "ottla.dev/v1", "kind": kind, "metadata": metadata, "spec": spec, **more}


def topic(number: int, given: argparse.Namespace) -> Document:
    spec = {
        "clusterRef": {"name": "demo"},
        "partitions": given.partitions,
        "replicationFactor": 3,
        "config": {"retention.ms": "86400000"},
        "deletionPolicy": "Retain",
    }
    return manifest("Topic", f"topic-{number:04}", spec)


def user(number: int) -> Document:
    rule = {
        "resource": {"type": "topic", "name": f"topic-{number:04}", "patternType": "literal"},
        "operations": ["Read", "Describe"],
        "host": "*",
        "type": "allow",
    }
    spec = {
        "clusterRef": {"name": "demo"},
        "authentication": {"type": "scram-sha-512"},
        "authorization": {"rules": [rule]},
        "quotas": {"consumerByteRate": 1_000_000},
    }
    return manifest("User", f"user-{number:04}", spec)


def cluster(cluster_id: str) -> Document:
    pool = {"name": "main", "nodes": 3, "firstNodeId": 1, "roles": ["broker", "controller"]}
    config = dict(line.split("=") for line in RULES.splitlines())
    spec = {"pools": [{**pool, "storage": {"size": "1Gi"}}], "config": config}
    return manifest("Cluster", "demo", spec, status={"clusterId": cluster_id, "initialControllers": []})


@contextmanager
def running(module: str, *arguments: str, output: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module as a process, and keep its output."""
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdout=out, stderr=out, env={**os.environ, **environment}
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def kubeconfig(path: Path, address: str) -> Path:
    path.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],"
        f"clusters: [{{name: k, cluster: {{server: '{address}'}}}}], users: [{{name: u, user: {{token: t}}}}]}}"
    )
    return path


def requests(nodes: three_nodes.Cluster) -> int:
    """How many requests of clients the nodes have had."""
    total = 0.0
    for node in three_nodes.NODE_IDS:
        for line in nodes.metrics(node).splitlines():
            if line.startswith("kafka_network_requestmetrics_totaltimems_count{"):
                total += 0.0 if line.split('"')[1] in NODES_OWN else float(line.split()[-1])
    return int(total)


class Run:
    """One measurement, figure by figure."""

    def __init__(self, api: Api, operator: Node, nodes: three_nodes.Cluster) -> None:
        self.figures: list[Figure] = []
        self._api = api
        self._operator = operator
        self._nodes = nodes

    def until_ready(self, plural: str, documents: list[Document]) -> None:
        """Apply ``documents`` at once, and wait until all are Ready."""
        writes, asked, cpu_s = self._api.writes(), requests(self._nodes), self._operator.cpu_s()
        self._api.put(documents)
        count = len(documents)
        seconds = self._api.wait_until_ready(plural, count)
        self._note(f"{count} {plural} Ready", seconds, "s")
        self._note(f"{count} {plural}: writes to the API", self._api.writes() - writes, "")
        self._note(f"{count} {plural}: requests to brokers", requests(self._nodes) - asked, "")
        self._note(f"{count} {plural}: CPU of the operator", self._operator.cpu_s() - cpu_s, "s")
        self._note(f"{count} {plural}: resident", self._operator.rss_mib(), "MiB")

    def idle(self, seconds: float) -> None:
        """Wait while nothing changes. The operator resyncs all objects once in that time."""
        writes, asked, cpu_s = self._api.writes(), requests(self._nodes), self._operator.cpu_s()
        time.sleep(seconds)
        self._note("idle: CPU of the operator", (self._operator.cpu_s() - cpu_s) / seconds * 100, "% of a core")
        self._note("idle: writes to the API", self._api.writes() - writes, "")
        self._note("idle: requests to brokers", requests(self._nodes) - asked, "")
        self._note("idle: resident", self._operator.rss_mib(), "MiB")
        self._note("resident at most", self._operator.rss_peak_mib(), "MiB")

    def _note(self, name: str, value: float, unit: str) -> None:
        self.figures.append(Figure(name=name, value=value, unit=unit, better="lower"))
        measure.progress(f"{name}: {value:.2f} {unit}")


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--topics", type=int, default=1_000)
    options.add_argument("--partitions", type=int, default=1, help="of each Topic; each has three replicas")
    options.add_argument("--users", type=int, default=200)
    options.add_argument("--idle-s", type=float, default=60.0)
    options.add_argument("--resync-s", type=float, default=60.0, help="how often the operator looks at everything")
    options.add_argument("--port", type=int, default=23_000, help="the first of a few hundred that are free")
    options.add_argument("--keep", type=Path, help="a directory for what the processes say")
    options.add_argument("--json", type=Path, metavar="FILE", help="also append the figures to FILE")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = given.keep or Path(scratch)
        directory.mkdir(exist_ok=True)
        measure.report(measured(given, directory, Path(scratch)), given.json)


def measured(given: argparse.Namespace, directory: Path, scratch: Path) -> list[Figure]:
    """Start everything, and return the figures."""
    api = Api(given.port + 300)
    with (
        three_nodes.running("ottla", scratch / "nodes", given.port, None, RULES + three_nodes.ADMIN_LISTENER) as (
            nodes,
            _,
        ),
        running("benchmarks.kubernetes_double", str(given.port + 300), output=directory / "api.log"),
    ):
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap_server})
        cluster_id = admin.describe_cluster().result(30).cluster_id
        api.wait_until_up()
        api.put([cluster(cluster_id)])
        environment = {
            "KUBECONFIG": str(kubeconfig(scratch / "kubeconfig", api.address)),
            "BROKERS": nodes.bootstrap_server,
            "OTTLA_OPERATOR_HTTP_HOST": "127.0.0.1",
            "OTTLA_OPERATOR_HTTP_PORT": str(given.port + 301),
            "OTTLA_OPERATOR_RESYNC_S": str(given.resync_s),
            "POD_NAMESPACE": NAMESPACE,
            "POD_NAME": "operator-0",
        }
        log = directory / "operator.log"
        with running("benchmarks.operator_process", output=log, **environment) as operator:
            api.wait_until_ready("clusters", 1)
            run = Run(api, Node(operator.pid), nodes)
            run.until_ready("topics", [topic(number, given) for number in range(given.topics)])
            run.until_ready("users", [user(number) for number in range(given.users)])
            # Work that was started has ended by then, and its garbage is collected.
            time.sleep(10)
            run.idle(given.idle_s)
    return run.figures


if __name__ == "__main__":
    main()
