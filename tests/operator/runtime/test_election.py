"""One candidate's side of an election: by its own clock only, and never a leader for longer than others assume."""

import pytest

from ottla_operator.runtime.election import Election, LeaseRecord, LeaseTimings

TIMINGS = LeaseTimings()


def record(holder: str, version: str = "1", *, lease_s: float = 15, transitions: int = 0) -> LeaseRecord:
    return LeaseRecord(holder=holder, lease_s=lease_s, transitions=transitions, version=version)


def leader(sent_s: float = 100) -> Election:
    election = Election("me", TIMINGS)
    election.observe(None, sent_s)
    assert election.bid(sent_s) is not None
    election.won(record("me"), sent_s=sent_s, now_s=sent_s + 1)
    return election


def test_candidate_bids_without_a_lease() -> None:
    election = Election("me", TIMINGS)
    election.observe(None, 0)

    assert election.bid(0) == record("me", version="")
    assert not election.may_write(0)


@pytest.mark.parametrize(("now_s", "bids"), [(114.9, False), (115, True)], ids=["inside", "at-the-end"])
def test_unchanged_lease_is_taken_over_after_its_duration(now_s: float, bids: bool) -> None:
    election = Election("me", TIMINGS)
    election.observe(record("other"), 100)
    election.observe(record("other"), 110)

    bid = election.bid(now_s)

    assert (bid is not None) is bids
    if bid is not None:
        assert (bid.holder, bid.transitions, bid.version) == ("me", 1, "1")


def test_every_change_of_the_lease_restarts_the_wait() -> None:
    election = Election("me", TIMINGS)
    election.observe(record("other", "1"), 100)
    election.observe(record("other", "2"), 114)

    assert election.bid(128.9) is None
    assert election.bid(129) is not None


def test_duration_in_the_lease_is_used() -> None:
    election = Election("me", TIMINGS)
    election.observe(record("other", lease_s=60), 100)

    assert election.bid(159) is None
    assert election.bid(160) is not None


def test_released_lease_is_free_at_once() -> None:
    election = Election("me", TIMINGS)
    election.observe(record(""), 100)

    assert election.bid(100) is not None


@pytest.mark.parametrize(("now_s", "leads"), [(109.9, True), (110, False)], ids=["before", "at-the-deadline"])
def test_leadership_ends_relative_to_the_send_time(now_s: float, leads: bool) -> None:
    assert leader(sent_s=100).may_write(now_s) is leads


def test_renewal_extends_from_its_send_time() -> None:
    election = leader(sent_s=100)
    election.won(record("me", "2"), sent_s=105, now_s=109)

    assert election.may_write(114.9)
    assert not election.may_write(115)


def test_response_after_the_deadline_does_not_restore_leadership() -> None:
    election = leader(sent_s=100)
    election.won(record("me", "2"), sent_s=105, now_s=110.5)

    assert not election.may_write(110.5)
    assert election.bid(120) is None


def test_acquisition_slower_than_the_deadline_is_void() -> None:
    election = Election("me", TIMINGS)
    election.observe(None, 0)
    election.won(record("me"), sent_s=0, now_s=10)

    assert not election.may_write(10)


def test_observing_another_holder_ends_the_leadership() -> None:
    election = leader()
    election.observe(record("other", "2"), 102)

    assert not election.may_write(102)
    assert election.is_lost


def test_acquisition_whose_response_was_lost_is_renewed_without_a_transition() -> None:
    election = Election("me", TIMINGS)
    election.observe(record("me", "7", transitions=3), 100)

    assert not election.may_write(100)
    assert election.bid(100) == record("me", "7", transitions=3)


def test_release_clears_the_holder_and_is_final() -> None:
    election = leader()

    released = election.release()

    assert released is not None
    assert (released.holder, released.lease_s) == ("", 1)
    assert not election.may_write(100)
    assert election.bid(100) is None


def test_standby_has_nothing_to_release() -> None:
    election = Election("me", TIMINGS)
    election.observe(record("other"), 100)

    assert election.release() is None


@pytest.mark.parametrize(
    "timings",
    [
        {"lease_s": 10.0},
        {"retry_s": 10.0},
        {"retry_s": 0.0},
    ],
    ids=["deadline-as-long-as-the-lease", "retry-as-long-as-the-deadline", "no-pause"],
)
def test_timings_that_would_allow_two_leaders_or_none_are_rejected(timings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="longer than the one before"):
        LeaseTimings(**timings)
