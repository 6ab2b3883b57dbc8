"""The next feature levels to finalize."""

import pytest

from ottla_operator.model.features import FeaturePolicy
from ottla_operator.planning.cluster.features import next_levels
from ottla_operator.planning.steps.cluster import UpdateFeatures
from ottla_operator.ports.cluster_view import ClusterView, FeatureView

VIEW = ClusterView(
    cluster_id="c",
    brokers={0: False},
    controller_id=0,
    voters=(),
    features={
        "group.version": FeatureView(level=1, last_supported=1),
        "metadata.version": FeatureView(level=25, last_supported=30),
    },
)


@pytest.mark.parametrize(
    ("policy", "step"),
    [
        ({}, None),
        ({"policy": "Manual"}, None),
        ({"policy": "AfterUpgrade"}, UpdateFeatures({"metadata.version": 30}, is_down=False)),
        ({"levels": {"metadata.version": 25}}, None),
        ({"levels": {"metadata.version": 26}}, UpdateFeatures({"metadata.version": 26}, is_down=False)),
        ({"policy": "AfterUpgrade", "levels": {"metadata.version": 25}}, None),
        ({"levels": {"metadata.version": 24}}, UpdateFeatures({"metadata.version": 24}, is_down=True)),
        (
            {"policy": "AfterUpgrade", "levels": {"group.version": 0}},
            UpdateFeatures({"group.version": 0}, is_down=True),
        ),
        ({"levels": {"new.version": 1}}, UpdateFeatures({"new.version": 1}, is_down=False)),
    ],
    ids=[
        "nothing said",
        "by hand",
        "after an upgrade",
        "as it is",
        "one level",
        "a level holds the policy back",
        "down",
        "down comes first",
        "unknown: brokers refuse it",
    ],
)
def test_next_change_of_levels(policy: dict[str, object], step: UpdateFeatures | None) -> None:
    assert next_levels(FeaturePolicy.parse(policy), VIEW) == step


def test_change_says_what_it_does() -> None:
    assert str(UpdateFeatures({"a": 1, "b": 2}, is_down=False)) == "finalize a=1, b=2"
