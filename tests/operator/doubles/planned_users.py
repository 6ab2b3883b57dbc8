"""Plans of Users and the states that follow from them, for tests."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ottla.sasl.scram import ScramMechanism
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.secret import Secret
from ottla_operator.model.user import User
from ottla_operator.model.user_secret import credential_of
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.secret import DeleteSecret, WriteSecret
from ottla_operator.planning.steps.user import AlterQuotas, AlterScram, CreateAcls, DeleteAcls
from ottla_operator.planning.user.plan import ObservedUser, plan_user
from ottla_operator.ports.user_admin import UserDescription

ACCESS = ClientAccess(bootstrap_servers="demo:9092")
NOW = "2026-01-01T00:00:00Z"
SHA_256, SHA_512 = ScramMechanism
READ = Acl(ResourceType.TOPIC, "flights", PatternType.LITERAL, "User:alice", "*", Operation.READ, PermissionType.ALLOW)
WRITE = READ._replace(operation=Operation.WRITE)


def rotated(user_manifest: Callable[..., dict[str, Any]], revision: str, overlap_s: int = 0) -> User:
    rotation = {"revision": revision, "overlapSeconds": overlap_s}
    return User.parse(user_manifest(authentication={"rotation": rotation}))


def observed(
    secret: Secret | None = None,
    scram: Mapping[int, int] | None = None,
    acls: frozenset[Acl] | None = frozenset(),
    quotas: Mapping[str, float] | None = None,
    password: str | None = None,
) -> ObservedUser:
    description = UserDescription(acls=acls, scram=scram or {}, quotas=quotas or {})
    return ObservedUser(description=description, secret=secret, given_password=password)


def plan(user: User, seen: ObservedUser, *, now: str = NOW, seed: int = 1, **options: Any) -> Plan:
    return plan_user(user, seen, ACCESS, draw=random.Random(seed).randrange, now=now, **options)


def after(steps: Plan, seen: ObservedUser) -> ObservedUser:
    """Return the state after ``steps``."""
    known = seen.description
    secret, scram, acls, quotas = seen.secret, dict(known.scram), set(known.acls or ()), dict(known.quotas)
    for step in steps.steps:
        match step:
            case WriteSecret(written, _):
                secret = written
            case DeleteSecret():
                secret = None
            case AlterScram(_, upserts, deletions):
                scram |= {it.mechanism: it.iterations for it in upserts}
                scram = {key: value for key, value in scram.items() if key not in deletions}
            case CreateAcls(_, given):
                acls |= set(given)
            case DeleteAcls(_, taken):
                acls -= set(taken)
            case AlterQuotas(_, limits):
                quotas = {key: limit for key, limit in {**quotas, **limits}.items() if limit is not None}
    description = UserDescription(acls=frozenset(acls) if known.acls is not None else None, scram=scram, quotas=quotas)
    return replace(seen, description=description, secret=secret)


def settled(user: User, seen: ObservedUser | None = None, **options: Any) -> ObservedUser:
    start = seen or observed()
    return after(plan(user, start, **options), start)


def kinds(made: Plan) -> list[str]:
    return [type(step).__name__ for step in made.steps]


def password(seen: ObservedUser) -> str:
    credential = credential_of(seen.secret)
    assert credential is not None
    return credential.password
