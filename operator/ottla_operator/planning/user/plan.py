"""What to do about one User: pure planning from its spec, what the brokers hold, and its Secret."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ottla.client.admin_security import ScramSecret
from ottla.sasl.scram import ITERATIONS_MIN, ScramMechanism, new_salt, salted_password
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.conditions import Reached, Refused, Waiting
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.node_doors import STANDARD_AUTHORIZER
from ottla_operator.model.secret import Secret
from ottla_operator.model.user import User
from ottla_operator.model.user_secret import Credential, access_secret, credential_of, is_untouched
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.secret import DeleteSecret, WriteSecret
from ottla_operator.planning.steps.user import AlterQuotas, AlterScram, CreateAcls, DeleteAcls, UserStep
from ottla_operator.ports.user_admin import UserDescription

if TYPE_CHECKING:
    from ottla_operator.model.certificates import Leaf

Draw = Callable[[int], int]
"""A number below the one given, that nobody can foresee (`secrets.randbelow`)."""

EVERYBODY = "User:*"
"""The principal whose entries are everybody's."""
PASSWORD_SIZE = 32
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedUser:
    """A user as brokers describe it, and its Secret as it is."""

    description: UserDescription
    secret: Secret | None = None
    given_password: str | None = field(default=None, repr=False)
    """What the Secret holds that the spec refers to; None where it refers to none, or that is not there."""
    certificate: "Leaf | Waiting | None" = None
    """The certificate that the user shall have, or why there is none yet; None where the operator makes none."""


def plan_user(
    user: User,
    observed: ObservedUser,
    access: ClientAccess | Refused,
    *,
    draw: Draw,
    now: str,
    claimed_by: ObjectKey | None = None,
) -> Plan:
    """Return the steps that make the user what ``user`` asks.

    Args:
        user: the manifest.
        observed: what there is.
        access: how clients reach the cluster, or why this user has no door there.
        draw: chance, for passwords and salts.
        now: RFC 3339, UTC, whole seconds.
        claimed_by: an older User object that has the same principal in the same cluster; it wins.
    """
    refusal = _refusal(user, observed, claimed_by)
    if refusal is not None:
        return Plan(obstacle=refusal)
    others = [*_acl_steps(user, observed.description), *_quota_steps(user, observed.description)]
    obstacle = access if isinstance(access, Refused) else _what_keeps_the_secret(user, observed)
    # What the user may do, and above all may not do any more, waits for no Secret, nor for one that cannot be written.
    if isinstance(access, Refused) or obstacle is not None:
        return Plan(tuple(others)) if others else Plan(obstacle=obstacle)
    credential = _credential(user, observed, draw, now) if user.has_password else None
    assert not isinstance(observed.certificate, Waiting), "that keeps the Secret from being written"
    secret = access_secret(user, access, credential, observed.certificate)
    steps: list[UserStep] = []
    if observed.secret is None or not observed.secret.covers(secret):
        version = "" if observed.secret is None else observed.secret.version
        steps.append(WriteSecret(replace(secret, version=version), user.metadata))
    return Plan((*others, *steps, *_scram_steps(user, observed.description.scram, credential, draw)))


def plan_user_deletion(user: User, observed: ObservedUser, *, heir: ObjectKey | None = None) -> Plan:
    """Return the steps before the object ``user`` may go; ``heir`` is another object that keeps the user."""
    known, name = observed.description, user.name
    steps: list[UserStep] = []
    if heir is None and user.principal != EVERYBODY:
        # Who cannot log in any more needs no entries; those who are in lose them next.
        if known.scram:
            steps.append(AlterScram(name, (), tuple(sorted(known.scram))))
        if known.acls:
            steps.append(DeleteAcls(name, tuple(sorted(known.acls))))
        if known.quotas:
            steps.append(AlterQuotas(name, dict.fromkeys(sorted(known.quotas))))
    if observed.secret is not None and observed.secret.belongs_to(user.metadata):
        steps.append(DeleteSecret(observed.secret.name))
    return Plan(tuple(steps))


