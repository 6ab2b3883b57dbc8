"""Users whose Secrets cannot be updated delay the rotation of an authority for a bounded time, and no renewal."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ottla_operator.model.certificates import facts
from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.timestamps import instant
from ottla_operator.planning.certificates.user_wait import UserWait
from ottla_operator.planning.certificates.users import UNLISTED, UserSecret, users_without_trust

Worlds = Callable[..., Any]


def rotating(new_world: Worlds, which: str, overlap_s: int = 0, users: tuple[str, ...] = ("mallory",)) -> Any:
    """A rotation that was just requested, and Users that are never updated again."""
    world = new_world(users=["alice", *users])
    world.start(nodes=2)
    world.stuck = frozenset(users)
    world.asks(**{f"{which}_ca": Authority(rotation="2", overlap_s=overlap_s)})
    return world


@pytest.mark.parametrize("which", ["cluster", "clients"])
def test_user_that_cannot_be_updated_blocks_no_rotation(new_world: Worlds, which: str) -> None:
    world = rotating(new_world, which)
    before, started = world.state(which).present.certificate, world.now

    world.settle()

    assert world.state(which).present.certificate != before
    assert timedelta(minutes=10) < world.now - started < timedelta(minutes=25)


@pytest.mark.parametrize("which", ["cluster", "clients"])
def test_users_have_the_overlap_to_be_updated(new_world: Worlds, which: str) -> None:
    world = rotating(new_world, which, overlap_s=3600)
    started = world.now

    world.settle(rounds=200)

    assert timedelta(hours=2) < world.now - started < timedelta(hours=2, minutes=20), "then clients have it to read"


@pytest.mark.parametrize("overlap_s", [0, 30 * 86_400])
def test_no_user_delays_the_renewal_of_an_expiring_authority(new_world: Worlds, overlap_s: int) -> None:
    world = new_world(users=["alice", "mallory"])
    world.asks(cluster_ca=Authority(validity_days=2, renewal_days=1, overlap_s=overlap_s))
    world.start(nodes=2)
    world.stuck = frozenset({"mallory"})
    before = world.state("cluster").present.certificate
    world.now += timedelta(hours=33)

    for _ in range(25):
        world.act()

    assert world.state("cluster").present.certificate != before
    assert all(facts(it.leaf.certificate).not_after > facts(before).not_after for it in world.nodes)
    assert world.now < facts(before).not_after


def test_rotation_after_a_blocked_one_is_not_lost(new_world: Worlds) -> None:
    world = rotating(new_world, "clients")
    for _ in range(5):
        world.act()
    world.asks(clients_ca=Authority(rotation="3", overlap_s=0))

    world.settle(rounds=80)

    assert world.state("clients").origin.revision == "3"


def settled_without(world: Any) -> Any:
    world.settle(rounds=80)
    return {it["name"]: it.get("leftBehind") for it in world.plan().facts["certificates"]}


@pytest.mark.parametrize(("which", "entry"), [("cluster", "cluster-ca"), ("clients", "clients-ca")])
def test_users_left_behind_are_reported_once(new_world: Worlds, which: str, entry: str) -> None:
    world = rotating(new_world, which)

    found = settled_without(world)

    assert found.pop(entry) == {"users": 1, "first": ["mallory"]}
    assert set(found.values()) == {None}
    (step,) = world.left_behind
    assert str(step) == (
        f"continue the rotation of the {which} CA without User mallory: their clients cannot connect before their "
        "Secrets are updated; the status of each User has the reason"
    )


def test_report_ends_with_the_next_rotation(new_world: Worlds) -> None:
    world = rotating(new_world, "cluster")
    settled_without(world)
    world.stuck = frozenset()
    world.refresh("mallory")
    world.asks(cluster_ca=Authority(rotation="3", overlap_s=0))

    assert set(settled_without(world).values()) == {None}
    assert len(world.left_behind) == 1


def test_user_left_behind_once_is_not_waited_for_again(new_world: Worlds) -> None:
    world = rotating(new_world, "cluster")
    world.settle()
    started = world.now
    world.asks(cluster_ca=Authority(rotation="3", overlap_s=0))

    world.settle()

    assert world.now - started < timedelta(minutes=10), "it trusts neither authority"


def test_many_users_cost_a_bounded_message(new_world: Worlds) -> None:
    users = tuple(f"team-b/{number:03}" for number in range(99))
    world = rotating(new_world, "cluster", users=(*users, "team-a/etl"))
    for name in (*users, "team-a/etl"):
        world.secrets[name] = world.secrets["alice"]
    for _ in range(3):
        plan = world.act()

    assert plan.obstacle is not None
    named = "100 Users (team-a/etl, team-b/000, team-b/001 and 97 more)"
    assert plan.obstacle.message.endswith(f"for the Secret of {named} to trust the new one")
    for _ in range(14):
        plan = world.act()
    assert plan.obstacle is None
    annotation = world.secrets["demo-cluster-ca"].annotations["ottla.dev/authority"]
    assert world.state("cluster").left_behind.count == 100
    assert len(annotation) < 300


def test_time_without_an_operator_is_no_wait(new_world: Worlds) -> None:
    world = rotating(new_world, "cluster")
    for _ in range(3):
        world.act()
    world.now += timedelta(days=2)
    for _ in range(3):
        world.act()

    assert world.state("cluster").following is not None, "no User could be updated in these days"
    world.settle()


def test_unreadable_secret_counts_as_outdated(new_world: Worlds) -> None:
    world = rotating(new_world, "cluster", users=())
    world.act()
    state = world.state("cluster")

    found = users_without_trust([UNLISTED, UserSecret(user="b/x", is_readable=False)], state)

    assert found == ("*/*", "b/x")


def test_wait_counts_quarters_that_were_observed() -> None:
    now, hour = instant("2026-01-01T00:00:00Z"), timedelta(hours=1)
    wait = UserWait().advance(now, hour)
    assert (wait.at, wait.quarters, wait.ends_at(hour)) == ("2026-01-01T00:00:00Z", 0, "2026-01-01T01:00:00Z")

    assert wait.advance(now + timedelta(minutes=14), hour) == wait
    later = wait.advance(now + timedelta(hours=9), hour)

    assert (later.quarters, later.ends_at(hour)) == (1, "2026-01-01T09:45:00Z")
    assert not replace(later, quarters=3).is_over
    assert replace(later, quarters=4).advance(now + timedelta(days=9), hour) == replace(later, quarters=4)


def test_clock_that_jumped_back_begins_the_quarter_again() -> None:
    wait = UserWait(at="2027-01-01T00:00:00Z", quarters=2)

    found = wait.advance(instant("2026-01-01T00:00:00Z"), timedelta(hours=1))

    assert found == UserWait(at="2026-01-01T00:00:00Z", quarters=2)


def test_phase_names_what_it_continued_without(new_world: Worlds) -> None:
    world = rotating(new_world, "cluster")
    messages = [plan.obstacle.message for plan in (world.act() for _ in range(16)) if plan.obstacle is not None]

    assert any(it.endswith("the next phase follows after a pause, without User mallory") for it in messages)
    assert any(it.endswith("; it continued without User mallory") for it in messages)
