"""What the status of a Cluster says of its certificates, pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from ottla_operator.model import certificates
from ottla_operator.model.certificates import Leaf, facts
from ottla_operator.model.conditions import AUTHORITY_CHANGING, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.timestamps import timestamp
from ottla_operator.model.user_sample import UserSample
from ottla_operator.planning.certificates.authorities import AuthorityState


def changing(which: str, state: AuthorityState, unseen: str | None, users: Sequence[str], bound: timedelta) -> Waiting:
    """Return the phase of an authority that is being replaced, and what the next one waits for.

    Args:
        which: ``cluster`` or ``clients``.
        state: the authority.
        unseen: why nodes may not have the phase; None if they have.
        users: Users whose Secrets do not have it.
        bound: how long they are waited for.
    """
    is_trusted = state.following is not None
    phase = "both are trusted" if is_trusted else "the old one is still trusted"
    awaited = "trust the new one" if is_trusted else "have a certificate by the new one"
    if unseen is not None:
        wait = f"waiting for {unseen}"
    elif users and not state.wait.is_over and state.wait.at:
        wait = f"waiting until {state.wait.ends_at(bound)} for the Secret of {UserSample.of(users)} to {awaited}"
    else:
        wait = "all nodes have it; the next phase follows after a pause"
        wait += f", without {UserSample.of(users)}" if users and state.wait.is_over else ""
    left_behind = f"; it continued without {state.left_behind}" if state.left_behind.count else ""
    return Waiting(AUTHORITY_CHANGING, f"the {which} CA has another key, and {phase}: {wait}{left_behind}")


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
