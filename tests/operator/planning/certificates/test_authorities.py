"""One authority: its Secret is read back, and corrupt parts are recognized."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ottla_operator.model.certificates import CertificateIssuer, SigningAuthority, facts
from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.secret import Secret
from ottla_operator.model.user_sample import UserSample
from ottla_operator.planning.certificates.authorities import (
    SETTLE,
    STATE_ANNOTATION,
    AuthorityState,
    Origin,
    Pauses,
    advance_authority,
    known_to_nodes,
    renewal_begins,
    state_of,
)
from ottla_operator.planning.certificates.user_wait import UserWait

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW, OTHER = (CertificateIssuer().authority("demo", "CA", now=NOW, days=100) for _ in range(3))
FIRST = AuthorityState(
    present=OLD,
    origin=Origin(revision="1"),
    following=NEW,
    following_origin=Origin(is_own=True),
    seen_at="2026-01-01T00:00:00Z",
)
STATES = {
    "steady": AuthorityState(present=OLD),
    "trusted": FIRST,
    "replaced": FIRST.replaced(),
    "waiting": replace(FIRST, wait=UserWait(at="2026-01-01T00:00:00Z", quarters=2)),
    "left-behind": replace(FIRST.replaced(), left_behind=UserSample(7, ("a/b", "c/d"))),
}


def stored(state: AuthorityState) -> Secret:
    return Secret(name="ca", entries=state.entries, annotations={STATE_ANNOTATION: state.annotation})


@pytest.mark.parametrize("look", STATES)
def test_written_secret_is_read_back(look: str) -> None:
    assert state_of(stored(STATES[look])) == STATES[look]


def test_signing_authority_is_trusted_first() -> None:
    assert FIRST.trusted == OLD.certificate + NEW.certificate
    assert FIRST.replaced().trusted == NEW.certificate + OLD.certificate


def test_nothing_is_no_authority() -> None:
    assert state_of(None) is None
    assert state_of(Secret(name="ca", entries={})) is None


def test_corrupt_annotation_counts_as_missing() -> None:
    secret = replace(stored(STATES["steady"]), annotations={STATE_ANNOTATION: "["})

    assert state_of(secret) == STATES["steady"]


def test_new_authority_without_a_key_is_only_trusted() -> None:
    entries = {key: value for key, value in stored(FIRST).entries.items() if key != "next.key"}
    found = state_of(replace(stored(FIRST), entries=entries))

    assert found is not None
    assert (found.following, found.previous) == (None, (NEW.certificate,))


def test_authority_that_nodes_trust_is_as_it_is() -> None:
    for trust in (None, "", OLD.certificate, NEW.certificate + OLD.certificate):
        assert known_to_nodes(FIRST, trust, now=NOW) == FIRST


def test_lost_authority_is_restored_from_the_nodes_trust() -> None:
    found = known_to_nodes(None, OLD.certificate + NEW.certificate, now=NOW)

    assert found == AuthorityState(
        present=SigningAuthority(certificate=OLD.certificate, key=None), previous=(NEW.certificate,)
    )


def test_authority_that_nodes_do_not_know_is_introduced() -> None:
    found = known_to_nodes(AuthorityState(present=OTHER), OLD.certificate, now=NOW)

    assert found == AuthorityState(
        present=SigningAuthority(certificate=OLD.certificate, key=None), following=OTHER, following_origin=Origin()
    )


def test_key_that_is_still_there_signs_again() -> None:
    found = known_to_nodes(FIRST, NEW.certificate, now=NOW)

    assert found == AuthorityState(present=NEW)


def test_expired_certificates_are_ignored() -> None:
    assert known_to_nodes(None, OLD.certificate, now=NOW + timedelta(days=101)) is None


@pytest.mark.parametrize(("renewal_days", "day"), [(30, 70), (90, 67)], ids=["as-asked", "at-most-a-third"])
def test_renewal_begins_before_the_end(renewal_days: int, day: int) -> None:
    begins = renewal_begins(OLD.certificate, renewal_days)

    assert round((begins - NOW) / timedelta(days=1)) == day
    assert begins < facts(OLD.certificate).not_after


@pytest.mark.parametrize("said", ['{"waitedAt": "2026-01-01T00:00:00Z", "waitedQuarters": "x"}', '{"leftBehind": [1]}'])
def test_edited_record_of_users_counts_as_missing(said: str) -> None:
    assert state_of(replace(stored(STATES["steady"]), annotations={STATE_ANNOTATION: said})) == STATES["steady"]


def next_of(state: AuthorityState, days: float, *, is_seen: bool = True, users: tuple[str, ...] = ()) -> AuthorityState:
    return advance_authority(
        state,
        Authority(),
        None,
        is_seen=is_seen,
        pauses=Pauses(trusted=SETTLE, replaced=SETTLE),
        now=(NOW + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        users=users,
        create=lambda: OTHER,
    )


def test_new_one_signs_at_the_latest_when_the_old_one_has_ended() -> None:
    later = CertificateIssuer().authority("demo", "CA", now=NOW, days=200)
    state = replace(FIRST, following=later, seen_at="")

    assert next_of(state, 99, is_seen=False) == state, "a node has not seen it"
    assert next_of(state, 100, is_seen=False) == AuthorityState(present=later, origin=FIRST.following_origin)
    assert next_of(FIRST, 100).present == OTHER, "both have ended"
    assert next_of(state, 100, users=("a/b",)).left_behind == UserSample(1, ("a/b",))


def test_clock_that_jumped_back_does_not_stop_a_change() -> None:
    state = replace(FIRST, seen_at="2027-01-01T00:00:00Z")

    assert next_of(state, 0) == replace(FIRST, seen_at="2026-01-01T00:00:00Z")


def test_time_that_is_none_was_never_seen() -> None:
    annotation = stored(FIRST).annotations[STATE_ANNOTATION].replace(FIRST.seen_at, "yesterday")

    assert state_of(replace(stored(FIRST), annotations={STATE_ANNOTATION: annotation})) == replace(FIRST, seen_at="")
