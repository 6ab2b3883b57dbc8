"""Settings of brokers and topics that the operator makes for a while, and takes away again whatever happens."""

from dataclasses import dataclass

from ottla_operator.model.scaling import ScalingRecord
from ottla_operator.planning.steps.cluster import AlterOwnConfigs
from ottla_operator.planning.steps.topic import AlterTopicConfigs

Setting = AlterOwnConfigs | AlterTopicConfigs


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What to set and what to take away, and the record of it."""

    sets: tuple[Setting, ...]
    lifts: tuple[Setting, ...]
    before: ScalingRecord
    """To be kept before any of it is done: all that is set, and that is going to be."""
    after: ScalingRecord
    """To be kept when all of it was done: without what was taken away."""
