"""Clusters of brokers that replicate, for the tests of this folder."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.purgatory import Delayed
from ottla.types import TopicPartition
from replicating_brokers import Cluster


@pytest.fixture
def new_cluster(serve: Callable[..., Delayed[Any]]) -> Callable[..., Cluster]:
    """``new_cluster(count, config=..., replication=..., racks=...)``."""
    return partial(Cluster, serve=serve)


@pytest.fixture
def pair(new_cluster: Callable[..., Cluster]) -> Cluster:
    """Two brokers; topic t has one partition, led by node 1, in sync on both."""
    cluster = new_cluster(2)
    cluster.controller.create_topic("t", (1, 2))
    cluster.settle()
    return cluster


@pytest.fixture
def trio(new_cluster: Callable[..., Cluster]) -> Cluster:
    """Three brokers; topic t has one partition, led by node 1, in sync on all, with min.insync.replicas 2."""
    cluster = new_cluster(3, config=LogConfig(min_insync_replicas=2))
    cluster.controller.create_topic("t", (1, 2, 3))
    cluster.settle()
    return cluster


@pytest.fixture
def t0() -> TopicPartition:
    return TopicPartition("t", 0)
