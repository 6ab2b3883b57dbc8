"""Feature levels: finalized by the cluster, supported by its brokers, and their changes (KIP-584)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.client.admin_base import AdminBase
from ottla.client.connection import versions_request
from ottla.client.errors import raise_for
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


class UpgradeType(IntEnum):
    """The allowed direction of a change of a level: ``UpgradeType`` of UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Down, but not below a level whose records the lower levels cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDescription:
    """One feature; its level is 0 if it is not finalized."""

    level: int
    first_supported: int
    last_supported: int
    """Of the broker that responded; others may be older or newer."""


class FeatureAdmin(AdminBase):
    """Calls about feature levels."""

    async def describe_features(self) -> dict[str, FeatureDescription]:
        """Return every feature that the queried broker knows, by name."""
        request = versions_request()

        async def attempt() -> dict[str, FeatureDescription]:
            response = await self._send_to_any(request, ApiVersionsResponse)
            raise_for(response.error_code)
            finalized = {it.name: it.max_version_level for it in response.finalized_features}
            return {
                it.name: FeatureDescription(
                    level=finalized.get(it.name, 0), first_supported=it.min_version, last_supported=it.max_version
                )
                for it in sorted(response.supported_features, key=lambda it: it.name)
            }

        return await self._retry(attempt)

    async def update_features(self, levels: Mapping[str, int], upgrade_type: UpgradeType) -> None:
        """Finalize other levels, all or none.

        Raises:
            KafkaError: INVALID_UPDATE_VERSION if a node does not support a level, or the direction is not allowed;
                FEATURE_UPDATE_FAILED, ...
        """
        request = UpdateFeaturesRequest(
            timeout_ms=self._timeout_ms,
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
                for name, level in levels.items()
            ],
        )

        async def attempt() -> None:
            response = await self._send_to_any(request, UpdateFeaturesResponse)
            for result in response.results:
                raise_for(result.error_code, result.error_message)
            raise_for(response.error_code, response.error_message)

        await self._retry(attempt)
