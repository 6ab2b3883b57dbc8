"""The life cycle of one authority, pure: created, used, and replaced in phases, each observed before the next starts.

1. The new one is trusted together with the old one, which still signs (`AuthorityState.following`).
2. The new one signs, and the old one is still trusted (`AuthorityState.previous`).
3. The old one is not trusted any more.

All state is in the authority's Secret: an operator that is killed continues from there. The trust in the nodes' Secret
counts more: an authority that nodes do not know, because its Secret was lost or restored, has to be introduced first.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from ottla_operator.model.certificates import SigningAuthority, certificates, facts, generated_authority
from ottla_operator.model.cluster_secrets import CA_CERTIFICATE, CA_KEY, CA_TRUSTED
from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.document import Document
from ottla_operator.model.secret import Secret
from ottla_operator.model.timestamps import instant, valid_timestamp
from ottla_operator.model.user_sample import UserSample
from ottla_operator.planning.certificates.user_wait import UserWait

NEXT_CERTIFICATE, NEXT_KEY = "next.crt", "next.key"
"""Entries of the new authority, until it signs."""
STATE_ANNOTATION = "ottla.dev/authority"

SETTLE: Final = timedelta(seconds=10)
"""From when all nodes use a certificate on one of their listeners to when they use it on the others as well."""
BLIND: Final = timedelta(minutes=10)
"""How long nodes take at most to read a change that cannot be observed: kubelets refresh Secrets each minute."""
USERS_MIN: Final = timedelta(minutes=10)
"""How long Users may delay a phase at least: each is reconciled every five minutes."""
_MARGIN: Final = timedelta(days=1)
_RENEWAL_SHARE: Final = 3
"""A certificate is not replaced before two thirds of its validity are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The settings that an authority was created from."""

    revision: str = ""
    """``rotation.revision`` when the operator created it."""
    is_own: bool = False
    """Whether it came from a Secret of the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityState:
    """One authority, as recorded in its Secret."""

    present: SigningAuthority
    """The authority that signs."""
    origin: Origin = Origin()
    following: SigningAuthority | None = None
    """The authority that will sign, and is trusted already."""
    following_origin: Origin = Origin()
    previous: tuple[str, ...] = ()
    """Authorities that signed before and are still trusted, PEM."""
    seen_at: str = ""
    """RFC 3339: when all nodes, and all Users that are waited for, were first observed in the present phase; empty
    before that."""
    wait: UserWait = field(default_factory=UserWait)
    """How long the present phase has been delayed by Users."""
    left_behind: UserSample = field(default_factory=UserSample)
    """Users that did not have the last phase when the next one started; kept until another authority follows."""

    @property
    def trusted(self) -> str:
        """All trusted certificates, the signing one first."""
        following = () if self.following is None else (self.following.certificate,)
        return "".join((self.present.certificate, *following, *self.previous))

    @property
    def is_changing(self) -> bool:
        return self.following is not None or bool(self.previous)

    def replaced(self) -> "AuthorityState":
        """Return the second phase: the new one signs."""
        assert self.following is not None, "there is a following authority"
        previous = (self.present.certificate, *self.previous)
        return AuthorityState(present=self.following, origin=self.following_origin, previous=previous)

    @property
    def entries(self) -> dict[str, str]:
        """The entries of the authority's Secret."""
        entries = {CA_CERTIFICATE: self.present.certificate, CA_TRUSTED: self.trusted}
        if self.present.key is not None:
            entries[CA_KEY] = self.present.key
        if self.following is not None:
            assert self.following.key is not None, "the following authority has a key"
            entries |= {NEXT_CERTIFICATE: self.following.certificate, NEXT_KEY: self.following.key}
        return dict(sorted(entries.items()))

    @property
    def annotation(self) -> str:
        said: Document = {"revision": self.origin.revision, "isOwn": self.origin.is_own, "seenAt": self.seen_at}
        if self.wait.at:
            said |= {"waitedAt": self.wait.at, "waitedQuarters": self.wait.quarters}
        if self.left_behind.count:
            said |= {"leftBehind": self.left_behind.document}
        if self.following is not None:
            said |= {"nextRevision": self.following_origin.revision, "nextIsOwn": self.following_origin.is_own}
        return json.dumps(said, sort_keys=True)


def state_of(secret: Secret | None) -> AuthorityState | None:
    """Return the authority in the Secret; None if it holds none."""
    entries = {} if secret is None else secret.entries
    present = generated_authority(entries.get(CA_CERTIFICATE), entries.get(CA_KEY))
    if secret is None or present is None:
        return None
    following = generated_authority(entries.get(NEXT_CERTIFICATE), entries.get(NEXT_KEY))
    if following is not None and following.key is None:
        following = None
    said = _said(secret)
    known = {present.certificate, following.certificate if following is not None else ""}
    return AuthorityState(
        present=present,
        origin=Origin(revision=str(said.get("revision", "")), is_own=bool(said.get("isOwn"))),
        following=following,
        following_origin=Origin(revision=str(said.get("nextRevision", "")), is_own=bool(said.get("nextIsOwn"))),
        previous=tuple(it for it in certificates(entries.get(CA_TRUSTED, "")) if it not in known),
        seen_at=valid_timestamp(said.get("seenAt")),
        wait=_wait(said),
        left_behind=UserSample.parse(said.get("leftBehind")),
    )


