"""Feature levels: requests and errors of the admin client."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin_features import FeatureDescription, UpgradeType
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.wire.messages.registry import ApiKey
from ottla.wire.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

ResultT = TypeVar("ResultT")


def call_admin(broker: Any, call: Callable[[AdminClient], Awaitable[ResultT]]) -> ResultT:
    async def run() -> ResultT:
        async with broker, AdminClient([broker.endpoint]) as admin:
            return await call(admin)

    return asyncio.run(run())


def test_features_are_described_finalized_or_not(broker: Any) -> None:
    broker.scripts[ApiVersionsRequest] = lambda _: ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in broker.versions.items()
        ],
        supported_features=[
            SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30),
            SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
        ],
        finalized_features=[FinalizedFeatureKey(name="metadata.version", max_version_level=29, min_version_level=7)],
    )
    assert call_admin(broker, lambda admin: admin.describe_features()) == {
        "group.version": FeatureDescription(level=0, first_supported=0, last_supported=1),
        "metadata.version": FeatureDescription(level=29, first_supported=7, last_supported=30),
    }


@pytest.mark.parametrize("way", UpgradeType)
def test_levels_are_finalized_together(broker: Any, way: UpgradeType) -> None:
    broker.scripts[UpdateFeaturesRequest] = lambda _: UpdateFeaturesResponse()
    call_admin(broker, lambda admin: admin.update_features({"a": 1, "b": 2}, way))
    (request,) = broker.sent(UpdateFeaturesRequest)
    assert [(it.feature, it.max_version_level, it.upgrade_type) for it in request.feature_updates] == [
        ("a", 1, way),
        ("b", 2, way),
    ]


@pytest.mark.parametrize(
    "response",
    [
        UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="no way back"),
        UpdateFeaturesResponse(
            results=[
                UpdatableFeatureResult(
                    feature="a", error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="no way back"
                )
            ]
        ),
    ],
    ids=["of all", "of one"],
)
def test_error_has_kafkas_message(broker: Any, response: UpdateFeaturesResponse) -> None:
    # Results of each feature are there up to version 1.
    broker.versions[ApiKey.UPDATE_FEATURES] = (0, 1)
    broker.scripts[UpdateFeaturesRequest] = lambda _: response
    with pytest.raises(KafkaError, match="no way back"):
        call_admin(broker, lambda admin: admin.update_features({"a": 1}, UpgradeType.SAFE_DOWNGRADE))
