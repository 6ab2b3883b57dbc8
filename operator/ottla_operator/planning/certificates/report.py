"""What the status of a Cluster says of its certificates, pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ottla_operator.model import certificates
from ottla_operator.model.certificates import Leaf, facts
from ottla_operator.model.conditions import AUTHORITY_CHANGING, AUTHORITY_OVERLAP, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.timestamps import instant, timestamp
from ottla_operator.model.user_sample import UserSample
from ottla_operator.planning.certificates.authorities import (
    USERS_MIN,
    AuthorityState,
    Pauses,
    pause_end,
    users_bound,
)


class Phase(NamedTuple):
    """The present phase of an authority that is being replaced."""

    obstacle: Waiting
    wake_at: str = ""
    """RFC 3339: when the operator has to act again if nothing changes before; empty while it has to observe often."""


def changing(
    which: str, state: AuthorityState, unseen: str | None, users: Sequence[str], pauses: Pauses, now: datetime
) -> Phase:
    """Return the phase of an authority that is being replaced, and what the next one waits for.

    Args:
        which: ``cluster`` or ``clients``.
        state: the authority.
        unseen: why nodes may not have the phase; None if they have.
        users: Users whose Secrets do not have it.
        pauses: durations.
        now: the present time.
    """
    is_trusted = state.following is not None
    phase = "both are trusted" if is_trusted else "the old one is still trusted"
    reason, wake_at = AUTHORITY_CHANGING, ""
    if unseen is not None:
        wait = f"waiting for {unseen}"
    elif users and not state.wait.is_over and state.wait.at:
        awaited, bound = _awaited(is_trusted=is_trusted), users_bound(state, pauses, now)
        wait = f"waiting until {state.wait.ends_at(bound)} for the Secret of {UserSample.of(users)} to {awaited}"
        if state.wait.waited(now, bound) >= USERS_MIN:
            # Each User has been reconciled meanwhile: those that are left, as a paused one, are not in progress.
            reason, wake_at = AUTHORITY_OVERLAP, state.wait.quarter_ends_at(bound)
    else:
        wait = "all nodes have it; the next phase follows after a pause"
        if (end := _end_of_overlap(state, pauses, now)) is not None:
            reason, wake_at = AUTHORITY_OVERLAP, end
            wait = f"all nodes have it, and clients have until {end} to read their Secrets"
        wait += f", without {UserSample.of(users)}" if users and state.wait.is_over else ""
    left_behind = f"; it continued without {state.left_behind}" if state.left_behind.count else ""
    return Phase(Waiting(reason, f"the {which} CA has another key, and {phase}: {wait}{left_behind}"), wake_at)


def _awaited(*, is_trusted: bool) -> str:
    return "trust the new one" if is_trusted else "have a certificate by the new one"


def _end_of_overlap(state: AuthorityState, pauses: Pauses, now: datetime) -> str | None:
    """Return the end of the overlap if only that is waited for; None while nodes may still be reading."""
    if not state.seen_at:
        return None
    end = pause_end(state, pauses)
    return timestamp(end) if instant(state.seen_at) + pauses.nodes <= now < end else None


def described(
    cluster_ca: AuthorityState,
    clients_ca: AuthorityState,
    node: Leaf | None,
    operator: Leaf | None,
    listeners: Mapping[str, str | None],
) -> Iterator[Document]:
    """Yield the status entry of each certificate."""
    for name, state in (("cluster-ca", cluster_ca), ("clients-ca", clients_ca)):
        left_behind = {"leftBehind": state.left_behind.document} if state.left_behind.count else {}
        yield {**_expiry(name, state.present.certificate), **left_behind}
    leaves = {"nodes": node, "operator": operator}
    leaves |= {entry.removesuffix(".pem"): certificates.leaf_of(pem) for entry, pem in listeners.items()}
    for name, leaf in leaves.items():
        if leaf is not None:
            yield _expiry(name, leaf.certificate)


def _expiry(name: str, pem: str) -> Document:
    return {"name": name, "notAfter": timestamp(facts(pem).not_after)}