def known_to_nodes(state: AuthorityState | None, nodes_trust: str | None, *, now: datetime) -> AuthorityState | None:
    """Return ``state`` as far as nodes know it; they trust ``nodes_trust`` (PEM; None: no node has read anything).

    Nodes would reject each other's certificates by an authority that they do not know.
    """
    trusted = [it for it in certificates(nodes_trust or "") if facts(it).not_after > now]
    if not trusted or (state is not None and state.present.certificate in trusted):
        return state
    ours = () if state is None else tuple(it for it in (state.present, state.following) if it is not None)
    keys = {it.certificate: it.key for it in ours}
    present = next((it for it in trusted if keys.get(it) is not None), trusted[0])
    found = SigningAuthority(certificate=present, key=keys.get(present))
    others = tuple(it for it in trusted if it != present)
    if state is None or found.key is not None or state.present.key is None:
        return AuthorityState(present=found, previous=others)
    # The replacement of a lost authority is introduced like any other new one.
    return AuthorityState(
        present=found, following=state.present, following_origin=state.origin, previous=others, seen_at=""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Minimum duration of the phases after all nodes were observed in them."""

    trusted: timedelta
    """Of the phase in which the new authority is trusted, and the old one signs."""
    replaced: timedelta
    """Of the phase in which the new authority signs, and the old one is trusted."""
    nodes: timedelta = SETTLE
    """The part of each phase in which nodes may still be reading their files."""
    users: timedelta = USERS_MIN
    """How long each phase waits for Users at most, before its pause."""


def advance_authority(
    state: AuthorityState | None,
    wanted: Authority,
    given: SigningAuthority | None,
    *,
    is_seen: bool,
    pauses: Pauses,
    now: str,
    users: Sequence[str] = (),
    create: Callable[[], SigningAuthority],
) -> AuthorityState:
    """Return the next state of the authority: ``state`` itself while there is nothing to do, or nothing observed.

    Args:
        state: the present state, None before the first authority.
        wanted: the spec.
        given: the authority that the user provides; None if the operator creates it.
        is_seen: whether every node, and the Secrets of the cluster, have the present phase.
        pauses: durations.
        now: RFC 3339.
        users: the Users whose Secrets do not have the present phase yet; waited for as long as `Pauses.users`.
        create: returns a new authority.
    """
    time = instant(now)
    origin = Origin(revision="" if given is not None else wanted.rotation, is_own=given is not None)
    if state is None or facts(state.present.certificate).not_after <= time:
        if state is not None and state.following is not None and facts(state.following.certificate).not_after > time:
            # All observable nodes trust it, and no longer the one that signed.
            return replace(state.replaced(), previous=(), left_behind=UserSample.of(users))
        # An expired authority is trusted by no node: there is nothing to keep.
        return AuthorityState(present=given or create(), origin=origin)
    if given is not None and given.certificate == state.present.certificate and state.present.key is None:
        state = replace(state, present=given)
    can_sign = state.present.key is not None
    if state.following is None and (not can_sign or not state.previous):
        if not can_sign or _is_outdated(state, wanted, given, time):
            state = replace(state, seen_at="", wait=UserWait(), left_behind=UserSample())
            return replace(state, following=given or create(), following_origin=origin)
        return state
    return _advance_phase(state, pauses, users, now) if is_seen else state


def _advance_phase(state: AuthorityState, pauses: Pauses, users: Sequence[str], now: str) -> AuthorityState:
    """Return the next state of an authority whose present phase was observed on all nodes."""
    time = instant(now)
    if users:
        state = replace(state, wait=state.wait.advance(time, users_bound(state, pauses, time)))
        if not state.wait.is_over:
            return state
    if not state.seen_at or instant(state.seen_at) > time:
        # After the clock jumped back, the pause starts again: it must not last until the clock has caught up.
        return replace(state, seen_at=now)
    if time < pause_end(state, pauses):
        return state
    left_behind = UserSample.of(users) if users else state.left_behind
    if state.following is None:
        return replace(state, previous=(), seen_at="", wait=UserWait(), left_behind=left_behind)
    return replace(state.replaced(), left_behind=left_behind)


def pause_end(state: AuthorityState, pauses: Pauses) -> datetime:
    """Return when the next phase starts; the present one was observed on all nodes (``seen_at``)."""
    seen_at, pause = instant(state.seen_at), pauses.replaced if state.following is None else pauses.trusted
    return max(seen_at + SETTLE, min(seen_at + pause, _end_of_old(state)))


def users_bound(state: AuthorityState, pauses: Pauses, now: datetime) -> timedelta:
    """Return how long Users may delay the present phase: they must not delay it until the old authority has expired."""
    return pauses.users if now < _end_of_old(state) else USERS_MIN


def _end_of_old(state: AuthorityState) -> datetime:
    """Return from when on the phases are short: past its end, the old one does not help those that still wait."""
    return min(facts(it).not_after for it in (state.present.certificate, *state.previous)) - _MARGIN


def renewal_begins(pem: str, renewal_days: int) -> datetime:
    """Return the time from which on the certificate ``pem`` is to be replaced."""
    found = facts(pem)
    return found.not_after - min(timedelta(days=renewal_days), (found.not_after - found.not_before) / _RENEWAL_SHARE)


def _is_outdated(state: AuthorityState, wanted: Authority, given: SigningAuthority | None, now: datetime) -> bool:
    if given is not None:
        return given.certificate != state.present.certificate
    ends_soon = renewal_begins(state.present.certificate, wanted.renewal_days) <= now
    return ends_soon or state.origin != Origin(revision=wanted.rotation)


def _wait(said: Document) -> UserWait:
    """Return the recorded wait; an invalid one, perhaps of an edited annotation, begins again."""
    at, quarters = valid_timestamp(said.get("waitedAt")), said.get("waitedQuarters")
    return UserWait(at=at, quarters=quarters) if at and isinstance(quarters, int) else UserWait()


def _said(secret: Secret) -> Document:
    try:
        said = json.loads(secret.annotations.get(STATE_ANNOTATION, ""))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
