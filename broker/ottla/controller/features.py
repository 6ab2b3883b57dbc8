"""`FeatureControl`: raising and lowering the finalized level of a feature.

Source: KIP-584, KIP-1022; FeatureControlManager of Apache Kafka 4.3, whose error texts these are.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from ottla.controller.configs import MIN_INSYNC_REPLICAS
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.configs import EVERY_BROKER, ConfigResource
from ottla.metadata.metadata_version import (
    CONTROLLER_REGISTRATION_LEVEL,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_CHANGED_LEVELS,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    SUPPORTED_FEATURES,
)
from ottla.metadata.records import MetadataRecord
from ottla.quoting import cut_name
from ottla.types import NodeId
from ottla.wire.messages.metadata_log import ConfigRecord, FeatureLevelRecord, NoOpRecord
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3

_DEPENDENCIES: Final = {(ELIGIBLE_LEADER_REPLICAS_VERSION, 1): (METADATA_VERSION, 23)}
"""By feature and level: the feature and level that it depends on."""

UpgradeKraftVersion: TypeAlias = Callable[[int, bool], None]
"""Raises kraft.version in the quorum (or only validates it, when the second argument is true).

Raises KafkaError when the quorum rejects it, for example INVALID_UPDATE_VERSION.
"""


class FeatureControl:
    """Decides on the newest state; changes nothing itself, but for the quorum's own kraft.version.

    Args of the constructor:
        default_min_isr: min.insync.replicas of server.properties.
    """

    def __init__(
        self,
        state: ControllerState,
        *,
        node_id: NodeId,
        default_min_isr: str,
        upgrade_kraft_version: UpgradeKraftVersion,
    ) -> None:
        self._state = state
        self._node_id = node_id
        self._default_min_isr = default_min_isr
        self._upgrade_kraft_version = upgrade_kraft_version

    def update(
        self, request: UpdateFeaturesRequest, *, kraft_version: int, voter_ids: Iterable[NodeId]
    ) -> ControllerResult[UpdateFeaturesResponse]:
        """Change all of the features, or none when one of the changes is invalid.

        Raises:
            KafkaError: INVALID_UPDATE_VERSION, or the quorum's error for kraft.version.
        """
        records: list[MetadataRecord] = []
        names = [update.feature for update in request.feature_updates]
        proposed = {**self._state.image.features.levels, KRAFT_VERSION: kraft_version}
        proposed |= {update.feature: update.max_version_level for update in request.feature_updates}
        kraft_update = None
        for update in request.feature_updates:
            if names.count(update.feature) > 1:
                raise _failure(
                    f"Invalid update version {update.max_version_level} for feature {cut_name(update.feature)}. "
                    "The feature is named more than once."
                )
            current = kraft_version if update.feature == KRAFT_VERSION else None
            if self._check(update, current, proposed, list(voter_ids)):
                if update.feature == KRAFT_VERSION:
                    kraft_update = update.max_version_level
                else:
                    records += self._records(update)
        if kraft_update is not None:
            try:
                self._upgrade_kraft_version(kraft_update, request.validate_only)
            except KafkaError as error:
                raise _failure(error.message, error.code) from None
            # The quorum's records do not complete the response: this one is appended after them and does.
            records.append(MetadataRecord(NoOpRecord(), 0))
        response = UpdateFeaturesResponse(
            error_message=None,
            results=[UpdatableFeatureResult(feature=name, error_message=None) for name in names],
        )
        return ControllerResult(response, [] if request.validate_only else records)

    def _records(self, update: FeatureUpdateKey) -> list[MetadataRecord]:
        name, level = update.feature, update.max_version_level
        records = [MetadataRecord(FeatureLevelRecord(name=name, feature_level=level), 0)]
        if name == ELIGIBLE_LEADER_REPLICAS_VERSION and level > 0:
            records += min_isr_records(self._state, self._default_min_isr)
        return records

    def _check(
        self,
        update: FeatureUpdateKey,
        kraft_version: int | None,
        proposed: Mapping[str, int],
        voter_ids: list[NodeId],
    ) -> bool:
        """Return whether the update changes anything; raise when it is invalid."""
        name, level = update.feature, update.max_version_level
        current = self._state.image.features.levels.get(name, 0) if kraft_version is None else kraft_version
        upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
        prefix = f"Invalid update version {level} for feature {cut_name(name)}."
        if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            raise _failure(f"{prefix} The controller does not support the given upgrade type.")
        if level < 0:
            raise _failure(f"{prefix} A feature version cannot be less than 0.")
        reason = self._reason_not_supported(name, level, voter_ids)
        if reason is not None:
            raise _failure(f"{prefix} {reason}")
        if level < current and upgrade_type == UPGRADE:
            raise _failure(
                f"{prefix} Can't downgrade the version of this feature without setting the upgrade type to either "
                "safe or unsafe downgrade."
            )
        if level > current and upgrade_type != UPGRADE:
            raise _failure(f"{prefix} Can't downgrade to a newer version.")
        if name not in SUPPORTED_FEATURES:
            raise _failure(f"{prefix} Feature {cut_name(name)} not found.")
        if level < current:
            _check_downgrade(name, level, current, upgrade_type, prefix)
        needed = _DEPENDENCIES.get((name, level))
        if needed is not None and proposed.get(needed[0], 0) < needed[1]:
            raise _failure(
                f"{prefix} {name} could not be set to {level} because it depends on {needed[0]}={needed[1]} "
                f"({METADATA_VERSION_NAMES[needed[1]]})"
            )
        return level != current

    def _reason_not_supported(self, name: str, level: int, voter_ids: list[NodeId]) -> str | None:
        """Return why some node does not support that level; None when every broker and controller does."""
        cluster = self._state.image.cluster
        supported = {f"Local controller {self._node_id}": SUPPORTED_FEATURES.get(name)}
        for broker_id, broker in sorted(cluster.brokers.items()):
            supported[f"Broker {broker_id}"] = broker.features.get(name)
        if self._state.image.features.metadata_version >= CONTROLLER_REGISTRATION_LEVEL:
            for controller_id, controller in sorted(cluster.controllers.items()):
                if controller_id != self._node_id:
                    supported[f"Controller {controller_id}"] = controller.features.get(name)
            for voter_id in voter_ids:
                if voter_id != self._node_id and voter_id not in cluster.controllers:
                    return f"controller {voter_id} has not registered, and may not support this feature"
        for node, offered in supported.items():
            first, last = offered or (0, 0)
            if not first <= level <= last:
                if (first, last) == (0, 0):
                    return f"{node} does not support this feature."
                return f"{node} only supports versions {first}-{last}"
        return None


def _check_downgrade(name: str, level: int, current: int, upgrade_type: int, prefix: str) -> None:
    if name == KRAFT_VERSION:
        raise _failure(f"{prefix} Can't downgrade the version of this feature.")
    if name == METADATA_VERSION and any(level < changed <= current for changed in METADATA_CHANGED_LEVELS):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if upgrade_type == UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise _failure(f"Unsupported metadata.version downgrade from {current} to {level}. {reason}")


def min_isr_records(state: ControllerState, default: str) -> list[MetadataRecord]:
    """Return records that give every broker the same min.insync.replicas, which ELR is based on (KIP-966)."""
    records: list[tuple[ConfigResource, str | None]] = []
    if MIN_INSYNC_REPLICAS not in state.image.configs.of(EVERY_BROKER):
        records.append((EVERY_BROKER, default))
    records += [
        (resource, None)
        for resource, settings in sorted(state.image.configs.resources.items())
        if resource.type is EVERY_BROKER.type and resource != EVERY_BROKER and MIN_INSYNC_REPLICAS in settings
    ]
    return [
        MetadataRecord(
            ConfigRecord(
                resource_type=resource.type, resource_name=resource.name, name=MIN_INSYNC_REPLICAS, value=value
            ),
            0,
        )
        for resource, value in records
    ]


def _failure(message: str | None, code: ErrorCode = ErrorCode.INVALID_UPDATE_VERSION) -> KafkaError:
    return KafkaError(
        code,
        f"The update failed for all features since the following feature had an error: {message}",
    )
