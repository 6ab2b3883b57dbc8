"""Feature levels go up and down, or stay, in Kafka's words (recorded from Kafka 4.3.1)."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
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
def test_a_level_that_cannot_be_is_refused_as_by_kafka(
    node: Any, name: str, level: int, how: int, message: str
) -> None:
    before = node.image.features

    answer = update(node, name, level, how)

    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message == (
        f"The update failed for all features since the following feature had an error: {message}"
    )
    assert node.image.features == before


def test_a_feature_goes_down_and_up_again(node: Any) -> None:
    assert update(node, "transaction.version", 0, SAFE).error_code == ErrorCode.NONE
    assert "transaction.version" not in node.image.features.levels

    assert update(node, "transaction.version", 2).error_code == ErrorCode.NONE
    assert node.image.features.levels["transaction.version"] == 2


def test_the_level_that_is_there_already_is_no_change(node: Any) -> None:
    key = FeatureUpdateKey(feature="metadata.version", max_version_level=30)

    assert node.records_of(UpdateFeaturesRequest(feature_updates=[key])) == []


def test_validate_only_changes_nothing(node: Any) -> None:
    assert update(node, "group.version", 0, SAFE, validate_only=True).error_code == ErrorCode.NONE
    assert node.image.features.levels["group.version"] == 1


def test_a_level_that_a_broker_lacks_is_refused(node: Any) -> None:
    update(node, "transaction.version", 1, SAFE)
    registration = node.registration(2)
    for feature in registration.features:
        if feature.name == "transaction.version":
            feature.max_supported_version = 1
    node.ask(registration)

    answer = update(node, "transaction.version", 2)

    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Broker 2 only supports versions 0-1" in answer.error_message
