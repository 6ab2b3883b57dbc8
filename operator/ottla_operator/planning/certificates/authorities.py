"""The life of one authority, pure: made, used, and replaced by another in three looks, each seen before the next.

1. The new one is trusted beside the old one, which still signs (`AuthorityState.following`).
2. The new one signs, and the old one is still trusted (`AuthorityState.previous`).
3. The old one is not trusted any more.

All of it is in the authority's Secret: who ends anywhere goes on from what that says. What nodes trust is in theirs and
counts more: an authority that they do not know, because its Secret was lost or put back, has to be introduced first.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ottla_operator.model.certificates import SigningAuthority, certificates, facts, instant, made_authority
from ottla_operator.model.cluster_secrets import CA_CERTIFICATE, CA_KEY, CA_TRUSTED
from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.secret import Secret

NEXT_CERTIFICATE, NEXT_KEY = "next.crt", "next.key"
"""The new authority, until it signs."""
STATE_ANNOTATION = "ottla.dev/authority"

SETTLE: Final = timedelta(seconds=10)
"""From what all nodes show at one of their listeners to its being true of the others as well."""
BLIND: Final = timedelta(minutes=10)
"""How long it takes at most until nodes have read what cannot be seen: kubelets look for new Secrets each minute."""
_MARGIN: Final = timedelta(days=1)
_RENEWAL_SHARE: Final = 3
"""A certificate is not replaced before two thirds of its time are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Why an authority is the one that it is."""

    revision: str = ""
    """``rotation.revision`` when the operator made it."""
    is_own: bool = False
    """Whether it came from a Secret of the user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityState:
    """One authority, as its Secret has it."""

    present: SigningAuthority
    """Who signs."""
    origin: Origin = Origin()
    following: SigningAuthority | None = None
    """Who will, and is trusted already."""
    following_origin: Origin = Origin()
    previous: tuple[str, ...] = ()
    """Who signed before, PEM, and is still trusted."""
    seen_at: str = ""
    """RFC 3339: when every node was first seen with the present look; empty before that."""

    @property
    def trusted(self) -> str:
        """Every certificate that is trusted now, the one who signs first."""
        following = () if self.following is None else (self.following.certificate,)
        return "".join((self.present.certificate, *following, *self.previous))

    @property
    def is_changing(self) -> bool:
        return self.following is not None or bool(self.previous)

    def replaced(self) -> "AuthorityState":
        """Return the second look: the new one signs."""
        assert self.following is not None, "there is a new one"
        previous = (self.present.certificate, *self.previous)
        return AuthorityState(present=self.following, origin=self.following_origin, previous=previous)

    @property
    def entries(self) -> dict[str, str]:
        """The entries of the Secret that holds this."""
        entries = {CA_CERTIFICATE: self.present.certificate, CA_TRUSTED: self.trusted}
        if self.present.key is not None:
            entries[CA_KEY] = self.present.key
        if self.following is not None:
            assert self.following.key is not None, "who will sign has a key"
            entries |= {NEXT_CERTIFICATE: self.following.certificate, NEXT_KEY: self.following.key}
        return dict(sorted(entries.items()))

    @property
    def annotation(self) -> str:
        said = {"revision": self.origin.revision, "isOwn": self.origin.is_own, "seenAt": self.seen_at}
        if self.following is not None:
            said |= {"nextRevision": self.following_origin.revision, "nextIsOwn": self.following_origin.is_own}
        return json.dumps(said, sort_keys=True)


def state_of(secret: Secret | None) -> AuthorityState | None:
    """Return what the Secret says; None where it holds no authority."""
    entries = {} if secret is None else secret.entries
    present = made_authority(entries.get(CA_CERTIFICATE), entries.get(CA_KEY))
    if secret is None or present is None:
        return None
    following = made_authority(entries.get(NEXT_CERTIFICATE), entries.get(NEXT_KEY))
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
        seen_at=_instant_or_empty(said.get("seenAt")),
    )


def known_to_nodes(state: AuthorityState | None, nodes_trust: str | None, *, now: datetime) -> AuthorityState | None:
    """Return ``state`` as far as nodes know it, who trust ``nodes_trust`` (PEM; None: no node has read anything).

    Whoever signs without being known to them would have them refuse each other.
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
    # What was put in the place of the one that is lost comes in like any other new one.
    return AuthorityState(
        present=found, following=state.present, following_origin=state.origin, previous=others, seen_at=""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long a look is kept at least after it was seen."""

    trusted: timedelta
    """The new one beside the old one."""
    replaced: timedelta
    """The old one beside the new one."""


def advanced(
    state: AuthorityState | None,
    wanted: Authority,
    given: SigningAuthority | None,
    *,
    is_seen: bool,
    pauses: Pauses,
    now: str,
    make: Callable[[], SigningAuthority],
) -> AuthorityState:
    """Return what the authority is to be next: ``state`` itself while there is nothing to do, or nothing seen.

    Args:
        state: what there is, None before the first.
        wanted: the spec.
        given: the authority that the user keeps; None where the operator makes it.
        is_seen: whether all who have to know the present look do.
        pauses: see there.
        now: RFC 3339.
        make: a new authority.
    """
    time = instant(now)
    origin = Origin(revision="" if given is not None else wanted.rotation, is_own=given is not None)
    if state is None or facts(state.present.certificate).not_after <= time:
        if state is not None and state.following is not None and facts(state.following.certificate).not_after > time:
            # Everybody who could be seen trusts it, and no longer the one that signed.
            return replace(state.replaced(), previous=())
        # Nobody trusts one that has ended: there is nothing to keep.
        return AuthorityState(present=given or make(), origin=origin)
    if given is not None and given.certificate == state.present.certificate and state.present.key is None:
        state = replace(state, present=given)
    can_sign = state.present.key is not None
    if state.following is None and (not can_sign or not state.previous):
        if not can_sign or _is_outdated(state, wanted, given, time):
            return replace(state, following=given or make(), following_origin=origin, seen_at="")
        return state
    if not is_seen:
        return state
    if not state.seen_at or instant(state.seen_at) > time:
        # Where the clock jumped back, the pause begins again: it is not to last until the clock is there once more.
        return replace(state, seen_at=now)
    pause = pauses.replaced if state.following is None else pauses.trusted
    # An old one that ends meanwhile is no help to those who still wait.
    end = min(facts(it).not_after for it in (state.present.certificate, *state.previous)) - _MARGIN
    if time < max(instant(state.seen_at) + SETTLE, min(instant(state.seen_at) + pause, end)):
        return state
    if state.following is None:
        return replace(state, previous=(), seen_at="")
    return state.replaced()


def renewal_begins(pem: str, renewal_days: int) -> datetime:
    """Return from when on the certificate ``pem`` is to be replaced."""
    found = facts(pem)
    return found.not_after - min(timedelta(days=renewal_days), (found.not_after - found.not_before) / _RENEWAL_SHARE)


def _is_outdated(state: AuthorityState, wanted: Authority, given: SigningAuthority | None, now: datetime) -> bool:
    if given is not None:
        return given.certificate != state.present.certificate
    ends_soon = renewal_begins(state.present.certificate, wanted.renewal_days) <= now
    return ends_soon or state.origin != Origin(revision=wanted.rotation)


def _instant_or_empty(text: object) -> str:
    """Return a time as it is written, and what is none, as somebody may have left it in an annotation, as not seen."""
    try:
        instant(str(text))
    except ValueError:
        return ""
    return str(text)


def _said(secret: Secret) -> dict[str, object]:
    try:
        said = json.loads(secret.annotations.get(STATE_ANNOTATION, ""))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
