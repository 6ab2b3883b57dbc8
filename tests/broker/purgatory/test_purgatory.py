"""A waiting operation ends once: when one of its keys is checked and its condition holds, or at its deadline."""

import weakref
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.purgatory import Delayed, Purgatory


class Condition:
    """A condition that the test fulfils; it counts how often it was tried."""

    def __init__(self) -> None:
        self.holds = False
        self.tries = 0

    def try_complete(self) -> str | None:
        self.tries += 1
        return "open" if self.holds else None


def wait(purgatory: Purgatory[str], condition: Condition, *keys: str, deadline_ms: int = 100) -> Delayed[str]:
    return purgatory.watch(
        keys, deadline_ms=deadline_ms, try_complete=condition.try_complete, on_deadline=lambda: "too late"
    )


def test_fulfilled_operation_does_not_wait() -> None:
    purgatory: Purgatory[str] = Purgatory()
    condition = Condition()
    condition.holds = True

    assert wait(purgatory, condition, "a").value == "open"
    assert len(purgatory) == 0
    assert purgatory.next_deadline_ms() is None
    assert purgatory.check("a") == 0


@pytest.mark.parametrize("key", ["a", "b"])
def test_any_key_completes_the_operation_once(key: str) -> None:
    purgatory: Purgatory[str] = Purgatory()
    condition = Condition()
    delayed = wait(purgatory, condition, "a", "b")
    condition.holds = True

    assert purgatory.check("c") == 0
    assert not delayed.is_complete
    assert purgatory.check(key) == 1
    assert delayed.value == "open"
    assert purgatory.check("a") == purgatory.check("b") == 0
    assert len(purgatory) == 0


def test_check_of_unfulfilled_operation_leaves_it_waiting() -> None:
    purgatory: Purgatory[str] = Purgatory()
    condition = Condition()
    delayed = wait(purgatory, condition, "a")

    assert purgatory.check("a") == 0
    assert purgatory.check("a") == 0

    assert not delayed.is_complete
    assert condition.tries == 3  # when added, and at both checks
    assert len(purgatory) == 1


@pytest.mark.parametrize(("now_ms", "expired"), [(99, 0), (100, 1), (101, 1)])
def test_operation_expires_at_its_deadline_not_before(now_ms: int, expired: int) -> None:
    purgatory: Purgatory[str] = Purgatory()
    delayed = wait(purgatory, Condition(), "a", deadline_ms=100)

    assert purgatory.expire(now_ms) == expired
    assert delayed.is_complete == bool(expired)
    assert len(purgatory) == 1 - expired


def test_next_deadline_is_the_earliest_of_waiting_operations() -> None:
    purgatory: Purgatory[str] = Purgatory()
    condition = Condition()
    wait(purgatory, condition, "a", deadline_ms=50)
    wait(purgatory, Condition(), "b", deadline_ms=70)

    assert purgatory.next_deadline_ms() == 50
    condition.holds = True
    purgatory.check("a")
    assert purgatory.next_deadline_ms() == 70


def test_expired_operation_is_removed_from_all_its_keys() -> None:
    purgatory: Purgatory[str] = Purgatory()
    condition = Condition()
    wait(purgatory, condition, "a", "b", deadline_ms=10)
    purgatory.expire(10)
    condition.holds = True

    assert purgatory.check("a") == purgatory.check("b") == 0
    assert condition.tries == 1


def test_completion_may_start_a_new_wait_for_the_same_key() -> None:
    purgatory: Purgatory[str] = Purgatory()
    first, second, third = Condition(), Condition(), Condition()
    waiting: list[Delayed[str]] = []
    wait(purgatory, first, "a").on_complete(lambda _: waiting.append(wait(purgatory, third, "a")))
    waiting.append(wait(purgatory, second, "a"))
    first.holds = True

    assert purgatory.check("a") == 1
    second.holds = third.holds = True

    assert purgatory.check("a") == 2
    assert [delayed.value for delayed in waiting] == ["open", "open"]


