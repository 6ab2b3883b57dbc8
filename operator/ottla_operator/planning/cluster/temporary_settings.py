"""Configs of brokers and topics that the operator sets for a while, and removes again after any crash."""

from dataclasses import dataclass

from ottla_operator.model.scaling import ScalingRecord
from ottla_operator.planning.steps.cluster import AlterOwnConfigs
from ottla_operator.planning.steps.topic import AlterTopicConfigs

Setting = AlterOwnConfigs | AlterTopicConfigs


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSettings:
    """Configs to set and to remove, and the record of them."""

    sets: tuple[Setting, ...]
    lifts: tuple[Setting, ...]
    before: ScalingRecord
    """To be written before the first step: all configs that are set, or will be."""
    after: ScalingRecord
    """To be written after the last step: without the removed ones."""
