"""Cluster-wide dynamic configs."""

import pytest

from ottla.config.broker_keys import BROKER_KEYS
from ottla_operator.model.broker_configs import dynamic_configs, static_configs
from ottla_operator.planning.cluster.broker_configs import config_change
from ottla_operator.planning.steps.cluster import AlterBrokerConfigs
from ottla_operator.ports.cluster_view import ClusterView


def view(**configs: str) -> ClusterView:
    present = {key.replace("_", "."): value for key, value in configs.items()}
    return ClusterView(cluster_id="c", brokers={0: False}, controller_id=0, voters=(), configs=present)


def test_every_config_is_either_dynamic_or_static() -> None:
    config = {"log.retention.ms": "1000", "num.partitions": "3", "unknown.key": "x"}
    assert dynamic_configs(config) == {"log.retention.ms": "1000"}
    assert static_configs(config) == {"num.partitions": "3", "unknown.key": "x"}


@pytest.mark.parametrize("key", sorted(key for key, it in BROKER_KEYS.items() if it.is_sensitive))
def test_sensitive_config_is_static(key: str) -> None:
    assert not dynamic_configs({key: "x"})


@pytest.mark.parametrize(
    ("wanted", "present", "change"),
    [
        ({}, {}, None),
        ({"log.retention.ms": "1000"}, {}, AlterBrokerConfigs({"log.retention.ms": "1000"}, ())),
        ({"log.retention.ms": "1000"}, {"log_retention_ms": "1000"}, None),
        ({"log.retention.ms": "01000"}, {"log_retention_ms": "1000"}, None),
        ({"log.cleanup.policy": "compact, delete"}, {"log_cleanup_policy": "compact,delete"}, None),
        ({"log.preallocate": "TRUE"}, {"log_preallocate": "true"}, None),
        ({"num.io.threads": "many"}, {"num_io_threads": "8"}, AlterBrokerConfigs({"num.io.threads": "many"}, ())),
        ({}, {"log_retention_ms": "1000"}, AlterBrokerConfigs({}, ("log.retention.ms",))),
        ({"num.partitions": "3"}, {}, None),
    ],
    ids=["nothing", "new", "there", "a number", "a list", "a boolean", "nonsense", "somebody else's", "static"],
)
def test_defaults_become_those_of_the_manifest(
    wanted: dict[str, str], present: dict[str, str], change: AlterBrokerConfigs | None
) -> None:
    assert config_change(wanted, view(**present)) == change


@pytest.mark.parametrize(("present", "upserts"), [("1", {}), ("2", {"min.insync.replicas": "1"})])
def test_default_that_cannot_be_removed_is_reset_to_kafkas(present: str, upserts: dict[str, str]) -> None:
    change = config_change({}, view(min_insync_replicas=present))
    assert change == (AlterBrokerConfigs(upserts, ()) if upserts else None)


def test_change_says_what_it_does() -> None:
    step = AlterBrokerConfigs({"log.retention.ms": "1000"}, ("num.io.threads",))
    assert str(step) == "set on all brokers: log.retention.ms=1000, num.io.threads to its default"
