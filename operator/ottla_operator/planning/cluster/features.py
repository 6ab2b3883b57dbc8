"""The next feature levels to finalize. Pure.

A level is raised only when all nodes run the image of the manifest: it may be impossible to lower it again, and a node
of the former release could not read records of the new level.
"""

from ottla_operator.model.features import FeaturePolicy
from ottla_operator.planning.steps.cluster import UpdateFeatures
from ottla_operator.ports.cluster_view import ClusterView


def next_levels(policy: FeaturePolicy, view: ClusterView) -> UpdateFeatures | None:
    """Return the next change of levels, downgrades first; None if there is nothing to do.

    Brokers reject a level that one of them does not support, and a lossy downgrade, with a message.
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
