"""`FeatureControl`: raising and lowering the finalized level of a feature.

Source: KIP-584, KIP-1022; FeatureControlManager of Apache Kafka 4.3, whose error texts these are.
"""

from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.configs import EVERY_BROKER
from ottla.metadata.metadata_version import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from ottla.metadata.records import MetadataRecord
from ottla.types import NodeId
from ottla.wire.messages.metadata_log import ConfigRecord, FeatureLevelRecord
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class FeatureControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(self, state: ControllerState, *, node_id: NodeId) -> None:
        self._state = state
        self._node_id = node_id

    def update(self, request: UpdateFeaturesRequest, *, kraft_version: int) -> ControllerResult[UpdateFeaturesResponse]:
        """Change all of the features, or none when one of them may not change.

        Raises:
            KafkaError: INVALID_UPDATE_VERSION, FEATURE_UPDATE_FAILED.
        """
        records: list[MetadataRecord] = []
        names = [update.feature for update in request.feature_updates]
        for update in request.feature_updates:
            if names.count(update.feature) > 1:
                raise _failure(
                    f"Invalid update version {update.max_version_level} for feature {update.feature}. "
                    "The feature is named more than once."
                )
            records += self._update(update, kraft_version)
        response = UpdateFeaturesResponse(
            error_message=None,
            results=[UpdatableFeatureResult(feature=name, error_message=None) for name in names],
        )
        return ControllerResult(response, [] if request.validate_only else records)

    def _update(self, update: FeatureUpdateKey, kraft_version: int) -> list[MetadataRecord]:
        name, level = update.feature, update.max_version_level
        image = self._state.image
        current = kraft_version if name == KRAFT_VERSION else image.features.levels.get(name, 0)
        upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
        prefix = f"Invalid update version {level} for feature {name}."
        if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            raise _failure(f"{prefix} The controller does not support the given upgrade type.")
        if upgrade_type != UPGRADE and name not in SUPPORTED_FEATURES:
            raise _failure(f"{prefix} Feature {name} not found.")
        if level < current:
            self._check_downgrade(name, level, current, upgrade_type, prefix)
        else:
            if upgrade_type != UPGRADE and level > current:
                raise _failure(f"{prefix} Can't downgrade to a newer version.")
            self._check_supported(name, level, prefix)
        if level == current:
            return []
        if name == KRAFT_VERSION:
            raise _failure(f"{prefix} This release cannot change it: format the storage with --standalone instead.")
        records = [MetadataRecord(FeatureLevelRecord(name=name, feature_level=level), 0)]
        if name == ELIGIBLE_LEADER_REPLICAS_VERSION and level > 0:
            records += min_isr_default_records(self._state)
        return records

    def _check_downgrade(self, name: str, level: int, current: int, upgrade_type: int, prefix: str) -> None:
        if name == KRAFT_VERSION:
            raise _failure(f"{prefix} Can't downgrade the version of this feature.")
        if upgrade_type == UPGRADE:
            raise _failure(
                f"{prefix} Can't downgrade the version of this feature without setting the upgrade type to either "
                "safe or unsafe downgrade."
            )
        self._check_supported(name, level, prefix)
        if name == METADATA_VERSION:
            unsafe = upgrade_type == UNSAFE_DOWNGRADE
            reason = (
                "Unsafe metadata downgrade is not supported in this version."
                if unsafe
                else "Refusing to perform the requested downgrade because it might delete metadata information."
            )
            raise _failure(f"Unsupported metadata.version downgrade from {current} to {level}. {reason}")

    def _check_supported(self, name: str, level: int, prefix: str) -> None:
        supported = SUPPORTED_FEATURES.get(name)
        if supported is None:
            raise _failure(f"{prefix} Local controller {self._node_id} does not support this feature.")
        if not supported.first <= level <= supported.last:
            raise _failure(
                f"{prefix} Local controller {self._node_id} only supports versions {supported.first}-{supported.last}"
            )
        for _, broker in sorted(self._state.image.cluster.brokers.items()):
            offered = broker.features.get(name)
            if level > 0 and (offered is None or not offered.first <= level <= offered.last):
                known = (
                    "does not support this feature"
                    if offered is None
                    else (f"only supports versions {offered.first}-{offered.last}")
                )
                raise _failure(f"{prefix} Broker {broker.broker_id} {known}.")


def min_isr_default_records(state: ControllerState, default: str = "1") -> list[MetadataRecord]:
    """Return what gives every broker the same min.insync.replicas, which eligible leader replicas rest on (KIP-966)."""
    if "min.insync.replicas" in state.image.configs.of(EVERY_BROKER):
        return []
    record = ConfigRecord(resource_type=EVERY_BROKER.type, resource_name="", name="min.insync.replicas", value=default)
    return [MetadataRecord(record, 0)]


def _failure(message: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"The update failed for all features since the following feature had an error: {message}",
    )
