"""Two objects of one topic: the older one has it, in every order of calls."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.model.topic import Topic
from ottla_operator.planning.precedence import older_claim

Builder = Callable[..., dict[str, Any]]


@pytest.fixture
def claim(topic_manifest: Builder) -> Callable[..., Topic]:
    def build(name: str, created: str = "2026-01-01T00:00:00Z", **metadata: Any) -> Topic:
        manifest = topic_manifest(name, topicName="shared", **metadata.pop("spec", {}))
        manifest["metadata"].update({"creationTimestamp": created, **metadata})
        return Topic.parse(manifest)

    return build


def test_single_claim_has_no_older_one(claim: Callable[..., Topic]) -> None:
    topic = claim("a")

    assert older_claim(topic, [topic]) is None


def test_older_object_wins(claim: Callable[..., Topic]) -> None:
    old, new = claim("z", "2026-01-01T00:00:00Z"), claim("a", "2026-01-01T00:00:01Z")

    assert older_claim(new, [new, old]) == old.metadata.key
    assert older_claim(old, [new, old]) is None


def test_of_the_same_second_the_first_name_wins(claim: Callable[..., Topic]) -> None:
    first, second = claim("a"), claim("b")

    assert older_claim(second, [first, second]) == first.metadata.key
    assert older_claim(first, [second, first]) is None


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"namespace": "elsewhere"}, id="other-namespace"),
        pytest.param({"spec": {"clusterRef": {"name": "other"}}}, id="other-cluster"),
        pytest.param({"deletionTimestamp": "2026-01-02T00:00:00Z"}, id="being-deleted"),
    ],
)
def test_claims_that_do_not_conflict(claim: Callable[..., Topic], other: dict[str, Any]) -> None:
    new = claim("b", "2026-01-01T00:00:01Z")

    assert older_claim(new, [claim("a", **other)]) is None
