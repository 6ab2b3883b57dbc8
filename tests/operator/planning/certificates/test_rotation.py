"""All peers verify each other while authorities are replaced, with late readers, and with kills at any point.

First every order of events in a small model, then long walks through a larger one with corruption in between.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.secret import Secret

Worlds = Callable[..., Any]


@pytest.mark.parametrize("which", ["cluster", "clients"])
def test_every_order_of_events_is_sound(new_world: Worlds, which: str) -> None:
    world = new_world()
    world.start(nodes=3)
    before = world.state(which).present.certificate
    world.asks(**{f"{which}_ca": Authority(rotation="2", overlap_s=0)})
    frontier, seen, ends = [world], {world.canonical()}, 0

    while frontier:
        world = frontier.pop()
        is_end = True
        for follower in _followers(world):
            follower.check()
            key = follower.canonical()
            if key == world.canonical():
                continue
            is_end = False
            if key not in seen:
                seen.add(key)
                frontier.append(follower)
        if is_end:
            ends += 1
            state = world.state(which)
            assert state.present.certificate != before
            assert not state.is_changing, "no replacement waits for ever"
    assert ends == 1, "every order of events ends the same way"
    assert len(seen) > 40, "and many things can happen"


def _followers(world: Any) -> list[Any]:
    followers = []
    for writes in range(1, len(world.plan().steps) + 1):
        follower = world.copy()
        follower.operate(writes)
        followers.append(follower)
    for number in range(len(world.nodes)):
        follower = world.copy()
        follower.read(number)
        followers.append(follower)
    follower = world.copy()
    follower.refresh("alice")
    followers.append(follower)
    follower = world.copy()
    follower.wait(11)
    return [*followers, follower]


EVENTS = st.one_of(
    st.tuples(st.just("operate"), st.integers(0, 4)),
    st.tuples(st.just("read"), st.integers(0, 2)),
    st.tuples(st.just("refresh"), st.sampled_from(["alice", "bob"])),
    st.tuples(st.just("wait"), st.sampled_from([1, 11, 61, 700])),
    st.tuples(st.just("rotate"), st.sampled_from(["cluster_ca", "clients_ca"])),
    st.tuples(st.just("own"), st.sampled_from(["cluster_ca", "clients_ca"])),
    st.tuples(st.just("lose"), st.sampled_from(["cluster-ca", "clients-ca", "operator"])),
    st.tuples(st.just("lose key"), st.sampled_from(["cluster-ca", "clients-ca"])),
    st.tuples(st.just("lose nodes"), st.none()),
    st.tuples(st.just("scale"), st.sampled_from(["one", "two"])),
    st.tuples(st.just("stick"), st.just("bob")),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(EVENTS, max_size=40))
def test_walk_with_damage_is_sound_and_ends_well(new_world: Worlds, events: list[tuple[str, Any]]) -> None:
    world = new_world(users=["alice", "bob"])
    world.start(nodes=3)

    for number, (what, which) in enumerate(events):
        _happens(world, what, which, number)
        world.check()

    world.settle()
    assert not world.plan().steps
    world.check()


def _happens(world: Any, what: str, which: Any, number: int) -> None:
    if what in {"operate", "read", "refresh", "wait"}:
        getattr(world, what)(which)
    elif what == "rotate":
        world.asks(**{which: Authority(rotation=str(number), overlap_s=0)})
    elif what == "own":
        root = world.issuer.authority("mine", "root", now=world.now, days=1000)
        entries = {"ca.crt": root.certificate, "ca.key": root.key}
        world.secrets[f"mine-{which}"] = Secret(name=f"mine-{which}", entries=entries)
        world.asks(**{which: Authority(secret_name=f"mine-{which}", overlap_s=0)})
    elif what == "stick":
        world.stuck |= {which}
    elif what == "scale":
        world.names = world.names ^ {which}
    elif what == "lose nodes":
        # With an authority lost as well, the nodes' trust would be unknown, and no trusted authority could sign.
        if all("ca.key" in _entries(world, name) for name in ("cluster-ca", "clients-ca")) and not world.behind_since:
            world.secrets.pop("demo-nodes", None)
    elif "node.pem" in _entries(world, "nodes") and what == "lose":
        world.secrets.pop(f"demo-{which}", None)
    elif "node.pem" in _entries(world, "nodes") and f"demo-{which}" in world.secrets:
        entries = {key: value for key, value in _entries(world, which).items() if key != "ca.key"}
        world.secrets[f"demo-{which}"] = replace(world.secrets[f"demo-{which}"], entries=entries)


def _entries(world: Any, name: str) -> Mapping[str, str]:
    secret = world.secrets.get(f"demo-{name}")
    return {} if secret is None else secret.entries