def test_ended_operations_of_a_busy_key_are_purged() -> None:
    purgatory: Purgatory[str] = Purgatory()
    for _ in range(10_000):
        condition = Condition()
        wait(purgatory, condition, "busy", "quiet", deadline_ms=10**9)
        condition.holds = True
        purgatory.check("busy")

    assert len(purgatory) == 0
    assert len(purgatory._deadlines) <= 1_001
    assert sum(len(waiting) for waiting in purgatory._by_key.values()) <= 1_001


def test_abandoned_operation_is_not_tried_and_drops_its_references() -> None:
    purgatory: Purgatory[str] = Purgatory()
    condition = Condition()
    held = weakref.ref(condition)
    delayed = wait(purgatory, condition, "a", deadline_ms=10**9)
    other = wait(purgatory, Condition(), "a", deadline_ms=50)
    del condition

    delayed.abandon()

    assert held() is None
    assert len(purgatory) == 1
    assert purgatory.check("a") == 0
    assert purgatory.next_deadline_ms() == 50
    assert purgatory.expire(10**9) == 1
    assert other.value == "too late"


def test_abandoned_operations_are_purged() -> None:
    purgatory: Purgatory[str] = Purgatory()
    for _ in range(10_000):
        wait(purgatory, Condition(), "quiet", deadline_ms=10**9).abandon()

    assert len(purgatory) == 0
    assert len(purgatory._deadlines) <= 1_001
    assert len(purgatory._by_key.get("quiet", ())) <= 1_001


class PurgatoryAgainstModel(RuleBasedStateMachine):
    """Any order of adding, fulfilling, checking and expiring has the results of a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.purgatory: Purgatory[str] = Purgatory()
        self.waiting: list[tuple[Condition, frozenset[str], int, Delayed[str]]] = []
        self.now_ms = 0

    @rule(keys=st.frozensets(st.sampled_from("abc")), wait_ms=st.integers(1, 20))
    def enter(self, keys: frozenset[str], wait_ms: int) -> None:
        condition = Condition()
        delayed = wait(self.purgatory, condition, *sorted(keys), deadline_ms=self.now_ms + wait_ms)
        self.waiting.append((condition, keys, self.now_ms + wait_ms, delayed))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def fulfil_one(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.waiting))[0].holds = True

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def abandon_one(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(entry)
        entry[3].abandon()

    @rule(key=st.sampled_from("abc"))
    def check(self, key: str) -> None:
        self.expect(self.purgatory.check(key), "open", lambda condition, keys, _: condition.holds and key in keys)

    @rule(milliseconds=st.integers(0, 10))
    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.expect(self.purgatory.expire(self.now_ms), "too late", lambda _, __, deadline: deadline <= self.now_ms)

    def expect(self, ended: int, value: str, should_end: Callable[[Condition, frozenset[str], int], bool]) -> None:
        expected = [entry for entry in self.waiting if should_end(*entry[:3])]
        self.waiting = [entry for entry in self.waiting if entry not in expected]
        assert ended == len(expected)
        assert [entry[3].value for entry in expected] == [value] * len(expected)

    @invariant()
    def agree(self) -> None:
        assert len(self.purgatory) == len(self.waiting)
        assert not any(delayed.is_complete for *_, delayed in self.waiting)
        assert self.purgatory.next_deadline_ms() == min((entry[2] for entry in self.waiting), default=None)


TestPurgatoryAgainstModel = PurgatoryAgainstModel.TestCase


def test_operation_that_ends_leaves_its_keys_to_those_that_still_wait() -> None:
    purgatory: Purgatory[str] = Purgatory()
    first, second = Condition(), Condition()
    wait(purgatory, first, "a", "b")
    waiting = wait(purgatory, second, "b")
    first.holds = True
    purgatory.check("a")

    assert {key: len(operations) for key, operations in purgatory._by_key.items()} == {"b": 1}
    assert (first.tries, second.tries) == (2, 1)
    assert not waiting.is_complete


def test_operation_tried_by_its_caller_is_not_tried_when_added() -> None:
    purgatory: Purgatory[str] = Purgatory()
    condition = Condition()
    purgatory.watch(
        ["a"], deadline_ms=100, try_complete=condition.try_complete, on_deadline=lambda: "too late", is_tried=True
    )
    tries_when_added = condition.tries
    purgatory.check("a")

    assert (tries_when_added, condition.tries) == (0, 1)
