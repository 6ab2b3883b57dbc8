"""Plans one User, pure: from its spec, its entries on the brokers, and its Secret to steps."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ottla.client.admin_security import ScramSecret
from ottla.sasl.scram import ITERATIONS_MIN, ScramMechanism, new_salt, salted_password
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.conditions import Reached, Rejected, Waiting
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.node_listeners import STANDARD_AUTHORIZER
from ottla_operator.model.secret import Secret
from ottla_operator.model.timestamps import instant, timestamp
from ottla_operator.model.user import User
from ottla_operator.model.user_secret import (
    Credential,
    access_secret,
    credential_of,
    is_untouched,
    secret_with_kept_credential,
)
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.secret import DeleteSecret, WriteSecret
from ottla_operator.planning.steps.user import AlterQuotas, AlterScram, CreateAcls, DeleteAcls, UserStep
from ottla_operator.ports.user_admin import UserDescription

if TYPE_CHECKING:
    from ottla_operator.model.certificates import Leaf

Draw = Callable[[int], int]
"""Returns a number below the given one that cannot be predicted (`secrets.randbelow`)."""

WILDCARD_PRINCIPAL = "User:*"
"""The wildcard principal: its entries apply to all principals."""
PASSWORD_SIZE = 32
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedUser:
    """A user as brokers describe it, and its present Secret."""

    description: UserDescription
    secret: Secret | None = None
    given_password: str | None = field(default=None, repr=False)
    """The password in the Secret that the spec refers to; None without a reference, or if it is missing."""
    certificate: "Leaf | Waiting | None" = None
    """The certificate for the user, or why there is none yet; None if the operator issues none."""


def plan_user(
    user: User,
    observed: ObservedUser,
    access: ClientAccess | Rejected,
    *,
    draw: Draw,
    now: str,
    claimed_by: ObjectKey | None = None,
) -> Plan:
    """Return the steps that bring the user to the spec of ``user``.

    Args:
        user: the manifest.
        observed: the present state.
        access: how clients reach the cluster, or why there is no listener for this user.
        draw: randomness, for passwords and salts.
        now: RFC 3339, UTC, whole seconds.
        claimed_by: an older User object with the same principal in the same cluster; it wins.
    """
    rejection = _rejection(user, observed, claimed_by)
    if rejection is not None:
        trust = () if claimed_by is not None else tuple(_trust_steps(user, observed, access))
        return Plan(trust) if trust else Plan(obstacle=rejection)
    others = [*_acl_steps(user, observed.description), *_quota_steps(user, observed.description)]
    obstacle = access if isinstance(access, Rejected) else _secret_obstacle(user, observed)
    # Permissions, and above all their removal, do not wait for a Secret that is missing or cannot be written.
    if isinstance(access, Rejected) or obstacle is not None:
        possible = [*others, *_trust_steps(user, observed, access)]
        return Plan(tuple(possible)) if possible else Plan(obstacle=obstacle)
    credential = _credential(user, observed, draw, now) if user.has_password else None
    assert not isinstance(observed.certificate, Waiting), "the obstacle says so"
    secret = access_secret(user, access, credential, observed.certificate)
    steps = _write_steps(user, observed.secret, secret)
    return Plan((*others, *steps, *_scram_steps(user, observed.description.scram, credential, draw)))


def plan_user_deletion(user: User, observed: ObservedUser, *, heir: ObjectKey | None = None) -> Plan:
    """Return the steps before the object ``user`` may be removed; ``heir`` is another object that keeps the user."""
    known, name = observed.description, user.name
    steps: list[UserStep] = []
    if heir is None and user.principal != WILDCARD_PRINCIPAL:
        # Credentials first: then no new connection can authenticate, and connected clients lose their permissions next.
        if known.scram:
            steps.append(AlterScram(name, (), tuple(sorted(known.scram))))
        if known.acls:
            steps.append(DeleteAcls(name, tuple(sorted(known.acls))))
        if known.quotas:
            steps.append(AlterQuotas(name, dict.fromkeys(sorted(known.quotas))))
    if observed.secret is not None and observed.secret.belongs_to(user.metadata):
        steps.append(DeleteSecret(observed.secret.name))
    return Plan(tuple(steps))


def reserved_principal(user: User, super_users: Collection[str]) -> Rejected | None:
    """Return why no User may have the principal of ``user``; None if one may.

    Otherwise any creator of User objects could revoke permissions of all principals, or set a super user's password.
    """
    if user.principal == WILDCARD_PRINCIPAL:
        return Rejected("PrincipalReserved", f"{WILDCARD_PRINCIPAL} is the wildcard principal; delete this User")
    if user.principal in super_users:
        return Rejected(
            "PrincipalReserved",
            f"{user.principal} is a super user of {user.cluster}, which no User can change; delete this User, "
            "or take the principal out of super.users in the Cluster's spec.config",
        )
    return None


def release_without_brokers(user: User) -> Reached | None:
    """Return why the object ``user`` may be removed without any broker; None if it may not.

    The principal is recorded in the status before anything is done in a cluster: brokers that never came up do not
    block the object.
    """
    if user.known_principal is None:
        return Reached("Released", f"this object never created user {user.name} on any broker")
    return None


def _rejection(user: User, observed: ObservedUser, claimed_by: ObjectKey | None) -> Rejected | None:
    if claimed_by is not None:
        message = f"{user.principal} belongs to {claimed_by}, which is older; delete one of the two objects"
        return Rejected("UserClaimedElsewhere", message)
    if user.acls and observed.description.acls is None:
        return Rejected(
            "SecurityDisabled",
            f"{user.cluster} has no authorizer: all clients may do everything, whatever spec.authorization "
            "says; give the Cluster a spec.authorization if it has spec.tls, else set authorizer.class.name: "
            f"{STANDARD_AUTHORIZER} in its spec.config, or remove the rules",
        )
    return None


def _trust_steps(user: User, observed: ObservedUser, access: ClientAccess | Rejected) -> list[UserStep]:
    """Return the write of the present Secret for ``access``: the rotation of an authority waits for it.

    A Secret is created only with its credential, because pods that mount it wait until it exists.
    """
    found = observed.secret
    if found is None or isinstance(access, Rejected) or not found.belongs_to(user.metadata):
        return []
    return _write_steps(user, found, secret_with_kept_credential(user, access, found))


def _write_steps(user: User, found: Secret | None, wanted: Secret) -> list[UserStep]:
    if found is not None and found.covers(wanted):
        return []
    return [WriteSecret(replace(wanted, version="" if found is None else found.version), user.metadata)]


def _secret_obstacle(user: User, observed: ObservedUser) -> Waiting | Rejected | None:
    """Return why the Secret cannot get its credential."""
    found, given = observed.secret, observed.given_password
    if found is not None and not found.belongs_to(user.metadata):
        message = f"Secret {found.name} is not this User's; remove it, or give this User another metadata.name"
        return Rejected("SecretTaken", message)
    if isinstance(observed.certificate, Waiting):
        return observed.certificate
    if user.password_from is not None and given is None:
        message = f"there is no {user.password_from}, which is to hold the password of user {user.name}"
        return Waiting("PasswordMissing", message)
    if given is not None and not (given and given.isprintable()):
        message = f"{user.password_from} is no password: it is empty, or has a line's end or another control character"
        return Rejected("PasswordUnusable", message)
    return None


def _credential(user: User, observed: ObservedUser, draw: Draw, now: str) -> Credential:
    """Return the credential for the user: the present one, unless another is requested."""
    known = credential_of(observed.secret)
    password = observed.given_password
    if password is None and known is not None and known.revision == user.rotation:
        password = known.password
    if known is not None and known.password == password and is_untouched(user, observed.secret):
        return replace(known.at(now), revision=user.rotation)
    in_use = observed.description.scram
    new = Credential(
        password=password or "".join(_LETTERS[draw(len(_LETTERS))] for _ in range(PASSWORD_SIZE)),
        mechanism=_mechanism(in_use, is_adopted=known is None and observed.given_password is not None),
        iterations=_iterations({*in_use.values(), *([known.iterations] if known else [])}, draw),
        revision=user.rotation,
    )
    is_known_good = known is not None and in_use.get(known.mechanism) == known.iterations
    if known is None or not user.overlap_s or not is_known_good:
        return new
    until = instant(now) + timedelta(seconds=user.overlap_s)
    return replace(
        new,
        mechanism=known.other_mechanism,
        previous_iterations=known.iterations,
        previous_until=timestamp(until),
    )


def _mechanism(in_use: Mapping[int, int], *, is_adopted: bool) -> ScramMechanism:
    """Return the mechanism of a new credential; that of an adopted user, whose clients have its password, stays."""
    is_kept = is_adopted and set(in_use) == {ScramMechanism.SCRAM_SHA_256}
    return ScramMechanism.SCRAM_SHA_256 if is_kept else ScramMechanism.SCRAM_SHA_512


def _iterations(others: set[int], draw: Draw) -> int:
    """Return a number of iterations that identifies this credential among all others."""
    free = [number for number in range(ITERATIONS_MIN, 2 * ITERATIONS_MIN) if number not in others]
    return free[draw(len(free))]


def _scram_steps(user: User, there: Mapping[int, int], credential: Credential | None, draw: Draw) -> list[UserStep]:
    wanted: dict[int, int] = {}
    if credential is not None:
        wanted[credential.mechanism] = credential.iterations
        if credential.previous_iterations:
            wanted[credential.other_mechanism] = credential.previous_iterations
    upserts: tuple[ScramSecret, ...] = ()
    if credential is not None and there.get(credential.mechanism) != credential.iterations:
        upserts = (_scram_secret(credential, draw),)
    # Also one that was set elsewhere in place of the previous credential: its password is unknown here.
    deletions = tuple(
        mechanism
        for mechanism, iterations in sorted(there.items())
        if wanted.get(mechanism) != iterations and not any(mechanism == it.mechanism for it in upserts)
    )
    return [AlterScram(user.name, upserts, deletions)] if upserts or deletions else []


def _scram_secret(credential: Credential, draw: Draw) -> ScramSecret:
    salt = new_salt(draw)
    return ScramSecret(
        mechanism=int(credential.mechanism),
        iterations=credential.iterations,
        salt=salt,
        salted_password=salted_password(credential.mechanism, credential.password, salt, credential.iterations),
    )


def _acl_steps(user: User, known: UserDescription) -> list[UserStep]:
    there = known.acls or frozenset()
    steps: list[UserStep] = []
    # Entries that replace others are created before those are deleted.
    if missing := tuple(sorted(user.acls - there)):
        steps.append(CreateAcls(user.name, missing))
    if extra := tuple(sorted(there - user.acls)):
        steps.append(DeleteAcls(user.name, extra))
    return steps


def _quota_steps(user: User, known: UserDescription) -> list[UserStep]:
    limits: dict[str, float | None] = {
        key: limit for key, limit in user.quotas.items() if known.quotas.get(key) != limit
    }
    limits |= dict.fromkeys(sorted(known.quotas.keys() - user.quotas.keys()))
    return [AlterQuotas(user.name, limits)] if limits else []
