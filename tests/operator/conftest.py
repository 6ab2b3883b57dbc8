"""Builders of manifests, brokers and an API server in memory, and free ports."""

import itertools
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from fake_api import FakeApi
from fake_brokers import FakeBrokers

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.manager import ControllerManager

Document = dict[str, Any]

PORTS = 12_000, 20_000
"""Below the ports of other tests' nodes and the system's ephemeral ports."""
LISTENERS, PORTS_APART = 9, 10
"""Ports of one local node, and the distance to the next node's."""


@pytest.fixture(scope="session")
def free_ports(ports_of_worker: Callable[..., Iterator[int]]) -> Callable[..., int]:
    """Return a function that finds the first port of a free range for so many local nodes."""
    candidates = ports_of_worker(*PORTS, PORTS_APART)

    def find(nodes: int = 1) -> int:
        while True:
            firsts = list(itertools.islice(candidates, nodes))
            is_contiguous = firsts[-1] - firsts[0] == (nodes - 1) * PORTS_APART
            if is_contiguous and all(is_free(first + port) for first in firsts for port in range(LISTENERS)):
                return firsts[0]

    def is_free(port: int) -> bool:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
        return True

    return find


@pytest.fixture
def brokers() -> FakeBrokers:
    return FakeBrokers()


@pytest.fixture
def topic_manifest() -> Callable[..., Document]:
    """Return a builder: ``topic_manifest(name="flights", partitions=6, **spec)``."""

    def build(name: str = "flights", partitions: int = 6, **spec: Any) -> Document:
        return {
            "apiVersion": "ottla.dev/v1",
            "kind": "Topic",
            "metadata": {"name": name},
            "spec": {"clusterRef": {"name": "demo"}, "partitions": partitions, **spec},
        }

    return build


@pytest.fixture
def user_manifest() -> Callable[..., Document]:
    """Return a builder: ``user_manifest("alice", rules=[...], type="tls", **spec)``; without rules it has one."""

    def build(
        name: str = "alice", *, rules: Sequence[Document] | None = None, type: str = "scram-sha-512", **spec: Any
    ) -> Document:
        read = {"resource": {"type": "topic", "name": "flights"}, "operations": ["Read"]}
        authentication = {"type": type, **spec.pop("authentication", {})}
        return {
            "apiVersion": "ottla.dev/v1",
            "kind": "User",
            "metadata": {"name": name},
            "spec": {
                "clusterRef": {"name": "demo"},
                "authentication": authentication,
                "authorization": {"rules": [read] if rules is None else list(rules)},
                **spec,
            },
        }

    return build


@pytest.fixture
def cluster_manifest() -> Callable[..., Document]:
    """Return a builder: ``cluster_manifest(name="demo", config={...}, spec={...}, **pool)``."""

    def build(
        name: str = "demo", config: Mapping[str, str] | None = None, spec: Mapping[str, Any] | None = None, **pool: Any
    ) -> Document:
        spec = {**(spec or {}), "pools": [{"name": "main", "nodes": 1, "storage": {"size": "1Gi"}, **pool}]}
        if config is not None:
            spec["config"] = dict(config)
        return {"apiVersion": "ottla.dev/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}

    return build


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def controller(api: FakeApi, brokers: FakeBrokers) -> ControllerManager:
    return ControllerManager(
        api,
        lambda namespace: KubernetesHost(api, namespace, "ottla/broker:1"),
        brokers.connect,
        now=lambda: "2026-01-01T00:00:00Z",
    )


@pytest.fixture
def with_cluster(api: FakeApi, cluster_manifest: Callable[..., Document]) -> Document:
    return api.put({**cluster_manifest(), "status": {"bootstrapServers": "demo-bootstrap.kafka.svc:9092"}})
