"""Followers that do not fetch any more: when they are silent, and which in-sync sets do without them."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.replication.metrics import sample_replication
from ottla.replication.silent_followers import SilentFollowers
from ottla.types import NEVER_MS

SILENCE_MS = 1_000
WAIT_MS = 500


@pytest.fixture
def followers() -> SilentFollowers:
    made = SilentFollowers(lambda: SILENCE_MS)
    made.expect(2, 0)
    return made


def test_first_fetch_has_twice_the_time(followers: SilentFollowers) -> None:
    assert followers.due_ms == 2 * SILENCE_MS
    assert followers.update(2 * SILENCE_MS - 1) == []
    assert followers.update(2 * SILENCE_MS) == [2]
    assert (followers.silent, followers.due_ms) == ({2}, NEVER_MS)


def test_each_fetch_permits_its_wait_and_the_silence(followers: SilentFollowers) -> None:
    followers.on_fetch(2, 3_000, WAIT_MS)

    assert followers.update(followers.due_ms) == []
    assert followers.due_ms == 3_000 + WAIT_MS + SILENCE_MS
    assert followers.update(followers.due_ms) == [2]


def test_silent_follower_is_reported_once_until_it_fetches(followers: SilentFollowers) -> None:
    assert followers.update(2 * SILENCE_MS) == [2]
    assert followers.update(3 * SILENCE_MS) == []

    followers.on_fetch(2, 4_000, WAIT_MS)
    assert (followers.silent, followers.due_ms) == (set(), 4_000 + WAIT_MS + SILENCE_MS)
    assert followers.update(followers.due_ms) == [2]


def test_pause_of_this_process_is_not_silence(followers: SilentFollowers) -> None:
    """What the followers sent meanwhile has yet to be read."""
    assert followers.update(10_000) == []
    followers.on_fetch(2, 10_000, WAIT_MS)
    assert followers.update(10_000 + SILENCE_MS) == []


def test_unexpected_and_removed_followers_cost_nothing(followers: SilentFollowers) -> None:
    followers.on_fetch(9, 100, WAIT_MS)
    followers.remove([2, 7])
    followers.update(followers.due_ms)

    assert (followers.due_ms, followers.newest_fetch_ms) == (NEVER_MS, 100)


def test_expecting_a_silent_follower_again_changes_nothing(followers: SilentFollowers) -> None:
    followers.update(2 * SILENCE_MS)
    followers.expect(2, 5_000)

    assert followers.silent == {2}


def test_zero_turns_it_off() -> None:
    followers = SilentFollowers(lambda: 0)
    followers.expect(2, 0)

    assert followers.due_ms == NEVER_MS


def test_silent_follower_stays_where_too_few_members_would_be_left(pair: Any) -> None:
    pair.run(1_000)
    pair.cut(1, 2)
    pair[1].produce(b"a", timeout_ms=120_000)

    assert pair.shrink_time_ms(20_000) is None


def test_silent_follower_leaves_when_records_have_to_wait_for_it(trio: Any) -> None:
    """It had everything, and was known to be silent, when the record was appended."""
    trio.run(1_000)
    trio.cut(1, 3)
    assert trio.shrink_time_ms(10_000) is None
    assert sample_replication(trio[1].replicas).silent_followers == 1
    responses = trio[1].produce(b"a", timeout_ms=120_000)
    waited_ms = trio.shrink_time_ms(10_000)
    trio.settle()

    assert waited_ms is not None
    assert waited_ms <= 1_100
    assert ErrorCode(responses[0].error_code) is ErrorCode.NONE


def test_silent_follower_joins_again_when_it_fetches(trio: Any) -> None:
    trio.run(1_000)
    trio.cut(1, 3)
    trio[1].produce(b"a")
    trio.run(3_000)
    assert trio.controller.partition().isr == (1, 2)

    trio.heal()
    trio.run(3_000)
    assert trio.controller.partition().isr == (1, 2, 3)
    assert sample_replication(trio[1].replicas).silent_followers == 0