def reserved(user: User, super_users: Collection[str]) -> Refused | None:
    """Return why no object may have the principal of ``user``; None when one may.

    Whoever may make User objects could otherwise take rights from everybody, or set the password of a super user.
    """
    if user.principal == EVERYBODY:
        return Refused("PrincipalReserved", f"{EVERYBODY} is everybody, and no user; delete this User")
    if user.principal in super_users:
        return Refused(
            "PrincipalReserved",
            f"{user.principal} is a super user of {user.cluster}, which no User can change; delete this User, "
            "or take the principal out of super.users in the Cluster's spec.config",
        )
    return None


def never_let_in(user: User) -> Reached | None:
    """Return why the object ``user`` may go without asking any broker; None when it may not.

    Before anything is done in a cluster the status says who the user is there: brokers that never came up do not keep
    the object.
    """
    if user.known_principal is None:
        return Reached("Released", f"user {user.name} was never let in by this object")
    return None


def _refusal(user: User, observed: ObservedUser, claimed_by: ObjectKey | None) -> Refused | None:
    if claimed_by is not None:
        message = f"{user.principal} belongs to {claimed_by}, which is older; delete one of the two objects"
        return Refused("UserClaimedElsewhere", message)
    if user.acls and observed.description.acls is None:
        return Refused(
            "SecurityDisabled",
            f"{user.cluster} has no authorizer: everybody may do everything, whatever spec.authorization "
            "says; give the Cluster a spec.authorization if it has spec.tls, else set authorizer.class.name: "
            f"{STANDARD_AUTHORIZER} in its spec.config, or remove the rules",
        )
    return None


def _what_keeps_the_secret(user: User, observed: ObservedUser) -> Waiting | Refused | None:
    """Return why the Secret cannot be written."""
    found, given = observed.secret, observed.given_password
    if found is not None and not found.belongs_to(user.metadata):
        message = f"Secret {found.name} is somebody else's; remove it, or give this User another metadata.name"
        return Refused("SecretTaken", message)
    if isinstance(observed.certificate, Waiting):
        return observed.certificate
    if user.password_from is not None and given is None:
        message = f"there is no {user.password_from}, which is to hold the password of user {user.name}"
        return Waiting("PasswordMissing", message)
    if given is not None and not (given and given.isprintable()):
        message = f"{user.password_from} is no password: it is empty, or has a line's end or another control character"
        return Refused("PasswordUnusable", message)
    return None


def _credential(user: User, observed: ObservedUser, draw: Draw, now: str) -> Credential:
    """Return the credential that the user shall have: the one it has, unless something asks for another."""
    known = credential_of(observed.secret)
    password = observed.given_password
    if password is None and known is not None and known.revision == user.rotation:
        password = known.password
    if known is not None and known.password == password and is_untouched(user, observed.secret):
        return replace(known.at(now), revision=user.rotation)
    in_use = observed.description.scram
    new = Credential(
        password=password or "".join(_LETTERS[draw(len(_LETTERS))] for _ in range(PASSWORD_SIZE)),
        mechanism=ScramMechanism.SCRAM_SHA_512,
        iterations=_iterations({*in_use.values(), *([known.iterations] if known else [])}, draw),
        revision=user.rotation,
    )
    is_known_good = known is not None and in_use.get(known.mechanism) == known.iterations
    if known is None or not user.overlap_s or not is_known_good:
        return new
    until = datetime.strptime(now, _TIME).replace(tzinfo=UTC) + timedelta(seconds=user.overlap_s)
    return replace(
        new,
        mechanism=known.other_mechanism,
        previous_iterations=known.iterations,
        previous_until=until.strftime(_TIME),
    )


def _iterations(others: set[int], draw: Draw) -> int:
    """Return a number of iterations that tells this credential from every other one."""
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
    # Also one that somebody else has put in the place of the credential before: its password is not known here.
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
    # Those that stay needed under another entry are there before that one goes.
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
