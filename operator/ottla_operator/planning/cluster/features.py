"""Which feature levels are finalized next. Pure.

A level is raised only when all nodes run what the manifest asks for: there may be no way back over it, and a node of
the former release could not read what is written from then on.
"""

from ottla_operator.model.features import FeaturePolicy
from ottla_operator.planning.steps.cluster import UpdateFeatures
from ottla_operator.ports.cluster_view import ClusterView


def next_levels(policy: FeaturePolicy, view: ClusterView) -> UpdateFeatures | None:
    """Return the change of levels that ``policy`` asks for, those that go down first; None when there is nothing to do.

    Brokers refuse a level that one of them does not have, and a way down that would lose something, in words.
    """
    wanted = dict(policy.levels)
    if policy.follows_upgrades:
        wanted = {name: feature.last_supported for name, feature in view.features.items()} | wanted
    changed = {
        name: level for name, level in wanted.items() if name not in view.features or view.features[name].level != level
    }
    down = {
        name: level for name, level in changed.items() if name in view.features and level < view.features[name].level
    }
    if down:
        return UpdateFeatures(down, is_down=True)
    return UpdateFeatures(changed, is_down=False) if changed else None
