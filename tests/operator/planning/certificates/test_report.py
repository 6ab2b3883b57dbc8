"""A rotation is in progress while nodes or Users have to act, and not while clients only have time to read Secrets."""

from collections.abc import Callable
from datetime import timedelta
from itertools import groupby
from typing import Any

import pytest

from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.conditions import AUTHORITY_CHANGING, AUTHORITY_OVERLAP
from ottla_operator.model.timestamps import instant, timestamp

Worlds = Callable[..., Any]
OVERLAP_S = 3_600


def rotating(new_world: Worlds, **authorities: Authority) -> Any:
    """A rotation that was just requested."""
    world = new_world(users=["alice"])
    world.start(nodes=2)
    world.asks(**authorities)
    return world


def until_settled(world: Any, rounds: int = 200) -> list[tuple[Any, Any]]:
    """Let everything act until nothing is left; return time and plan of each reconciliation before that."""
    seen = []
    for _ in range(rounds):
        now, plan = world.now, world.act()
        if plan.obstacle is None:
            return seen
        seen.append((now, plan))
    raise AssertionError(f"not settled: {seen[-1]}")


@pytest.mark.parametrize(
    ("which", "phase"), [("cluster", "both are trusted"), ("clients", "the old one is still trusted")]
)
def test_long_overlap_is_not_in_progress_but_the_phases_around_it_are(
    new_world: Worlds, which: str, phase: str
) -> None:
    world = rotating(new_world, **{f"{which}_ca": Authority(rotation="2", overlap_s=OVERLAP_S)})

    seen = until_settled(world)

    reasons = [reason for reason, _ in groupby(plan.obstacle.reason for _, plan in seen)]
    overlap = [(now, plan) for now, plan in seen if plan.obstacle.reason == AUTHORITY_OVERLAP]
    (wake_at,) = {plan.wake_at for _, plan in overlap}
    expected = [AUTHORITY_CHANGING, AUTHORITY_OVERLAP]
    # The clients CA is in its last phase then, and the next reconciliation ends the rotation.
    assert reasons == (expected if which == "clients" else [*expected, AUTHORITY_CHANGING])
    assert overlap[0][1].obstacle.message == (
        f"the {which} CA has another key, and {phase}: all nodes have it, and clients have until {wake_at} to read "
        "their Secrets"
    )
    assert all(now < instant(wake_at) for now, _ in overlap)
    assert timedelta(seconds=OVERLAP_S - 180) < instant(wake_at) - overlap[0][0] <= timedelta(seconds=OVERLAP_S)
    assert {plan.wake_at for _, plan in seen if plan.obstacle.reason == AUTHORITY_CHANGING} == {""}


@pytest.mark.parametrize("which", ["cluster", "clients"])
def test_rotation_without_an_overlap_is_in_progress_to_its_end(new_world: Worlds, which: str) -> None:
    world = rotating(new_world, **{f"{which}_ca": Authority(rotation="2", overlap_s=0)})

    assert {(plan.obstacle.reason, plan.wake_at) for _, plan in until_settled(world)} == {(AUTHORITY_CHANGING, "")}


def test_authority_in_progress_is_reported_before_the_overlap_of_the_other(new_world: Worlds) -> None:
    world = rotating(new_world, clients_ca=Authority(rotation="2", overlap_s=OVERLAP_S))
    while world.act().obstacle.reason != AUTHORITY_OVERLAP:
        pass
    world.asks(cluster_ca=Authority(rotation="2", overlap_s=0))

    plan = world.act()

    assert plan.obstacle.reason == AUTHORITY_CHANGING
    assert plan.obstacle.message.startswith("the cluster CA has another key")
    assert plan.wake_at, "the overlap ends at the same time as before"


def test_user_that_stays_outdated_is_in_progress_for_ten_minutes_only(new_world: Worlds) -> None:
    world = rotating(new_world, cluster_ca=Authority(rotation="2", overlap_s=OVERLAP_S))
    world.stuck = frozenset({"alice"})

    waits = [(now, plan) for now, plan in until_settled(world) if "for the Secret of User alice" in str(plan.obstacle)]

    in_progress = [now for now, plan in waits if plan.obstacle.reason == AUTHORITY_CHANGING]
    held = [(now, plan) for now, plan in waits if plan.obstacle.reason == AUTHORITY_OVERLAP]
    assert timedelta(minutes=8) < in_progress[-1] - in_progress[0] < timedelta(minutes=10)
    assert timedelta(minutes=45) < held[-1][0] - held[0][0] < timedelta(minutes=55)
    assert all(now < instant(plan.wake_at) <= now + timedelta(seconds=OVERLAP_S / 4) for now, plan in held)
    assert len({plan.wake_at for _, plan in held}) == 4, "each quarter of the bound ends with an observation"


def test_nodes_that_cannot_be_observed_are_in_progress_for_as_long_as_they_may_take(new_world: Worlds) -> None:
    world = rotating(new_world, cluster_ca=Authority(overlap_s=OVERLAP_S))
    del world.secrets["demo-cluster-ca"]

    seen = until_settled(world)

    first = next(now for now, plan in seen if plan.obstacle.reason == AUTHORITY_OVERLAP)
    assert timedelta(minutes=10) <= first - seen[0][0] < timedelta(minutes=14)
    assert timestamp(first) < next(plan.wake_at for now, plan in seen if now == first)
