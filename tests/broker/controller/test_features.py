"""Feature levels are upgraded, downgraded or rejected, with Kafka's messages (recorded from Kafka 4.3.1)."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.configs import EVERY_BROKER, ConfigResource
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def update(node: Any, name: str, level: int, how: int = UPGRADE, *, validate_only: bool = False) -> Any:
    key = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=how)
    return node.ask(UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only))


@pytest.mark.parametrize(
    ("name", "level", "how", "message"),
    [
        (
            "metadata.version",
            31,
            UPGRADE,
            "Invalid update version 31 for feature metadata.version. Local controller 1 only supports versions 7-30",
        ),
        (
            "metadata.version",
            29,
            UPGRADE,
            "Invalid update version 29 for feature metadata.version. Can't downgrade the version of this feature "
            "without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            "metadata.version",
            29,
            SAFE,
            "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested downgrade because "
            "it might delete metadata information.",
        ),
        (
            "metadata.version",
            29,
            UNSAFE,
            "Unsupported metadata.version downgrade from 30 to 29. Unsafe metadata downgrade is not supported in this "
            "version.",
        ),
        (
            "nope",
            1,
            UPGRADE,
            "Invalid update version 1 for feature nope. Local controller 1 does not support this feature.",
        ),
        ("nope", 0, SAFE, "Invalid update version 0 for feature nope. Feature nope not found."),
        (
            "kraft.version",
            0,
            SAFE,
            "Invalid update version 0 for feature kraft.version. Can't downgrade the version of this feature.",
        ),
    ],
)
def test_invalid_level_is_rejected_as_by_kafka(node: Any, name: str, level: int, how: int, message: str) -> None:
    before = node.image.features

    response = update(node, name, level, how)

    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.error_message == (
        f"The update failed for all features since the following feature had an error: {message}"
    )
    assert node.image.features == before


def test_feature_is_downgraded_and_upgraded(node: Any) -> None:
    assert update(node, "transaction.version", 0, SAFE).error_code == ErrorCode.NONE
    assert "transaction.version" not in node.image.features.levels

    assert update(node, "transaction.version", 2).error_code == ErrorCode.NONE
    assert node.image.features.levels["transaction.version"] == 2


def test_current_level_is_no_change(node: Any) -> None:
    key = FeatureUpdateKey(feature="metadata.version", max_version_level=30)

    assert node.records_of(UpdateFeaturesRequest(feature_updates=[key])) == []


def test_validate_only_changes_nothing(node: Any) -> None:
    assert update(node, "group.version", 0, SAFE, validate_only=True).error_code == ErrorCode.NONE
    assert node.image.features.levels["group.version"] == 1


def test_level_that_a_broker_does_not_support_is_rejected(node: Any) -> None:
    update(node, "transaction.version", 1, SAFE)
    registration = node.registration(2)
    for feature in registration.features:
        if feature.name == "transaction.version":
            feature.max_supported_version = 1
    node.ask(registration)

    response = update(node, "transaction.version", 2)

    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Broker 2 only supports versions 0-1" in response.error_message


ELR = "eligible.leader.replicas.version"


def test_level_that_a_controller_does_not_support_is_rejected(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, controllers=3, metadata_version=29)
    lacking = cluster.controller_registration(102, features={"metadata.version": (7, 29)})
    assert cluster.ask(lacking).error_code == ErrorCode.NONE

    response = update(cluster, "metadata.version", 30)
    cluster.ask(cluster.controller_registration(102))

    assert "Controller 102 only supports versions 7-29" in response.error_message
    assert update(cluster, "metadata.version", 30).error_code == ErrorCode.NONE
    assert cluster.image.features.metadata_version == 30


def test_unregistered_voter_blocks_an_upgrade(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, controllers=1, metadata_version=29)
    cluster.replicas[101].voters.node_ids.append(102)

    response = update(cluster, "metadata.version", 30)

    assert "controller 102 has not registered, and may not support this feature" in response.error_message


@pytest.mark.parametrize(
    ("present", "wanted", "rejected"),
    [
        pytest.param(29, 23, False, id="nothing-changed-between"),
        pytest.param(29, 22, True, id="over-the-eligible-replicas"),
        pytest.param(22, 18, False, id="down-to-directories"),
        pytest.param(22, 16, True, id="over-the-directories"),
    ],
)
def test_metadata_version_is_downgraded_if_the_records_are_equal(
    new_cluster: Callable[..., Any], present: int, wanted: int, rejected: bool
) -> None:
    cluster = new_cluster(1, metadata_version=present, features={ELR: 0})

    response = update(cluster, "metadata.version", wanted, SAFE)

    assert (response.error_code == ErrorCode.INVALID_UPDATE_VERSION) == rejected
    assert cluster.image.features.metadata_version == (present if rejected else wanted)


def test_eligible_leader_replicas_need_a_metadata_version(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, metadata_version=22)
    rejected = update(cluster, ELR, 1)
    keys = [
        FeatureUpdateKey(feature=ELR, max_version_level=1),
        FeatureUpdateKey(feature="metadata.version", max_version_level=23),
    ]

    both = cluster.ask(UpdateFeaturesRequest(feature_updates=keys))

    assert rejected.error_message.endswith(
        f"{ELR} could not be set to 1 because it depends on metadata.version=23 (4.0-IV1)"
    )
    assert both.error_code == ErrorCode.NONE
    assert cluster.image.features.is_elr_enabled


def test_eligible_leader_replicas_need_one_min_isr_on_all_brokers(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, 2, features={ELR: 0}, static={"min.insync.replicas": "2"})
    cluster.configure(ConfigResourceType.BROKER, "2", "min.insync.replicas", "1")

    update(cluster, ELR, 1)

    configs = cluster.image.configs
    assert configs.of(EVERY_BROKER) == {"min.insync.replicas": "2"}
    assert configs.of(ConfigResource(ConfigResourceType.BROKER, "2")) == {}


def test_kraft_version_is_changed_by_the_quorum(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1)
    cluster.replicas[101].kraft_version = 0

    checked = update(cluster, "kraft.version", 1, validate_only=True)
    raised = update(cluster, "kraft.version", 1)

    assert (checked.error_code, raised.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert cluster.replicas[101].upgrades == [(1, 1, True), (1, 1, False)]
    assert "kraft.version" not in cluster.image.features.levels


def test_error_of_the_quorum_is_reported(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1)
    cluster.replicas[101].kraft_version = 0
    cluster.log.rejects_with = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "another change is under way")

    response = update(cluster, "kraft.version", 1)

    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert response.error_message.endswith("had an error: another change is under way")
